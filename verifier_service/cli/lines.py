"""Reading trajectories from JSON lines, so that a bad line costs only itself."""

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from verifier_service.cli.boundary import Failed

ID_CHARS = 24


@dataclass(frozen=True, slots=True)
class Line:
    """One line: a trajectory, or the reason why it is none."""

    number: int
    item: dict[str, Any] | None
    problem: str | None = None


@contextmanager
def opened(file: Path) -> Iterator[tuple[BinaryIO, int | None]]:
    """A file's stream and its number of lines; for ``-`` standard input, whose number is unknown."""
    if str(file) == "-":
        yield sys.stdin.buffer, None
        return
    try:
        with file.open("rb") as counting:
            total = sum(1 for line in counting if line.strip())
    except OSError as error:
        raise Failed(f"{file}: {error.strerror}") from error
    with file.open("rb") as stream:
        yield stream, total


def read_lines(source: Iterable[bytes]) -> Iterator[Line]:
    """Parse each non-empty line by itself.

    A trajectory without an id is named by its text and by how often that text came before in the file:
    submitting the file again repeats nothing, and equal lines stay separate samples.
    """
    seen: Counter[str] = Counter()
    for number, raw in enumerate(source, start=1):
        text = raw.strip()
        if number == 1:
            text = text.removeprefix(b"\xef\xbb\xbf")
        if not text:
            continue
        try:
            item = json.loads(text)
        except (ValueError, RecursionError) as error:
            yield Line(number, None, f"not JSON: {error}"[:300])
            continue
        if not isinstance(item, dict):
            yield Line(number, None, f"a trajectory is an object, not a {type(item).__name__}")
            continue
        if item.get("id") is None:
            digest = hashlib.sha256(text).hexdigest()[:ID_CHARS]
            item["id"] = f"line-{digest}-{seen[digest]}"
            seen[digest] += 1
        yield Line(number, item)
