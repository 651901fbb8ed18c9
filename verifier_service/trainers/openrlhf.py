"""OpenRLHF's agent mode: completions and episodes with ids, groups and rewards from the service.

``--train.agent_func_path`` names a file that has an ``AgentExecutor``: this one, which reads
``$VERIFIER_RUN`` and ``$VERIFIER_LADDER``, or one of your own::

    from verifier_service.trainers import openrlhf
    from verifier_service.trainers.scoring import Scoring

    class AgentExecutor(openrlhf.AgentExecutor):
        scoring = Scoring(run="my-run", ladder="organic-gap")

A missing reward is ``reward: None`` with ``scores: NaN``: dynamic filtering drops the group, for NaN is in
no range, and samples another; without it the run stops where the reward is missing. Needs openrlhf (tested
with 0.11.2: openrlhf/utils/agent.py and openrlhf/trainer/ppo_utils/samples_generator.py).
"""

from __future__ import annotations

import asyncio
import math
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ClassVar

import torch
from openrlhf.utils.agent import (
    AgentInstanceBase,
    MultiTurnAgentExecutor,
    SingleTurnAgentExecutor,
)

from verifier_service.domain.completions import without_end
from verifier_service.trainers.chat import reference_of, submission
from verifier_service.trainers.environment import scoring_of
from verifier_service.trainers.episodes import TURN_S, Episode, Task
from verifier_service.trainers.labels import object_of
from verifier_service.trainers.scoring import Scored, Scoring, score
from verifier_service.trainers.tool_calls import Tools, calls_in, message_of, observe

__all__ = ["AgentExecutor", "AgentInstance", "TurnsExecutor"]

_THREADS = ThreadPoolExecutor(64, thread_name_prefix="verifier-episodes")  # an episode waits in one

_acting: ContextVar[AgentInstance] = ContextVar("_acting")  # the instance that an executor's task made


class _Group:
    """The samples of one prompt under way. ``of`` is kept, so that no other object takes its place."""

    # No dataclass: OpenRLHF loads this file without a place in ``sys.modules``, where those look.
    def __init__(self, of: object) -> None:
        self.of = of
        self.name = uuid.uuid4().hex
        self.size = 0
        self.running = 0


class _Groups:
    """OpenRLHF gives all samples of a prompt the same object of sampling parameters, and no other name."""

    def __init__(self) -> None:
        self._known: dict[int, _Group] = {}

    @contextmanager
    def member(self, of: object) -> Iterator[_Group]:
        """The group of one more sample, as long as any of it runs."""
        group = self._known.setdefault(id(of), _Group(of))
        group.size += 1
        group.running += 1
        try:
            yield group
        finally:
            group.running -= 1
            if group.running == 0:
                del self._known[id(of)]


class AgentExecutor(SingleTurnAgentExecutor):  # type: ignore[misc]
    """One completion a prompt, verified. ``label``: the reference as an object or its JSON text, or a value
    that becomes its field ``reference_field``. ``ends`` are cut off completions in place of the usual end
    tokens; ``("",)`` cuts off none."""

    scoring: ClassVar[Scoring | None] = None
    reference_field: ClassVar[str] = "answer"
    ends: ClassVar[Sequence[str]] = ()

    def __init__(self) -> None:
        super().__init__()
        self._scoring = self.scoring or scoring_of()
        self._groups = _Groups()

    async def execute(
        self,
        prompt: str,
        label: Any,
        sampling_params: Any,
        max_length: int,
        hf_tokenizer: Any,
        llm_engine: Any,
        images: Any = None,
    ) -> dict[str, Any]:
        """Generate as OpenRLHF does, then wait for the reward."""
        with self._groups.member(sampling_params) as group:
            await asyncio.sleep(0)  # the other samples of the prompt begin, too, and the size is known
            output: dict[str, Any] = await super().execute(
                prompt, label, sampling_params, max_length, hf_tokenizer, llm_engine, images
            )
            [(start, end)] = output["action_ranges"]
            tokens = output["observation_tokens"][start:end]
            text = hf_tokenizer.decode(tokens, skip_special_tokens=True)
            item = submission(
                self._scoring.ladder,
                prompt=prompt,
                completion=without_end(text, self.ends),
                reference=reference_of(object_of(label), self.reference_field),
                group=group.name,
                group_size=group.size,
            )
            [scored] = await score(self._scoring, [item])
            output.update(told(scored))
            return output


