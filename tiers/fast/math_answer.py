"""``math.answer``: is the final answer of a response the reference's value?"""

from __future__ import annotations

from math import isfinite
from typing import ClassVar, Literal

from pydantic import Field

from tiers.mathematics.hints import hints
from tiers.mathematics.judging import FORMS, KINDS, BadReference, Judgement, Task, judge
from verifier_service.domain.errors import TaskError
from verifier_service.domain.evidence import Finding, Hint, Reason, Tier, Verdict
from verifier_service.domain.records import JsonObject, JsonValue
from verifier_service.domain.verifiers import CheckInput, Limits, Params, Verifier, VerifierInfo

MAX_ALTERNATIVES = 32
_POLICY = {
    "boxed": "the last \\boxed{…} is the final answer",
    "hashes": "the last line '#### …' is the final answer",
    "bare": "the whole response is the final answer: the task allows answers without a marker",
    "none": "no final answer was taken",
}
_METHOD = {
    "exact": "decided by exact arithmetic",
    "tolerance": "a decimal was compared within the relative tolerance",
    "precision": "equal beyond the precision of everything written; not proven symbolically",
    "points": "compared as functions at several points chosen from both texts",
    "text": "compared as words, without case",
    "letter": "compared as the letter of a choice",
}


class MathAnswerParams(Params):
    """``unboxed``: whether a response without a marker may be one bare expression (``inputs.unboxed``
    overrides it). ``relative_tolerance``: for a decimal against a value that no decimal can write, and
    between two decimals; exact values are never compared with a tolerance."""

    unboxed: Literal["reject", "accept"] = "reject"
    relative_tolerance: float = Field(default=1e-6, ge=0.0, le=0.1)


class MathAnswer(Verifier):
    """Compare a response's final answer with ``reference["answer"]``: score 1 or 0.

    ``reference["answer"]`` is a text, or a list of texts any of which is right. ``inputs`` may declare
    ``answer_type`` (else inferred from the reference), ``unit`` (``percent``, or a unit's name: what a
    bare number is measured in), ``choices`` (letter to text), ``unboxed``, ``form`` (``fraction``,
    ``mixed``, ``decimal``, ``integer``) and ``decimal_mark`` (``.`` or ``,``).

    **The final answer** is the content of the last ``\\boxed{…}`` or ``\\fbox{…}``, else of the last line
    ``#### …``; see ``mathematics.final_answer`` for several boxes. Without a marker there is none, unless
    ``unboxed`` is ``accept``: then the whole response must be one expression. What is read is read as a
    whole: words around a value, a second value, unknown commands are refusals, so one response can
    never be right for two references that differ.

    **Equality** is exact for everything that can be written exactly. A decimal is taken for what it says
    where the other side has a finite decimal form too (28.00001 is not 28), and else compared with a
    relative tolerance. 28 % is 7/25: it equals 0.28, and 28 only if the task's unit is percent. A unit
    that is not written is taken from the reference; a written one must measure the same. A numeral
    without a base is in base ten.
    """

    info: ClassVar[VerifierInfo] = VerifierInfo(
        name="math.answer",
        version="1",
        tier=Tier.FAST,
        summary="Final answer equal to the reference: exactly, or within a relative tolerance for decimals",
        reads=frozenset({"candidate", "inputs", "reference"}),
        on_limit="reject",
        libraries=("mpmath",),
        limits=Limits(time_s=5.0, memory_mb=1024, max_batch=64),
        typical_cpu_s=0.0003,
    )
    params_model: ClassVar[type[Params]] = MathAnswerParams

    def unavailable(self) -> str | None:
        """Return why mpmath is missing, or ``None``."""
        from importlib.util import find_spec

        return None if find_spec("mpmath") else "mpmath is not installed (extra: math)"

    def warm(self) -> None:
        """Import mpmath and make its first constants."""
        judge(("\\sqrt{3+2\\sqrt{2}}",), "\\boxed{1+\\sqrt2}", Task(), unboxed=False)
        judge(("\\sin^2 x",), "\\boxed{1-\\cos^2 x}", Task(), unboxed=False)

    def verify(self, item: CheckInput, params: Params) -> Finding:
        """Return score 1 with ``accept`` or score 0 with a named rejection; feature ``characters`` is the
        length of the response.

        Raises ``TaskError`` ``bad_reference``, ``bad_answer_type`` or ``bad_inputs`` when no answer to this
        task can be judged.
        """
        settings = params if isinstance(params, MathAnswerParams) else MathAnswerParams()
        references = _references(item.reference)
        task = _task(item.inputs, settings.relative_tolerance)
        unboxed = _one_of(item.inputs, "unboxed", ("reject", "accept")) or settings.unboxed
        try:
            judgement = judge(references, item.candidate, task, unboxed=unboxed == "accept")
        except BadReference as trouble:
            message = f"reference.answer cannot be compared with any answer ({trouble.code})"
            raise TaskError("bad_reference", message) from trouble
        finding = _finding(judgement)
        if not isinstance(item.candidate, str):
            return finding
        return finding.model_copy(update={"features": {"characters": float(len(item.candidate))}})


