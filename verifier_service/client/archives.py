"""The archive of a run as it comes from the server: rows, and whether all of them came."""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

from pydantic import ValidationError

from verifier_service.client.calls import Answer, Call, Lost, path
from verifier_service.client.errors import UnexpectedAnswer, VerifierUnavailable
from verifier_service.client.exchange import Failures, Session
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


class Reading:
    """An archive as it arrives, in chunks of any size. ``session`` says how long its beginning is waited
    for."""

    def __init__(self, session: Session) -> None:
        self._url = session.url
        self._failures = Failures(session)
        self._came = False
        self._begun: list[bytes] = []
        self._seen: Counter[str] = Counter()
        self._headed = self._ended = False

    def take(self, chunk: bytes) -> list[ArchiveRow]:
        """The rows that a chunk completes, the head first.

        Lines end with a line feed and nothing else: JSON may hold other separators. Raises
        ``UnexpectedAnswer`` for an archive of another version, and for one with other rows than its last
        line says.
        """
        self._came = True
        first, *others = chunk.split(b"\n")
        self._begun.append(first)
        found: list[ArchiveRow] = []
        for other in others:
            row = self._read(b"".join(self._begun))
            self._begun = [other]
            if row is not None:
                found.append(row)
        return found

    def broken(self, reply: Answer | Lost) -> float:
        """The request came to nothing, or its connection is over before the end: seconds to wait before the
        next. Raises what ``deliver`` raises, and ``VerifierUnavailable`` once a part of the archive came:
        the next one need not go on where that ended."""
        if self._came:
            cause = reply.cause if isinstance(reply, Lost) else f"{reply.status} in the middle"
            raise VerifierUnavailable(self._url, 0.0, cause)
        return self._failures.pause(reply)

    def finish(self) -> None:
        """The stream is over. Raises ``UnexpectedAnswer`` when the archive is not."""
        if not self._headed:
            raise UnexpectedAnswer("the answer is not an archive")
        if not self._ended or any(self._begun):
            raise UnexpectedAnswer(
                "the archive was cut short: the server stopped, or the run was purged meanwhile"
            )

    def _read(self, line: bytes) -> ArchiveRow | None:
        if not self._headed:
            self._headed = True
            return ArchiveRow("head", _head(line))
        kind, text = _parts(line)
        if kind == "end":
            _compare(text, self._seen)
            self._ended = True
            return None
        if kind not in COLUMNS:
            raise UnexpectedAnswer(f"the archive has rows of the unknown kind {kind!r}")
        self._seen[kind] += 1
        return ArchiveRow(kind, text)


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
