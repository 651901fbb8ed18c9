"""The steps of distillation and of hindsight, which need more than the records of a batch."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any

from examples.train.objectives import Learner, Records
from examples.train.policy import Batch, padded
from verifier_service.client import Client
from verifier_service.domain.hindsight import HindsightRecord
from verifier_service.domain.rewards import RewardRecord
from verifier_service.trainers import distillation, hindsight
from verifier_service.trainers.teachers import Continuation, Teacher, Teachers, TeacherScore

Step = Callable[[Batch, Records], int]
BEGIN_ID = 1
LONGEST_KL = 5.0


def distilling(learner: Learner, url: str, model: str) -> Step:
    """Every token of a verified sample is taught with minus its reverse KL to the teacher at ``url``.

    What the service could not verify, and what the teacher did not answer, is left out.
    """
    teacher = Teacher(url=url, model=model, dialect="echo", extra={"return_tokens_as_token_ids": True})

    def step(batch: Batch, records: Records) -> int:
        scored = [record is not None and record.reward is not None for record in records]
        answers = asyncio.run(_asked(teacher, batch))
        mask = batch.mask.numpy() & [[taught] for taught in scored]
        targets = distillation.reverse_kl(
            batch.logprobs.numpy(),
            distillation.padded(answers, batch.tokens.shape[1]),
            mask,
            clip=LONGEST_KL,
        )
        return learner.distilled(batch, targets.advantage, targets.mask)

    return step


async def _asked(teacher: Teacher, batch: Batch) -> list[TeacherScore]:
    rows = [row[inside].tolist() for row, inside in zip(batch.tokens, batch.mask, strict=True)]
    async with Teachers(teacher) as teachers:
        return await teachers.logprobs([Continuation([BEGIN_ID], row) for row in rows])


def learning_from_mistakes(learner: Learner, client: Client, run: str, seed: int) -> Step:
    """Each mistake of the batch that has a hint is joined to a better member of its group: the policy is
    taught to write that, once after the hint (chain of hindsight) and once at the start (what it samples).
    """
    chooser = random.Random(seed)
    cursor = 0

    def step(batch: Batch, records: Records) -> int:
        nonlocal cursor
        known = {record.trajectory: record for record in records if record is not None}
        texts = {
            record.trajectory: text
            for record, text in zip(records, batch.texts, strict=True)
            if record is not None
        }
        pairs: list[tuple[str, list[int]]] = []
        for page in hindsight.pages(client, run, after=cursor):
            cursor = page.cursor
            for mistake in page.records:
                found = _better(mistake, list(known.values()), chooser)
                if mistake.trajectory in known and found is not None:
                    pairs += _examples(learner, mistake, found, texts[found.trajectory])
        rows = [(learner.policy.vocabulary.encode(text), hints) for text, hints in pairs]
        if rows:
            tokens, mask = padded([row for row, _ in rows])
            learner.imitated(tokens, mask, [hints for _, hints in rows])
        return len(rows)

    return step


def _better(
    mistake: HindsightRecord, members: Sequence[RewardRecord], chooser: random.Random
) -> RewardRecord | None:
    """A member with a higher reward, drawn in proportion to how much higher."""
    least = mistake.reward or 0.0
    above = [one for one in members if one.reward is not None and one.reward > least]
    if not above:
        return None
    return chooser.choices(above, [(one.reward or 0.0) - least for one in above])[0]


def _examples(
    learner: Learner, mistake: HindsightRecord, found: RewardRecord, text: str
) -> list[tuple[str, list[int]]]:
    """What to write, and the hints that it is written after."""
    says: list[dict[str, Any]] = [{"role": "assistant", "content": text}]
    correction = hindsight.Correction(says, found)
    after = hindsight.chain(mistake, correction)
    at_once = hindsight.sft(mistake, correction)
    kinds = list(dict.fromkeys(learner.policy.vocabulary.hint(hint.kind) for hint in mistake.hints))
    return [(after["completion"][-1]["content"], kinds), (at_once["completion"][-1]["content"], [])]
