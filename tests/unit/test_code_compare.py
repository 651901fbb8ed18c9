"""Comparing what came out with what was expected, and carrying values between processes."""

from __future__ import annotations

import collections
import decimal
import enum
import fractions
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiers.coding.compare import NotData, decode, same_output, same_python, same_value
from tiers.sandbox.inside.values import TooBig, Writer


def carried(value: Any) -> Any:
    return decode(json.loads(Writer().write(value)))


@pytest.mark.parametrize(
    ("found", "expected", "tolerance", "same"),
    [
        ("7\n", "7", None, True),
        ("1 2 3 \r\n", "1 2 3", None, True),
        ("a\n\n\n", "a", None, True),
        ("a\n\nb", "a\nb", None, False),
        (" a", "a", None, False),
        ("a b", "a  b", None, False),
        ("7", "8", None, False),
        ("", "", None, True),
        ("0.333333", "0.333333333333", 1e-6, True),
        ("0.34", "0.333333333333", 1e-6, False),
        ("0.333333", "0.333333333333", None, False),
        ("1e3", "1000", 1e-9, True),
        ("nan", "nan", 1e-6, True),
        ("nan", "1", 1e-6, False),
        ("inf", "1e400", 1e-6, False),
        ("1_0", "10", 1e-6, False),
        ("0x10", "16", 1e-6, False),
        ("x 1.0", "x 1.0000001", 1e-6, True),
        ("y 1.0", "x 1.0", 1e-6, False),
        ("1\n2", "1 2", 1e-6, False),
        ("100000000", "100000050", 1e-6, False),
        ("1000000", "1000001", 1e-6, False),
        ("100000000", "100000050.0", 1e-6, True),
        ("100000000", "1.0000005e8", 1e-6, True),
        ("2.0", "2", 1e-6, True),
        ("2.0000000001", "2", 1e-6, False),
        ("٣", "3", 1e-6, False),
    ],
)
def test_output_is_compared_line_by_line(
    found: str, expected: str, tolerance: float | None, same: bool
) -> None:
    assert same_output(found, expected, tolerance) is same


@pytest.mark.parametrize(
    ("found", "expected", "same"),
    [
        (3, 3, True),
        (3.0, 3, True),
        (True, 1, False),
        (1, True, False),
        (True, True, True),
        (None, None, True),
        (0, None, False),
        (None, False, False),
        ("3", 3, False),
        ((1, 2), [1, 2], True),
        ([1, 2], [2, 1], False),
        ({1, 2}, [2, 1], True),
        ({1, 2}, [1, 1], False),
        (set(range(1000)), list(range(1000)), True),
        (set(range(1000)), list(range(1, 1001)), False),
        ({1: "a"}, {"1": "a"}, True),
        ({"1": "a", 1: "b"}, {"1": "a"}, False),
        ({"a": [1.0]}, {"a": [1]}, True),
        (0.1 + 0.2, 0.3, True),
        (0.3001, 0.3, False),
        (float("nan"), 1.0, False),
        (10**400, 10**400, True),
        (10**400 + 1, 10**400, False),
        (fractions.Fraction(1, 2), 0.5, True),
        (range(3), [0, 1, 2], True),
        (b"a", "a", False),
    ],
)
def test_returned_values_are_compared_as_json(found: Any, expected: Any, same: bool) -> None:
    assert same_value(carried(found), expected, None) is same


def test_integers_are_counted_and_not_measured() -> None:
    assert same_value(1_000_001, 1_000_001.5, 1e-6)
    assert same_value(2.0, 2, 1e-6)
    assert not same_value(1_000_000, 1_000_001, 1e-6)
    assert not same_value(1e-7, 0, 1e-6)
    assert same_value(1e-7, 0.0, 1e-6)


def test_a_tolerance_holds_for_every_number_inside() -> None:
    assert same_value([1.0, (2.0, {"a": 3.001})], [1.0, [2.0, {"a": 3.0}]], 1e-2)
    assert not same_value([1.0, (2.0, {"a": 3.1})], [1.0, [2.0, {"a": 3.0}]], 1e-2)