class AgentInstance(AgentInstanceBase):  # type: ignore[misc]
    """An episode with tools, verified turn by turn. An action without a tool call, or the last that
    ``max_turns`` allows, is the answer.

    Each step's ``rewards`` is what its turn earned, a tensor of shape (); OpenRLHF adds them up, and the
    sum is the record's reward. NaN, which ``TurnsExecutor`` makes ``None``: there is no reward. ``frame``
    is how the chat template encloses a message to the model, which goes where ``{}`` is. ``ends``: as of
    ``AgentExecutor``; an action still has the model's own end token, so name that, too.
    """

    scoring: ClassVar[Scoring | None] = None
    reference_field: ClassVar[str] = "answer"
    ends: ClassVar[Sequence[str]] = ()
    max_turns: ClassVar[int] = 1
    turn_s: ClassVar[float] = TURN_S
    tools: ClassVar[Tools] = {}
    frame: ClassVar[str] = "{}"

    def __init__(self, *_: Any, **__: Any) -> None:
        self._scoring = self.scoring or scoring_of()
        self.episode: Episode | None = None
        _acting.set(self)

    def calls_in(self, action: str) -> Sequence[Mapping[str, Any]]:
        """The tool calls of an action, as turns hold them: ``id``, ``name``, ``arguments``."""
        return calls_in(action, f"turn{self.episode.turns if self.episode is not None else 0}")

    def observe(self, call: Mapping[str, Any]) -> Mapping[str, Any]:
        """Run one call; the observation: ``call`` (its id), ``text``, ``is_error``."""
        return observe(self.tools, call)

    async def reset(self, states: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Begin with the prompt as it is."""
        reference = reference_of(object_of(states.get("label")), self.reference_field)
        task = Task(prompt=states["observation"], reference=reference)
        self.episode = Episode(self._scoring, task, horizon=self.max_turns, turn_s=self.turn_s)
        return states

    async def step(self, state_dict: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Send the turn; what it earned, what its tools answered, whether this was the end."""
        loop = asyncio.get_running_loop()
        action = without_end(state_dict["action_text"], self.ends)
        return await loop.run_in_executor(_THREADS, self._step, action)

    def _step(self, action: str) -> dict[str, Any]:
        episode = self.episode
        if episode is None:
            raise RuntimeError("step before reset")
        calls = [dict(call) for call in self.calls_in(action)]
        seen = [dict(self.observe(call)) for call in calls]
        turn = {"message": action, "calls": calls, "observations": seen}
        if not calls or episode.turns + 1 >= self.max_turns:
            return _ended(episode, episode.finish(action, turn))
        earned = episode.step(turn)
        if episode.ending is not None:
            return _ended(episode, episode.ending)
        return {
            "rewards": torch.tensor(earned or 0.0, dtype=torch.float64),
            "environment_feedback": self.frame.replace("{}", message_of(seen)),
            "done": False,
            "extra_logs": logs_of(None),
        }


class TurnsExecutor(MultiTurnAgentExecutor):  # type: ignore[misc]
    """Episodes of ``instance``, a subclass of ``AgentInstance``; name your subclass ``AgentExecutor``."""

    instance: ClassVar[type[AgentInstance]] = AgentInstance

    def __init__(self) -> None:
        super().__init__(self.instance)

    async def execute(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """An episode. One that ran out of tokens before its answer has no reward."""
        output: dict[str, Any] = await super().execute(*args, **kwargs)
        episode = _acting.get().episode
        scored = None if episode is None else episode.ending
        if episode is not None and scored is None:
            await asyncio.get_running_loop().run_in_executor(_THREADS, episode.abandon)
        if scored is None or scored.reward is None:
            output.update(reward=None, scores=math.nan, extra_logs=logs_of(scored))
        return output


def _ended(episode: Episode, scored: Scored) -> dict[str, Any]:
    earned = math.nan if scored.reward is None else episode.rest()
    return {
        "rewards": torch.tensor(earned, dtype=torch.float64),
        "scores": told(scored)["scores"],
        "environment_feedback": "",
        "done": True,
        "extra_logs": logs_of(scored),
    }


def told(scored: Scored) -> dict[str, Any]:
    """``reward``, ``scores`` and ``extra_logs`` of an executor's output."""
    known = math.nan if scored.reward is None else scored.reward
    return {"reward": scored.reward, "scores": known, "extra_logs": logs_of(scored)}


def logs_of(scored: Scored | None) -> dict[str, float]:
    """The same keys whatever happened: OpenRLHF stacks them."""
    record = None if scored is None else scored.record
    return {
        "verified": float(scored is not None and scored.reward is not None),
        "verifier_credits": 0.0 if record is None else record.credits,
    }
