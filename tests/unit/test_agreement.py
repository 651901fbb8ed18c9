"""Agreement of reviewers against tables of the literature, and what is made of little data."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from verifier_service.domain.agreement import (
    PRIOR,
    cohen_kappa,
    fleiss_kappa,
    intraclass,
    posterior,
)
from verifier_service.domain.evidence import Measurement
from verifier_service.domain.gold import GoldExpected
from verifier_service.domain.review_votes import Judged, tally
from verifier_service.domain.reviewer_error import (
    agreement_of,
    doubt_of,
    error_rate,
    grades,
    noise_of,
    scatter,
    with_noise,
)
from verifier_service.domain.reviews import ReviewMeasurement, Vote

START = datetime(2026, 1, 1, tzinfo=UTC)
# Fourteen raters, ten subjects, five categories: https://en.wikipedia.org/wiki/Fleiss%27_kappa
FOURTEEN_RATERS = [
    (0, 0, 0, 0, 14),
    (0, 2, 6, 4, 2),
    (0, 0, 3, 5, 6),
    (0, 3, 9, 2, 0),
    (2, 2, 8, 1, 1),
    (7, 7, 0, 0, 0),
    (3, 2, 6, 3, 0),
    (2, 5, 3, 2, 2),
    (6, 5, 2, 1, 0),
    (0, 2, 2, 3, 7),
]
# Thirty patients, six psychiatrists, five diagnoses: Fleiss 1971, table 1.
PSYCHIATRISTS = [
    (0, 0, 0, 6, 0),
    (0, 3, 0, 0, 3),
    (0, 1, 4, 0, 1),
    (0, 0, 0, 0, 6),
    (0, 3, 0, 3, 0),
    (2, 0, 4, 0, 0),
    (0, 0, 4, 0, 2),
    (2, 0, 3, 1, 0),
    (2, 0, 0, 4, 0),
    (0, 0, 0, 0, 6),
    (1, 0, 0, 5, 0),
    (1, 1, 0, 4, 0),
    (0, 3, 3, 0, 0),
    (1, 0, 0, 5, 0),
    (0, 2, 0, 3, 1),
    (0, 0, 5, 0, 1),
    (3, 0, 0, 1, 2),
    (5, 1, 0, 0, 0),
    (0, 2, 0, 4, 0),
    (1, 0, 2, 0, 3),
    (0, 0, 0, 0, 6),
    (0, 1, 0, 5, 0),
    (0, 2, 0, 1, 3),
    (2, 0, 0, 4, 0),
    (1, 0, 0, 4, 1),
    (0, 5, 0, 1, 0),
    (4, 0, 0, 0, 2),
    (0, 2, 0, 4, 0),
    (1, 0, 5, 0, 0),
    (0, 0, 0, 0, 6),
]
# Six targets, four judges: Shrout and Fleiss 1979, table 2.
JUDGES = [(9, 2, 5, 8), (6, 1, 3, 2), (8, 4, 6, 8), (7, 1, 2, 6), (10, 5, 6, 9), (6, 2, 4, 7)]


def counts(table: list[tuple[int, ...]]) -> list[dict[str, int]]:
    return [{str(label): count for label, count in enumerate(row)} for row in table]


@pytest.mark.parametrize(("table", "kappa"), [(FOURTEEN_RATERS, 0.210), (PSYCHIATRISTS, 0.430)])
def test_fleiss_kappa_of_known_tables(table: list[tuple[int, ...]], kappa: float) -> None:
    assert fleiss_kappa(counts(table)) == pytest.approx(kappa, abs=0.0005)


def test_cohen_kappa_of_a_known_table() -> None:
    """Fifty proposals, two readers: 20 yes/yes, 5 yes/no, 10 no/yes, 15 no/no.
    https://en.wikipedia.org/wiki/Cohen%27s_kappa"""
    first = ["y"] * 25 + ["n"] * 25
    second = ["y"] * 20 + ["n"] * 5 + ["y"] * 10 + ["n"] * 15
    assert cohen_kappa(first, second) == pytest.approx(0.4)


def test_kappa_says_nothing_where_everybody_says_the_same() -> None:
    assert cohen_kappa(["a"] * 9, ["a"] * 9) is None
    assert fleiss_kappa([{"a": 3}, {"a": 2}]) is None
    assert fleiss_kappa([{"a": 1}]) is None
    assert cohen_kappa([], []) is None


def test_intraclass_correlations_of_a_known_table() -> None:
    complete = {str(at): {str(j): float(v) for j, v in enumerate(row)} for at, row in enumerate(JUDGES)}
    two_way = intraclass(complete)
    assert two_way is not None
    assert (two_way.form, two_way.items, round(two_way.value, 2)) == ("ICC(2,1)", 6, 0.29)
    strangers = {
        item: {f"{item}/{rater}": value for rater, value in row.items()} for item, row in complete.items()
    }
    one_way = intraclass(strangers)
    assert one_way is not None
    assert (one_way.form, round(one_way.value, 2)) == ("ICC(1,1)", 0.17)


