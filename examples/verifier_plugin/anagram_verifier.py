"""``text.anagram``: is the answer one word made of exactly the letters of the task's word?"""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

from verifier_service.domain.errors import TaskError
from verifier_service.domain.evidence import Finding, Hint, Reason, Tier, Verdict
from verifier_service.domain.verifiers import CheckInput, Limits, Params, Verifier, VerifierInfo

MAX_CHARS = 200


class AnagramParams(Params):
    """``ignore_case``: whether ``A`` and ``a`` are one letter."""

    ignore_case: bool = True


class Anagram(Verifier):
    """Compare the letters of the answer with those of ``reference["word"]``: score 1 or 0."""

    info: ClassVar[VerifierInfo] = VerifierInfo(
        name="text.anagram",
        version="1",  # raise it whenever the same item could be judged differently
        tier=Tier.FAST,
        summary="An anagram of the task's word, and not the word itself",
        reads=frozenset({"candidate", "reference"}),
        limits=Limits(time_s=2.0, memory_mb=512, max_batch=256),
        typical_cpu_s=0.00001,
    )
    params_model: ClassVar[type[Params]] = AnagramParams

    def verify(self, item: CheckInput, params: Params) -> Finding:
        """Return the score, or a rejection with its reason. Raises ``TaskError`` for a broken task."""
        options = AnagramParams.model_validate(params, from_attributes=True)
        word = item.reference.get("word")
        if not isinstance(word, str) or not word.isalpha():
            raise TaskError("bad_reference", "reference.word must be one word of letters")
        answer = item.candidate
        if not isinstance(answer, str) or not answer.strip():
            return _reject("empty_answer", "there is no word in the answer")
        if len(answer) > MAX_CHARS:
            return _reject("too_long", f"longer than {MAX_CHARS} characters")
        answer = answer.strip()
        if not answer.isalpha():
            return _reject("not_a_word", "give one word and nothing else")
        if options.ignore_case:
            answer, word = answer.casefold(), word.casefold()
        if answer == word:
            return _reject("same_word", "the word itself is not an anagram")
        if Counter(answer) != Counter(word):
            hint = Hint(
                kind="other_letters", text="Use every letter of the word exactly as often as it does."
            )
            return _reject("other_letters", "not the letters of the word", hint)
        return Finding(verdict=Verdict.ACCEPT, score=1.0)


def _reject(code: str, message: str, *hints: Hint) -> Finding:
    reason = Reason(code=code, message=message)
    return Finding(verdict=Verdict.REJECT, score=0.0, reason=reason, hints=hints)
