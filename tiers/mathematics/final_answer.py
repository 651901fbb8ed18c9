"""Which words of a response are its answer: one policy, the same for everybody.

A response has exactly one final answer, so that it can never match two references that differ.

* What follows the last ``</think>`` is the response.
* The final answer is the content of the last ``\\boxed{…}`` or ``\\fbox{…}``; where there is no box, the
  last line of the form ``#### x``. What is written after it, or how much, does not matter.
* Earlier boxes are intermediate results and are not looked at, unless they stand together with the
  last one: in its paragraph, or with almost nothing between, and without a word that concludes
  (*so*, *therefore*, *final*, *wait* …), or with a word that leaves the choice open (*or*,
  *alternatively* …). Boxes that stand together are one answer of several parts: right for a
  reference that is a list or a set, and a hedge for any other, unless all parts are the same text.
* Without box and ``####`` line there is no final answer. A task can allow a bare expression: then
  the whole response must be one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tiers.mathematics.refusals import MAX_ANSWER, MAX_TEXT, Refusal, too_large, unparsable

_MARK = re.compile(r"(\\{1,2}(?:boxed|fbox)(?![A-Za-z])\s{0,9}\{?)|\\.|[{}]", re.DOTALL)
_BARE_BOXED = re.compile(r"(?!\[)[^\s$\\{}]+")
_HASHES = re.compile(r"^[ \t]*####[ \t]*([^\n]*)$", re.MULTILINE)
_OPEN = re.compile(r"\b(or|alternatively|either|maybe|perhaps|possibly|otherwise|and|if|could)\b|/", re.I)
_CONCLUDES = re.compile(
    r"\b(so|thus|therefore|hence|final|finally|wait|actually|correct|correction|corrected|instead|then"
    r"|gives?|because|since|now|next|answer|conclude|follows|yields?|implies|total|means|finish"
    r")\b|\\implies|\\Rightarrow|⇒|→",
    re.I,
)
CLOSE_CHARS = 40
MAX_BETWEEN = 2_000
MAX_JOINED = 16


@dataclass(frozen=True, slots=True)
class FinalAnswer:
    """The parts of the final answer (one, or several boxes that stand together) and their marker.

    ``marker`` is ``boxed``, ``hashes`` or ``bare``.
    """

    parts: tuple[str, ...]
    marker: str


def final_answer(response: object, *, unboxed: bool) -> FinalAnswer:
    """Find the final answer of a response; ``unboxed`` allows a response without a marker.

    Raises ``Refusal`` ``empty_answer``, ``no_final_answer``, ``unparsable`` (a box that is not
    closed) or ``too_large``.
    """
    text = _text(response)
    boxes = _boxes(text)
    if boxes:
        return FinalAnswer(_joined(text, boxes), "boxed")
    lines = _HASHES.findall(text) if "####" in text else []
    if lines:
        return FinalAnswer((_content(lines[-1]),), "hashes")
    if not unboxed:
        raise Refusal("no_final_answer", "no \\boxed{…} and no line '#### …' was found")
    return FinalAnswer((_content(text),), "bare")


def _text(response: object) -> str:
    if response is None:
        raise Refusal("empty_answer", "there is no answer")
    if isinstance(response, (int, float)) and not isinstance(response, bool):
        response = repr(response)
    if not isinstance(response, str):
        raise unparsable(f"the answer is {type(response).__name__}, not text")
    if len(response) > MAX_TEXT:
        raise too_large(f"the response is longer than {MAX_TEXT} characters")
    if "</think>" in response:
        response = response.rpartition("</think>")[2]
    if not response.strip():
        raise Refusal("empty_answer", "the answer is empty")
    return response


def _content(text: str) -> str:
    text = text.strip()
    if len(text) > MAX_ANSWER:
        raise too_large(f"the final answer is longer than {MAX_ANSWER} characters")
    if not text.strip("$ \t\r\n{}"):
        raise Refusal("empty_answer", "the final answer is empty")
    return text


def _boxes(text: str) -> list[tuple[int, int]]:
    """Start and end of the content of each box, outermost only, in order; one linear pass.

    Raises ``Refusal`` ``unparsable`` when the box that was opened last is not closed.
    """
    if "\\boxed" not in text and "\\fbox" not in text:
        return []
    found: list[tuple[int, int]] = []
    stack: list[int] = []  # start of a box's content, or -1 for any other brace
    opened = 0
    for match in _MARK.finditer(text):
        mark = match.group()
        if mark == "}":
            start = stack.pop() if stack else -1
            if start >= 0:
                while found and found[-1][0] > start:
                    del found[-1]
                found.append((start, match.start()))
        elif mark == "{":
            stack.append(-1)
        elif match.group(1) is not None:
            opened = match.end()
            if mark.endswith("{"):
                stack.append(opened)
            else:
                bare = _BARE_BOXED.match(text, opened)
                found.append((opened, bare.end() if bare else opened))
    if opened in stack:
        raise unparsable("the last box is not closed")
    return found


def _joined(text: str, boxes: list[tuple[int, int]]) -> tuple[str, ...]:
    start, end = boxes[-1]
    parts = [_content(text[start:end])]
    following = start
    for start, end in reversed(boxes[-MAX_JOINED:-1]):
        if not _together(text[end + 1 : following]):
            break
        if text[start:end].strip():
            parts.append(_content(text[start:end]))
        following = start
    return tuple(dict.fromkeys(reversed(parts)))


def _together(between: str) -> bool:
    if len(between) > MAX_BETWEEN:
        return False
    plain = between.rpartition("\\")[0].strip(" \t\r\n$.,;:()[]&\\")
    if len(plain) > CLOSE_CHARS and "\n\n" in between:
        return False
    return bool(_OPEN.search(plain)) or not _CONCLUDES.search(plain)
