"""Builders for ladders, evidence and cases, for tests of pure rules."""

from __future__ import annotations

import json
from typing import Any

from verifier_service.domain.cases import Case, Standing
from verifier_service.domain.checks import CheckView, DemandView
from verifier_service.domain.evidence import (
    Cost,
    Evidence,
    Failure,
    Hint,
    Measurement,
    Provenance,
    Reason,
    Tier,
    Verdict,
)
from verifier_service.domain.ladders import Ladder, LadderSpec
from verifier_service.domain.states import CheckState, DemandState

GAP = "ks_gap@r2scan/def2-svp//gfn2"
MEASURING: dict[str, Any] = {
    "name": "gap",
    "candidate": {"kind": "molecule", "format": "smiles", "from": "answer"},
    "quantity": {"name": GAP, "unit": "eV"},
    "utility": {"kind": "window", "low": 4.0, "high": 5.0, "softness": 1.0},
    "truth": "high_fidelity",
    "process": {"weight": 0.2, "checks": [{"use": "turns.tool_calls"}, {"use": "turns.errors"}]},
    "tiers": {
        "fast": [
            {"use": "molecule.validity", "gate": "hard"},
            {"use": "molecule.plausibility", "gate": "soft"},
        ],
        "simulation": [{"use": "xtb.gap", "map": "gfn2-to-r2scan"}],
        "high_fidelity": [{"use": "pyscf.gap"}],
        "lab": [{"use": "review"}],
    },
}
JUDGING: dict[str, Any] = {
    "name": "identity",
    "candidate": {"kind": "molecule", "format": "smiles", "from": "answer"},
    "outcome": {"use": "molecule.identity"},
    "truth": "fast",
    "tiers": {"fast": [{"use": "molecule.identity"}]},
}


def ladder(document: dict[str, Any] = MEASURING) -> Ladder:
    spec = LadderSpec.model_validate_json(json.dumps(document))
    return Ladder(name=spec.name, version=1, digest="d", spec=spec)


def standing(**changes: Any) -> Standing:
    values: dict[str, Any] = {
        "pk": 1,
        "project": "p",
        "run": "r",
        "id": "t1",
        "content": "c",
        "multiplicity": 1,
        "group": None,
        "group_size": None,
        "policy_version": None,
        "ladder": "gap",
        "ladder_version": 1,
        "subject": "s",
        "canonical": "CCO",
        "identified": True,
        "turns_digest": "td",
        "n_turns": 0,
        "finished": True,
        "cancelled": False,
        "needs_decision": False,
        "decided_on": 0,
        "decision": None,
        "propensity": None,
        "audited": False,
        "predicted": None,
        "status": None,
        "reward": None,
        "outcome": None,
        "variance": None,
        "revision": 0,
        "seq": None,
        "fingerprint": None,
        "met": -1,
        "created_at": 0.0,
    }
    return Standing(**(values | changes))


def evidence(
    verifier: str,
    tier: Tier,
    *,
    verdict: Verdict = Verdict.ACCEPT,
    code: str | None = None,
    score: float | None = None,
    gap: tuple[str, float, float | None] | None = None,
    per_turn: tuple[float | None, ...] | None = None,
    hints: tuple[Hint, ...] = (),
    labels: dict[str, str] | None = None,
) -> Evidence:
    measured = () if gap is None else (Measurement(quantity=gap[0], value=gap[1], unit="eV", sigma=gap[2]),)
    return Evidence(
        check=f"key-{verifier}",
        tier=tier,
        verdict=verdict,
        reason=Reason(code=code, message=code) if code is not None else None,
        score=score,
        measurements=measured,
        per_turn=per_turn,
        hints=hints,
        labels=labels or {},
        provenance=Provenance(verifier=verifier, version="1"),
        cost=Cost(cpu_s=1.0),
    )


def demand(
    path: str,
    role: str,
    tier: Tier,
    *,
    found: Evidence | None = None,
    failure: Failure | None = None,
    state: DemandState = DemandState.SATISFIED,
    check_state: CheckState | None = None,
    reason: str = "",
    payer: str = "r",
) -> DemandView:
    ended = CheckState.SUCCEEDED if found is not None else CheckState.FAILED
    check = CheckView(
        pk=hash(path) % 10_000,
        key=f"key-{path}",
        verifier=found.provenance.verifier if found is not None else "v",
        tier=tier,
        state=check_state or ended,
        attempt=0,
        payer=payer,
        credits=0.5,
        cost=Cost(cpu_s=2.0),
        evidence=found,
        failure=failure,
    )
    return DemandView(
        pk=1,
        path=path,
        role=role,  # type: ignore[arg-type]
        tier=tier,
        state=state,
        reason=reason,
        quote=0.0,
        rank=None,
        propensity=None,
        check=check if state is not DemandState.HELD else None,
    )


def live(path: str, role: str, tier: Tier) -> DemandView:
    return demand(path, role, tier, state=DemandState.REQUESTED, check_state=CheckState.RUNNING)


def case(*demands: DemandView, on: Ladder | None = None, **changes: Any) -> Case:
    return Case(standing=standing(**changes), ladder=on or ladder(), demands=demands)
