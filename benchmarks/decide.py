"""What deciding costs per candidate, from a thousand open candidates to a million.

    python -m benchmarks.decide [--sizes 1000 10000 100000 1000000] [--objective advantage] [--profile]

Candidates in groups of 8, measured by simulation, whose truth could be bought, under a model fitted to 300
examples; a budget that a tenth of them exhausts, with a price, audits and a pace. CPU time of this process,
best of three up to 100,000. Beside it, on the same candidates:

* ``sort``       numpy's argsort of one number per candidate: no rule that ranks can be cheaper;
* ``choose``     the choice alone, on arrays that are there already;
* ``thresholds`` the rule for runs without a budget.
"""

from __future__ import annotations

import argparse
import cProfile
import math
import pstats
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from scheduler.choice import Budgets, choose
from scheduler.escalation import EscalationPolicy
from scheduler.gains import Objective
from scheduler.learned import LearnedBeliefs
from scheduler.policy import ThresholdPolicy
from scheduler.pool import Pool
from scheduler.worth import Floats
from verifier_service.domain.decisions import (
    BudgetView,
    Estimate,
    FittedModel,
    PolicyCase,
    RungEvidence,
    RunView,
    TierOption,
)
from verifier_service.domain.evidence import Evidence, Measurement, Provenance, Tier, Verdict
from verifier_service.domain.ladders import Ladder, LadderSpec
from verifier_service.domain.maps import QuantityMap
from verifier_service.domain.models import Example
from verifier_service.domain.runs import Budgets as RunBudgets
from verifier_service.domain.runs import Horizon, RunSpec

GROUP = 8
EXAMPLES = 300
REPEATED = 100_000
ROUGH_COST, TRUE_COST = 0.1, 1.0
OBJECTIVES = ("advantage", "discovery", "value")


@dataclass(frozen=True, slots=True)
class Drawn:
    """Numbers of n candidates, all (n,): belief about the reward, its sd, and the truth's cost."""

    mean: Floats
    sd: Floats
    cost: Floats


