"""What a trial says about one line of the file."""

from __future__ import annotations

from verifier_service.domain.evidence import (
    Cost,
    Failure,
    Hint,
    Measurement,
    Reason,
    Tier,
    UnitInterval,
    Verdict,
)
from verifier_service.domain.ladders import Role
from verifier_service.domain.records import JsonObject, JsonValue, Record
from verifier_service.domain.rewards import RewardRecord
from verifier_service.domain.states import CheckState, DemandState
from verifier_service.domain.wire import ItemError


class TriedCheck(Record):
    """One rung that was asked for: what was found, by what method, for how much. Times in seconds.

    ``note`` says why it was asked for or withdrawn; ``check_state`` is ``None`` for what was never begun.
    """

    path: str
    role: Role
    tier: Tier
    verifier: str
    version: str | None = None
    params: JsonObject = {}
    libraries: dict[str, str] = {}
    state: DemandState
    check_state: CheckState | None = None
    note: str = ""
    verdict: Verdict | None = None
    score: UnitInterval | None = None
    reason: Reason | None = None
    failure: Failure | None = None
    measurements: tuple[Measurement, ...] = ()
    per_turn: tuple[UnitInterval | None, ...] | None = None
    hints: tuple[Hint, ...] = ()
    assumptions: tuple[str, ...] = ()
    labels: dict[str, str] = {}
    artifacts: tuple[JsonObject, ...] = ()
    attempts: int = 0
    cost: Cost = Cost()


class Tried(Record):
    """One line. ``error`` says why it was not taken; else everything else is there.

    ``candidate`` is what the ladder took from ``source``, ``canonical`` its canonical form where there
    is one. ``compared_with`` names the parts of the problem that the verifiers read. ``reference`` is
    null unless it was asked for. ``formula`` spells out how the reward came about.
    """

    line: int
    id: str | None = None
    error: ItemError | None = None
    source: str = ""
    candidate: JsonValue = None
    canonical: str | None = None
    compared_with: tuple[str, ...] = ()
    reference: JsonObject | None = None
    checks: tuple[TriedCheck, ...] = ()
    record: RewardRecord | None = None
    formula: str = ""
    note: str | None = None
