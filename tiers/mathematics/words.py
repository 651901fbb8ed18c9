"""Answers that are no mathematics: the letter of a choice, and plain words."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tiers.mathematics.refusals import MAX_ANSWER, Refusal, too_large, unparsable
from tiers.mathematics.vocabulary import WORDS

_WRAPPED = re.compile(
    r"\\(?:boxed|fbox|text|textbf|textit|textrm|mathrm|mathbf|mathsf|mbox|operatorname)\s*\{([^{}]*)\}"
)
_LONE_MARK = re.compile(r"\{([:;,.=-])\}")
_LAYOUT = re.compile(r"\\(?:left|right|displaystyle|quad|qquad)(?![A-Za-z])|\\[,;:! ]|[$~]")
_CHOICE = re.compile(
    r"(?:(?:option|choice|answer)\s*:?\s*)?(?:\(\s*([A-Za-z])\s*\)|\[\s*([A-Za-z])\s*\]|([A-Za-z])(?=$|[.:)\s]))"
    r"\s*([.:)]?)\s*(.*)",
    re.IGNORECASE | re.DOTALL,
)
_MORE = re.compile(
    r"^(?:or|and|if|/|,|;|\||&|\()|\b(?:or|else|otherwise|unless|maybe|perhaps|possibly)\b", re.IGNORECASE
)
_LETTERS = re.compile(r"\(?\s*([A-J])\s*\)?")
_WORDS = re.compile(r"[A-Za-z\"'(][A-Za-z0-9,.;:?!\"'() -]*")
_RUN = re.compile(r"[A-Za-z]{4,}")
_STOP = re.compile(r"(?<![0-9])\.|\.(?![0-9])")
_CLOCK = re.compile(r"[0-9]{1,2}(?::[0-5][0-9]){1,2}\s*[ap]\.?\s*m", re.IGNORECASE)
_PLAIN = frozenset(
    re.findall(
        "[a-z]+",
        "yes no true false odd even none never always all both neither red blue east west north south dne "
        "positive negative increasing decreasing undefined",
    )
)


def plain(text: str) -> str:
    """The text without layout, dollars, font commands and a last full stop; spaces made one."""
    if len(text) > MAX_ANSWER:
        raise too_large(f"longer than {MAX_ANSWER} characters")
    for _ in range(4):
        text, count = _WRAPPED.subn(r" \1 ", text)
        if not count:
            break
    if "{" in text:
        text = _LONE_MARK.sub(r"\1", text)
    return " ".join(_LAYOUT.sub(" ", text).split()).rstrip(". ")


def read_choice(text: str, choices: Mapping[str, str] | None = None) -> frozenset[str]:
    """The letter chosen, upper case (several for ``A, C``).

    Accepted: ``B``, ``(B)``, ``B.``, ``B) 12``, ``option B``, and a choice's own text where ``choices`` are
    given. Text beside the letter must be that choice's, as far as the choices are known. Raises
    ``Refusal`` ``hedged_answer`` or ``unparsable``.
    """
    words = plain(text)
    letters = [letter.strip("() ") for letter in re.split(r"\s*(?:,|;|\band\b|&)\s*", words)]
    if len(letters) > 1 and all(_LETTERS.fullmatch(letter) for letter in letters):
        return frozenset(letters)
    for letter, label in (choices or {}).items():
        if plain(label).casefold() == words.casefold():
            return frozenset({letter.upper()})
    found = _CHOICE.fullmatch(words)
    if found is None:
        raise unparsable("not the letter of a choice")
    letter = str(found.group(1) or found.group(2) or found.group(3)).upper()
    beside = found.group(5).strip()
    if beside and _MORE.search(beside):
        raise Refusal("hedged_answer", "more than one choice")
    if beside and choices is None and found.group(3) and not found.group(4):
        raise unparsable("a letter with words that nothing sets apart")
    if beside and choices is not None:
        own = next((label for key, label in choices.items() if key.upper() == letter), None)
        if own is None or plain(own).casefold() != plain(beside).casefold():
            raise Refusal("hedged_answer", "a letter beside the text of another choice")
    return frozenset({letter})


def looks_like_choice(text: str, words: str) -> bool:
    """Whether a reference is the letter of a choice: ``(B)``, ``\\text{B}``, ``A`` to ``E``.

    ``words`` is the text as ``plain`` gives it.
    """
    return bool(re.fullmatch(r"\([A-J]\)|[A-E][.)]?", words)) or (
        "\\text" in text and bool(re.fullmatch(r"\(?[A-J]\)?", words))
    )


def looks_like_words(words: str) -> bool:
    """Whether a reference, as ``plain`` gives it, is words rather than mathematics."""
    if _CLOCK.fullmatch(words):
        return True
    if "\\" in words or not _WORDS.fullmatch(words):
        return False
    if any(piece.casefold() in _PLAIN for piece in words.split()):
        return True
    return any(run not in WORDS and run.lower() not in WORDS for run in _RUN.findall(words))


def same_words(gold: str, answer: str) -> bool:
    """Equal but for case, layout and full stops."""
    one, two = (_STOP.sub("", plain(text)).casefold() for text in (gold, answer))
    return one == two
