"""``code.tests``: the faults of tests and tasks are nobody's 0, and no program can put on their look."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

import pytest

from tests.integration.test_code_hostile import refused, verify
from tiers.sandbox.box import Box, Limits, Stopped
from verifier_service.domain.errors import TaskError, Transient

ADD = "def add(a, b):\n    return a + b\n"
F = "def f(x):\n    return x + 1\n"
CALL = [{"call": "add", "args": [1, 2], "expected": 3}]
CLASS = "import unittest\nclass T(unittest.TestCase):\n"
FIXTURES = {
    "set-up class": CLASS
    + "    @classmethod\n    def setUpClass(cls): cls.k = f(1)\n"
    + "    @classmethod\n    def tearDownClass(cls): assert cls.k == 2\n"
    + "    def test_a(self): self.assertEqual(self.k, 2)\n"
    + "    def test_b(self): self.assertEqual(self.k + 1, 3)\n",
    "set-up module": "import unittest\ndef setUpModule():\n    global K\n    K = 1\n"
    "class T(unittest.TestCase):\n    def test_a(self): self.assertEqual(f(K), 2)\n",
    "skip": CLASS
    + "    def test_a(self): self.assertEqual(f(1), 2)\n"
    + "    @unittest.skip('later')\n    def test_b(self): self.assertEqual(f(1), 5)\n",
    "async": "import unittest\nclass T(unittest.IsolatedAsyncioTestCase):\n"
    "    async def asyncSetUp(self): self.k = 1\n"
    "    async def test_a(self): self.assertEqual(f(self.k), 2)\n",
    "sub-tests": CLASS
    + "    def test_a(self):\n        for n in (1, 2):\n            with self.subTest(n):\n"
    + "                self.assertEqual(f(n), n + 1)\n",
}
BROKEN = {
    "expected failure": CLASS
    + "    @unittest.expectedFailure\n    def test_a(self): self.assertEqual(f(1), 5)\n",
    "all skipped": CLASS + "    @unittest.skip('no')\n    def test_a(self): self.assertEqual(f(1), 2)\n",
    "no file": "DATA = open('data.json').read()\nassert f(DATA) == 1\n",
    "no key": "K = {}['x']\ndef test_a():\n    assert f(K) == 1\n",
    "own error": "def check(f):\n    assert len(5) == 1\n    assert f(1) == 2\n",
    "own exit": "import sys\nsys.exit(1)\nassert round(f(1)) == 2\n",
    "own loop": "def check(f):\n    while True: pass\n    assert f(1) == 2\n",
    "own sleep": "import time\ndef check(f):\n    time.sleep(60)\n    assert f(1) == 2\n",
    "own memory": "def check(f):\n    x = [b'x' * (1 << 20) for _ in range(1 << 12)]\n    assert f(1)\n",
    "asks nothing": "class TestF:\n    def test_a(self):\n        assert f(1) == 2\n",
}


@pytest.mark.parametrize("tests", FIXTURES.values(), ids=FIXTURES)
def test_fixtures_of_test_classes_are_theirs(tests: str) -> None:
    assert verify(F, [tests]).score == 1.0
    assert refused(F.replace("1", "2"), [tests]) == "wrong_answer"


@pytest.mark.parametrize("tests", BROKEN.values(), ids=BROKEN)
def test_tests_that_break_by_themselves_score_nobody(tests: str) -> None:
    for answer in (F, "def f(x): raise ValueError", "def f(x):\n    while True: pass\n"):
        with pytest.raises(TaskError) as raised:
            _with_time(answer, tests)
        assert raised.value.code == "bad_tests"


def _with_time(answer: str, tests: str) -> None:
    """A machine that is too busy says so, and is asked again."""
    for _ in range(20):
        with suppress(Transient):
            verify(answer, [tests], entry_point="f")
            return


@pytest.mark.parametrize(("spent_s", "whose"), [(0.0, "machine"), (1.0, "solution")])
def test_time_that_others_took_from_the_tests_is_not_theirs(
    spent_s: float, whose: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A solution that keeps them from a processor loses; where it is the machine, nobody has a score."""
    monkeypatch.setattr(Box, "starved", lambda self, limits, granted: 0.5 * limits.time_s)
    monkeypatch.setattr(Box, "spent_s", lambda self: spent_s)
    tests = BROKEN["own loop"]
    if whose == "solution":
        assert refused(F, [tests], entry_point="f") == "time_limit"
        return
    with pytest.raises(Transient) as raised:
        verify(F, [tests], entry_point="f")
    assert raised.value.code == "machine_busy"


