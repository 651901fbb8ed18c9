"""The files of an archive: one per kind of row, and a manifest that tells what they must hold."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from verifier_service.domain.archive import COLUMNS

NAMES: Mapping[str, str] = {
    "run": "run",
    "account": "accounts",
    "ladder": "ladders",
    "trajectory": "trajectories",
    "demand": "demands",
    "check": "checks",
    "attempt": "attempts",
    "review": "reviews",
    "vote": "votes",
    "reward": "rewards",
}
MANIFEST = "manifest.json"
SUMS = "SHA256SUMS"
LEVEL = 6
READ_BYTES = 1 << 20


class Sheets(Protocol):
    """Takes rows and writes the files of one layout."""

    def add(self, kind: str, text: bytes) -> None:
        """One row, as JSON."""
        ...

    def close(self) -> dict[str, str]:
        """Finish the files; their names by kind, kinds without rows among them."""
        ...


class JsonLines:
    """``KINDs.jsonl.gz``: the rows as they came. Files are the same whenever they are written."""

    def __init__(self, folder: Path) -> None:
        self._files = {}
        for kind in COLUMNS:
            raw = (folder / f"{NAMES[kind]}.jsonl.gz").open("wb")
            packed = gzip.GzipFile(filename="", mode="wb", fileobj=raw, compresslevel=LEVEL, mtime=0)
            self._files[str(kind)] = (raw, packed)

    def add(self, kind: str, text: bytes) -> None:
        packed = self._files[kind][1]
        packed.write(text)
        packed.write(b"\n")

    def close(self) -> dict[str, str]:
        for raw, packed in self._files.values():
            packed.close()
            raw.close()
        return {kind: Path(raw.name).name for kind, (raw, _) in self._files.items()}


@contextmanager
def made_whole(folder: Path) -> Iterator[Path]:
    """A folder to write in that becomes ``folder`` when the block ends well, and vanishes when it does not.

    Raises ``FileExistsError`` where there is something already.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(f"{folder} is there already and not an empty folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    begun = folder.with_name(f"{folder.name}.part-{os.getpid()}")
    begun.mkdir(mode=0o700)
    try:
        yield begun
        if folder.exists():
            folder.rmdir()
        begun.rename(folder)
    except BaseException:
        shutil.rmtree(begun)
        raise


def seal(
    folder: Path, head: dict[str, Any], layout: str, names: dict[str, str], rows: Mapping[str, int]
) -> dict[str, Any]:
    """Write the manifest and the sums (``sha256sum --check``); every file is on the disk afterwards."""
    files = []
    for kind, name in names.items():
        digest, size = _digest(folder / name)
        files.append(
            {"name": name, "kind": kind, "rows": rows.get(kind, 0), "bytes": size, "sha256": digest}
        )
    manifest = {**head, "layout": layout, "files": files}
    _write(folder / MANIFEST, json.dumps(manifest, indent=1) + "\n")
    sums = [f"{one['sha256']}  {one['name']}" for one in files]
    sums.append(f"{_digest(folder / MANIFEST)[0]}  {MANIFEST}")
    _write(folder / SUMS, "\n".join(sums) + "\n")
    return manifest


def _digest(file: Path) -> tuple[str, int]:
    hashed, size = hashlib.sha256(), 0
    with file.open("rb") as stored:
        while block := stored.read(READ_BYTES):
            hashed.update(block)
            size += len(block)
        os.fsync(stored.fileno())
    return hashed.hexdigest(), size


def _write(file: Path, text: str) -> None:
    with file.open("w", encoding="utf-8") as written:
        written.write(text)
        written.flush()
        os.fsync(written.fileno())
