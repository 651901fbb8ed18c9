"""Pictures of molecules, drawn in processes that can be killed, kept by their text."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from concurrent.futures import Future
from pathlib import Path
from queue import Empty, Full, LifoQueue

from tiers.molecule import MAX_CHARS, rdkit_missing
from verifier_service.domain.ports.drawing import Drawing, MoleculeFacts

ROOT = Path(__file__).resolve().parents[1]
CHILD = "tiers.drawing_child"
DEADLINE_S = 4.0
START_S = 30.0  # the first answer of a child: RDKit is imported then
WAIT_S = 8.0  # for a child that is busy with another drawing
AT_ONCE = 2
SERVED = 2_000  # drawings after which a child is replaced
KEPT = 512
MAX_SVG = 2_000_000
MISSING = "pictures of molecules need RDKit: install verifier-service[chem]"
TOO_SLOW = "drawing it took too long"


class _Child:
    """One drawing process. One thread at a time uses it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", CHILD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=ROOT,
            env={"PATH": os.environ.get("PATH", ""), "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
            start_new_session=True,
        )
        self.served = 0

    def ask(self, text: str) -> bytes | None:
        """One line of answer; ``None`` when none came in time, or the process ended."""
        requests, answers = self._process.stdin, self._process.stdout
        if requests is None or answers is None:
            return None
        ends = time.monotonic() + (DEADLINE_S if self.served else START_S)
        self.served += 1
        got = b""
        try:
            requests.write(json.dumps(text).encode() + b"\n")
            requests.flush()
            while not got.endswith(b"\n"):
                left = ends - time.monotonic()
                if left <= 0 or not select.select([answers], [], [], left)[0]:
                    return None
                part = os.read(answers.fileno(), 1 << 16)
                if not part or len(got) > MAX_SVG:
                    return None
                got += part
        except OSError:
            return None
        return got

    def kill(self) -> None:
        """End it and reap it."""
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self._process.wait()


class RdkitDrawer:
    """See ``ports.drawing.Drawer``. Children start with the first drawing and stay warm."""

    def __init__(self, *, kept: int = KEPT) -> None:
        self._places: LifoQueue[_Child | None] = LifoQueue(AT_ONCE)
        for _ in range(AT_ONCE):
            self._places.put(None)
        self._kept: OrderedDict[str, Drawing] = OrderedDict()
        self._under_way: dict[str, Future[Drawing]] = {}
        self._most = kept
        self._lock = threading.Lock()
        self._closed = False

    def draw(self, text: str) -> Drawing:
        """The picture of a SMILES, or why there is none."""
        text = text.strip()
        if rdkit_missing() is not None:
            return Drawing(None, "missing", MISSING)
        if len(text) > MAX_CHARS:
            return Drawing(None, "too_large", f"it has more than {MAX_CHARS:,} characters")
        with self._lock:
            known = self._kept.get(text)
            if known is not None:
                self._kept.move_to_end(text)
                return known
            others = self._under_way.get(text)
            mine: Future[Drawing] = Future()
            if others is None:
                self._under_way[text] = mine
        return self._first(text, mine) if others is None else others.result()

    def close(self) -> None:
        """Kill the children that are idle; those at work end after their drawing."""
        self._closed = True
        with contextlib.suppress(Empty):
            while True:
                child = self._places.get_nowait()
                if child is not None:
                    child.kill()

    def _first(self, text: str, told: Future[Drawing]) -> Drawing:
        """Draw for all who ask meanwhile: a page asks twice, and what is slow must not take both places."""
        drawn = Drawing(None, "failed", "it could not be drawn; try again")
        try:
            drawn = self._drawn(text)
            if drawn.svg is not None or drawn.code in ("not_a_structure", "too_slow"):
                self._keep(text, drawn)
        finally:
            with self._lock:
                del self._under_way[text]
            told.set_result(drawn)
        return drawn

    def _drawn(self, text: str) -> Drawing:
        try:
            child = self._places.get(timeout=WAIT_S)
        except Empty:
            return Drawing(None, "failed", "too many pictures are drawn at this time; try again")
        answer: bytes | None = None
        try:
            child = child if child is not None else _Child()
            answer = child.ask(text)
        finally:
            self._put_back(child, sound=answer is not None)
        return _read(answer)

    def _put_back(self, child: _Child | None, *, sound: bool) -> None:
        """What did not answer is killed, and the next drawing starts another."""
        if child is not None and (not sound or child.served >= SERVED or self._closed):
            child.kill()
            child = None
        with contextlib.suppress(Full):
            self._places.put_nowait(child)

    def _keep(self, text: str, drawn: Drawing) -> None:
        with self._lock:
            self._kept[text] = drawn
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)


def _read(answer: bytes | None) -> Drawing:
    if answer is None:
        return Drawing(None, "too_slow", TOO_SLOW)
    said = json.loads(answer)
    if "svg" in said:
        return Drawing(said["svg"], facts=MoleculeFacts(*said["facts"]))
    return Drawing(None, said["code"], said["message"])
