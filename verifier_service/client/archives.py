"""The archive of a run as it comes from the server: rows, and whether all of them came."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pydantic import ValidationError

from verifier_service.client.calls import Call, path
from verifier_service.client.errors import UnexpectedAnswer
from verifier_service.domain.archive import COLUMNS, FORMAT, VERSION, ArchiveEnd, ArchiveHead

LINE = re.compile(rb'\{"kind":"([a-z]+)","row":(.*)\}', re.DOTALL)


class ArchiveRow(NamedTuple):
    """One row, with its text as JSON; ``kind`` as in ``domain.archive``, or ``head`` for the first."""

    kind: str
    text: bytes


def call(run: str, *, references: bool) -> Call[bytes]:
    """The request for an archive."""
    shown = {"references": "true" if references else "false"}
    return Call(method="GET", path=path("runs", run, "archive"), params=shown, read=lambda content: content)


def rows(chunks: Iterable[bytes]) -> Iterator[ArchiveRow]:
    """The rows of an archive, its head first.

    Raises ``UnexpectedAnswer`` for an archive of another version, and at the end for one that was cut short
    or whose rows are not as many as its last line says.
    """
    seen: Counter[str] = Counter()
    lines = _lines(chunks)
    yield ArchiveRow("head", _head(next(lines, b"")))
    for line in lines:
        kind, text = _parts(line)
        if kind == "end":
            _compare(text, seen)
            return
        if kind not in COLUMNS:
            raise UnexpectedAnswer(f"the archive has rows of the unknown kind {kind!r}")
        seen[kind] += 1
        yield ArchiveRow(kind, text)
    raise UnexpectedAnswer("the archive was cut short: the server stopped, or the run was purged meanwhile")


def _head(line: bytes) -> bytes:
    kind, text = _parts(line)
    try:
        head = ArchiveHead.model_validate_json(text, extra="ignore")
    except ValidationError as error:
        raise UnexpectedAnswer("the answer is not an archive") from error
    if kind != "head" or (head.format, head.version) != (FORMAT, VERSION):
        raise UnexpectedAnswer(f"the archive has version {head.version} and this client reads {VERSION}")
    return text


def _compare(text: bytes, seen: Counter[str]) -> None:
    try:
        said = ArchiveEnd.model_validate_json(text, extra="ignore").rows
    except ValidationError as error:
        raise UnexpectedAnswer("the last line of the archive cannot be read") from error
    if said != dict(seen):
        raise UnexpectedAnswer(f"the archive has {dict(seen)} rows, and should have {said}")


def _parts(line: bytes) -> tuple[str, bytes]:
    match = LINE.fullmatch(line)
    if match is None:
        raise UnexpectedAnswer(f"not a line of an archive: {line[:80]!r}")
    return match[1].decode("ascii"), match[2]


def _lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Lines end with a line feed and nothing else: JSON may hold other separators."""
    begun: list[bytes] = []
    for chunk in chunks:
        first, *others = chunk.split(b"\n")
        begun.append(first)
        for other in others:
            yield b"".join(begun)
            begun = [other]
    if any(begun):
        yield b"".join(begun)
