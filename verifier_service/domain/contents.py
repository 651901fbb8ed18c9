"""From a submission to the row that is stored: its name, its digests, its text."""

from __future__ import annotations

import re

from verifier_service.domain.cases import Body, NewTrajectory, Standing
from verifier_service.domain.digests import canonical_json, digest, raw_digest
from verifier_service.domain.errors import InvalidInput
from verifier_service.domain.extraction import candidate_of
from verifier_service.domain.ladders import Ladder
from verifier_service.domain.trajectories import TrajectorySubmission

CONTENT_ID_PREFIX = "c-"
NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def new_trajectory(item: TrajectorySubmission, ladder: Ladder, secret: str) -> NewTrajectory:
    """The row of a submission; ``secret`` is the project's, and salts its name.

    Raises ``InvalidInput`` for NUL characters, which no database keeps.
    """
    dumped = item.model_dump(mode="json", exclude={"id"})
    turns = canonical_json(dumped.pop("turns"))
    rest = canonical_json(dumped)
    if _has_nul(turns) or _has_nul(rest):
        raise InvalidInput("nul_character", "text must not contain the NUL character")
    turns_digest = digest("turns", turns)
    content = digest("content", secret, rest, turns_digest)
    source = ladder.spec.candidate
    return NewTrajectory(
        id=item.id if item.id is not None else CONTENT_ID_PREFIX + content,
        content=content,
        group=item.group,
        group_size=item.group_size,
        policy_version=item.policy_version,
        ladder=ladder.name,
        ladder_version=ladder.version,
        subject=raw_digest(source.kind, candidate_of(source, item.answer, item.turns)),
        turns_digest=turns_digest,
        n_turns=len(item.turns),
        finished=item.finished,
        body=body_of(item).model_dump_json(exclude_defaults=True, exclude={"turns"}),
        turns=turns,
    )


def _has_nul(text: str) -> bool:
    """Whether JSON text escapes a NUL; the plain search first, for it is fifty times as fast."""
    return "\\u0000" in text and NUL.search(text) is not None


def body_of(submission: TrajectorySubmission) -> Body:
    """What is kept of a submission beside its row."""
    return Body.model_construct(
        prompt=submission.problem.prompt,
        inputs=submission.problem.inputs,
        reference=submission.problem.reference,
        turns=submission.turns,
        answer=submission.answer,
        metadata=submission.metadata,
    )


def standing_of(item: NewTrajectory, project: str, run: str, pk: int) -> Standing:
    """A row as it will be when it has just been stored."""
    return Standing(
        pk=pk,
        project=project,
        run=run,
        id=item.id,
        content=item.content,
        multiplicity=1,
        group=item.group,
        group_size=item.group_size,
        policy_version=item.policy_version,
        ladder=item.ladder,
        ladder_version=item.ladder_version,
        subject=item.subject,
        canonical=None,
        identified=False,
        turns_digest=item.turns_digest,
        n_turns=item.n_turns,
        finished=item.finished,
        cancelled=False,
        needs_decision=False,
        decided_on=-1,
        decision=None,
        propensity=None,
        audited=False,
        predicted=None,
        status=None,
        reward=None,
        outcome=None,
        variance=None,
        revision=0,
        seq=None,
        fingerprint=None,
        met=-1,
        created_at=0.0,
    )
