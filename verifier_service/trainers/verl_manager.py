"""The reward manager for verl, named by the lines of its configuration::

    reward.reward_manager.source=importlib
    reward.reward_manager.module.path=pkg://verifier_service.trainers.verl_manager
    reward.reward_manager.name=VerifierRewardManager
    +reward.reward_kwargs.run=my-run
    +reward.reward_kwargs.ladder=math
    algorithm.adv_estimator=verified_grpo

Beyond ``verl.compute_score`` it sends the prompt, the group and the policy version, reads chat messages
where the agent loop leaves them, and can mask instead of raising. Tested with verl 0.9.1.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, TypeAlias

from verifier_service.domain.rewards import RewardRecord
from verifier_service.trainers import chat
from verifier_service.trainers.scoring import Misconfigured, Scored, Scoring, score
from verifier_service.trainers.spans import turn_spans
from verifier_service.trainers.tokens import turn_parts
from verifier_service.trainers.verl import (
    MESSAGES,
    NAN,
    NotVerified,
    info,
    ladder_of,
    object_in,
    plain,
    prompt_in,
    reference_in,
)

try:
    from verl.experimental.reward_loop.reward_manager import register
    from verl.experimental.reward_loop.reward_manager.base import (
        RewardManagerBase,
    )

    from verifier_service.trainers import verl_advantages
except ImportError as error:
    raise ImportError(
        f"verifier_service.trainers.verl_manager runs inside verl, which is not here (tested with "
        f"verl 0.9.1): {error}"
    ) from error

Unscored: TypeAlias = Literal["raise", "mask"]


class TurnScore(float):
    """A reward that remembers its turns, through pickling: ``turns[t]`` is what turn t contributes, and the
    rest of the number is the outcome's."""

    turns: tuple[float, ...]

    def __new__(cls, value: float, turns: Sequence[float] = ()) -> TurnScore:
        made = super().__new__(cls, value)
        made.turns = tuple(turns)
        return made

    def __reduce__(self) -> tuple[type[TurnScore], tuple[float, tuple[float, ...]]]:
        return TurnScore, (float(self), self.turns)

    @classmethod
    def of(cls, record: RewardRecord) -> TurnScore:
        """A record's reward, which must be there; see ``turn_parts``."""
        if record.reward is None:
            raise ValueError(f"{record.trajectory} has no reward")
        return cls(record.reward, turn_parts(record).tolist())