def test_assertions_compare_as_python_does() -> None:
    assert same_python(True, 1)
    assert same_python((1, 2), (1, 2))
    assert not same_python((1, 2), [1, 2])
    assert not same_python(float("nan"), float("nan"))


class Same:
    """Equal to everything."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


class Seven(int):
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = int.__hash__
    __repr__ = __str__ = lambda self: "42"


class Text(str):
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = str.__hash__
    __str__ = lambda self: "42"  # noqa: E731


class Liar:
    @property
    def __class__(self) -> type:  # type: ignore[override]
        return int

    def __index__(self) -> int:
        return 42

    __int__ = __index__


class Members(list[int]):
    def __iter__(self) -> Any:
        return iter([42])

    def __len__(self) -> int:
        return 1


class Color(enum.IntEnum):
    RED = 7


class Plain(enum.Enum):
    RED = 42


def test_objects_say_what_they_hold_and_not_what_they_claim() -> None:
    for value in (Same(), Liar(), Plain.RED, object(), len, Same):
        with pytest.raises(NotData):
            carried(value)
        with pytest.raises(NotData):
            carried([1, {"a": value}])
    assert carried(Seven(7)) == 7
    assert type(carried(Seven(7))) is int
    assert carried(Text("a")) == "a"
    assert carried(Members([1, 2, 3])) == [1, 2, 3]
    assert carried(Color.RED) == 7


Pair = collections.namedtuple("Pair", "a b")


def test_the_standard_library_s_containers_are_data() -> None:
    assert carried(collections.Counter("aab")) == {"a": 2, "b": 1}
    assert carried(collections.defaultdict(list, {1: [2]})) == {1: [2]}
    assert carried(collections.OrderedDict(a=1)) == {"a": 1}
    assert carried(collections.deque([1, 2])) == [1, 2]
    assert carried(Pair(1, 2)) == (1, 2)
    assert carried(decimal.Decimal("1.10")) == decimal.Decimal("1.10")
    assert carried(fractions.Fraction(-1, 3)) == fractions.Fraction(-1, 3)


scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(max_size=9)
    | st.binary(max_size=9)
)
hashable = st.deferred(
    lambda: st.recursive(
        scalars, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3), max_leaves=5
    )
)
values = st.deferred(
    lambda: st.recursive(
        hashable | st.complex_numbers(allow_nan=False) | st.sets(st.integers()),
        lambda inner: (
            st.lists(inner, max_size=4) | st.tuples(inner) | st.dictionaries(hashable, inner, max_size=4)
        ),
        max_leaves=20,
    )
)


@given(values)
def test_plain_values_arrive_as_they_were(value: Any) -> None:
    assert repr(carried(value)) == repr(value) or carried(value) == value
    assert type(carried(value)) is type(value)


def test_numbers_no_json_has_arrive_too() -> None:
    assert math.isnan(carried(float("nan")))
    assert carried(float("-inf")) == float("-inf")
    assert carried(9**9000) == 9**9000


def test_what_has_no_end_is_too_big() -> None:
    endless: list[Any] = []
    endless.append(endless)
    wide = "x" * 1_000
    with pytest.raises(TooBig):
        Writer().write(endless)
    with pytest.raises(TooBig):
        Writer(room=10_000).write([wide] * 11)


@pytest.mark.parametrize(
    "text",
    [
        '{"t":1}',
        '{"i":"zz"}',
        '{"x":1}',
        '{"o":"A"}',
        '{"h":[1,"A"]}',
        '{"y":1}',
        "{}",
        '{"t":[],"s":[]}',
        '{"s":[[1]]}',
        '{"q":["Fraction",1,0]}',
        '{"q":["Decimal","x"]}',
        '{"b":"0"}',
        '{"d":[1]}',
        '{"r":[1,2,0]}',
        '{"c":[1]}',
    ],
)
def test_a_forged_value_is_no_value(text: str) -> None:
    if text == '{"c":[1]}':
        assert decode(json.loads(text)) == 1
        return
    with pytest.raises(NotData):
        decode(json.loads(text))
