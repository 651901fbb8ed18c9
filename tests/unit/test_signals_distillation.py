"""Targets of on-policy distillation: by hand, and what must hold for any numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from verifier_service.trainers.distillation import mixed, padded, reverse_kl
from verifier_service.trainers.teachers import TeacherScore, TeacherUnavailable

LOGPROBS = st.floats(-30, 0)
ROWS = st.integers(1, 6).flatmap(
    lambda n: st.tuples(*(st.lists(LOGPROBS, min_size=n, max_size=n) for _ in range(3)))
)


def test_by_hand() -> None:
    student, teacher = [[-1.0, -2.0, -0.5, 7.0]], [[-0.25, -3.0, -0.5, np.nan]]
    found = reverse_kl(student, teacher, [[1, 1, 1, 0]])
    assert found.reverse_kl.tolist() == [[-0.75, 1.0, 0.0, 0.0]]
    assert found.advantage.tolist() == [[0.75, -1.0, 0.0, 0.0]]
    assert found.mean_kl() == pytest.approx(0.25 / 3)
    later = reverse_kl(student, teacher, [[1, 1, 1, 0]], discount=1.0, coefficient=2.0)
    assert later.advantage.tolist() == [[-0.5, -2.0, 0.0, 0.0]]
    half = reverse_kl(student, teacher, [[1, 1, 1, 0]], discount=0.5)
    assert half.advantage.tolist() == [[0.25, -1.0, 0.0, 0.0]]


def test_the_mean_over_the_students_samples_is_the_divergence() -> None:
    """Tokens drawn from p: the estimates average to sum of p log(p / q)."""
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.2, 0.6])
    drawn = np.random.default_rng(0).choice(3, size=(1, 200_000), p=p)
    found = reverse_kl(np.log(p)[drawn], np.log(q)[drawn], np.ones(drawn.shape))
    exact = float((p * np.log(p / q)).sum())
    assert found.mean_kl() == pytest.approx(exact, abs=0.01)


def test_mixtures_by_hand() -> None:
    teachers = [[[math.log(0.5)]], [[math.log(0.1)]]]
    assert mixed(teachers)[0, 0] == pytest.approx(math.log(0.3))
    assert mixed(teachers, [3, 1])[0, 0] == pytest.approx(math.log(0.4))
    assert mixed(teachers, how="log_mean")[0, 0] == pytest.approx(math.log(math.sqrt(0.05)))
    assert mixed(teachers, [1, 0])[0, 0] == pytest.approx(math.log(0.5))
    far = mixed([[[-9999.0]], [[-1.0]]])
    assert far[0, 0] == pytest.approx(-1.0 - math.log(2)), (
        "one impossible token does not underflow the rest"
    )


def test_who_is_missing_is_not_left_out_in_silence() -> None:
    there, gone = [[-1.0, -1.0]], [[np.nan, -1.0]]
    for how in ("mixture", "log_mean"):
        assert np.isnan(mixed([there, gone], how=how)[0]).tolist() == [True, False]  # type: ignore[arg-type]
        assert mixed([there, gone], [1.0, 0.0], how=how).tolist() == there  # type: ignore[arg-type]


@given(ROWS)
def test_log_means_are_below_mixtures(rows: tuple[list[float], ...]) -> None:
    """Jensen; and both lie between the lowest and the highest teacher."""
    teachers = [[row] for row in rows]
    mixture, mean = mixed(teachers), mixed(teachers, how="log_mean")
    assert (mean <= mixture + 1e-9).all()
    stacked = np.array(teachers)
    assert (mixture <= stacked.max(axis=0) + 1e-9).all()
    assert (mean >= stacked.min(axis=0) - 1e-9).all()


@given(ROWS)
def test_the_divergence_to_a_log_mean_is_the_mean_divergence(rows: tuple[list[float], ...]) -> None:
    student, one, two = ([row] for row in rows)
    mask = np.ones_like(student)
    together = reverse_kl(student, mixed([one, two], how="log_mean"), mask)
    apart = [reverse_kl(student, teacher, mask).reverse_kl for teacher in (one, two)]
    assert together.reverse_kl == pytest.approx((apart[0] + apart[1]) / 2, abs=1e-9)


@given(ROWS, st.floats(0, 1), st.data())
def test_masked_tokens_never_influence(rows: tuple[list[float], ...], discount: float, data: Any) -> None:
    student, teacher, _ = (np.array([row]) for row in rows)
    mask = np.array([data.draw(st.lists(st.booleans(), min_size=student.size, max_size=student.size))])
    junk = data.draw(st.sampled_from([np.nan, np.inf, -1e9, 3.0]))
    once = reverse_kl(student, teacher, mask, discount=discount)
    twice = reverse_kl(
        np.where(mask, student, junk), np.where(mask, teacher, junk), mask, discount=discount
    )
    assert once.advantage.tolist() == twice.advantage.tolist()
    assert not once.advantage[~mask].any()
    squeezed = reverse_kl(
        student[mask][None], teacher[mask][None], np.ones((1, mask.sum())), discount=discount
    )
    assert once.advantage[mask] == pytest.approx(squeezed.advantage[0], abs=1e-9)


@given(ROWS)
def test_a_teacher_who_is_the_student_teaches_nothing(rows: tuple[list[float], ...]) -> None:
    found = reverse_kl([rows[0]], [rows[0]], np.ones((1, len(rows[0]))))
    assert not found.advantage.any()


def test_bounds() -> None:
    found = reverse_kl([[-1.0, -1.0]], [[-9999.0, -1.5]], [[1, 1]], clip=5.0)
    assert found.advantage.tolist() == [[-5.0, -0.5]]
    assert found.reverse_kl.tolist() == [[9998.0, 0.5]]


def test_rows_that_failed() -> None:
    scores = [
        TeacherScore(np.array([-1.0, -2.0]), None),
        TeacherScore(None, TeacherUnavailable("timeout", "late")),
    ]
    assert np.isnan(padded(scores, 3)).tolist() == [[False, False, True], [True] * 3]
    with pytest.raises(ValueError, match="row 0 has 2 tokens"):
        padded(scores, 1)
    found = reverse_kl(np.zeros((2, 3)), padded(scores, 3), np.ones((2, 3)))
    assert found.scored.tolist() == [False, False], "a token beyond the teacher's answer has no target"
    assert math.isnan(found.mean_kl())


def test_broken_input_is_named() -> None:
    with pytest.raises(ValueError, match="student must be finite"):
        reverse_kl([[np.nan]], [[-1.0]], [[1]])
    with pytest.raises(ValueError, match="teacher has shape"):
        reverse_kl([[-1.0]], [[-1.0, -1.0]], [[1]])
    with pytest.raises(ValueError, match="discount"):
        reverse_kl([[-1.0]], [[-1.0]], [[1]], discount=1.5)
    with pytest.raises(ValueError, match="2 teachers and 1 weights"):
        mixed([[[-1.0]], [[-1.0]]], [1.0])
    for weights in ([0.0, 0.0], [-1.0, 2.0], [float("nan"), 1.0]):
        with pytest.raises(ValueError, match="weights"):
            mixed([[[-1.0]], [[-1.0]]], weights)
