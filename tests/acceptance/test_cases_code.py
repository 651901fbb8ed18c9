"""Programs over HTTP, through the shipped ladder: what fooled other judges, what they refused wrongly."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support import server
from tests.support.server import fresh, patience, submit


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with server.shared().client() as client:
        yield client


def program(answer: Any, tests: Any = None, **fields: Any) -> dict[str, Any]:
    reference = fields.pop("reference", None) or ({} if tests is None else {"tests": tests})
    inputs = {"time_limit_s": 1.0, **fields}
    return {
        "id": fresh("p"),
        "ladder": "code",
        "answer": answer,
        "problem": {"inputs": inputs, "reference": reference},
    }


def judged(client: httpx.Client, *items: dict[str, Any]) -> list[dict[str, Any]]:
    results = submit(client, fresh(), *items, seconds=min(120.0, patience(60.0)))
    assert [result["status"] for result in results] == ["accepted"] * len(items), results
    return [result["reward"] for result in results]


def verdicts(client: httpx.Client, *items: dict[str, Any]) -> list[str]:
    """``accept``, the named reason of a zero, or the code and detail of a null."""
    told = []
    for record in judged(client, *items):
        if record["reward"] is None:
            told.append(f"null:{record['reason']['code']}:{record['reason']['detail']}")
        elif record["reward"] == 1.0:
            told.append("accept")
        else:
            assert record["reward"] == 0.0
            told.append(record["reason"]["detail"])
    return told


ADD = "def add(a, b): return a + b\n"
SAME = """class Same:
    def __eq__(self, o): return True
    def __sub__(self, o): return self
    def __abs__(self): return 0.0
    def __bool__(self): return True
def add(a, b):
    return Same()
"""
LIAR = """class Liar(float):
    def __eq__(self, o): return True
    __ne__ = lambda self, o: False
    __hash__ = float.__hash__
    @property
    def __class__(self): return int
def add(a, b): return Liar(99)
"""
SNEAK = """import builtins
class Sneak(int):
    __eq__ = __le__ = __ge__ = lambda *_: True
    __hash__ = int.__hash__
    def __repr__(self): return '99'
    __str__ = __repr__
builtins.int = Sneak
def add(a, b): return Sneak(-1)
"""
META = """class Always(type):
    def __eq__(cls, o): return True
    def __instancecheck__(cls, o): return True
    __hash__ = type.__hash__
class add(metaclass=Always):
    def __new__(cls, a, b): return cls
