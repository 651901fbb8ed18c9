"""Final answers in mathematics over HTTP, through the shipped ladder ``math``."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.support import server
from tests.support.server import fresh, submit


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with server.shared().client() as client:
        yield client


def item(gold: object, answer: object, **inputs: Any) -> dict[str, Any]:
    """One trajectory of the ladder ``math``."""
    problem = {"prompt": "?", "reference": {"answer": gold}, "inputs": inputs}
    return {"id": fresh("m"), "ladder": "math", "answer": answer, "problem": problem}


def boxed(gold: object, answer: str, **inputs: Any) -> dict[str, Any]:
    return item(gold, f"\\boxed{{{answer}}}", **inputs)


def details(client: httpx.Client, *items: dict[str, Any]) -> list[str | None]:
    """``None`` where the reward is 1, else the named outcome; every record is final."""
    results = submit(client, fresh(), *items)
    assert [result["status"] for result in results] == ["accepted"] * len(items), results
    found: list[str | None] = []
    for result in results:
        record = result["reward"]
        if record["status"] == "unscored":
            assert record["reward"] is None
            found.append(record["reason"]["code"])
            continue
        assert record["status"] == "final"
        assert record["reward"] in (0.0, 1.0)
        found.append(None if record["reward"] == 1.0 else record["reason"]["detail"])
    return found


WRONG = "wrong_answer"


def test_math_01_tiny_values(client: httpx.Client) -> None:
    pairs = [
        (r"$\frac{1}{2004!}$", r"\frac{1}{2006!}"),
        (r"$\frac{1}{2^{99}}$", r"\frac{1}{2^{98}}"),
        ("$10^{-20}$", "10^{-21}"),
        (r"$\frac{2^{2005}+1}{3\cdot 2^{2006}}$", r"\frac{1}{3\cdot 2^{2006}}"),
        (r"e^{-200}", "0"),
        (r"\frac{1}{3^{500}}", r"\frac{2}{3^{500}}"),
        (r"1-10^{-60}", "1"),
        (r"\frac{1}{1000!}", r"-\frac{1}{1000!}"),
    ]
    assert details(client, *[boxed(gold, answer) for gold, answer in pairs]) == [WRONG] * len(pairs)
    assert details(client, *[boxed(gold, gold) for gold, _ in pairs]) == [None] * len(pairs)


def test_math_04_fifty_at_once(client: httpx.Client) -> None:
    answers = (r"\frac12", r"\frac{\sqrt4}{4}", r"\sin 30^\circ", "50\\%")

    def one(place: int) -> list[str | None]:
        return details(client, boxed("0.5", answers[place % len(answers)]))

    with ThreadPoolExecutor(50) as pool:
        assert list(pool.map(one, range(50))) == [[None]] * 50


def test_math_06_no_box(client: httpx.Client) -> None:
    cases: list[tuple[dict[str, Any], str | None]] = [
        (item("42", "I considered 42 but the final answer is 7."), "no_final_answer"),
        (item("42", "42"), "no_final_answer"),
        (item("42", "42", unboxed="accept"), None),
        (item("42", "I considered 42 but the final answer is 7.", unboxed="accept"), "no_final_answer"),
        (item("42", "\\boxed{}"), "empty_answer"),
        (item("42", "#### "), "empty_answer"),
        (item("42", "not 41, not 43, 42 perhaps", unboxed="accept"), "no_final_answer"),
        (item("42", None), "empty_answer"),
    ]
    assert details(client, *[case for case, _ in cases]) == [expected for _, expected in cases]


def test_math_08_percent(client: httpx.Client) -> None:
    cases: list[tuple[dict[str, Any], str | None]] = [
        (boxed("28\\%", "0.28"), None),
        (boxed("28\\%", "28", unit="percent"), None),
        (boxed("28\\%", "28"), WRONG),
        (boxed("0.28", "28"), WRONG),
        (boxed("50\\%", "\\frac12"), None),
        (boxed("7", "700\\%"), None),
        (boxed("7", "7\\%"), WRONG),
        (boxed("12.5\\%", "\\frac18"), None),
        (boxed("0.5", "50", unit="percent"), WRONG),
    ]
    assert details(client, *[case for case, _ in cases]) == [expected for _, expected in cases]


def test_math_10_intervals_sets_order(client: httpx.Client) -> None:
    rows: list[tuple[str, str, dict[str, Any], bool]] = [
        ("(0,12.5)", "0<x<12.5", {}, True),
        ("x<3", "(-\\infty,3)", {}, True),
        ("[1,3]", "(1,3)", {}, False),
        ("\\{1,3\\}", "\\{3,1\\}", {}, True),
        ("(1,3)", "(3,1)", {"answer_type": "point"}, False),
        ("2x+4y-3=0", "y=-\\frac12 x+\\frac34", {}, True),
        (
            "\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}",
            "\\begin{pmatrix}1&3\\\\2&4\\end{pmatrix}",
            {},
            False,
        ),
        ("[2,\\infty)", "x\\ge2", {}, True),
        ("x\\ne1", "(-\\infty,1)\\cup(1,\\infty)", {}, True),
        ("\\{1,2,3\\}", "\\{1,2\\}", {}, False),
        ("(1,2,3)", "(3,2,1)", {}, False),
        ("x^2+y^2=4", "4-y^2=x^2", {}, True),
        ("x^2+y^2=4", "x^2+y^2=2", {}, False),
    ]
    for flip in (False, True):
        sent = [boxed(b, a, **inputs) if flip else boxed(a, b, **inputs) for a, b, inputs, _ in rows]
        assert [detail is None for detail in details(client, *sent)] == [right for *_, right in rows]


def test_math_12_long_text_after_the_answer(client: httpx.Client) -> None:
    tail = " and the check above agrees." * 20
    cases: list[tuple[dict[str, Any], str | None]] = [
        (item("42", "2+40=42\n#### 42\n" + tail), None),
        (item("42", "\\boxed{42}" + tail * 100), None),
        (item("42", "#### 42\n" + tail + "\n#### 41\n"), WRONG),
        (item("42", tail * 100 + "\\boxed{42} is the answer, not 41." + tail), None),
    ]
    assert details(client, *[case for case, _ in cases]) == [expected for _, expected in cases]


def test_hedges_towers_and_bad_references(client: httpx.Client) -> None:
    cases: list[tuple[dict[str, Any], str | None]] = [
        (item("5", "\\boxed{3} or \\boxed{5}"), "hedged_answer"),
        (boxed("3", "3 \\text{ or } 5"), "hedged_answer"),
        (boxed("3", "9^{9^{9^9}}"), "too_large"),
        (boxed("3", "\\input{/etc/passwd}"), "unparsable"),
        (boxed("3", "1/0"), "undefined"),
        (boxed("\\frac{1}{", "3"), "task_error"),
        (boxed("", "3"), "task_error"),
        (boxed("9^{9^{9^9}}", "3"), "task_error"),
        (boxed("3", "3"), None),
    ]
    assert details(client, *[case for case, _ in cases]) == [expected for _, expected in cases]
