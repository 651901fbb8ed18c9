"""Rewards on tokens, for PPO: each turn's process reward where the turn ends, the outcome at the end.

Placed so that a sequence's token rewards sum to its record's reward, whatever was cut off or merged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from verifier_service.domain.rewards import RewardRecord
from verifier_service.trainers.numeric import Flags, Floats, np
from verifier_service.trainers.spans import Span, action_mask

TOLERANCE = 1e-6


class Inconsistent(ValueError):
    """A record whose parts do not add up to its reward, or that is not about these turns."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenRewards:
    """Token rewards of B sequences, padded on the right to T.

    ``rewards`` (B, T): in units of the record's reward; 0 where ``mask`` is false and on masked samples.
    ``mask`` (B, T): the tokens that the policy wrote, all false on masked samples.
    ``scored`` (B,): whether the sample has a reward and a token to put it on; only such samples may be
    trained on. A row that is not scored is not a row of reward 0.
    """

    rewards: Floats
    mask: Flags
    scored: Flags


def place(record: RewardRecord, spans: Sequence[Span], length: int) -> Floats | None:
    """(``length``,) token rewards of one sequence; ``None`` where the record has no reward, or no turn has
    a token.

    With n judged turns, each gets w process[t] / n on its last token (w the ladder's process weight), and
    the last token of the last turn gets the outcome: the parts of reward = outcome + w mean(process). A
    turn without tokens (cut off, never tokenised, merged into its neighbour) hands its part to the last
    token that the policy wrote before it, or else to the first after it.

    ``spans``: one per turn of the record, in order, and at most one more for a closing message that was
    submitted as the answer only. Raises ``Inconsistent`` for another number of turns, or a record that
    does not add up; ``ValueError`` for spans that overlap or reach beyond ``length``.
    """
    written = action_mask(spans, length)
    if record.reward is None or not written.any():
        return None
    turns = len(record.process)
    if turns and not turns <= len(spans) <= turns + 1:
        raise Inconsistent(
            f"{record.trajectory}: {turns} turns were judged, and there are {len(spans)} spans"
        )
    parts = turn_parts(record)
    positions = np.flatnonzero(written)
    rewards = np.zeros(length)
    for turn, part in enumerate(parts):
        if part:
            rewards[_last_token(spans[turn], positions)] += part
    # Whatever rounding left over goes along, so that the sum is the reward itself.
    rewards[positions[-1]] += record.reward - float(np.sum(parts))
    return rewards


def turn_parts(record: RewardRecord) -> Floats:
    """(turns,) the part of the reward that each turn earned: w process[t] / n, 0 where not judged. The rest
    of the reward is the outcome. Raises ``Inconsistent``."""
    judged = [value for value in record.process if value is not None]
    scale = record.process_weight / len(judged) if judged else 0.0
    parts = np.array(
        [0.0 if value is None else scale * value for value in record.process], dtype=np.float64
    )
    if record.reward is not None and record.outcome is not None:
        gap = record.reward - record.outcome - float(parts.sum())
        if abs(gap) > TOLERANCE:
            raise Inconsistent(f"{record.trajectory}: outcome and process miss the reward by {gap:g}")
    return parts


def token_rewards(
    records: Sequence[RewardRecord | None], spans: Sequence[Sequence[Span]], length: int
) -> TokenRewards:
    """Token rewards of a batch; ``None`` stands for a record that never came. See ``place``."""
    if len(records) != len(spans):
        raise ValueError(f"{len(records)} records and spans of {len(spans)} sequences")
    shape = (len(records), length)
    rewards, mask = np.zeros(shape), np.zeros(shape, dtype=np.bool_)
    scored = np.zeros(len(records), dtype=np.bool_)
    for row, (record, turns) in enumerate(zip(records, spans, strict=True)):
        placed = place(record, turns, length) if record is not None else None
        if placed is not None:
            rewards[row], mask[row], scored[row] = placed, action_mask(turns, length), True
    return TokenRewards(rewards=rewards, mask=mask, scored=scored)


def _last_token(span: Span, positions: np.ndarray[tuple[int], np.dtype[np.int64]]) -> int:
    """Where a turn's reward goes: the last token written by its end, or else the first of all."""
    return int(positions[max(0, int(np.searchsorted(positions, span.stop)) - 1)])
