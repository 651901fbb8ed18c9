"""OpenEnv: an environment whose ``/step`` is verified, and a rubric for environments of one's own.

A reward that does not exist is null on the wire; why, is in the observation's ``verifier`` (OpenEnv leaves
an observation's ``metadata`` out of its answers). Tested with openenv-core 0.3.0.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from fastapi import HTTPException
from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State
from openenv.core.rubrics import Rubric

from verifier_service.client import Submission
from verifier_service.trainers.episodes import TURN_S, Episode, Task
from verifier_service.trainers.scoring import Scored, Scoring, score_blocking
from verifier_service.trainers.tool_calls import Tools, calls_in, message_of, observe


class NoTask(HTTPException, ValueError):
    """A request names no task, or one that there is not: status 422 over HTTP."""

    def __init__(self, problem: str) -> None:
        super().__init__(422, f"task: {problem}")


class TextAction(Action):  # type: ignore[misc]
    """What the policy said. Without a tool call it is the answer. ``task`` names the task where there was
    no reset before, as over plain HTTP."""

    text: str
    task: str | None = None


class VerifiedObservation(Observation):  # type: ignore[misc]
    """``prompt`` after a reset, ``text`` of the tools after a step; ``verifier`` has ``id``, at the end the
    ``status`` and ``tier``, and ``code`` and ``message`` where there is no reward."""

    task: str
    prompt: str | list[dict[str, Any]] = ""
    text: str = ""
    verifier: dict[str, Any] = {}


class VerifiedEnvironment(Environment):  # type: ignore[misc]
    """A text environment with tools over named tasks; references stay on this side.

    ``reset`` takes ``task`` (a name) or draws one, by ``seed`` if it is given. Each step's reward is what
    its turn earned, see ``Episode``: null when nothing was verified yet, and null with ``done`` when the
    episode has no reward. The answer ends it, and the last turn of ``max_turns``. ``timeout_s`` of a step
    shortens the wait for the reward. Over HTTP, where OpenEnv makes an environment for each request, a
    step is a whole episode of one turn; longer ones need its WebSocket sessions.
    """

    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True
    tools: ClassVar[Tools] = {}

    def __init__(
        self, scoring: Scoring, tasks: Mapping[str, Task], *, max_turns: int = 1, turn_s: float = TURN_S
    ) -> None:
        super().__init__()
        if not tasks:
            raise ValueError("tasks: at least one")
        self._scoring = scoring
        self._tasks = tasks
        self._max_turns = max_turns
        self._turn_s = turn_s
        self._name = ""
        self._episode_id: str | None = None
        self._episode: Episode | None = None

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, task: str | None = None, **_: Any
    ) -> VerifiedObservation:
        """Begin an episode; its prompt. Raises ``NoTask`` for a task that there is not."""
        self.close()
        name = random.Random(seed).choice(sorted(self._tasks)) if task is None else task  # noqa: S311
        episode = self._begin(name)
        self._episode_id = episode_id or episode.id
        prompt = self._tasks[name].prompt
        told = prompt if isinstance(prompt, str) else [dict(message) for message in prompt]
        return VerifiedObservation(task=name, prompt=told, verifier={"id": episode.id})

    def step(self, action: TextAction, timeout_s: float | None = None, **_: Any) -> VerifiedObservation:
        """One turn. Raises ``NoTask`` without one, and ``ValueError`` after the end."""
        episode = self._episode
        if episode is None:
            if action.task is None:
                raise NoTask("name one, or reset first")
            episode = self._begin(action.task)
        calls = calls_in(action.text, f"turn{episode.turns}")
        seen = [observe(self.tools, call) for call in calls]
        turn = {"message": action.text, "calls": calls, "observations": seen}
        text = message_of(seen)
        if not calls or episode.turns + 1 >= self._max_turns:
            episode.scoring = self._in_time(timeout_s)
            return self._last(episode, episode.finish(action.text, turn), text)
        earned = episode.step(turn)
        if episode.ending is not None:
            return self._last(episode, episode.ending, text)
        return VerifiedObservation(task=self._name, text=text, reward=earned, verifier={"id": episode.id})

    @property
    def state(self) -> State:
        """Episode id and number of turns."""
        episode = self._episode
        turns = 0 if episode is None else episode.turns
        return State(episode_id=None if episode is None else self._episode_id, step_count=turns)

    def close(self) -> None:
        """Cancel an episode that never ended."""
        if self._episode is not None:
            self._episode.abandon()
            self._episode = None

    def _begin(self, name: str) -> Episode:
        task = self._tasks.get(name)
        if task is None:
            raise NoTask(f"there is none called {name[:80]!r}")
        self._name = name
        self._episode = Episode(self._scoring, task, horizon=self._max_turns, turn_s=self._turn_s)
        self._episode_id = self._episode.id
        return self._episode

    def _in_time(self, timeout_s: float | None) -> Scoring:
        if timeout_s is None:
            return self._scoring
        return replace(self._scoring, seconds=min(self._scoring.seconds, timeout_s))

    def _last(self, episode: Episode, scored: Scored, text: str) -> VerifiedObservation:
        return VerifiedObservation(
            task=self._name,
            text=text,
            done=True,
            reward=None if scored.reward is None else episode.rest(),
            verifier=told(scored),
        )


class VerifiedRubric(Rubric):  # type: ignore[misc]
    """A rubric for environments that step synchronously: what ``submission_of`` makes of an action and an
    observation is scored, and null where there is no reward. ``last`` has the reason of the latest call."""

    def __init__(self, scoring: Scoring, submission_of: Callable[[Any, Any], Submission]) -> None:
        super().__init__()
        self.scoring = scoring
        self.submission_of = submission_of
        self.last: Scored | None = None

    def forward(self, action: Any, observation: Any) -> float | None:
        """The reward, or null."""
        [self.last] = score_blocking(self.scoring, [self.submission_of(action, observation)])
        return self.last.reward


def app_of(make: Callable[[], VerifiedEnvironment], *, max_sessions: int = 64) -> Any:
    """A FastAPI application that serves environments, for uvicorn; ``make`` makes one."""
    return create_fastapi_app(make, TextAction, VerifiedObservation, max_concurrent_envs=max_sessions)


def told(scored: Scored) -> dict[str, Any]:
    """What a client is told about a reward."""
    record = scored.record
    known = {} if record is None else {"status": str(record.status), "tier": record.tier}
    missing = {} if scored.code is None else {"code": scored.code, "message": scored.message}
    return {"id": scored.id, **known, **missing}
