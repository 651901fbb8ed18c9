"""Which observation answers which call, over the turns of one trajectory, in linear time."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from verifier_service.domain.trajectories import Observation, ToolCall, Turn


@dataclass(slots=True)
class Step:
    """One call with the observations that answer it; ``turn`` is the turn that made the call."""

    turn: int
    call: ToolCall
    observations: list[Observation] = field(default_factory=list)


@dataclass(slots=True)
class Pairing:
    """All calls in order, and the observations (with their turn) that answer none of them."""

    steps: list[Step] = field(default_factory=list)
    stray: list[tuple[int, Observation]] = field(default_factory=list)
    duplicates: list[tuple[int, str]] = field(default_factory=list)


def pair(turns: Sequence[Turn]) -> Pairing:
    """Match observations with calls of the same or an earlier turn.

    An observation that names a call answers the latest call with that id. One that names none
    answers, in order, the unanswered calls of its own turn (what is left over belongs to the last
    of them), or in a turn without calls the oldest unanswered one. Anything else is stray.
    ``duplicates`` are ids that two calls of one turn share: no observation can tell them apart.
    """
    pairing = Pairing()
    latest: dict[str, Step] = {}
    waiting: deque[Step] = deque()
    for number, turn in enumerate(turns):
        own = deque(Step(number, call) for call in turn.calls)
        pairing.steps.extend(own)
        for step in own:
            if step.call.id is None:
                continue
            if step.call.id in latest and latest[step.call.id].turn == number:
                pairing.duplicates.append((number, step.call.id))
            latest[step.call.id] = step
        waiting.extend(own)
        last = own[-1] if own else None
        for observation in turn.observations:
            if observation.call is not None:
                answered = latest.get(observation.call)
            else:
                answered = _unanswered(own if turn.calls else waiting) or last
            if answered is None:
                pairing.stray.append((number, observation))
            else:
                answered.observations.append(observation)
    return pairing


def _unanswered(steps: deque[Step]) -> Step | None:
    while steps:
        step = steps.popleft()
        if not step.observations:
            return step
    return None