"""


def test_objects_that_equal_everything(client: httpx.Client) -> None:
    forms: list[Any] = [
        "assert add(1,2)==3",
        [{"call": "add", "args": [1, 2], "expected": 3}],
        ["assert abs(add(1, 2) - 3) < 1e-9"],
    ]
    items = [program(answer, tests) for answer in (SAME, LIAR, SNEAK, META) for tests in forms]
    assert set(verdicts(client, *items)) <= {"not_data", "wrong_answer", "crashed"}
    assert verdicts(client, *[program(ADD, tests) for tests in forms]) == ["accept"] * 3


def test_programs_that_do_not_end(client: httpx.Client) -> None:
    swallowing = (
        "import signal\n"
        "for s in (signal.SIGTERM, signal.SIGALRM, signal.SIGINT): signal.signal(s, signal.SIG_IGN)\n"
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass\n"
    )
    endless = [
        swallowing,
        "import re\nre.match(r'(a+)+$', 'a'*40+'b')\n",
        "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)\n",
        "import threading, time\nthreading.Thread(target=time.sleep, args=(99,)).start()\n",
        "x = 10**10**8\n",
        "import os\nif os.fork(): os.wait()\nos.setsid()\nwhile True: pass\n",
    ]
    tests = [{"stdin": "", "stdout": "x"}]
    assert verdicts(client, *[program(each, tests) for each in endless]) == ["time_limit"] * 6
    assert verdicts(client, program(ADD, "assert add(1,2)==3")) == ["accept"]


def test_programs_that_want_the_whole_machine(client: httpx.Client) -> None:
    tests = [{"stdin": "", "stdout": "x"}]
    hungry = [
        "x=[]\nwhile True: x.append(bytearray(64*1024*1024))\n",
        "x = 'a'\nwhile True: x += x\n",
        "x = [0]\nwhile True: x = x * 2\n",
        "import mmap\nx = [mmap.mmap(-1, 1 << 26) for _ in range(10**6)]\n",
    ]
    found = verdicts(client, *[program(each, tests, time_limit_s=10.0) for each in hungry])
    assert found[:3] == ["memory_limit"] * 3
    assert found[3] in ("memory_limit", "crashed")
    disk = [
        "open('big.bin','wb').truncate(10**13)\n",
        "with open('big', 'wb') as f:\n    while True: f.write(b'x' * (1 << 20))\n",
        "for n in range(10**6): open(f'f{n}', 'wb').write(b'x' * (1 << 22))\n",
        "import os\nwhile True: os.write(1, b'x' * 65536)\n",
    ]
    found = verdicts(client, *[program(each, tests, time_limit_s=5.0) for each in disk])
    assert found == ["crashed", "crashed", "crashed", "output_limit"]
    assert verdicts(client, program(ADD, "assert add(1,2)==3")) == ["accept"]


def test_right_programs_that_judges_refuse(client: httpx.Client) -> None:
    def stdio(answer: str, stdout: str, stdin: str = "", tolerance: float | None = None) -> dict[str, Any]:
        more = {} if tolerance is None else {"float_tolerance": tolerance}
        return program(answer, [{"stdin": stdin, "stdout": stdout}], **more)

    right = [
        stdio("print('0.333333')", "0.333333333333", tolerance=1e-6),
        stdio("import sys\nsys.stdout.buffer.write(b'7\\n')", "7"),
        stdio("print(10**5000)", "1" + "0" * 5000),
        stdio("print('1 2 3 ',end='\\r\\n')", "1 2 3"),
        stdio("import sys\nprint(sys.stdin.read().strip())", "na\u00efve \u96ea", "na\u00efve \u96ea\n"),
        stdio("import os\nos.write(1, b'7')", "7\n"),
        stdio("print(*map(int, open(0)), sep='\\n')", "1\n2\n", "1\n2\n"),
        stdio("print(sum(map(int, open('/dev/stdin').read().split())))", "6", "1 2 3"),
        stdio(
            "import sys\nsys.setrecursionlimit(10**6)\ndef f(n): return n and 1 + f(n - 1)\nprint(f(9000))",
            "9000",
        ),
        stdio("print(7)\nexit(0)", "7"),
        stdio("print(7, flush=True)\nimport os\nos._exit(0)", "7"),
        stdio("Here it is:\n```python\nprint(7)\n```\nDone.", "7"),
        stdio("print('1e-3')", "0.001", tolerance=1e-9),
        stdio("print(int('9' * 6000) + 1)", "1" + "0" * 6000),
    ]
    wrong = [
        stdio("print('0.34')", "0.333333333333", tolerance=1e-6),
        stdio("print('0.333333')", "0.333333333333"),
        stdio("print('1 2 3 4')", "1 2 3"),
        stdio("print('1\\n2 3')", "1 2 3"),
        stdio("print('nan')", "0.5", tolerance=1e-6),
    ]
    assert verdicts(client, *right) == ["accept"] * len(right)
    assert verdicts(client, *wrong) == ["wrong_answer"] * len(wrong)


def test_a_task_without_tests_scores_nobody(client: httpx.Client) -> None:
    encoded = base64.b64encode(b"[]").decode()
    broken = [
        program("def add(a,b): return a+b\n", []),
        program("x=1", reference={"tests_b64": "!!!notbase64"}),
        program("x=1", ["x = 1  # no assert"]),
        program("x=1"),
        program("x=1", ""),
        program("x=1", {"inputs": [], "outputs": []}),
        program("x=1", reference={"tests_b64": encoded}),
        program("x=1", ["def test_nothing():\n    pass\n"]),
        program("x=1", [{"call": "f", "args": []}]),
        program("", []),
    ]
    assert verdicts(client, *broken) == ["null:task_error:no_tests"] * len(broken)


def test_the_case_shows_every_test_and_hides_what_was_expected(client: httpx.Client) -> None:
    run, secret = fresh(), "8172635449"
    item = program("print(input())", [{"id": "first", "stdin": secret, "stdout": secret + "1"}])
    submit(client, run, item)
    case = client.get(f"/v1/runs/{run}/trajectories/{item['id']}").json()
    reader = client.post("/v1/keys", json={"name": fresh("k"), "scopes": ["read"]}).json()["token"]
    seen = client.get(
        f"/v1/runs/{run}/trajectories/{item['id']}", headers={"Authorization": f"Bearer {reader}"}
    ).text
    [demand] = case["demands"]
    [row] = demand["check"]["evidence"]["artifacts"][0]["tests"]
    assert (row["id"], row["result"]) == ("first", "wrong_answer")
    assert secret not in seen