@pytest.mark.parametrize(
    ("answer", "tests"),
    [
        ("def f(x): return 10**18", "n = f(1)\nfor _ in range(n): pass\nassert n == 2"),
        ("from decimal import Decimal\nN = Decimal(10**9)", "x = list(range(int(N)))\nassert x == 2"),
        ("N = range(10**18)", "for _ in N: pass\nassert len(N) == 2"),
        ("N = None", "assert N[0] == 1"),
        ("import json as f", "x = f(1)\nassert x == 2"),
        ("f = 5", "x = f(1)\nassert x == 2"),
        ("class F: pass", "try:\n    raise F\nexcept F:\n    assert 1"),
        ("def g(x): return x", "K = globals()['f']\nassert f(1) == 2"),
        ("f = None", CLASS + "    def test_a(self):\n        if f is None: self.skipTest('')\n"
         "        self.assertEqual(f(1), 1)"),
        ("def f(x): pass", CLASS + "    def test_a(self):\n        if not f(1): self.skipTest('')\n"
         "        self.assertEqual(f(1), 2)"),
        ("def f(x): return 0", CLASS + "    @unittest.skipIf(f(1) == 0, '')\n    def test_a(self):\n"
         "        self.assertEqual(f(1), 2)"),
        ("def f(x): raise ValueError", CLASS + "    @classmethod\n    def setUpClass(cls): cls.k = f(1)\n"
         "    def test_a(self): self.assertEqual(self.k, 2)\n"),
        (F + "import os\nfor _ in range(4): os.fork()\nwhile os.getppid() > 1: pass",
         "import unittest\nassert f(1) == 5"),
    ],
)  # fmt: skip
def test_no_program_makes_the_tests_break_by_themselves(answer: str, tests: Any) -> None:
    refused(answer, [tests])


def test_names_of_hidden_tests_stay_hidden() -> None:
    first = "def test_of_7_is_secret():\n    assert add(3, 4) == 981726354\n"
    tests = [first + "def test_b(): assert add(1, 1) == 2\n"]
    finding = verify(ADD, tests)
    assert [row["id"] for row in finding.artifacts[0]["tests"]] == ["0.0", "0.1"]
    assert not {"secret", "981726354"} & set(re.findall(r"[a-z]+|\d+", finding.model_dump_json()))


def test_a_sandbox_that_stops_while_tests_are_made_ready_is_no_verdict(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ask = Box.ask

    def stop(self: Box, order: Any, limits: Limits, **more: Any) -> Any:
        if order.get("sources") == []:
            raise Stopped("gone")
        return ask(self, order, limits, **more)

    monkeypatch.setattr(Box, "ask", stop)
    with pytest.raises(Transient, match="did not get ready"):
        verify(ADD, ["assert round(add(1, 2)) == 3"])


@pytest.mark.parametrize("prelude", ["import (", "import no_such_module", "1 / 0", "while True: pass"])
def test_a_prelude_that_fails_by_itself_scores_nobody(prelude: str) -> None:
    for tests in (CALL, ["assert round(add(1, 2)) == 3"], [{"stdin": "", "stdout": "1"}]):
        with pytest.raises(TaskError) as raised:
            verify(ADD, tests, prelude=prelude)
        assert raised.value.code == "bad_inputs"


def test_a_prelude_that_works_is_not_to_blame() -> None:
    prelude = "import math\nn = input() if 0 else 3\n"
    assert verify("def add(a, b): return math.floor(a + b)", CALL, prelude=prelude).score == 1.0
    assert refused("import os\nos.write(3, b'P')\ndef add(a, b): 1 / 0", CALL, prelude=prelude) == "crashed"
    assert refused("import (", CALL, prelude=prelude) == "compile_error"
    finding = verify("def add(a, b):\n    return 1 / 0", CALL, prelude=prelude)
    assert "line 2" in finding.hints[0].text
    broken = verify("raise ValueError\n", CALL, prelude=prelude + "def late(): raise KeyError\n")
    assert "line 1" in broken.hints[0].text
