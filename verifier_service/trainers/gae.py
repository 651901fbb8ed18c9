"""Generalised advantage estimation over tokens, and over turns. A reference: plain, in float64.

Schulman et al. 2016, arXiv 1506.02438, eq. 16: A_t = sum over l of (gamma lambda)^l delta_{t+l}, with
delta_t = r_t + gamma V_{t+1} - V_t.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from verifier_service.trainers.numeric import ArrayLike, Flags, Floats, floats, mask_like, np
from verifier_service.trainers.spans import Span, action_mask


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimated:
    """``advantages`` (B, T) and ``returns`` (B, T): targets of the value function, in units of reward; 0
    where not masked in. ``value_mask`` (B, T): the tokens whose value the returns are targets for."""

    advantages: Floats
    returns: Floats
    value_mask: Flags


def gae(
    rewards: ArrayLike,
    values: ArrayLike,
    mask: ArrayLike,
    *,
    gamma: float = 1.0,
    lam: float = 0.95,
    bootstrap: ArrayLike | None = None,
) -> Estimated:
    """GAE over tokens. ``rewards``, ``values``, ``mask`` are (B, T): the value is that before the token,
    the mask is 1 on the tokens that the policy wrote.

    Steps are the masked-in tokens only: the step after a turn's last token is the next turn's first, and
    what stands between (observations, padding) is read nowhere, NaN or not. ``bootstrap`` (B,): the value
    after the last token, for sequences that were cut off rather than ended; 0 without it.
    """
    given, known, steps = _inputs(rewards, values, mask)
    after, running = _bootstrap(bootstrap, len(given)), np.zeros(len(given))
    advantages = np.zeros_like(given)
    for at in range(given.shape[1] - 1, -1, -1):
        step = steps[:, at]
        delta = given[:, at] + gamma * after - known[:, at]
        running = np.where(step, delta + gamma * lam * running, running)
        after = np.where(step, known[:, at], after)
        advantages[:, at] = np.where(step, running, 0.0)
    return Estimated(
        advantages=advantages, returns=np.where(steps, advantages + known, 0.0), value_mask=steps
    )


def turn_gae(
    rewards: ArrayLike,
    values: ArrayLike,
    spans: Sequence[Sequence[Span]],
    *,
    gamma: float = 1.0,
    lam: float = 0.95,
    bootstrap: ArrayLike | None = None,
) -> Estimated:
    """GAE with a turn as one step: gamma and lambda count turns, not tokens.

    ``rewards``, ``values`` (B, T); ``spans``: the turns of each sequence. A turn's reward is the sum over
    its tokens, its value that before its first token. All tokens of a turn get the turn's advantage, and
    ``returns`` stands on its first token, the only one in ``value_mask``. Turns without tokens are no
    steps. (The same recursion over the semi-Markov process of whole turns: Sutton, Precup, Singh 1999.)
    """
    given, known = floats(rewards, "rewards", 2), floats(values, "values", 2)
    if given.shape != known.shape or len(spans) != len(given):
        raise ValueError(f"rewards {given.shape}, values {known.shape} and {len(spans)} rows of spans")
    turns = [[span for span in row if not span.empty] for row in spans]
    shape = (len(given), max((len(row) for row in turns), default=0))
    earned, before, steps = np.zeros(shape), np.zeros(shape), np.zeros(shape, dtype=np.bool_)
    for row, mine in enumerate(turns):
        action_mask(mine, given.shape[1])
        for turn, span in enumerate(mine):
            earned[row, turn] = given[row, span.start : span.stop].sum()
            before[row, turn], steps[row, turn] = known[row, span.start], True
    whole = gae(earned, before, steps, gamma=gamma, lam=lam, bootstrap=bootstrap)
    advantages, returns = np.zeros_like(given), np.zeros_like(given)
    firsts = np.zeros(given.shape, dtype=np.bool_)
    for row, mine in enumerate(turns):
        for turn, span in enumerate(mine):
            advantages[row, span.start : span.stop] = whole.advantages[row, turn]
            returns[row, span.start] = whole.returns[row, turn]
            firsts[row, span.start] = True
    return Estimated(advantages=advantages, returns=returns, value_mask=firsts)


def _inputs(rewards: ArrayLike, values: ArrayLike, mask: ArrayLike) -> tuple[Floats, Floats, Flags]:
    given, known = floats(rewards, "rewards", 2), floats(values, "values", 2)
    if given.shape != known.shape:
        raise ValueError(f"values has shape {known.shape}, expected {given.shape}")
    steps = mask_like(mask, given)
    for name, array in (("rewards", given), ("values", known)):
        if not np.isfinite(array[steps]).all():
            raise ValueError(f"{name} must be finite where the mask is 1")
    return np.where(steps, given, 0.0), np.where(steps, known, 0.0), steps


def _bootstrap(bootstrap: ArrayLike | None, rows: int) -> Floats:
    if bootstrap is None:
        return np.zeros(rows)
    made = floats(bootstrap, "bootstrap", 1)
    if made.shape != (rows,) or not np.isfinite(made).all():
        raise ValueError(f"bootstrap must be {rows} finite numbers")
    return made.copy()
