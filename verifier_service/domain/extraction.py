"""From what a model wrote to the thing to verify: pure, linear in the size of the text, never an error.

What cannot be found is ``None``. Whoever verifies it refuses it as an empty answer: the model was asked
for a form and did not keep to it.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from verifier_service.domain.ladders import CandidateSpec, TagExtract
from verifier_service.domain.records import JsonObject, JsonValue
from verifier_service.domain.trajectories import Turn

_LATEX = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])\s{0,16}+\{|\\.|[{}]", re.DOTALL)
_FENCE = re.compile(r"([ \t]*+)(`{3,}+|~{3,}+)([^\r\n]*+)")


class Span(NamedTuple):
    """A piece of a text: its contents, and where they start and end in it."""

    text: str
    start: int
    end: int


class Fence(NamedTuple):
    """A fenced block: the code without its fences and their indentation, and the place of the whole."""

    text: str
    start: int
    end: int


def candidate_of(spec: CandidateSpec, answer: str | JsonObject | None, turns: Sequence[Turn]) -> JsonValue:
    """The thing to verify of a submission, as the ladder says where it is; ``None`` if it is not there.

    Without ``extract`` it is the answer itself. To extract needs text: from an object there is nothing
    to extract.
    """
    source: JsonValue = answer if spec.from_ == "answer" else last_message(turns)
    if spec.extract is None:
        return source
    return _extracted(spec, source) if isinstance(source, str) else None


def last_message(turns: Sequence[Turn]) -> str | None:
    """The message of the last turn in which the model spoke or called; ``None`` when it only called.

    A turn of nothing but observations is not the model's.
    """
    last = next((turn for turn in reversed(turns) if turn.message is not None or turn.calls), None)
    return last.message if last is not None else None


def _extracted(spec: CandidateSpec, text: str) -> str | None:
    if isinstance(spec.extract, TagExtract):
        return last_tag(text, spec.extract.tag)
    return last_boxed(text) if spec.extract == "boxed" else code_block(text)


def boxes(text: str) -> Iterator[Span]:
    r"""Every ``\boxed{...}`` and ``\fbox{...}`` in order of appearance, with the span of its contents.

    Braces must balance; escaped ones (``\{``) do not count. A box that is never closed is none, and the
    boxes in it stand for themselves. A box within a closed box is part of that box.
    """
    open_: list[int | None] = []  # where the contents start; None for a brace that belongs to no box
    found: list[Span] = []
    for token in _LATEX.finditer(text):
        word = token.group()
        if word == "{":
            open_.append(None)
        elif word == "}":
            start = open_.pop() if open_ else None
            if start is not None:
                while found and found[-1].start > start:
                    found.pop()
                found.append(Span("", start, token.start()))
        elif word.endswith("{") and len(word) > 2:
            open_.append(token.end())
    return (Span(text[start:end], start, end) for _, start, end in found)


def last_boxed(text: str) -> str | None:
    r"""The stripped contents of the last ``\boxed{...}`` or ``\fbox{...}``, if there is one."""
    found = list(boxes(text))
    return found[-1].text.strip() if found else None


def code_block(text: str) -> str:
    """The code of the last fenced block; the whole text when there is no fence."""
    found = deque(fences(text), maxlen=1)
    return found[0].text if found else text


def fences(text: str) -> Iterator[Fence]:
    """Fenced blocks as CommonMark has them (three or more backticks or tildes; a block that is never
    closed runs to the end), except that fences may be indented by any depth: models put them in lists.

    A first line with ``<`` or ``>`` after the marks opens nothing: that is the end of a block and a tag.
    """
    marks, indent, start = "", "", 0
    code: list[str] = []
    for line_start, line in _lines(text):
        fence = _FENCE.match(line)
        if not marks:
            if fence is not None and _opens(fence):
                indent, marks, start, code = fence.group(1), fence.group(2), line_start, []
        elif fence is not None and _closes(fence, marks):
            yield Fence("".join(code), start, line_start + len(line))
            marks = ""
        else:
            code.append(_outdented(line, indent))
    if marks:
        yield Fence("".join(code), start, len(text))


def _lines(text: str) -> Iterator[tuple[int, str]]:
    start = 0
    while start < len(text):
        end = text.find("\n", start) + 1 or len(text)
        yield start, text[start:end]
        start = end


def _opens(fence: re.Match[str]) -> bool:
    rest = fence.group(3)
    return "<" not in rest and ">" not in rest and ("`" not in rest or fence.group(2)[0] == "~")


def _closes(fence: re.Match[str], marks: str) -> bool:
    closing = fence.group(2)
    return closing[0] == marks[0] and len(closing) >= len(marks) and not fence.group(3).strip()


def _outdented(line: str, indent: str) -> str:
    if line.startswith(indent):
        return line[len(indent) :]
    return line[min(len(indent), len(line) - len(line.lstrip(" "))) :]


def last_tag(text: str, tag: str) -> str | None:
    """The stripped contents of the last ``<tag>...</tag>``, in any case and with any attributes.

    What stands in a fenced block quotes a tag and counts only when there is no pair outside of them. A
    closing tag belongs to the opening one right before it; without both there is nothing.
    """
    tokens = list(_tags(tag).finditer(text))
    if not tokens:
        return None
    outside = _outside(tokens, list(fences(text)))
    pair = _last_pair(outside) or _last_pair(tokens)
    return text[pair[0] : pair[1]].strip() if pair is not None else None


def _outside(tokens: Sequence[re.Match[str]], blocks: Sequence[Fence]) -> list[re.Match[str]]:
    kept: list[re.Match[str]] = []
    at = 0
    for token in tokens:
        while at < len(blocks) and blocks[at].end <= token.start():
            at += 1
        if at == len(blocks) or token.start() < blocks[at].start:
            kept.append(token)
    return kept


def _last_pair(tokens: Sequence[re.Match[str]]) -> tuple[int, int] | None:
    close: int | None = None
    for token in reversed(tokens):
        if token.group(1):
            close = token.start()
        elif close is not None and not token.group().endswith("/>"):
            return token.end(), close
    return None


@lru_cache(maxsize=256)
def _tags(tag: str) -> re.Pattern[str]:
    return re.compile(rf"<(/?){re.escape(tag)}(?:/|\s[^<>]*+)?>", re.IGNORECASE)
