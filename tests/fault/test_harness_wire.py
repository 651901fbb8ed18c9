"""The protocol read from an untrusted side, and the shared page."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiers.child_wire import (
    HELD_BYTES,
    PAGE,
    WIRE_DONES,
    Executing,
    FrameReader,
    Garbled,
    Kind,
    SharedPage,
    batch_body,
    frame,
    read_batch,
)

KINDS = st.sampled_from(list(Kind))
FRAMES = st.lists(st.tuples(KINDS, st.binary(max_size=200)), max_size=8)


@given(FRAMES, st.lists(st.integers(1, 40), min_size=1))
def test_frames_survive_any_cut(frames: list[tuple[Kind, bytes]], cuts: list[int]) -> None:
    stream = b"".join(frame(kind, body) for kind, body in frames)
    reader, found, start, turn = FrameReader(), [], 0, 0
    while start < len(stream):
        step = cuts[turn % len(cuts)]
        found += list(reader.feed(stream[start : start + step]))
        start, turn = start + step, turn + 1
    assert found == frames


@given(st.binary(max_size=100))
def test_garbage_raises_or_waits_and_never_more(junk: bytes) -> None:
    try:
        for kind, body in FrameReader().feed(junk):
            assert frame(kind, body) in junk
    except Garbled:
        pass


def test_a_frame_has_a_limit() -> None:
    with pytest.raises(Garbled):
        list(FrameReader(limit=10).feed(frame(Kind.DONE, b"x" * 11)))


@given(st.lists(st.binary(max_size=50), max_size=5))
def test_a_batch_comes_apart_as_it_was_put_together(items: list[bytes]) -> None:
    head, found = read_batch(batch_body("name", {"a": [1, None]}, items))
    assert (head.verifier, head.params, found) == ("name", {"a": [1, None]}, items)


def test_the_page_shows_what_runs_and_what_is_held(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path / "page", os.O_RDWR | os.O_CREAT)
    os.ftruncate(descriptor, PAGE)
    parent, child = SharedPage(descriptor), SharedPage(descriptor)
    os.close(descriptor)
    parent.reset()
    assert parent.executing() is parent.last() is None
    assert parent.held() == b""
    child.begin(3, 1.5, 0.25)
    assert parent.executing() == parent.last() == Executing(3, 1.5, 0.25)
    child.rest()
    assert parent.executing() is None
    assert parent.last() == Executing(3, 1.5, 0.25)
    entry = b'{"index":3,"cpu_s":0.0,"wall_s":0.0,"failure":{"kind":"permanent","code":"c","message":"m"}}'
    assert child.hold(entry)
    assert child.hold(entry)
    assert [each.index for each in WIRE_DONES.validate_json(parent.held())] == [3, 3]
    assert not child.hold(b"x" * HELD_BYTES)
    child.release()
    assert parent.held() == b""
    child.close()
    with pytest.raises(ValueError, match="released"):
        child.begin(0, 0.0, 0.0)
    parent.close()


WRITER = """
import os, sys, time
from tiers.child_wire import SharedPage
page = SharedPage(int(sys.argv[1]))
until = time.monotonic() + float(sys.argv[2])
index, now = 0, 0.0
while now < until:
    now = time.monotonic()
    page.begin(index, now, index / 7.0)
    index = (index + 1) % 100_000
    if index % 3 == 0:
        page.rest()
"""


def test_the_page_is_never_read_half_written(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path / "page", os.O_RDWR | os.O_CREAT)
    os.ftruncate(descriptor, PAGE)
    page = SharedPage(descriptor)
    page.reset()
    began = time.monotonic()
    command = [sys.executable, "-c", WRITER, str(descriptor), "1.0"]
    with subprocess.Popen(command, pass_fds=[descriptor], cwd=Path(__file__).parents[2]) as writer:
        reads = 0
        while writer.poll() is None:
            for _ in range(1000):
                item = page.executing()
                assert item is None or (
                    0 <= item.index < 100_000 and began <= item.started <= time.monotonic()
                )
                reads += 1
    os.close(descriptor)
    assert page.last() is not None
    assert reads > 1000
    page.close()