def _references(reference: JsonObject) -> tuple[str, ...]:
    answer = reference.get("answer")
    texts = answer if isinstance(answer, list) else [answer]
    if not 0 < len(texts) <= MAX_ALTERNATIVES:
        raise TaskError("bad_reference", f"reference.answer must hold 1 to {MAX_ALTERNATIVES} alternatives")
    return tuple(_reference(text) for text in texts)


def _reference(text: JsonValue) -> str:
    if isinstance(text, int | float) and not isinstance(text, bool) and isfinite(text):
        return repr(text)
    if not isinstance(text, str) or not text.strip():
        raise TaskError("bad_reference", "reference.answer is missing, empty or not a text")
    return text


def _task(inputs: JsonObject, tolerance: float) -> Task:
    kind = inputs.get("answer_type")
    if kind is not None and kind not in KINDS:
        raise TaskError("bad_answer_type", f"inputs.answer_type must be one of {', '.join(KINDS)}")
    unit = inputs.get("unit")
    if unit is not None and not isinstance(unit, str):
        raise TaskError("bad_inputs", "inputs.unit must be a text")
    return Task(
        kind=kind if isinstance(kind, str) else None,
        unit="percent" if unit == "%" else unit or None,
        form=_one_of(inputs, "form", FORMS),
        decimal_comma=_one_of(inputs, "decimal_mark", (".", ",")) == ",",
        tolerance=tolerance,
        choices=_choices(inputs.get("choices")),
    )


def _one_of(inputs: JsonObject, name: str, allowed: tuple[str, ...]) -> str | None:
    value = inputs.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or value not in allowed:
        raise TaskError("bad_inputs", f"inputs.{name} must be one of {', '.join(allowed)}")
    return value


def _choices(choices: JsonValue) -> tuple[tuple[str, str], ...] | None:
    if choices is None:
        return None
    if isinstance(choices, list):
        choices = {chr(ord("A") + place): text for place, text in enumerate(choices[:26])}
    if not isinstance(choices, dict) or not choices:
        raise TaskError("bad_inputs", "inputs.choices must map letters to texts")
    pairs = tuple((letter, str(text)) for letter, text in choices.items())
    if any(len(letter) != 1 or not letter.isalpha() for letter, _ in pairs):
        raise TaskError("bad_inputs", "inputs.choices must map single letters to texts")
    return pairs


def _finding(judgement: Judgement) -> Finding:
    labels = {"answer_type": judgement.kind, "method": judgement.method, "marker": judgement.marker}
    assumptions = [_POLICY[judgement.marker], f"compared as: {judgement.kind}"]
    if judgement.method in _METHOD:
        assumptions.append(_METHOD[judgement.method])
    if judgement.code is None:
        return Finding(verdict=Verdict.ACCEPT, score=1.0, labels=labels, assumptions=tuple(assumptions))
    return Finding(
        verdict=Verdict.REJECT,
        score=0.0,
        reason=Reason(code=judgement.code, message=judgement.message),
        hints=tuple(Hint(kind=kind, text=text) for kind, text in hints(judgement)),
        labels=labels,
        assumptions=tuple(assumptions),
    )