def test_intraclass_needs_something_to_compare() -> None:
    assert intraclass({"a": {"x": 1.0, "y": 2.0}}) is None
    assert intraclass({"a": {"x": 1.0, "y": 1.0}, "b": {"x": 1.0, "y": 1.0}}) is None
    assert intraclass({"a": {"x": 1.0}, "b": {"x": 2.0}, "c": {"y": 2.0}}) is None


@pytest.mark.parametrize(("wrong", "right"), [(0, 0), (1, 0), (3, 200), (40, 2), (0, 5_000)])
@pytest.mark.parametrize("share", [0.05, 0.5, 0.95])
def test_quantiles_of_the_posterior(wrong: int, right: int, share: float) -> None:
    rate = posterior(wrong, right)
    assert rate.quantile(share) == pytest.approx(stats.beta.ppf(share, rate.a, rate.b), abs=2e-9)
    assert rate.moment(2) == pytest.approx(stats.beta.moment(2, rate.a, rate.b))


def vote(reviewer: str, verdict: str = "accept", at: int = 0, **more: object) -> Vote:
    when = START + timedelta(seconds=at)
    return Vote.model_validate(
        {"reviewer": reviewer, "verdict": verdict, "decided_at": when, "effective_at": when, **more}
    )


def item(name: str, *votes: Vote, expected: str | None = None, approvals: int = 1) -> Judged:
    known = None if expected is None else GoldExpected.model_validate({"verdict": expected})
    return Judged(name, approvals, known, votes)


def gold(name: str, reviewer: str, verdict: str, expected: str = "accept") -> Judged:
    return item(name, vote(reviewer, verdict), expected=expected)


def test_little_data_says_little() -> None:
    assert error_rate([]).mean == pytest.approx(0.05)
    once = error_rate([gold("g", "ann", "reject")]).mean
    assert once == pytest.approx(1.5 / 11)
    many = [gold(f"g{n}", "ann", "accept" if n % 5 else "reject") for n in range(1_000)]
    assert error_rate(many).mean == pytest.approx(0.2, abs=0.005)


def test_disagreements_count_against_who_was_overruled() -> None:
    judged = [
        item("a", vote("ann"), vote("bob"), approvals=2),
        item("b", vote("ann"), vote("bob", "reject"), vote("cid", "reject"), approvals=2),
        item("c", vote("ann"), approvals=1),
        gold("d", "bob", "reject"),
    ]
    found = {one.reviewer: one for one in agreement_of("q", judged).reviewers}
    assert (found["ann"].judged, found["ann"].overruled, found["ann"].votes) == (2, 1, 3)
    assert (found["bob"].judged, found["bob"].overruled) == (2, 0)
    assert (found["bob"].gold, found["bob"].gold_wrong) == (1, 1)
    assert (found["cid"].judged, found["cid"].gold, found["cid"].votes) == (0, 0, 1)
    assert found["ann"].mean == pytest.approx(1.5 / 12)
    assert found["ann"].low < found["ann"].mean < found["ann"].high
    assert error_rate(judged).mean == pytest.approx(2.5 / 15)


@pytest.mark.parametrize(
    ("said", "result", "wrong", "judged"),
    [
        ("ar r", "reject", {"0"}, 2),
        ("aar r", "reject", set(), 0),
        ("aar a", "accept", {"2"}, 3),
        ("aaar r", "accept", {"3"}, 4),
        ("aarrr a", "accept", set(), 0),
        ("aaarr r", "reject", set(), 0),
        ("aaaar r", "accept", {"4"}, 5),
    ],
)
def test_one_person_overrules_no_majority(said: str, result: str, wrong: set[str], judged: int) -> None:
    words = {"a": "accept", "r": "reject"}
    verdicts = [words[one] for one in said if one != " "]
    approvals = len(verdicts) - 1
    assert tally(verdicts, approvals).verdict == result  # type: ignore[arg-type]
    one = item("a", *(vote(str(n), word, n) for n, word in enumerate(verdicts)), approvals=approvals)
    found = agreement_of("q", [one]).reviewers
    assert {who.reviewer for who in found if who.overruled} == wrong
    assert sum(who.judged for who in found) == judged, "where as many said either nobody was wrong"


