"""From votes to a result: the rule, pure.

An item takes N votes, fixed when it was made. One verdict by all of them is the result. Else one further
person is asked, and the result is what most of all N + 1 say; where as many say one as the other, what that
person says. The order of the first N votes does not matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from verifier_service.domain.gold import GoldExpected
from verifier_service.domain.reviews import Vote

Said = Literal["accept", "reject"]


class Tally(NamedTuple):
    """Where an item stands. ``verdict`` is there once it is decided; ``wanted`` is how many more votes it
    takes."""

    state: Literal["open", "disputed", "decided"]
    verdict: Said | None
    wanted: int


class Judged(NamedTuple):
    """An item whose result has taken effect, with its votes, oldest first. ``expected``: it was a gold one,
    and this is known of it."""

    review: str
    approvals: int
    expected: GoldExpected | None
    votes: tuple[Vote, ...]


def tally(votes: Sequence[Said], approvals: int) -> Tally:
    """Judge the votes, oldest first."""
    first = votes[:approvals]
    if len(first) < approvals:
        return Tally("open", None, approvals - len(first))
    if len(set(first)) == 1:
        return Tally("decided", first[0], 0)
    if len(votes) > approvals:
        return Tally("decided", most(votes[: approvals + 1]) or votes[approvals], 0)
    return Tally("disputed", None, 1)


def most(votes: Sequence[Said]) -> Said | None:
    """What more than half of the votes say."""
    accepted = sum(vote == "accept" for vote in votes)
    if 2 * accepted == len(votes):
        return None
    return "accept" if 2 * accepted > len(votes) else "reject"