def main() -> None:
    """Print a row per size."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="*", default=[1_000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--objective", choices=OBJECTIVES, default="advantage")
    parser.add_argument("--profile", action="store_true", help="where the time of the last size goes")
    chosen = parser.parse_args()
    print(f"objective {chosen.objective}; microseconds of CPU per candidate")
    print(f"{'open':>9} {'decide':>8} {'choose':>8} {'thresholds':>11} {'sort':>7} {'decide/sort':>12}")
    for size in chosen.sizes:
        print(row(size, chosen.objective), flush=True)
    if chosen.profile:
        _profiled(chosen.sizes[-1], chosen.objective)


def row(size: int, objective: Objective) -> str:
    """Measure one size."""
    drawn = draw(size)
    view, cases = run_of(size, objective), cases_of(drawn)
    pool, budgets = pool_of(drawn), Budgets.one(size / 10.0, 2)
    repeat = 3 if size <= REPEATED else 1
    each = [
        cpu(what, repeat) / size * 1e6
        for what in (
            lambda: EscalationPolicy().decide(view, cases),
            lambda: choose(pool, objective, budgets, edge=0.9),
            lambda: ThresholdPolicy().decide(view, cases),
            lambda: np.argsort(drawn.sd, kind="stable"),
        )
    ]
    decide, chosen, thresholds, sort = each
    return (
        f"{size:>9,} {decide:>8.1f} {chosen:>8.1f} {thresholds:>11.1f} {sort:>7.3f} {decide / sort:>12,.0f}"
    )


def cpu(work: Callable[[], object], repeat: int) -> float:
    """Seconds of CPU, the best of some."""
    best = math.inf
    for _ in range(repeat):
        began = time.process_time()
        work()
        best = min(best, time.process_time() - began)
    return best


def draw(size: int) -> Drawn:
    """The same numbers for every run of a size."""
    rng = np.random.default_rng(size)
    return Drawn(rng.uniform(0.2, 0.8, size), rng.uniform(0.02, 0.3, size), rng.lognormal(0.0, 0.5, size))


def run_of(size: int, objective: Objective) -> RunView:
    """A budget for a tenth of the truths, audits, and ten times as many candidates still to come."""
    spec = RunSpec(
        budgets=RunBudgets(compute=size * 1.0),
        objective=objective,
        horizon=Horizon(trajectories=10 * size),
        audit_share=0.05,
    )
    return RunView(spec=spec, seed=7, budgets=BudgetView(compute=size * 1.0, human=math.inf))


def cases_of(drawn: Drawn) -> list[PolicyCase]:
    """As the service shows them to a policy."""
    ladder = ladder_of()
    fitted = model(ladder)
    sim = frozenset({Tier.SIMULATION})
    cheap = TierOption(tier=Tier.SIMULATION, account="compute", credits=ROUGH_COST)
    return [
        PolicyCase(
            trajectory=place,
            id=f"t{place}",
            group=f"g{place // GROUP}",
            multiplicity=1,
            ladder=ladder,
            estimate=Estimate(
                tier=Tier.SIMULATION,
                mean=mean,
                variance=sd * sd,
                outcome=mean,
                outcome_variance=sd * sd,
                low=mean - 2 * sd,
                high=mean + 2 * sd,
            ),
            observed=sim,
            failed=frozenset(),
            soft_rejected=False,
            options=(cheap, TierOption(tier=Tier.HIGH_FIDELITY, account="compute", credits=cost)),
            model=fitted,
        )
        for place, (mean, sd, cost) in enumerate(
            zip(drawn.mean.tolist(), drawn.sd.tolist(), drawn.cost.tolist(), strict=True)
        )
    ]


def pool_of(drawn: Drawn) -> Pool:
    """The same as arrays."""
    size = drawn.mean.size
    after = np.column_stack([drawn.sd**2, np.zeros(size)])
    costs = np.column_stack([np.full(size, np.inf), drawn.cost])
    return Pool.of(drawn.mean, drawn.sd**2, after, costs, group=np.arange(size) // GROUP)


def ladder_of() -> Ladder:
    """Two levels that measure, and a linear utility."""
    document = {
        "name": "decide",
        "candidate": {"kind": "molecule", "format": "smiles", "from": "answer"},
        "quantity": {"name": "q", "unit": "1"},
        "utility": {"kind": "linear", "zero": 0.0, "one": 1.0},
        "truth": "high_fidelity",
        "tiers": {"simulation": [{"use": "b.rough"}], "high_fidelity": [{"use": "c.exact"}]},
    }
    return Ladder(name="decide", version=1, digest="d", spec=LadderSpec.model_validate(document))


def model(ladder: Ladder) -> FittedModel:
    """Fitted to examples whose truth was bought."""
    rng = np.random.default_rng(0)
    rough = rng.uniform(0.0, 1.0, EXAMPLES)
    exact = rough + rng.normal(0.0, 0.1, EXAMPLES)
    examples = [
        Example(
            trajectory=place,
            ladder=ladder,
            evidence=(
                _measured("b.rough", Tier.SIMULATION, place, low),
                _measured("c.exact", Tier.HIGH_FIDELITY, place, high),
            ),
        )
        for place, (low, high) in enumerate(zip(rough.tolist(), exact.tolist(), strict=True))
    ]
    fitted = LearnedBeliefs(_no_map).learn(ladder, examples, None)
    assert fitted is not None
    return fitted


def _measured(verifier: str, tier: Tier, place: int, value: float) -> RungEvidence:
    evidence = Evidence(
        check=f"{verifier}:{place}",
        tier=tier,
        verdict=Verdict.INCONCLUSIVE,
        measurements=(Measurement(quantity="q", value=value, unit="1", sigma=0.0),),
        provenance=Provenance(verifier=verifier, version="1"),
    )
    return RungEvidence(path=f"{tier.value}/0", evidence=evidence)


def _no_map(name: str) -> QuantityMap:
    raise LookupError(name)


def _profiled(size: int, objective: Objective) -> None:
    view, cases = run_of(size, objective), cases_of(draw(size))
    with cProfile.Profile() as profile:
        EscalationPolicy().decide(view, cases)
    pstats.Stats(profile).sort_stats("tottime").print_stats(15)


if __name__ == "__main__":
    main()
