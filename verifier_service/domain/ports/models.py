"""Ports for fitted models and for the log of decisions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from verifier_service.domain.decisions import Decision, Estimate, FittedModel, LoggedDecision
from verifier_service.domain.evidence import Tier
from verifier_service.domain.insight import Foretold, PricePoint, Rested, TierSpend
from verifier_service.domain.models import Alarm, LadderKey, ModelSummary, RaisedAlarm


class Bought(NamedTuple):
    """Trajectories of a ladder for which something was bought, the latest first: those whose truth is
    known, and those with less."""

    known: list[int]
    partly: list[int]


class Models(Protocol):
    """Fitted models by ladder version, numbered from 1; only added to."""

    def current(self, ladder: LadderKey) -> FittedModel | None:
        """The latest; the same for all of a transaction."""
        ...

    def labels(self, ladder: LadderKey) -> int:
        """How many labels the latest rests on; 0 where there is none."""
        ...

    def add(self, ladder: LadderKey, model: FittedModel) -> bool:
        """Store the next one; false when another process was first with this number."""
        ...

    def summaries(self, project: str) -> list[ModelSummary]:
        """The latest of every ladder version."""
        ...

    def bought(self, ladder: LadderKey, truth: Tier, limit: int) -> Bought:
        """What a model is fitted to: at most ``limit`` of each."""
        ...

    def labelled(self, since: float) -> dict[LadderKey, int]:
        """Ladder versions for which a check above the fast tier has succeeded since a database time, and
        how many have."""
        ...


class NewDecision(NamedTuple):
    """A decision to log, with the belief it rests on and the number of the model behind that."""

    decision: Decision
    estimate: Estimate | None


class Audit(NamedTuple):
    """A logged request for the truth that an audit made: ``mean`` of the quantity as believed
    then, and the trajectory that has the evidence by now."""

    pk: int
    trajectory: int
    mean: float | None
    outcome: float | None
    propensity: float | None


class Watch(NamedTuple):
    """How far the audits of a ladder have been looked at, and what the scheduler noted about them."""

    through: int
    state: str | None


class DecisionLog(Protocol):
    """Every decision of the policy, in order; only added to."""

    def add(self, project: str, run: str, decisions: Sequence[NewDecision]) -> None:
        """Append, in order."""
        ...

    def of_trajectory(self, pk: int) -> list[LoggedDecision]:
        """What was decided for one trajectory, oldest first."""
        ...

    def page(
        self, project: str, run: str, after: int, limit: int
    ) -> tuple[list[LoggedDecision], int | None]:
        """Decisions of a run behind a position, oldest first, and the position of the last."""
        ...

    def foretold(self, project: str, run: str, limit: int) -> list[Foretold]:
        """Logged beliefs whose truth is known by now, the latest first."""
        ...

    def rested(self, project: str, run: str, limit: int) -> list[Rested]:
        """The latest cases that were drawn for, the oldest first; without those that were sent to the truth
        and have not come back."""
        ...

    def spend(self, project: str, run: str) -> list[TierSpend]:
        """What was requested, by tier."""
        ...

    def prices(self, project: str, run: str, points: int) -> list[PricePoint]:
        """The log in at most ``points`` stretches of equal length."""
        ...

    def audits(self, ladder: LadderKey, after: int, limit: int) -> list[Audit]:
        """Audits of a ladder behind a position, in order, as far as each of them has ended."""
        ...


class Alarms(Protocol):
    """What the watch over audits has noticed."""

    def watch(self, ladder: LadderKey) -> Watch:
        """Where it stands; at 0 in the beginning."""
        ...

    def watched(self, ladder: LadderKey, watch: Watch) -> None:
        """It has come further."""
        ...

    def raise_(self, ladder: LadderKey, alarm: Alarm) -> None:
        """Store an alarm, unless that stratum has one that stands."""
        ...

    def standing(self, ladder: LadderKey) -> list[Alarm]:
        """Alarms that nobody has cleared."""
        ...

    def of_project(self, project: str, limit: int) -> list[RaisedAlarm]:
        """Newest first, cleared ones too."""
        ...

    def get(self, project: str, alarm: str) -> RaisedAlarm | None:
        """One alarm."""
        ...

    def clear(self, project: str, alarm: str) -> bool:
        """End an alarm; false if there is no such alarm that stands."""
        ...
