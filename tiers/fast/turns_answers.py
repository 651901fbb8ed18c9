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
    answers the oldest call still unanswered. Anything else is stray. ``duplicates`` are ids that
    two calls of one turn share, so that an observation cannot tell them apart.
    """
    pairing = Pairing()
    latest: dict[str, Step] = {}
    waiting: deque[Step] = deque()
    for number, turn in enumerate(turns):
        for call in turn.calls:
            step = Step(number, call)
            pairing.steps.append(step)
            waiting.append(step)
            if call.id is None:
                continue
            if call.id in latest and latest[call.id].turn == number:
                pairing.duplicates.append((number, call.id))
            latest[call.id] = step
        for observation in turn.observations:
            answered = _answered(observation, latest, waiting)
            if answered is None:
                pairing.stray.append((number, observation))
            else:
                answered.observations.append(observation)
    return pairing


def _answered(observation: Observation, latest: dict[str, Step], waiting: deque[Step]) -> Step | None:
    if observation.call is not None:
        return latest.get(observation.call)
    while waiting:
        step = waiting.popleft()
        if not step.observations:
            return step
    return None