@register("verifier")
class VerifierRewardManager(RewardManagerBase):  # type: ignore[misc]
    """Scores rollouts of one run. Hundreds of concurrent ``run_single`` travel in few requests.

    ``reward.reward_kwargs``: ``ladder`` (a name, or a name by data source); ``run`` (default: the
    trainer's experiment name); ``reference`` (the field that a ground truth becomes, default ``answer``);
    ``unscored``; and the arguments of ``Scoring``.

    ``unscored`` ``raise`` (the default): ``run_single`` raises ``NotVerified``, and verl's trainer of
    version 1 goes on without the rollout. Where that can leave one rollout of a group alone
    (``trainer_mode=sync``), ``algorithm.adv_estimator`` must be one of ``lone_safe``. ``mask``: the score
    is NaN and ``verified`` is 0; needs one of ``verl_advantages.NAMES``, because any other would spread the
    NaN. Another estimator is ``Misconfigured``.
    """

    lone_safe: ClassVar[tuple[str, ...]] = (*verl_advantages.NAMES, *verl_advantages.LONE_SAFE)
    """Estimators that do not take a lone rollout's reward for its advantage. A subclass may add its own."""

    def __init__(
        self,
        config: Any,
        tokenizer: Any,
        compute_score: Any = None,
        **_: object,
    ) -> None:
        super().__init__(config, tokenizer, compute_score)
        options = {**(config.reward.get("reward_kwargs") or {})}
        if "ladder" not in options:
            raise Misconfigured("reward.reward_kwargs.ladder says by which ladder to verify; it is not set")
        self._ladders = _plain_ladders(options.pop("ladder"))
        self._reference = str(options.pop("reference", "answer"))
        self._unscored = _unscored(options.pop("unscored", "raise"))
        self._check_estimator(config)
        self._run = str(options.pop("run", None) or config.trainer.experiment_name)
        self._options = options
        Scoring(run=self._run, ladder="", **options)  # a misspelt option stops the worker, not a rollout

    def _check_estimator(self, config: Any) -> None:
        """Raises ``Misconfigured`` where what was not verified would become an advantage."""
        estimator = str(config.algorithm.adv_estimator)
        if self._unscored == "mask" and estimator not in verl_advantages.NAMES:
            raise Misconfigured(
                "reward.reward_kwargs.unscored=mask needs algorithm.adv_estimator to be one of "
                f"{', '.join(verl_advantages.NAMES)}; {estimator} would take a rollout without a reward "
                "into its group's mean"
            )
        if self._unscored == "raise" and _loses_members(config) and estimator not in self.lone_safe:
            raise Misconfigured(
                "a rollout that was not verified is missing from its group, and algorithm.adv_estimator="
                f"{estimator} gives the last one left its reward itself as advantage: set "
                f"algorithm.adv_estimator=verified_grpo (or one of {', '.join(self.lone_safe)})"
            )

    async def run_single(self, data: Any) -> dict[str, Any]:
        """``reward_score`` and ``reward_extra_info`` (see ``info``) of the last row of a ``DataProto``: the
        outputs before it belong to the same rollout. Raises ``NotVerified``, and what ``score`` raises."""
        item = data[-1:][0]
        fields = item.non_tensor_batch
        source = str(fields.get("data_source", ""))
        ladder = ladder_of(self._ladders, source)
        asked = Scoring(run=self._run, ladder=ladder, **self._options)
        extra = plain(fields.get("extra_info") or {})
        [scored] = await score(
            asked,
            [
                chat.submission(
                    ladder,
                    prompt=_messages(fields.get("raw_prompt")) or prompt_in(extra),
                    completion=await self._completion(item),
                    reference=reference_in(
                        _ground_truth(fields.get("reward_model")), extra, self._reference
                    ),
                    inputs=object_in(extra, "inputs"),
                    group=_text(fields.get("uid")),
                    policy_version=_text(fields.get("global_steps")),
                    metadata={"data_source": source},
                )
            ],
        )
        if scored.code is not None and self._unscored == "raise":
            raise NotVerified(scored.id, scored.code, scored.message)
        return {"reward_score": _score(scored), "reward_extra_info": info(scored)}

    @classmethod
    def assemble_rm_scores(cls, data: Any, scores: list[float]) -> Any:
        """Token-level rewards (B, T): what each turn earned stands at the turn's last token, the outcome at
        the last token of the response. Every row adds up to its score.

        Turns are the runs of ones of ``response_mask``. Where that is not in ``data``, or has another
        number of runs than the record has turns, everything stands at the last token.
        """
        placed = super().assemble_rm_scores(data, scores)
        if "response_mask" not in data.batch:
            return placed
        last = data.batch["attention_mask"][:, data.batch["prompts"].size(1) :].sum(dim=1) - 1
        for row, value in enumerate(scores):
            turns = value.turns if isinstance(value, TurnScore) else ()
            spans = turn_spans(data.batch["response_mask"][row].tolist())
            if turns and len(spans) == len(turns):
                for span, earned in zip(spans, turns, strict=True):
                    placed[row, span.stop - 1] += earned
                placed[row, last[row]] -= sum(turns)
        return placed

    async def _completion(self, item: Any) -> chat.Text:
        """The messages that the agent loop left in ``extra_fields["messages"]``, or the response's text."""
        told = _messages((item.non_tensor_batch.get("tool_extra_fields") or {}).get(MESSAGES))
        if told:
            return told
        responses = item.batch["responses"]
        length = int(item.batch["attention_mask"][-responses.shape[-1] :].sum())
        text: str = await asyncio.to_thread(
            self.tokenizer.decode, responses[:length], skip_special_tokens=True
        )
        return text


def _score(scored: Scored) -> float:
    return NAN if scored.record is None or scored.reward is None else TurnScore.of(scored.record)


def _unscored(chosen: object) -> Unscored:
    if chosen == "raise":
        return "raise"
    if chosen == "mask":
        return "mask"
    raise Misconfigured(f"reward.reward_kwargs.unscored must be 'raise' or 'mask', not {chosen!r}")


def _loses_members(config: Any) -> bool:
    """Whether verl trains on a group of which a rollout failed: its trainer of version 1 does in mode
    ``sync``. Its asynchronous modes throw the group away, and the legacy trainer stops."""
    version_1 = config.trainer.get("v1") or {}
    return bool(config.trainer.get("use_v1", True)) and version_1.get("trainer_mode", "sync") == "sync"


def _plain_ladders(ladders: Any) -> str | dict[str, str]:
    if isinstance(ladders, Mapping):
        return {str(source): str(ladder) for source, ladder in ladders.items()}
    return str(ladders)


def _messages(found: object) -> list[dict[str, Any]]:
    """Chat messages from the list or the array in which verl carries them."""
    messages = plain(found)
    return messages if isinstance(messages, list) else []


def _ground_truth(reward_model: object) -> object:
    return reward_model.get("ground_truth") if isinstance(reward_model, Mapping) else None


def _text(value: object) -> str | None:
    return None if value is None else str(value)
