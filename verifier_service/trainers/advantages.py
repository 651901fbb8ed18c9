"""Group-relative advantages for a batch of samples: GRPO, Dr. GRPO, RLOO, and weights per token.

The formulas are those of ``verifier_service.domain.advantages``; the service's ``/groups/{group}`` answers
with the same numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from verifier_service.domain import advantages as formulas
from verifier_service.domain.advantages import EPSILON, Estimator, Member
from verifier_service.domain.rewards import RewardRecord
from verifier_service.trainers.numeric import ArrayLike, Flags, Floats, Indices, floats, mask_like, np

Normalisation = Literal["none", "sequence", "token", "constant"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Advantages:
    """Advantages of N samples in G groups. All in units of reward, or of its deviation (``grpo``).

    ``advantage`` (N,): 0 where ``mask`` is false.
    ``mask`` (N,): whether the sample may be trained on. False where there is no reward, and where the
    estimator has no baseline (``rloo`` with one valid sample).
    ``reward`` (N,): NaN where there is none. ``group`` (N,): row of the per-group arrays.
    ``groups``: the G group names, in order of appearance.
    ``mean``, ``std`` (G,): over the samples that have a reward; NaN where none has one.
    ``valid`` (G,): how many have one, with multiplicities.
    ``zero_variance`` (G,): all rewards there are, are equal (one alone is, too): the group teaches nothing.
    DAPO samples other prompts in its place (Yu et al. 2025, arXiv 2503.14476, section 3.2).
    """

    advantage: Floats
    mask: Flags
    reward: Floats
    group: Indices
    groups: tuple[Hashable, ...]
    mean: Floats
    std: Floats
    valid: Floats
    zero_variance: Flags

    def informative(self) -> Flags:
        """(N,): ``mask`` without the samples of zero-variance groups."""
        return self.mask & ~self.zero_variance[self.group]


def group_advantages(
    records: Sequence[RewardRecord | None],
    estimator: Estimator = "grpo",
    *,
    groups: Sequence[Hashable] | None = None,
    ddof: int = 0,
    epsilon: float = EPSILON,
) -> Advantages:
    """Advantages of N samples, each within its group.

    ``records`` (N): the newest record of each sample; ``None`` where none came. A record without a reward,
    and a missing one, is masked and outside mean and deviation. ``groups`` (N): the group of each sample;
    by default the records' own. ``ddof``: 0 divides the squares by n (NumPy), 1 by n - 1 (torch).
    ``epsilon`` is added to the deviation: TRL uses 1e-4, verl 1e-6.

    A record's multiplicity says how many equal samples it stands for. Where the batch has rows for those
    samples (several with one trajectory id), the rows share it.

    Raises ``ValueError`` for a sample without a group, and for lengths that differ.
    """
    places = _places(_names(records, groups))
    rows = Counter(record.trajectory for record in records if record is not None)
    members = [_member(record, rows) for record in records]
    advantage, group = np.full(len(members), np.nan), np.zeros(len(members), dtype=np.int64)
    for row, inside in enumerate(places.values()):
        some = [members[place] for place in inside]
        group[inside] = row
        advantage[inside] = _or_nan(formulas.advantages(some, estimator, ddof=ddof, epsilon=epsilon))
    found = [formulas.statistics([members[at] for at in inside], ddof=ddof) for inside in places.values()]
    return Advantages(
        advantage=np.nan_to_num(advantage, nan=0.0),
        mask=~np.isnan(advantage),
        reward=_or_nan(member.reward for member in members),
        group=group,
        groups=tuple(places),
        mean=_or_nan(one.mean for one in found),
        std=_or_nan(one.std for one in found),
        valid=_or_nan(one.valid for one in found),
        zero_variance=np.array([one.valid > 0 and one.spread == 0.0 for one in found], dtype=np.bool_),
    )


def _or_nan(values: Iterable[float | None]) -> Floats:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def token_weights(
    advantage: ArrayLike,
    token_mask: ArrayLike,
    *,
    sample_mask: ArrayLike | None = None,
    normalise: Normalisation = "token",
    max_tokens: int | None = None,
) -> Floats:
    """(N, T) weights w so that the policy loss is -sum(w * ratio), or -sum(w * logprob) on policy.

    ``advantage`` (N,); ``token_mask`` (N, T): 1 on the tokens that the policy wrote; ``sample_mask`` (N,):
    samples that are trained on, by default all. Masked samples count neither as samples nor with their
    tokens. With A the advantage, |o| a sample's number of tokens and N the number of samples that are
    trained on and have tokens:

    ``none``: A on every token. ``sequence``: A / (N |o|), a mean over samples of means over tokens (GRPO,
    arXiv 2402.03300, eq. 3). ``token``: A / sum of |o| over the batch (DAPO, arXiv 2503.14476, sec. 3.3).
    ``constant``: A / (N ``max_tokens``), where no length is preferred (Dr. GRPO, arXiv 2503.20783,
    section 3.2).
    """
    amounts = floats(advantage, "advantage", 1)
    tokens = np.asarray(token_mask)
    if tokens.ndim != 2 or len(tokens) != len(amounts):
        raise ValueError(f"token_mask has shape {tokens.shape}, expected ({len(amounts)}, T)")
    kept = mask_like(np.ones(len(amounts)) if sample_mask is None else sample_mask, amounts, "sample_mask")
    written = mask_like(tokens, np.zeros(tokens.shape), "token_mask") & kept[:, None]
    if not np.isfinite(amounts[kept]).all():
        raise ValueError("advantage must be finite where the sample is trained on")
    weights: Floats = np.where(written, np.where(kept, amounts, 0.0)[:, None], 0.0)
    lengths = written.sum(axis=1)
    samples = max(1, int((lengths > 0).sum()))
    if normalise == "sequence":
        weights /= (samples * np.maximum(lengths, 1))[:, None]
    elif normalise == "token":
        weights /= max(1, int(lengths.sum()))
    elif normalise == "constant":
        if max_tokens is None or max_tokens < max(1, *lengths):
            raise ValueError("'constant' needs max_tokens, at least the longest sample's number of tokens")
        weights /= samples * max_tokens
    return weights


def _names(records: Sequence[RewardRecord | None], groups: Sequence[Hashable] | None) -> Sequence[Hashable]:
    if groups is not None:
        if len(groups) != len(records):
            raise ValueError(f"{len(records)} records and {len(groups)} groups")
        return groups
    for place, record in enumerate(records):
        if record is None or record.group is None:
            raise ValueError(f"sample {place} has no group: pass groups")
    return [record.group for record in records if record is not None]


def _places(names: Sequence[Hashable]) -> dict[Hashable, list[int]]:
    """The samples of each group, in order of appearance."""
    places: dict[Hashable, list[int]] = {}
    for place, name in enumerate(names):
        places.setdefault(name, []).append(place)
    return places


def _member(record: RewardRecord | None, rows: Counter[str]) -> Member:
    if record is None or record.reward is None:
        return Member(None)
    here = rows[record.trajectory]
    return Member(record.reward, record.variance or 0.0, max(record.multiplicity, here) / here)
