"""What a run's log of decisions shows: calibration and economics."""

from __future__ import annotations

from verifier_service.domain.insight import Alternative, RunCalibration, RunEconomics, calibration
from verifier_service.domain.models import RaisedAlarm
from verifier_service.domain.ports.policy import Beliefs
from verifier_service.domain.ports.store import Transaction

MOST_PAIRS = 20_000
POINTS = 100


def run_calibration(tx: Transaction, beliefs: Beliefs, project: str, run: str) -> RunCalibration:
    """How beliefs compared with the truth, over the latest decisions, and whether pay and merit rose
    together. Raises ``NotFound``."""
    tx.runs.get(project, run)
    figures = calibration(run, tx.decisions.foretold(project, run, MOST_PAIRS))
    compared = beliefs.pay_and_merit(tx.decisions.rested(project, run, MOST_PAIRS))
    return figures.model_copy(update={"pay_and_merit": compared})


def run_economics(tx: Transaction, project: str, run: str) -> RunEconomics:
    """Spend by tier, price over time, and what alternatives would have cost. Raises ``NotFound``."""
    report = tx.runs.report(project, run)
    paid = {tier.tier: tier.credits for tier in report.tiers}
    spent = [
        one.model_copy(update={"paid": paid.get(one.tier, 0.0)}) for one in tx.decisions.spend(project, run)
    ]
    alternatives = [
        Alternative(tier=one.tier, credits=report.trajectories * one.quoted / one.requests) for one in spent
    ]
    return RunEconomics(
        run=run,
        candidates=report.trajectories,
        tiers=tuple(spent),
        prices=tuple(tx.decisions.prices(project, run, POINTS)),
        alternatives=tuple(alternatives),
    )


def clear_alarm(tx: Transaction, project: str, alarm: str) -> RaisedAlarm | None:
    """End an alarm that stands; ``None`` if there is none of that id."""
    if not tx.alarms.clear(project, alarm):
        return None
    tx.tell("alarm cleared", project=project, alarm=alarm)
    return tx.alarms.get(project, alarm)
