"""GAE: by hand, against sums written out, and unmoved by what is masked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from verifier_service.trainers.gae import gae, turn_gae
from verifier_service.trainers.spans import Span, turn_spans

Array = NDArray[Any]


def test_by_hand() -> None:
    """gamma 0.5, lambda 0.5: deltas 0.5*2-1 = 0, 0.5*3-2 = -0.5, 4-3 = 1; A = 0 + ..., backwards."""
    found = gae([[0.0, 0.0, 4.0]], [[1.0, 2.0, 3.0]], [[1, 1, 1]], gamma=0.5, lam=0.5)
    assert found.advantages.tolist() == [[-0.0625, -0.25, 1.0]]
    assert found.returns.tolist() == [[0.9375, 1.75, 4.0]]
    assert found.value_mask.tolist() == [[True] * 3]


def test_a_sequence_that_was_cut_off_is_worth_something_after_its_end() -> None:
    ended = gae([[0.0]], [[1.0]], [[1]], gamma=0.5)
    cut = gae([[0.0]], [[1.0]], [[1]], gamma=0.5, bootstrap=[8.0])
    assert (ended.advantages[0, 0], cut.advantages[0, 0]) == (-1.0, 3.0)


def test_the_step_after_a_turn_is_the_next_turn() -> None:
    """Observations of any length between two turns change nothing."""
    mask = [[1, 1, 0, 0, 0, 1, 0]]
    rewards = [[0.0, 1.0, np.nan, 9.0, 9.0, 2.0, np.inf]]
    values = [[0.5, 0.25, np.nan, 7.0, 7.0, 0.75, -np.inf]]
    found = gae(rewards, values, mask, gamma=0.9, lam=0.8)
    short = gae([[0.0, 1.0, 2.0]], [[0.5, 0.25, 0.75]], [[1, 1, 1]], gamma=0.9, lam=0.8)
    assert found.advantages[0, [0, 1, 5]] == pytest.approx(short.advantages[0])
    assert found.advantages[0, [2, 3, 4, 6]].tolist() == [0.0] * 4
    assert found.returns[0, [2, 3, 4, 6]].tolist() == [0.0] * 4


def written_out(rewards: Array, values: Array, gamma: float, lam: float, after: float) -> list[float]:
    """Eq. 11 and 16 as a double sum, without any recursion."""
    nexts = [*values, after][1:]
    deltas = [r + gamma * n - v for r, n, v in zip(rewards, nexts, values, strict=True)]
    return [
        sum((gamma * lam) ** (s - t) * deltas[s] for s in range(t, len(deltas))) for t in range(len(deltas))
    ]


NUMBERS = st.floats(-3, 3)


@st.composite
def batches(draw: st.DrawFn) -> tuple[Array, Array, Array]:
    rows, columns = draw(st.integers(1, 3)), draw(st.integers(1, 7))
    one = st.lists(NUMBERS, min_size=columns, max_size=columns)
    flags = st.lists(st.booleans(), min_size=columns, max_size=columns)
    made = [draw(st.lists(kind, min_size=rows, max_size=rows)) for kind in (one, one, flags)]
    return np.array(made[0]), np.array(made[1]), np.array(made[2])


@given(batches(), st.floats(0, 1), st.floats(0, 1), NUMBERS)
def test_against_the_sum_written_out(
    batch: tuple[Array, Array, Array], gamma: float, lam: float, after: float
) -> None:
    rewards, values, mask = batch
    found = gae(rewards, values, mask, gamma=gamma, lam=lam, bootstrap=[after] * len(rewards))
    for row in range(len(rewards)):
        kept = mask[row]
        expected = written_out(rewards[row][kept], values[row][kept], gamma, lam, after)
        assert found.advantages[row][kept] == pytest.approx(expected, abs=1e-9)
        assert found.returns[row][kept] == pytest.approx(expected + values[row][kept], abs=1e-9)


@given(batches(), NUMBERS, NUMBERS)
def test_masked_positions_never_influence(
    batch: tuple[Array, Array, Array], reward: float, value: float
) -> None:
    rewards, values, mask = batch
    once = gae(rewards, values, mask)
    twice = gae(
        np.where(mask, rewards, reward), np.where(mask, values, np.nan if value > 0 else value), mask
    )
    assert once.advantages.tolist() == twice.advantages.tolist()
    assert once.returns.tolist() == twice.returns.tolist()


@given(batches())
def test_lambda_one_is_the_return_minus_the_value(batch: tuple[Array, Array, Array]) -> None:
    rewards, values, mask = batch
    found = gae(rewards, values, mask, gamma=1.0, lam=1.0)
    for row in range(len(rewards)):
        kept = np.flatnonzero(mask[row])
        for at in kept:
            to_come = rewards[row][kept[kept >= at]].sum()
            assert found.advantages[row, at] == pytest.approx(to_come - values[row, at], abs=1e-9)


def test_turns_as_steps_by_hand() -> None:
    """Two turns of rewards 1 and 2, values 0.5 and 0.25 before them; gamma 1, lambda 0.5."""
    rewards = [[0.0, 1.0, 0.0, 0.5, 1.5]]
    values = [[0.5, 9.0, np.nan, 0.25, 9.0]]
    spans = [[Span(0, 2), Span(3, 3), Span(3, 5)]]
    found = turn_gae(rewards, values, spans, lam=0.5)
    second = 2.0 - 0.25
    first = 1.0 + 0.25 - 0.5 + 0.5 * second
    assert found.advantages == pytest.approx(np.array([[first, first, 0.0, second, second]]))
    assert found.returns == pytest.approx(np.array([[first + 0.5, 0, 0, second + 0.25, 0]]))
    assert found.value_mask.tolist() == [[True, False, False, True, False]]


@given(batches())
def test_turns_of_one_token_are_tokens(batch: tuple[Array, Array, Array]) -> None:
    rewards, values, mask = batch
    mask = mask.copy()
    mask[:, 1::2] = False
    tokens = gae(rewards, values, mask, gamma=0.9, lam=0.7)
    turns = turn_gae(rewards, values, [turn_spans(row) for row in mask], gamma=0.9, lam=0.7)
    assert turns.advantages == pytest.approx(tokens.advantages, abs=1e-9)
    assert turns.value_mask.tolist() == mask.tolist()


def test_rows_without_turns() -> None:
    found = turn_gae([[1.0, 2.0]], [[0.0, 0.0]], [[]])
    assert not found.advantages.any()
    assert not found.value_mask.any()


def test_broken_input_is_named() -> None:
    with pytest.raises(ValueError, match="rewards must be finite"):
        gae([[np.nan]], [[0.0]], [[1]])
    with pytest.raises(ValueError, match="values must be finite"):
        gae([[0.0]], [[np.inf]], [[1]])
    with pytest.raises(ValueError, match="values has shape"):
        gae([[0.0]], [[0.0, 1.0]], [[1]])
    with pytest.raises(ValueError, match="mask has shape"):
        gae([[0.0]], [[0.0]], [[1, 1]])
    with pytest.raises(ValueError, match="bootstrap"):
        gae([[0.0]], [[0.0]], [[1]], bootstrap=[np.nan])
    with pytest.raises(ValueError, match="rows of spans"):
        turn_gae([[0.0]], [[0.0]], [])
    with pytest.raises(ValueError, match="values must be finite"):
        turn_gae([[0.0]], [[np.nan]], [[Span(0, 1)]])
