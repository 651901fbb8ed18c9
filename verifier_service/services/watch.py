"""Look at the audits that have ended, and raise an alarm where they do not look like earlier ones."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence

from verifier_service.domain.cases import Case
from verifier_service.domain.evidence import Tier
from verifier_service.domain.models import Alarm, Audited, LadderKey
from verifier_service.domain.ports.models import Audit, Watch
from verifier_service.domain.ports.policy import Beliefs
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.states import DemandState

LOOKED_AT = 512


def watch(tx: Transaction, beliefs: Beliefs, key: LadderKey) -> list[Alarm]:
    """What the audits of a ladder version, that have ended since the last look, raise.

    Audits end in any order. Each is looked at once: ``done`` names those behind the position from which
    some have not ended.
    """
    ladder = tx.ladders.version(key.project, key.name, key.version)
    if not beliefs.learns(ladder):
        return []
    stood = tx.alarms.watch(key)
    document = json.loads(stood.state) if stood.state is not None else {"done": [], "noted": None}
    done = set(document["done"])
    most = LOOKED_AT + len(done)
    audits = [one for one in tx.decisions.audits(key, stood.through, most) if one.pk not in done]
    cases = {case.standing.pk: case for case in tx.trajectories.cases([one.trajectory for one in audits])}
    ended = [one for one in audits if _has_ended(cases.get(one.trajectory), ladder.spec.truth)]
    if not ended:
        return []
    seen = [found for one in ended if (found := _audited(one, cases[one.trajectory])) is not None]
    noted, raised = beliefs.watch(ladder, document["noted"], seen, tx.models.current(key))
    for alarm in raised:
        tx.alarms.raise_(key, alarm)
        tx.count("alarms", kind=key.name)
        tx.tell(
            "alarm: audits do not look like earlier ones",
            level=logging.WARNING,
            project=key.project,
            ladder=key.name,
            verifier=alarm.verifier,
            stratum=alarm.stratum,
            statistic=alarm.statistic,
        )
    done |= {one.pk for one in ended}
    through = _through(stood.through, audits, done)
    state = json.dumps({"done": sorted(pk for pk in done if pk > through), "noted": noted})
    tx.alarms.watched(key, Watch(through, state))
    return raised


def _has_ended(case: Case | None, truth: Tier) -> bool:
    """Whether the truth is known, or will not be."""
    if case is None:
        return True
    asked = [demand for demand in case.of_role("measure", "outcome", "review") if demand.tier is truth]
    return bool(asked) and all(
        demand.state in (DemandState.SATISFIED, DemandState.WITHDRAWN) for demand in asked
    )


def _audited(audit: Audit, case: Case) -> Audited | None:
    """``None`` where nothing had been believed, or the truth could not be measured."""
    if audit.outcome is None or audit.propensity is None:
        return None
    return Audited(
        key=str(case.standing.pk),
        mean=audit.outcome if audit.mean is None else audit.mean,
        outcome=audit.outcome,
        propensity=audit.propensity,
        evidence=tuple(case.rung_evidence()),
    )


def _through(before: int, audits: Sequence[Audit], done: set[int]) -> int:
    """The position before which every audit has been looked at."""
    through = before
    for audit in audits:
        if audit.pk not in done:
            break
        through = audit.pk
    return through