def test_kappa_is_of_first_votes() -> None:
    judged = [
        item("a", vote("ann"), vote("bob"), approvals=2),
        item("b", vote("ann"), vote("bob", "reject"), vote("cid"), approvals=2),
        item("c", vote("ann", "reject"), vote("bob", "reject"), approvals=2),
    ]
    found = agreement_of("q", judged).verdicts
    assert found is not None
    assert (found.kind, found.items, found.raters) == ("cohen", 3, 2)
    assert found.value == pytest.approx(0.4)
    more = [*judged, item("d", vote("ann"), vote("cid"), approvals=2)]
    assert agreement_of("q", more).verdicts.kind == "fleiss"  # type: ignore[union-attr]
    assert agreement_of("q", []).verdicts is None


def test_scores_are_compared_item_by_item() -> None:
    judged = [
        item(
            str(at),
            *(vote(f"r{j}", scores={"quality": grade}) for j, grade in enumerate(row)),
            approvals=4,
        )
        for at, row in enumerate(JUDGES)
    ]
    [found] = agreement_of("q", judged).scores
    assert (found.score, found.form, round(found.value, 2)) == ("quality", "ICC(2,1)", 0.29)


def test_a_verdict_is_doubted_by_its_margin() -> None:
    one = doubt_of(["accept"], "accept", PRIOR)
    two = doubt_of(["accept", "accept"], "accept", PRIOR)
    assert one == pytest.approx(0.05)
    assert one > two > 0.05**2, "two who agree are not independent while nobody knows how often they err"
    assert doubt_of(["accept", "reject", "reject"], "reject", PRIOR) == pytest.approx(one)
    assert doubt_of(["accept"], "accept", posterior(1_000, 0)) == 0.5


def test_scatter_comes_from_gold_and_from_people_who_measured_the_same() -> None:
    def measured(*values: float) -> list[Vote]:
        said = [[{"quantity": "gap", "value": value, "unit": "eV"}] for value in values]
        return [vote(f"r{at}", measurements=one) for at, one in enumerate(said)]

    known = GoldExpected(
        verdict="accept", measurements=(ReviewMeasurement(quantity="gap", value=4.0, unit="eV"),)
    )
    few = [item("a", *measured(3.0, 5.0), approvals=2)]
    assert scatter(few)["gap", "eV"] == (pytest.approx(2.0), 1)
    number = Measurement(quantity="gap", value=4.0, unit="eV")
    assert with_noise(number, scatter(few)) == number, "one difference is no spread"
    many = few + [Judged(f"g{n}", 1, known, tuple(measured(4.0 + (-1) ** n))) for n in range(8)]
    found = scatter(many)
    assert found["gap", "eV"] == (pytest.approx((2.0 + 8.0) / 9), 9)
    sigma = math.sqrt(10 / 9)
    assert with_noise(number, found).sigma == pytest.approx(sigma)
    assert with_noise(number.model_copy(update={"sigma": 9.0}), found).sigma == 9.0
    assert with_noise(number.model_copy(update={"unit": "meV"}), found).sigma is None
    assert noise_of(many).scatter == found


def test_grades_become_means() -> None:
    found = grades([vote("a", scores={"q": 2}), vote("b", scores={"q": 4}), vote("c", scores={"p": 1})])
    assert [(one.quantity, one.value, one.unit) for one in found] == [
        ("p", 1.0, "grade"),
        ("q", 3.0, "grade"),
    ]
    assert [one.sigma for one in found] == [None, pytest.approx(1.0)]


@given(votes=st.lists(st.sampled_from(["accept", "reject"]), max_size=7), approvals=st.integers(1, 5))
def test_an_item_takes_its_votes_and_one_more_where_they_differ(votes: list[str], approvals: int) -> None:
    cast: list[str] = []
    for one in votes:
        if tally(cast, approvals).state == "decided":  # type: ignore[arg-type]
            break
        cast.append(one)
    now = tally(cast, approvals)  # type: ignore[arg-type]
    agreed = len(set(cast[:approvals])) == 1
    if len(cast) < approvals:
        assert (now.state, now.verdict, now.wanted) == ("open", None, approvals - len(cast))
    elif agreed:
        assert now == ("decided", cast[0], 0)
        assert len(cast) == approvals
    elif len(cast) == approvals:
        assert now == ("disputed", None, 1)
    else:
        accepts = cast.count("accept") - cast.count("reject")
        said = cast[-1] if accepts == 0 else "accept" if accepts > 0 else "reject"
        assert now == ("decided", said, 0)
        assert len(cast) == approvals + 1


@given(
    votes=st.lists(st.sampled_from(["accept", "reject"]), min_size=1, max_size=5),
    order=st.randoms(use_true_random=False),
)
def test_the_order_of_the_votes_does_not_matter(votes: list[str], order: object) -> None:
    shuffled = list(votes)
    order.shuffle(shuffled)  # type: ignore[attr-defined]
    assert tally(votes, len(votes)) == tally(shuffled, len(votes))  # type: ignore[arg-type]
