"""SkyRL-gym: an environment whose turns and outcome the service verifies.

Register it where the generator runs, then name it in the data set's ``env_class``::

    skyrl_gym.register(
        id="verified",
        entry_point="verifier_service.trainers.skyrl:VerifiedEnv",
        kwargs={"scoring": Scoring(run="my-run", ladder="organic-gap")},
    )

Needs skyrl-gym (tested with 0.4.0, and with the generator of skyrl 0.3.0).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, TypeAlias

from skyrl_gym.envs.base_text_env import BaseTextEnv
from skyrl_gym.metrics import default_aggregate_metrics

from verifier_service.trainers.chat import reference_of
from verifier_service.trainers.episodes import TURN_S, Episode, Task
from verifier_service.trainers.scoring import Scored, Scoring
from verifier_service.trainers.skyrl_masks import (
    MARK,
    UNFINISHED,
    LeavesOutUnscored,
    Mark,
    MasksUnscored,
)
from verifier_service.trainers.tool_calls import Tools, calls_in, message_of, observe

__all__ = ["LeavesOutUnscored", "MasksUnscored", "Unverified", "VerifiedEnv"]

Pay: TypeAlias = Literal["turns", "end"]


class Unverified(RuntimeError):
    """A trajectory has no verified reward, and nothing is there that would keep it out of the loss."""

    def __init__(self, scored: Scored) -> None:
        super().__init__(
            f"trajectory {scored.id} has no reward: {scored.code}: {scored.message}. To train on without "
            "it, mix verifier_service.trainers.skyrl.MasksUnscored into the generator."
        )
        self.scored = scored


class VerifiedEnv(BaseTextEnv):  # type: ignore[misc]
    """A text environment with tools. An action without a tool call, or the last one that the turn limit
    allows, is the answer.

    ``extras``, the data set's other columns: ``reference`` (object; else SkyRL's
    ``reward_spec.ground_truth``, under ``reference_field`` if it is no object), ``inputs`` (object),
    ``group``, ``group_size``, ``policy_version``, ``metadata``, ``max_turns``.
    ``pay`` ``turns``: each step returns what its turn earned, see ``Episode``; ``end``: the last step
    returns everything, for ``generator.step_wise_trajectories`` and custom chat templates, where SkyRL
    reads the last step's reward only. Either way the steps add up to the record's reward.

    Without a reward the episode ends with 0 and a ``Mark`` under a generator with ``MasksUnscored``, and
    raises ``Unverified`` under any other.

    Subclasses set ``tools`` or override ``calls_in`` and ``observe``.
    """

    tools: ClassVar[Tools] = {}

    def __init__(
        self,
        env_config: Any = None,
        extras: Mapping[str, Any] | None = None,
        *,
        scoring: Scoring,
        pay: Pay = "turns",
        reference_field: str = "answer",
        turn_s: float = TURN_S,
    ) -> None:
        super().__init__()
        if pay not in ("turns", "end"):
            raise ValueError(f"pay: 'turns' or 'end', not {pay!r}")
        self.env_config = env_config
        self.extras = dict(extras or {})
        self.max_turns = int(self.extras.get("max_turns") or 1)
        self.scoring = scoring
        self.episode: Episode | None = None
        self._pay = pay
        self._reference_field = reference_field
        self._turn_s = turn_s
        self._mark: Mark | None = self.extras.get(MARK)

    def calls_in(self, action: str) -> Sequence[Mapping[str, Any]]:
        """The tool calls of an action, as turns hold them: ``id``, ``name``, ``arguments``."""
        return calls_in(action, f"turn{self.turns}")

    def observe(self, call: Mapping[str, Any]) -> Mapping[str, Any]:
        """Run one call; the observation: ``call`` (its id), ``text``, ``is_error``."""
        return observe(self.tools, call)

    def init(self, prompt: Sequence[Mapping[str, Any]]) -> tuple[Any, dict[str, Any]]:
        """Begin. The prompt goes to the model as it is."""
        self.turns = 0
        task = self.task(prompt)
        self.episode = Episode(self.scoring, task, horizon=self.max_turns, turn_s=self._turn_s)
        if self._mark is not None:
            self._mark.begun = True
        return prompt, {}

    def task(self, prompt: Sequence[Mapping[str, Any]]) -> Task:
        """What the service is told about the problem."""
        extras = self.extras
        reference = extras.get("reference")
        if reference is None:
            reference = (extras.get("reward_spec") or {}).get("ground_truth")
        return Task(
            prompt=prompt,
            reference=reference_of(reference, self._reference_field),
            inputs=extras.get("inputs") or {},
            group=extras.get("group"),
            group_size=extras.get("group_size"),
            policy_version=extras.get("policy_version"),
            metadata=extras.get("metadata") or {},
        )

    def step(self, action: str) -> dict[str, Any]:
        """Send the turn; what it earned, what its tools answered, whether this was the end.

        ``metadata["verifier"]``: ``id``, ``code`` and ``message`` where there is no reward, and at the end
        the whole ``record``.
        """
        episode = self._running()
        calls = [dict(call) for call in self.calls_in(action)]
        seen = [dict(self.observe(call)) for call in calls]
        turn = {"message": action, "calls": calls, "observations": seen}
        self.turns += 1
        if not calls or self.turns >= self.max_turns:
            return self._end(episode.finish(action, turn))
        earned = episode.step(turn)
        if episode.ending is not None:
            return self._end(episode.ending)
        paid = 0.0 if earned is None or self._pay == "end" else earned
        observations = [{"role": "user", "content": message_of(seen)}]
        return _output(paid, observations, done=False, verifier={"id": episode.id})

    def close(self) -> None:
        """Cancel a trajectory that never ended."""
        if self.episode is not None:
            self.episode.abandon()

    def get_metrics(self) -> dict[str, Any]:
        """``verifier/turns``, ``verifier/unscored`` (0 or 1), ``verifier/code``, and where there is a
        reward ``verifier/reward`` and ``verifier/credits``: averages are over scored episodes.

        SkyRL asks when a rollout is over. One that never ended, because the context was full, then raises
        ``Unverified`` where no generator would mask it.
        """
        scored = None if self.episode is None else self.episode.ending
        if scored is None and self._mark is None and self.episode is not None:
            raise Unverified(
                Scored(self.episode.id, None, UNFINISHED, "the rollout ended without an answer")
            )
        reward = None if scored is None else scored.reward
        metrics = {"verifier/turns": self.turns, "verifier/unscored": float(reward is None)}
        if scored is not None and scored.record is not None and reward is not None:
            return metrics | {"verifier/reward": reward, "verifier/credits": scored.record.credits}
        return metrics | {"verifier/code": UNFINISHED if scored is None else scored.code}

    @staticmethod
    def aggregate_metrics(metrics: list[dict[str, Any]]) -> dict[str, Any]:
        """Averages: ``verifier/avg_turns`` and so on (SkyRL averages such names where it joins batches, and
        adds others), and for each reason the number of episodes without a reward because of it,
        ``verifier/unscored/{code}``."""
        codes = Counter(one["verifier/code"] for one in metrics if "verifier/code" in one)
        averages = {
            name.replace("verifier/", "verifier/avg_"): value
            for name, value in default_aggregate_metrics(metrics).items()
        }
        return averages | {f"verifier/unscored/{code}": float(count) for code, count in codes.items()}

    def _running(self) -> Episode:
        if self.episode is None:
            raise RuntimeError("step before init")
        return self.episode

    def _end(self, scored: Scored) -> dict[str, Any]:
        episode = self._running()
        verifier: dict[str, Any] = {"id": scored.id, "code": scored.code, "message": scored.message}
        if scored.record is not None:
            verifier["record"] = scored.record.model_dump(mode="json")
        if scored.reward is None:
            if self._mark is None:
                raise Unverified(scored)
            self._mark.code, self._mark.message = scored.code or "", scored.message
            return _output(0.0, [], done=True, verifier=verifier)
        if self._mark is not None:
            self._mark.scored = True
        earned = scored.reward if self._pay == "end" else episode.rest()
        return _output(earned, [], done=True, verifier=verifier)


def _output(
    reward: float, observations: list[dict[str, str]], *, done: bool, verifier: dict[str, Any]
) -> dict[str, Any]:
    """A ``BaseTextEnvStepOutput``."""
    return {
        "observations": observations,
        "reward": reward,
        "done": done,
        "metadata": {"verifier": verifier},
        "postprocessed_action": None,
    }
