"""``code.tests`` against programs that know the judge: forged reports, bombs, tests turned against
themselves. Whatever they do is their own failure: score 0, never an acceptance, never an error."""

from __future__ import annotations

import resource
import time
from typing import Any

import pytest

from tiers.coding import speed
from tiers.fast.code_tests import CodeParams, CodeTests
from verifier_service.domain.evidence import Finding, Verdict
from verifier_service.domain.verifiers import CheckInput

BIG = 987_654_321_987_654
# Both pipes to the judge, which a program that is called or conversed with has in its own process.
PIPES = """
import os, json
def put(kind, body):
    data = kind + len(body).to_bytes(4, "big") + body
    while data:
        data = data[os.write(101, data):]
"""
REPORT = "exit=0 signal=0 wall=0.0 cpu={} peak={} over= out=0 err=0 note=0\\n"
FORGES = PIPES + "def seal(n):\n    put({kind!r}, {body})\n    while True: pass\n"


def verify(answer: str, tests: Any, params: dict[str, Any] | None = None, **inputs: Any) -> Finding:
    reference = tests if isinstance(tests, dict) else {"tests": tests}
    item = CheckInput(candidate=answer, inputs={"time_limit_s": 1.0, **inputs}, reference=reference)
    return CodeTests().verify(item, CodeParams.model_validate(params or {}))


def refused(answer: str, tests: Any, **inputs: Any) -> str:
    """The reason of a refusal, which must be one."""
    finding = verify(answer, tests, **inputs)
    assert (finding.verdict, finding.score) == (Verdict.REJECT, 0.0)
    finding.model_dump_json()
    assert finding.reason is not None
    return finding.reason.code


def called(expected: Any) -> list[Any]:
    return [{"call": "seal", "args": [5], "expected": expected}]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("def seal(n): return range(10**30)", [1, BIG]),
        ("from decimal import Decimal\ndef seal(n): return Decimal('sNaN')", BIG),
        ("from decimal import Decimal\ndef seal(n): return [Decimal('sNaN')]", [1.5]),
        ("def seal(n): return {1 << 40000: 1}", {"a": 1}),
    ],
)
def test_values_that_cannot_be_compared_are_wrong(answer: str, expected: Any) -> None:
    assert refused(answer, called(expected)) == "wrong_answer"


@pytest.mark.parametrize(
    ("cpu", "peak"), [("nan", "0"), ("1e400", "0"), ("0", "9" * 400), ("0", "-9"), ("-inf", "1")]
)
def test_a_forged_report_is_no_measurement(cpu: str, peak: str) -> None:
    body = "b'" + REPORT.format(cpu, peak) + "'"
    assert refused(FORGES.format(kind=b"T", body=body), called(BIG)) == "crashed"


@pytest.mark.parametrize(
    "body",
    [
        "('{\"s\":[' + ','.join(str(i * ((1 << 61) - 1)) for i in range(1, 30000)) + ']}').encode()",
        '(\'{"q":["Fraction",{"i":"%s"},{"i":"%s"}]}\' % ("f" * 500000, "e" * 499999)).encode()',
        "b'[' + b'[],' * (9 << 20) + b'[]]'",
    ],
)
def test_an_answer_cannot_hold_the_judge_up(body: str) -> None:
    started, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_utime
    refused(FORGES.format(kind=b"V", body=body), called([1, BIG]))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - before < 2.0
    assert time.monotonic() - started < 15.0


def test_who_speaks_out_of_turn_is_not_heard() -> None:
    flood = PIPES + "while True:\n    put(b'M', b'x' * (1 << 20))\ndef seal(n): return 1\n"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert refused(flood, ["def test_a():\n    x = seal(5)\n    assert x == 3"]) == "crashed"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10


def test_a_program_that_is_right_only_sometimes_is_not_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "ROUNDS", 40)
    answer = "import os\nif os.urandom(1)[0] & 1: print(7)\nelse: print(8)"
    tests = {"tests": [{"stdin": "", "stdout": "7"}], "solution": "print(7)"}
    assert [verify(answer, tests, {"score": "speed"}).score for _ in range(6)] == [0.0] * 6
