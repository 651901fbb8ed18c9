"""A trajectory with all that its page shows. The reference is no part of it, and no inputs of checks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from verifier_service.dashboard import plots
from verifier_service.dashboard.candidates import Shown, shown
from verifier_service.dashboard.drawings import drawing_of
from verifier_service.dashboard.plots import Spot, number
from verifier_service.dashboard.run_figures import Figure
from verifier_service.dashboard.series_plots import Measured, intervals
from verifier_service.dashboard.turns import Portion, portion
from verifier_service.domain.checks import CheckView, DemandView
from verifier_service.domain.decisions import LoggedDecision
from verifier_service.domain.evidence import Cost, Evidence
from verifier_service.domain.extraction import candidate_of
from verifier_service.domain.history import Attempt
from verifier_service.domain.reasons import waiting_for
from verifier_service.domain.records import JsonObject
from verifier_service.domain.rewards import RewardRecord
from verifier_service.services.inspect_case import WholeCase

MOST = 100  # demands, decisions and revisions that are listed, of each the latest
MAX_PROMPT = 20_000
SPANS = ((172_800.0, 86_400.0, "days"), (7_200.0, 3_600.0, "hours"), (120.0, 60.0, "minutes"))


@dataclass(frozen=True, slots=True)
class Asked:
    """A demand with its check, and every attempt at that."""

    demand: DemandView
    check: CheckView | None
    build: str | None
    attempts: Sequence[Attempt]
    stuck: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Told:
    """What is known of a trajectory, bounded; ``hidden`` counts what is left out, by list."""

    whole: WholeCase
    waiting: Sequence[str]
    prompt: str
    candidate: Shown
    drawing: str | None
    evidence: Sequence[Evidence]
    measured: Sequence[Measured]
    asked: Sequence[Asked]
    decisions: Sequence[LoggedDecision]
    records: Sequence[RewardRecord]
    timeline: Figure
    turns: Portion
    hidden: dict[str, int]

    @property
    def latest(self) -> RewardRecord | None:
        """The record that counts."""
        return self.records[-1] if self.records else None


def told(whole: WholeCase, now: float) -> Told:
    """All that the page of a trajectory shows, as of ``now`` (database time)."""
    case, body = whole.case, whole.body
    spec = case.ladder.spec.candidate
    evidence = [one.evidence for one in case.rung_evidence()]
    candidate = shown(candidate_of(spec, body.answer, body.turns), spec, evidence)
    judged = [found for one in case.demands if (found := case.evidence(one)) is not None]
    return Told(
        whole=whole,
        waiting=list(waiting_for(case, now, whole.queueing, whole.stuck))[:MOST],
        prompt=prompt_of(body.prompt),
        candidate=candidate,
        drawing=drawing_of(candidate.text) if candidate.kind == "molecule" else None,
        evidence=judged[-MOST:],
        measured=intervals(judged[-MOST:]),
        asked=[_asked(one, whole) for one in case.demands[-MOST:]],
        decisions=whole.decisions[-MOST:],
        records=whole.history[-MOST:],
        timeline=timeline(whole.history[-MOST:]),
        turns=portion(0, body.turns),
        hidden={
            "demands": max(0, len(case.demands) - MOST),
            "evidence": max(0, len(judged) - MOST),
            "decisions": max(0, len(whole.decisions) - MOST),
            "records": max(0, len(whole.history) - MOST),
        },
    )


def prompt_of(prompt: str | list[JsonObject]) -> str:
    """The task as one text; of a conversation, who said what."""
    if isinstance(prompt, str):
        return prompt[:MAX_PROMPT]
    lines = [f"{message.get('role', '')}: {message.get('content', '')}" for message in prompt]
    return "\n\n".join(lines)[:MAX_PROMPT]


def cost_words(cost: Cost) -> str:
    """A measured consumption in words."""
    parts = (
        (cost.cpu_s, "s CPU"),
        (cost.gpu_s, "s GPU"),
        (cost.human_s, "s of people"),
        (cost.external, "credits outside"),
    )
    return ", ".join(f"{number(value)} {unit}" for value, unit in parts if value) or "nothing measured"


def decision_words(one: LoggedDecision) -> str:
    """The figures of a decision, as far as it has any."""
    parts = []
    if one.outcome is not None and one.low is not None and one.high is not None:
        rest = "" if one.level is None else f", resting on {_tier(one.level.value)}"
        model = "" if one.model is None else f" (model {one.model})"
        parts.append(
            f"believed outcome {number(one.outcome)}, 90 % within {number(one.low)} to "
            f"{number(one.high)}{rest}{model}"
        )
    if one.cost:
        parts.append(f"expected cost {number(one.cost)} credits")
    if one.utility is not None:
        parts.append(f"worth {number(one.utility)}")
    if one.price is not None:
        parts.append(f"a credit had to buy {number(one.price)}")
    if one.propensity is not None:
        parts.append(f"chance of reaching the truth {number(one.propensity)}")
    if one.draw is not None:
        parts.append(f"drew {number(one.draw)}{', audited' if one.audited else ''}")
    return "; ".join(parts)


def timeline(records: Sequence[RewardRecord]) -> Figure:
    """The rewards of successive revisions over time, each with one standard deviation to each side."""
    heads = ("revision", "issued", "status", "reward", "± sd", "tier", "credits", "why")
    rows = tuple(_row(one) for one in reversed(records))
    scored = [(one, one.reward) for one in records if one.reward is not None]
    if not scored:
        return Figure("No revision has a reward yet.", None, heads, rows)
    begin = records[0].issued_at
    longest = (records[-1].issued_at - begin).total_seconds()
    size, unit = next(((size, unit) for least, size, unit in SPANS if longest >= least), (1.0, "seconds"))
    found = [
        Spot(
            f"revision {one.revision}: {number(reward)} ± {number(_sd(one))} ({one.status.value})",
            f"kind-{one.status.value}",
            (one.issued_at - begin).total_seconds() / size,
            reward,
            reward - _sd(one),
            reward + _sd(one),
        )
        for one, reward in scored
    ]
    top = max([1.0, *(spot.high for spot in found)])
    low = min([0.0, *(spot.low for spot in found)])
    silent = len(records) - len(scored)
    about = f"{len(scored)} revisions with a reward" + (f", {silent} without." if silent else ".")
    plot = plots.spots(
        "Reward by revision, with one standard deviation to each side",
        about,
        found,
        x=(0.0, max(longest / size, 1e-9)),
        y=(low, top),
        labels=(f"{unit} since the first record", "reward"),
        joined=True,
    )
    statuses = dict.fromkeys(one.status.value for one, _ in scored)
    return Figure(about, plot, heads, rows, tuple((name, f"kind-{name}") for name in statuses))


def _row(one: RewardRecord) -> tuple[str, ...]:
    why = ""
    if one.reason is not None:
        detail = "" if one.reason.detail is None else f" ({one.reason.detail})"
        why = f"{one.reason.code.value}{detail}: {one.reason.message}"
    return (
        str(one.revision),
        f"{one.issued_at.astimezone(UTC):%Y-%m-%d %H:%M:%S}",
        one.status.value,
        "–" if one.reward is None else number(one.reward),
        "–" if one.variance is None else number(_sd(one)),
        "–" if one.tier is None else _tier(one.tier.value),
        number(one.credits),
        why,
    )


def _sd(one: RewardRecord) -> float:
    return 0.0 if one.variance is None else max(0.0, one.variance) ** 0.5


def _tier(name: str) -> str:
    return name.replace("_", " ")


def _asked(demand: DemandView, whole: WholeCase) -> Asked:
    check = demand.check
    if check is None:
        return Asked(demand, None, None, (), None)
    queueing = whole.queueing.get(check.pk)
    return Asked(
        demand,
        check,
        None if queueing is None else queueing.version,
        () if queueing is None else queueing.attempts,
        whole.stuck.get(check.pk),
    )


def when(seconds: float | None) -> datetime | None:
    """Database time as a moment."""
    return None if seconds is None else datetime.fromtimestamp(seconds, tz=UTC)
