"""What a sandbox leaves behind in a process to which orphans come back: nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_a_verifier_process_reaps_what_comes_back_to_it() -> None:
    """In a child of the harness orphans come back to the child: they must not stay as zombies."""
    code = """
import ctypes, psutil, time
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
from tiers.sandbox import probe
for _ in range(3):
    probe.find("auto").open().close()
until = time.monotonic() + 5.0  # a zombie that nobody reaps stays for good
while time.monotonic() < until and psutil.Process().children(recursive=True):
    time.sleep(0.05)
print(len(psutil.Process().children(recursive=True)))
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert ended.stdout == "0\n", ended.stderr


def test_what_ended_before_it_was_looked_at_is_reaped() -> None:
    """The first process inside comes to this process when bubblewrap has gone: by then it must be known."""
    code = """
import ctypes, os, psutil
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
from tiers.sandbox import probe
box = probe.find("auto").open()
box._process.stdin.close()
os.waitid(os.P_PID, box._process.pid, os.WEXITED | os.WNOWAIT)
box.close()
print(len(psutil.Process().children(recursive=True)))
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert ended.stdout == "0\n", ended.stderr
