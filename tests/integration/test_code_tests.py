"""``code.tests`` on real programs: forms of tests, ways to fail, other languages, a remote sandbox."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psutil
import pytest

from tiers.fast.code_tests import CodeParams, CodeTests
from tiers.sandbox import probe
from tiers.sandbox.box import Limits
from tiers.sandbox.languages import declared
from tiers.sandbox.workshop import LocalWorkshop, Program
from verifier_service.domain.errors import Resource, TaskError, Transient
from verifier_service.domain.evidence import Finding, Verdict
from verifier_service.domain.verifiers import CheckInput

ROOT = Path(__file__).resolve().parents[2]
ADD = "def add(a, b):\n    return a + b\n"
SAME = """class Same:
    def __eq__(self, o): return True
    def __sub__(self, o): return self
    __rsub__ = __sub__
    def __abs__(self): return 0.0
    def __bool__(self): return True
    def __lt__(self, o): return True
    __gt__ = __le__ = __ge__ = __contains__ = __lt__
def add(a, b):
    return Same()
"""
SUM = [{"stdin": "3 4\n", "stdout": "7"}, {"stdin": "10 -2\n", "stdout": "8"}]


def verify(answer: Any, tests: Any, params: dict[str, Any] | None = None, **inputs: Any) -> Finding:
    reference = tests if isinstance(tests, dict) and "inputs" not in tests else {"tests": tests}
    item = CheckInput(candidate=answer, inputs=inputs, reference=reference)
    return CodeTests().verify(item, CodeParams.model_validate(params or {}))


def code(finding: Finding) -> str:
    return finding.reason.code if finding.reason is not None else ""


def test_right_programs_pass_in_every_form_of_test() -> None:
    forms: list[Any] = [
        ["assert add(1, 2) == 3"],
        "assert add(1, 2) == 3\nassert add('a', 'b') == 'ab'",
        [{"call": "add", "args": [1, 2], "expected": 3}],
        [{"call": "add", "kwargs": {"a": 1, "b": 2}, "expected": 3}],
        {"inputs": [[1, 2]], "outputs": [[3]], "fn_name": "add"},
        "def test_add():\n    for n in range(5):\n        assert add(n, n) == 2 * n\n",
        "def check(candidate):\n    assert candidate(1, 2) == 3\n",
        "import unittest\nclass T(unittest.TestCase):\n"
        "    def test_a(self): self.assertEqual(add(1, 2), 3)\n",
        "from solution import add as plus\nassert plus(1, 2) == 3",
        "import solution\nassert solution.add(1, 2) == 3",
    ]
    for tests in forms:
        finding = verify(ADD, tests, entry_point="add")
        assert (finding.verdict, finding.score) == (Verdict.ACCEPT, 1.0), (tests, finding)


def test_an_object_that_equals_everything_is_never_right() -> None:
    forms: list[Any] = [
        ["assert add(1, 2) == 3"],
        [{"call": "add", "args": [1, 2], "expected": 3}],
        ["assert abs(add(1, 2) - 3) < 1e-6"],
        ["assert abs(3 - add(1, 2)) < 1e-6"],
        ["x = add(1, 2)\nassert x == 3"],
        ["assert 3 == add(1, 2)"],
        ["assert add(1, 2) in [3]"],
        ["assert add(1, 2) <= 3"],
        ["assert 3 in add(1, 2)"],
        ["import math\nassert math.isclose(add(1, 2), 3)"],
        ["assert [add(1, 2)] == [3]"],
        ["assert {'a': add(1, 2)} == {'a': 3}"],
        ["assert not add(1, 2) != 3"],
        "def check(candidate):\n    assert candidate(1, 2) == 3\n",
        "import unittest\nclass T(unittest.TestCase):\n"
        "    def test_a(self): self.assertAlmostEqual(add(1, 2), 3)\n",
    ]
    for tests in forms:
        finding = verify(SAME, tests, entry_point="add")
        assert (finding.verdict, finding.score) == (Verdict.REJECT, 0.0), (tests, finding)


def test_every_test_is_told_with_time_and_memory() -> None:
    tests = [{"id": "good", "stdin": "1", "stdout": "1"}, {"id": "bad", "stdin": "2", "stdout": "1"}]
    finding = verify("print(input())", tests)
    assert code(finding) == "wrong_answer"
    [artifact] = finding.artifacts
    rows = artifact["tests"]
    assert [(row["id"], row["result"]) for row in rows] == [("good", "passed"), ("bad", "wrong_answer")]
    assert all(row["runtime_s"] > 0 and row["memory_mb"] > 1 for row in rows)
    assert {each.quantity for each in finding.measurements} == {"runtime", "peak_memory"}
    assert finding.features == {"characters": 14.0, "lines": 1.0, "passed_fraction": 0.5}


@pytest.mark.parametrize(
    ("answer", "tests", "reason"),
    [
        ("def add(a, b): return a - b", ["assert add(1, 2) == 3"], "wrong_answer"),
        ("def plus(a, b): return a + b", ["assert add(1, 2) == 3"], "no_such_function"),
        ("def plus(a, b): return a + b", ["assert round(add(1, 2)) == 3"], "no_such_function"),
        ("def add(a, b): return 1 / 0", ["assert add(1, 2) == 3"], "crashed"),
        ("def add(a, b): import os; os._exit(0)", ["assert add(1, 2) == 3"], "crashed"),
        ("def add(a, b): raise SystemExit(0)", ["assert round(add(1, 2)) == 3"], "crashed"),
        ("import os\nos._exit(0)", ["assert round(add(1, 2)) == 3"], "crashed"),
        ("def add(a, b): return object()", [{"call": "add", "args": [1, 2], "expected": 3}], "not_data"),
        ("def add(a, b):\n while True: pass", ["assert add(1, 2) == 3"], "time_limit"),
        ("def add(a, b):\n while True: pass", ["assert round(add(1, 2)) == 3"], "time_limit"),
        ("def add(a, b): return [0] * 10**10", ["assert add(1, 2) == 3"], "memory_limit"),
        ("def add(a, b): return 'x' * 10**8", ["assert add(1, 2) == 3"], "output_limit"),
        ("def items(): return []", ["for x in items(): assert x > 0"], "nothing_checked"),
        ("print(1", [{"stdout": "1"}], "compile_error"),
        ("", [{"stdout": "1"}], "empty_answer"),
        (None, [{"stdout": "1"}], "empty_answer"),
        ({"code": "print(1)"}, [{"stdout": "1"}], "not_text"),
        ("#" * 300_000, [{"stdout": "1"}], "too_large"),
        ("while True: print(1)", [{"stdout": "1"}], "output_limit"),
    ],
)
def test_every_way_to_fail_has_its_name(answer: Any, tests: Any, reason: str) -> None:
    finding = verify(answer, tests, time_limit_s=1.0)
    assert (finding.verdict, finding.score, code(finding)) == (Verdict.REJECT, 0.0, reason)


def test_hints_say_what_happened_and_nothing_of_the_tests() -> None:
    secret = "817263545"
    answer = "def f(x):\n    y = x\n    raise ValueError(y)\n"
    finding = verify(answer, [{"call": "f", "args": [secret], "expected": secret}])
    assert secret not in finding.model_dump_json()
    assert any("ValueError in line 3" in hint.text for hint in finding.hints)


@pytest.mark.parametrize(
    ("reference", "inputs", "reason"),
    [
        ({}, {}, "no_tests"),
        ({"tests": ["x = 1"]}, {}, "no_tests"),
        ({"tests": ["assert undefined_helper(add(1, 2))"]}, {}, ""),
        ({"tests": ["import no_such_module\nassert add(1, 2) == 3"]}, {}, "bad_tests"),
        ({"tests": ["class C(Base): pass\nassert C().x == 1"]}, {}, "bad_tests"),
        ({"tests": [{"stdout": "1"}]}, {"time_limit_s": -1}, "bad_inputs"),
        ({"tests": [{"stdout": "1"}]}, {"time_limit_s": "1"}, "bad_inputs"),
        ({"tests": [{"stdout": "1"}]}, {"memory_mb": 10**9}, "bad_inputs"),
        ({"tests": [{"stdout": "1"}]}, {"float_tolerance": float(2)}, "bad_inputs"),
        ({"tests": [{"stdout": "1"}]}, {"language": 5}, "bad_inputs"),
        ({"tests": [{"stdout": "1"}], "solution": 5}, {}, "bad_solution"),
    ],
)
def test_a_broken_task_scores_nobody(
    reference: dict[str, Any], inputs: dict[str, Any], reason: str
) -> None:
    answer = ADD + "class Base: x = 1\n"
    if not reason:
        assert code(verify(answer, reference, **inputs)) == "no_such_function"
        return
    with pytest.raises(TaskError) as raised:
        verify(answer, reference, **inputs)
    assert raised.value.code == reason


def test_the_share_of_passed_tests_may_be_the_score() -> None:
    tests = [{"stdin": str(n), "stdout": str(max(n, 2))} for n in range(4)]
    assert verify("print(input())", tests, {"score": "fraction"}).score == 0.5
    assert verify("print(input())", tests).score == 0.0


def test_speed_is_measured_against_the_reference_in_the_same_run() -> None:
    slow = "def f(n):\n    return sum(x * x for x in range(n))\n"
    fast = "def f(n):\n    return (n - 1) * n * (2 * n - 1) // 6\n"
    calls = [
        {"call": "f", "args": [300_000 + n], "expected": eval(f"sum(x*x for x in range(300_000+{n}))")}
        for n in (0, 1)
    ]
    crawling = verify(slow, {"tests": calls, "solution": fast}, {"score": "speed"})
    # A machine that others use may slow one of two equal programs down, but hardly five times running.
    equals = (verify(slow, {"tests": calls, "solution": slow}, {"score": "speed"}) for _ in range(5))
    better = verify(fast, {"tests": calls, "solution": slow}, {"score": "speed"})
    wrong = verify("def f(n): return 0", {"tests": calls, "solution": slow}, {"score": "speed"})
    assert crawling.verdict is Verdict.ACCEPT
    assert (crawling.score or 0.0) < 0.5
    assert any((equal.score or 0.0) > 0.5 for equal in equals)
    assert (better.score, wrong.score) == (1.0, 0.0)
    assert {each.quantity: each for each in better.measurements}["speedup"].value > 2.0
    with pytest.raises(TaskError, match="no reference"):
        verify(slow, calls, {"score": "speed"})
    with pytest.raises(TaskError, match="does not pass its own tests"):
        verify(slow, {"tests": calls, "solution": "def f(n): return 1"}, {"score": "speed"})


SPIN = "import time\nwhile time.process_time() < 0.6: pass\n"
CALLED = "def f():\n    import time\n    while time.process_time() < 0.6: pass\n    return 1"
CHARGED = """
import ctypes, json, resource, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # as in a child of the harness, orphans come back to this process
from tests.integration.test_code_tests import verify
answer, tests, limit_s = json.loads(sys.argv[1])
verify(answer, tests, time_limit_s=limit_s)
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
print(usage.ru_utime + usage.ru_stime)
"""


@pytest.mark.parametrize(
    ("answer", "tests", "limit_s"),
    [
        (SPIN + "print(1)", [{"stdout": "1"}], 5.0),
        (CALLED, ["assert f() == 1"], 5.0),
        (CALLED, ["assert round(f()) == 1"], 5.0),
        ("while True: pass", [{"stdout": "1"}], 0.6),
        ("def f():\n    while True: pass", ["assert f() == 1"], 0.6),
        ("def f():\n    while True: pass", ["assert round(f()) == 1"], 0.6),
        ("import os\nos.fork()\n" + SPIN + "print(1)", [{"stdout": "1"}], 5.0),
    ],
)
def test_what_a_program_uses_is_charged(answer: str, tests: Any, limit_s: float) -> None:
    """The harness reads what its child's ended children used: it has to reach the child."""
    asked = json.dumps([answer, tests, limit_s])
    ended = subprocess.run(
        [sys.executable, "-c", CHARGED, asked], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert float(ended.stdout) > 0.3


SLEEPER = "import time\ndef f(): time.sleep(9)\nif __name__ == '__main__': f()"


def test_a_sandbox_that_is_killed_from_outside_is_no_verdict() -> None:
    def kill() -> None:
        until = time.monotonic() + 20.0
        while time.monotonic() < until:
            for process in psutil.Process().children():
                if process.name() == "bwrap" and len(process.children(recursive=True)) > 2:
                    process.kill()
                    return
            time.sleep(0.02)

    for tests in ([{"stdout": "1"}], ["assert f() == 1"], ["assert round(f()) == 1"]):
        killer = threading.Thread(target=kill)
        killer.start()
        try:
            with pytest.raises(Transient):
                verify(
                    "import time\ndef f(): time.sleep(9)\nif __name__ == '__main__': f()",
                    tests,
                    time_limit_s=9.0,
                )
        finally:
            killer.join()


SOURCES = {
    "c": '#include <stdio.h>\nint main(){int a,b;scanf("%d %d",&a,&b);printf("%d\\n",a+b);}',
    "cpp": "#include <iostream>\nint main(){int a,b;std::cin>>a>>b;std::cout<<a+b;}",
    "perl": 'my ($a, $b) = split " ", <STDIN>; print $a + $b;',
    "bash": "read a b; echo $((a + b))",
    "javascript": 'const [a,b]=require("fs").readFileSync("/dev/stdin","utf8").split(" ").map(Number);'
    "console.log(a+b)",
}


@pytest.fixture
def languages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERIFIER_LANGUAGES", json.dumps(list(SOURCES)))
    declared.cache_clear()


@pytest.mark.usefixtures("languages")
@pytest.mark.parametrize("language", SOURCES)
def test_other_languages_where_the_worker_declares_them(language: str) -> None:
    assert verify(SOURCES[language], SUM, language=language).score == 1.0
    wrong = verify(SOURCES[language].replace("+", "-"), SUM, language=language)
    assert (wrong.score, code(wrong) in ("wrong_answer", "crashed")) == (0.0, True)


@pytest.mark.usefixtures("languages")
def test_a_compiled_program_fails_under_the_same_names() -> None:
    broken = verify("int main(){ return x; }", SUM, language="c")
    assert code(broken) == "compile_error"
    assert "x" in broken.hints[0].text
    assert "/tmp" not in broken.hints[0].text
    assert code(verify("int main(){for(;;);}", SUM, language="c", time_limit_s=0.5)) == "time_limit"
    hungry = "#include <stdlib.h>\n#include <string.h>\nint main(){for(;;) memset(malloc(1<<24),1,1<<24);}"
    assert code(verify(hungry, SUM, language="c", time_limit_s=5.0)) == "memory_limit"
    with pytest.raises(TaskError, match="stdin and stdout only"):
        verify("int main(){}", ["assert f(1) == 1"], language="c")


def test_a_language_that_is_not_declared_is_the_worker_s_lack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VERIFIER_LANGUAGES", raising=False)
    declared.cache_clear()
    with pytest.raises(Resource, match="VERIFIER_LANGUAGES"):
        verify("fn main() {}", SUM, language="rust")


class Service(BaseHTTPRequestHandler):
    """Runs programs over HTTP in the manner of SandboxFusion, in this machine's own sandbox."""

    trouble: str = ""
    asked: list[dict[str, Any]] = []

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append({**request, "key": self.headers.get("Authorization")})
        body = self.trouble.encode() or json.dumps(self._run(request)).encode()
        self.send_response(500 if self.trouble == "500" else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _run(self, request: dict[str, Any]) -> dict[str, Any]:
        program = Program(request["code"], declared("[]")["python"])
        limits = Limits(request["run_timeout"], request["memory_limit_MB"])
        with LocalWorkshop(probe.find("auto"), program, limits.memory_mb) as workshop:
            run = workshop.run(request["stdin"].encode(), limits)
        result = {
            "status": "TimeLimitExceeded" if run.ending == "time_limit" else "Finished",
            "execution_time": run.wall_s,
            "return_code": run.exit,
            "stdout": run.out.decode(),
            "stderr": run.err.decode(),
        }
        good = run.exit == 0 and run.ending == "ended"
        return {"status": "Success" if good else "Failed", "compile_result": None, "run_result": result}

    def log_message(self, *_: Any) -> None:
        """Silence."""


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Service]]:
    probe.find("auto")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("VERIFIER_SANDBOX", "remote")
    monkeypatch.setenv("VERIFIER_SANDBOX_URL", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("VERIFIER_SANDBOX_KEY", "sesame")
    monkeypatch.setattr(Service, "trouble", "")
    monkeypatch.setattr(Service, "asked", [])
    yield Service
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_remote_service_runs_programs_and_never_sees_what_is_expected(service: type[Service]) -> None:
    assert CodeTests().unavailable() is None
    assert verify("a, b = map(int, input().split())\nprint(a + b)", SUM).score == 1.0
    assert verify(ADD, [{"call": "add", "args": [1, 2], "expected": 3}]).score == 1.0
    assert code(verify(ADD, [{"call": "add", "args": [1, 2], "expected": 40_404}])) == "wrong_answer"
    assert code(verify("while True: pass", SUM[:1], time_limit_s=0.5)) == "time_limit"
    assert code(verify("print(1 / 0)", SUM)) == "crashed"
    assert all("40404" not in json.dumps(each) for each in service.asked)
    assert {each["key"] for each in service.asked} == {"Bearer sesame"}


NOT_BUILT = {"compile_result": {"status": "Error", "return_code": 1, "stderr": "no space left"}}


@pytest.mark.parametrize(
    "trouble",
    [
        *("500", "nonsense", "[]", "{}", '{"status": "SandboxError"}'),
        json.dumps({"status": "SandboxError", **NOT_BUILT}),
        json.dumps({"status": "Failed", **NOT_BUILT}),
        '{"status": "Failed"}',
    ],
)
def test_a_remote_service_in_trouble_is_no_verdict(service: type[Service], trouble: str) -> None:
    service.trouble = trouble
    with pytest.raises(Transient):
        verify("print(1)", SUM)


def test_a_remote_service_that_is_gone_is_no_verdict(
    service: type[Service], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VERIFIER_SANDBOX_URL", "http://127.0.0.1:9")
    with pytest.raises(Transient):
        verify("print(1)", SUM)
