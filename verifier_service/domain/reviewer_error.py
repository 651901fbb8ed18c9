"""From what was judged to the noise of the lab tier: how often votes are wrong, how measurements scatter.

A vote is wrong when it differs from what is known of a gold item, or from what most people said of an item
that several judged; where as many said one as the other nobody is known to be wrong. The rate of a queue is
a Beta posterior, see ``agreement.PRIOR``: little data says little. Several equal votes are not independent
while nobody knows the rate: its moments account for that.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from verifier_service.domain.agreement import Rate, cohen_kappa, fleiss_kappa, intraclass, posterior
from verifier_service.domain.evidence import Measurement
from verifier_service.domain.records import Record
from verifier_service.domain.review_votes import Judged, Said, most
from verifier_service.domain.reviews import Vote

LEAST_FREEDOM = 5  # differences between people before their scatter is believed
MOST_DOUBT = 0.5  # a verdict that says nothing
TAIL = 0.05
COUNTED = 500  # latest items of a queue that its people's noise is taken from

Quantity = tuple[str, str]  # name, unit


class Scatter(NamedTuple):
    """Variance of one person's measurement, and the degrees of freedom it rests on."""

    variance: float
    freedom: int


class Noise(NamedTuple):
    """What is known of a queue's people: how often a vote is wrong, how measurements scatter."""

    rate: Rate
    scatter: Mapping[Quantity, Scatter]


def noise_of(judged: Sequence[Judged]) -> Noise:
    """See ``error_rate`` and ``scatter``."""
    return Noise(error_rate(judged), scatter(judged))


class Kappa(Record):
    """Agreement of verdicts beyond chance: ``cohen`` for two raters, ``fleiss`` for more. Null where all
    verdicts are the same."""

    kind: str
    value: float | None
    items: int
    raters: int


class ScoreAgreement(Record):
    """Intraclass correlation of a graded score; ``form`` is ICC(2,1) or ICC(1,1)."""

    score: str
    form: str
    value: float
    items: int


class ReviewerError(Record):
    """How often somebody was wrong: on gold items, and against what several people decided. ``mean`` with a
    central 90 % interval. ``gold_seen``: gold items of the queue that they were ever given, voted on or
    not; few beside many votes means that they take items by name, or what is kept for them."""

    reviewer: str
    votes: int
    gold: int
    gold_wrong: int
    judged: int
    overruled: int
    mean: float
    low: float
    high: float
    gold_seen: int = 0


class MeasurementScatter(Record):
    """Standard deviation of one person's measurement; null while too little is known."""

    quantity: str
    unit: str
    sigma: float | None
    freedom: int


class Agreement(Record):
    """What is known of a queue's reviewers from its latest items that took effect."""

    queue: str
    items: int
    votes: int
    verdicts: Kappa | None
    scores: tuple[ScoreAgreement, ...]
    reviewers: tuple[ReviewerError, ...]
    mistaken: float
    mistaken_low: float
    mistaken_high: float
    measurements: tuple[MeasurementScatter, ...]


class _Counts:
    """Votes of one person by whether they were right."""

    def __init__(self) -> None:
        self.gold = self.gold_wrong = self.judged = self.overruled = self.votes = 0

    def rate(self) -> Rate:
        wrong = self.gold_wrong + self.overruled
        return posterior(wrong, self.gold + self.judged - wrong)


def error_rate(judged: Sequence[Judged]) -> Rate:
    """How often one vote of the queue is wrong."""
    counts = _counted(judged).values()
    wrong = sum(one.gold_wrong + one.overruled for one in counts)
    return posterior(wrong, sum(one.gold + one.judged for one in counts) - wrong)


def doubt_of(votes: Sequence[Said], verdict: Said, rate: Rate) -> float:
    """Probability that a verdict is wrong, both being as likely before anybody voted.

    With m more votes for it than against, p = E[e^m] / (E[e^m] + E[(1 - e)^m]) over the rate e; one vote
    more than the others is worth one vote, however many there are.
    """
    margin = max(1, sum(1 if vote == verdict else -1 for vote in votes))
    wrong, right = rate.moment(margin), rate.moment(margin, of_rest=True)
    return min(MOST_DOUBT, wrong / (wrong + right))


def scatter(judged: Sequence[Judged]) -> dict[Quantity, Scatter]:
    """Pooled variance of one measurement, by quantity: differences from what is known of gold items, and
    between people who measured the same (NIST/SEMATECH e-Handbook of Statistical Methods, 7.3.1)."""
    squares: dict[Quantity, float] = defaultdict(float)
    freedom: dict[Quantity, int] = defaultdict(int)
    for item in judged:
        values: dict[Quantity, list[float]] = defaultdict(list)
        for vote in item.votes:
            for one in vote.measurements:
                values[one.quantity, one.unit].append(one.value)
        gold = () if item.expected is None else item.expected.measurements
        known = {(one.quantity, one.unit): one.value for one in gold}
        for quantity, found in values.items():
            free = len(found) if quantity in known else len(found) - 1
            centre = known.get(quantity, math.fsum(found) / len(found))
            squares[quantity] += math.fsum((value - centre) ** 2 for value in found)
            freedom[quantity] += free
    return {
        quantity: Scatter(squares[quantity] / free, free) for quantity, free in freedom.items() if free > 0
    }


