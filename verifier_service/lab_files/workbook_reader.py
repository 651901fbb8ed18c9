"""Workbooks, read in a process of their own that is killed when it takes too long.

A parser of hostile files may hang or take all memory however carefully they are looked at before. Then it
does so in a child with a memory limit, without the secrets and the files of the service; others are served
meanwhile.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from verifier_service.domain.errors import Contended, InvalidInput, LimitExceeded
from verifier_service.domain.lab_sheets import BadCell, Cell, Sheet, SheetRow

ROOT = Path(__file__).resolve().parents[2]
CHILD = "verifier_service.lab_files.workbook_child"
DEADLINE_S = 30.0
WAIT_S = 5.0  # for other workbooks that are read
AT_ONCE = 2
MAX_ANSWER = 128 * 1024 * 1024
FIELD = "file.content"
_PLACES = threading.BoundedSemaphore(AT_ONCE)


def read_workbook(raw: bytes) -> Sheet:
    """The first sheet of a workbook. Raises as ``workbooks.xlsx_sheet`` does, ``LimitExceeded`` when
    reading it takes too much time or memory, and ``Contended`` when too many are read already."""
    if not _PLACES.acquire(timeout=WAIT_S):
        raise Contended("busy_reading", "other workbooks are being read: try again")
    try:
        answer, late = _asked(raw)
    finally:
        _PLACES.release()
    if late:
        message = f"reading the workbook takes longer than {DEADLINE_S:g} s"
        raise LimitExceeded("too_slow", message, limit=DEADLINE_S, field=FIELD)
    return _sheet(answer)


def _asked(raw: bytes) -> tuple[bytes, bool]:
    """What the child said, and whether it was killed for taking too long."""
    late = threading.Event()
    with subprocess.Popen(
        [sys.executable, "-m", CHILD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
        env={"PATH": os.environ.get("PATH", ""), "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        start_new_session=True,
    ) as child:

        def kill() -> None:
            late.set()
            child.kill()

        timer = threading.Timer(DEADLINE_S, kill)
        timer.start()
        try:
            return _exchanged(child, raw), late.is_set()
        finally:
            timer.cancel()
            child.kill()


def _exchanged(child: subprocess.Popen[bytes], raw: bytes) -> bytes:
    """Give it the file and take its answer; empty when it ended without one."""
    requests, answers = child.stdin, child.stdout
    if requests is None or answers is None:
        return b""
    try:
        requests.write(raw)
        requests.close()
    except BrokenPipeError:
        return b""
    got = answers.read(MAX_ANSWER + 1)
    return got if len(got) <= MAX_ANSWER else b""


def _sheet(answer: bytes) -> Sheet:
    try:
        said: dict[str, Any] = json.loads(answer)
    except ValueError as error:
        raise InvalidInput("bad_workbook", "the workbook cannot be read", field=FIELD) from error
    if "code" in said:
        if said["limit"] is not None:
            raise LimitExceeded(said["code"], said["message"], limit=said["limit"], field=said["field"])
        raise InvalidInput(said["code"], said["message"], field=said["field"])
    rows = tuple(SheetRow(line, tuple(map(_cell, cells))) for line, cells in said["rows"])
    return Sheet(tuple(said["header"]), rows)


def _cell(value: Any) -> Cell:
    return BadCell(*value) if isinstance(value, list) else value
