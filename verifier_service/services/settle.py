"""Issue reward records for what has changed. Append-only: corrections are new revisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from datetime import UTC, datetime
from operator import attrgetter

from verifier_service.domain.cases import Case, Standing
from verifier_service.domain.digests import digest
from verifier_service.domain.evidence import Tier
from verifier_service.domain.models import ladder_of
from verifier_service.domain.ports.policy import Beliefs
from verifier_service.domain.ports.runs import StandingUpdate
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.rewards import Issued, RewardRecord
from verifier_service.domain.scoring import MET_NOTHING, Draft, met_rank, score
from verifier_service.domain.states import RewardStatus


def settle(
    tx: Transaction,
    beliefs: Beliefs,
    cases: Sequence[Case],
    *,
    closing: bool = False,
    correcting: bool = False,
) -> dict[int, Issued]:
    """Append a revision for every case whose reward changed, and write back how far waits are met. Returns
    what was issued, by trajectory.

    While a fast check is live nothing is issued, so a case gets one record for its whole fast tier.
    ``final`` is superseded only by evidence from people. What a better model alone changes is told when it
    moves the reward by more than 0.02 and half a standard deviation. ``correcting``: evidence was taken
    back, so what was told of these cases is superseded at once, whatever it was.
    """
    now = datetime.fromtimestamp(tx.now(), tz=UTC)
    drafts: dict[tuple[str, str], list[tuple[Case, Draft, str]]] = {}
    updates: list[StandingUpdate] = []
    for case in cases:
        told = correcting and case.standing.seq is not None
        if not closing and not told and case.live(up_to=Tier.FAST):
            if case.standing.met != MET_NOTHING:
                updates.append(_update(case, None, MET_NOTHING))
            continue
        standing = case.standing
        model = tx.models.current(ladder_of(standing)) if beliefs.learns(case.ladder) else None
        draft = score(case, beliefs.estimate(case.ladder, case.rung_evidence(), model), closing=closing)
        mark = fingerprint(case, draft)
        same = mark == standing.fingerprint
        stands = _is_settled(case, draft) and not correcting and (same or not case.renewed())
        if (same and not _moved(standing, draft)) or stands:
            met = met_rank(case, standing.status)
            if met != standing.met:
                updates.append(_update(case, None, met))
            continue
        drafts.setdefault((standing.project, standing.run), []).append((case, draft, mark))
    issued: dict[int, Issued] = {}
    for (project, run), group in drafts.items():
        stored = tx.rewards.append(project, run, [_record(case, draft, now) for case, draft, _ in group])
        for record in stored:
            _tell(tx, project, run, record)
        for (case, _, mark), record in zip(group, stored, strict=True):
            met = met_rank(case, record.status)
            updates.append(_update(case, (record, mark), met))
            issued[case.standing.pk] = Issued(record, met)
    if updates:
        tx.trajectories.settle(updates)
    return issued


def _tell(tx: Transaction, project: str, run: str, record: RewardRecord) -> None:
    tx.tell(
        "record issued",
        project=project,
        run=run,
        trajectory=record.trajectory,
        status=record.status.value,
        revision=record.revision,
        seq=record.seq,
        tier=record.tier,
        reason=None if record.reason is None else record.reason.code,
    )


def fingerprint(case: Case, draft: Draft) -> str:
    """What makes a revision: everything but the cost and the numbers, which follow from the evidence and a
    model; and that the trajectory has ended."""
    ended = "finished" if case.standing.finished else "growing"
    drawn = (case.standing.propensity, case.standing.audited)
    return digest("draft", ended, repr(_marking(draft)), repr(drawn))


_NUMBERS = ("cost", "credits", "reward", "outcome", "variance", "interval")
_marking = attrgetter(*(part.name for part in fields(Draft) if part.name not in _NUMBERS))
LEAST_MOVE = 0.02


def _moved(standing: Standing, draft: Draft) -> bool:
    """Whether the reward is another than was told, by more than noise."""
    if draft.reward is None or standing.reward is None:
        return draft.reward is not standing.reward
    sd = (draft.variance or 0.0) ** 0.5
    return bool(abs(draft.reward - standing.reward) > max(LEAST_MOVE, 0.5 * sd))


def _is_settled(case: Case, draft: Draft) -> bool:
    """A final record stands, unless people spoke after it, or its evidence was renewed."""
    if case.standing.status is not RewardStatus.FINAL:
        return False
    return draft.tier is not Tier.LAB


def _record(case: Case, draft: Draft, now: datetime) -> RewardRecord:
    standing = case.standing
    return RewardRecord(
        seq=0,
        run=standing.run,
        trajectory=standing.id,
        multiplicity=standing.multiplicity,
        group=standing.group,
        policy_version=standing.policy_version,
        ladder=standing.ladder,
        ladder_version=standing.ladder_version,
        revision=standing.revision + 1,
        status=draft.status,
        reward=draft.reward,
        outcome=draft.outcome,
        process=draft.process,
        process_weight=draft.process_weight,
        variance=draft.variance,
        interval=draft.interval,
        tier=draft.tier,
        tiers=draft.tiers,
        measurements=draft.measurements,
        hints=draft.hints,
        reward_dr=_doubly_robust(standing, draft),
        propensity=standing.propensity,
        audited=standing.audited,
        reason=draft.reason,
        cost=draft.cost,
        credits=draft.credits,
        evidence=draft.evidence,
        supersedes=standing.seq,
        issued_at=now,
    )


def _doubly_robust(standing: Standing, draft: Draft) -> float | None:
    """m + (A / pi)(y - m) with m as believed before the audit was drawn: its mean over many trajectories is
    the true one, whatever the model (augmented inverse-propensity weighting; Robins, Rotnitzky and Zhao,
    J. Am. Stat. Assoc. 1994, 89, 846). Null where nothing was drawn, or believed, or is known yet."""
    propensity, believed = standing.propensity, standing.predicted
    if propensity is None or believed is None or draft.reward is None or draft.outcome is None:
        return None
    bonus = draft.reward - draft.outcome
    if not standing.audited and propensity < 1.0:
        return believed + bonus
    if not draft.true:
        return None
    return believed + (draft.outcome - believed) / propensity + bonus


def _update(case: Case, issued: tuple[RewardRecord, str] | None, met: int) -> StandingUpdate:
    standing = case.standing
    if issued is None:
        return StandingUpdate(
            pk=standing.pk,
            status=standing.status,
            reward=standing.reward,
            outcome=standing.outcome,
            variance=standing.variance,
            revision=standing.revision,
            seq=standing.seq,
            fingerprint=standing.fingerprint,
            met=met,
        )
    record, mark = issued
    return StandingUpdate(
        pk=standing.pk,
        status=record.status,
        reward=record.reward,
        outcome=record.outcome,
        variance=record.variance,
        revision=record.revision,
        seq=record.seq,
        fingerprint=mark,
        met=met,
    )