def with_noise(measured: Measurement, known: Mapping[Quantity, Scatter]) -> Measurement:
    """A person's measurement with the scatter of such, where it is known and larger than what they say."""
    found = known.get((measured.quantity, measured.unit))
    if found is None or found.freedom < LEAST_FREEDOM:
        return measured
    sigma = max(measured.sigma or 0.0, math.sqrt(found.variance))
    return measured.model_copy(update={"sigma": sigma}) if sigma > 0.0 else measured


def grades(votes: Sequence[Vote]) -> list[Measurement]:
    """Mean grades as measurements, with the standard error of the mean where several gave one."""
    given: dict[str, list[int]] = defaultdict(list)
    for vote in votes:
        for name, grade in vote.scores.items():
            given[name].append(grade)
    found = []
    for name in sorted(given):
        values = given[name]
        mean = math.fsum(values) / len(values)
        squares = math.fsum((value - mean) ** 2 for value in values)
        sigma = math.sqrt(squares / (len(values) - 1) / len(values)) if squares else None
        found.append(Measurement(quantity=name, value=mean, unit="grade", sigma=sigma))
    return found


def agreement_of(queue: str, judged: Sequence[Judged], seen: Mapping[str, int] | None = None) -> Agreement:
    """Everything that is shown of a queue's reviewers; ``seen``: gold items that each was given."""
    given = seen or {}
    counts = _counted(judged)
    rate = error_rate(judged)
    real = [item for item in judged if item.expected is None]
    return Agreement(
        queue=queue,
        items=len(judged),
        votes=sum(len(item.votes) for item in judged),
        verdicts=_kappa(real),
        scores=_scores(real),
        reviewers=tuple(
            _reviewer(name, counts[name], given.get(name, 0)) for name in sorted({*counts, *given})
        ),
        mistaken=rate.mean,
        mistaken_low=rate.quantile(TAIL),
        mistaken_high=rate.quantile(1.0 - TAIL),
        measurements=tuple(
            MeasurementScatter(
                quantity=name,
                unit=unit,
                sigma=math.sqrt(found.variance) if found.freedom >= LEAST_FREEDOM else None,
                freedom=found.freedom,
            )
            for (name, unit), found in sorted(scatter(judged).items())
        ),
    )


def _counted(judged: Sequence[Judged]) -> dict[str, _Counts]:
    """Who was right how often. Whoever was asked further knew of the disagreement, and is not counted."""
    counts: dict[str, _Counts] = defaultdict(_Counts)
    for item in judged:
        for vote in item.votes:
            counts[vote.reviewer].votes += 1
        if item.expected is not None:
            for vote in item.votes:
                counts[vote.reviewer].gold += 1
                counts[vote.reviewer].gold_wrong += vote.verdict != item.expected.verdict
        elif item.approvals > 1:
            result = most([vote.verdict for vote in item.votes[: item.approvals + 1]])
            for vote in item.votes[: item.approvals] if result is not None else ():
                counts[vote.reviewer].judged += 1
                counts[vote.reviewer].overruled += vote.verdict != result
    return counts


def _kappa(judged: Sequence[Judged]) -> Kappa | None:
    """Of first votes only: who decides a disagreement knows that there is one."""
    shared = [item.votes[: item.approvals] for item in judged if item.approvals > 1 and len(item.votes) > 1]
    if not shared:
        return None
    raters = sorted({vote.reviewer for votes in shared for vote in votes})
    if len(raters) == 2:
        said = [{vote.reviewer: vote.verdict for vote in votes} for votes in shared]
        value = cohen_kappa([one[raters[0]] for one in said], [one[raters[1]] for one in said])
        return Kappa(kind="cohen", value=value, items=len(shared), raters=2)
    tables = [
        {verdict: sum(vote.verdict == verdict for vote in votes) for verdict in ("accept", "reject")}
        for votes in shared
    ]
    return Kappa(kind="fleiss", value=fleiss_kappa(tables), items=len(shared), raters=len(raters))


def _scores(judged: Sequence[Judged]) -> tuple[ScoreAgreement, ...]:
    by_name: dict[str, dict[str, dict[str, float]]] = defaultdict(dict)
    for item in judged:
        for vote in item.votes[: item.approvals]:
            for name, grade in vote.scores.items():
                by_name[name].setdefault(item.review, {})[vote.reviewer] = float(grade)
    found = ((name, intraclass(by_name[name])) for name in sorted(by_name))
    return tuple(
        ScoreAgreement(score=name, form=one.form, value=one.value, items=one.items)
        for name, one in found
        if one is not None
    )


def _reviewer(name: str, counts: _Counts, seen: int) -> ReviewerError:
    rate = counts.rate()
    return ReviewerError(
        reviewer=name,
        votes=counts.votes,
        gold=counts.gold,
        gold_seen=seen,
        gold_wrong=counts.gold_wrong,
        judged=counts.judged,
        overruled=counts.overruled,
        mean=rate.mean,
        low=rate.quantile(TAIL),
        high=rate.quantile(1.0 - TAIL),
    )
