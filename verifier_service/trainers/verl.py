"""The reward function for verl:
``reward.custom_reward_function.path=pkg://verifier_service.trainers.verl``.

Tested with verl 0.9.1. verl has no null: a score is a float, and the trainer of version 1
(``trainer.use_v1``, the default) leaves a rollout whose scoring raised out of its group. So
``compute_score`` raises ``NotVerified`` for it. The last one left of a group must not get its reward as
advantage, which a function cannot check: ``algorithm.adv_estimator=verified_grpo``, with
``actor_rollout_ref.model.external_lib=verifier_service.trainers.verl_advantages``. ``verl_manager`` has a
reward manager that checks it and can also mask. Needs no part of verl to import.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from verifier_service.client.errors import VerifierError
from verifier_service.trainers import chat
from verifier_service.trainers.scoring import Misconfigured, Scored, Scoring, score

Ladders: TypeAlias = str | Mapping[str, str]

NAN = float("nan")
MESSAGES = "messages"
OF_REWARD_MODELS = frozenset({"reward_router_address", "reward_model_tokenizer"})


class NotVerified(VerifierError):
    """A rollout has no reward, and verl no way to say so but this. ``code`` is that of ``Scored``."""

    def __init__(self, id: str, code: str, message: str = "") -> None:
        super().__init__(id, code, message)
        self.id = id
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return f"trajectory {self.id} has no reward: {self.code}" + (
            f": {self.message}" if self.message else ""
        )


async def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: object,
    extra_info: Mapping[str, Any] | None = None,
    *,
    run: str,
    ladder: Ladders,
    reference: str = "answer",
    **options: Any,
) -> dict[str, float | str]:
    """The reward of one rollout as ``score``, with the other keys of ``info``; always the same keys.

    ``ladder`` is a name, or a name by data source. A ``ground_truth`` that is no object becomes the
    reference ``{reference: ground_truth}``. Of ``extra_info`` these are used: ``inputs`` (object),
    ``reference`` (object, joined to the ground truth), ``prompt`` (text or messages). Other arguments are
    those of ``Scoring``; the two that verl adds for reward models are not used. Raises ``NotVerified``,
    and what ``score`` raises.
    """
    chosen = {name: value for name, value in options.items() if name not in OF_REWARD_MODELS}
    asked = Scoring(run=run, ladder=ladder_of(ladder, str(data_source)), **chosen)
    extra = plain(extra_info or {})
    [scored] = await score(
        asked,
        [
            chat.submission(
                asked.ladder,
                prompt=prompt_in(extra),
                completion=solution_str,
                reference=reference_in(ground_truth, extra, reference),
                inputs=object_in(extra, "inputs"),
                metadata={"data_source": str(data_source)},
            )
        ],
    )
    if scored.code is not None:
        raise NotVerified(scored.id, scored.code, scored.message)
    return info(scored)


def info(scored: Scored) -> dict[str, float | str]:
    """What verl keeps beside the score, the same keys for every rollout, because verl reads the keys of the
    first one from all. Numbers that are not there are NaN, texts empty.

    ``score``; ``verified`` 1 or 0; ``code`` why there is no number, or ``rejected``; ``tier`` the highest
    with evidence; ``variance`` of the reward; ``outcome`` in [0, 1]; ``credits`` spent; ``trajectory``
    the id to ask the service for. There is no ``acc``: verl counts a failed rollout's ``acc`` as 0 in
    validation.
    """
    record = scored.record
    reason = None if record is None else record.reason
    return {
        "score": NAN if scored.reward is None else scored.reward,
        "verified": 1.0 if scored.code is None else 0.0,
        "code": scored.code or ("" if reason is None else str(reason.code)),
        "tier": "" if record is None or record.tier is None else str(record.tier),
        "variance": NAN if record is None or record.variance is None else record.variance,
        "outcome": NAN if record is None or record.outcome is None else record.outcome,
        "credits": 0.0 if record is None else record.credits,
        "trajectory": scored.id,
    }


def ladder_of(ladders: Ladders, data_source: str) -> str:
    """The ladder of a data source. Raises ``Misconfigured`` where none is named."""
    if isinstance(ladders, str):
        return ladders
    if data_source not in ladders:
        raise Misconfigured(f"no ladder for data source {data_source!r}; there are {', '.join(ladders)}")
    return ladders[data_source]


def reference_in(ground_truth: object, extra: Mapping[str, Any], field: str) -> dict[str, Any]:
    """The ground truth as a reference, with what ``extra_info`` says beyond it; null fields are left
    out."""
    found = {**object_in(extra, "reference"), **chat.reference_of(plain(ground_truth), field)}
    return {name: value for name, value in found.items() if value is not None}


def prompt_in(extra: Mapping[str, Any]) -> chat.Text:
    """The prompt that ``extra_info`` brings, as text or messages; empty where it brings none."""
    found = extra.get("prompt") or ""
    if not isinstance(found, str | list):
        raise Misconfigured(f"extra_info.prompt must be a text or messages, not {type(found).__name__}")
    return found


def object_in(extra: Mapping[str, Any], name: str) -> dict[str, Any]:
    """An object of ``extra_info`` without its null fields: Arrow gives every row all fields."""
    found = extra.get(name)
    if found is None:
        return {}
    if not isinstance(found, Mapping):
        raise Misconfigured(f"extra_info.{name} must be an object, not {type(found).__name__}")
    return {field: value for field, value in found.items() if value is not None}


def plain(value: Any) -> Any:
    """Without numpy: data sets from Parquet hold arrays and numpy numbers where JSON has lists and
    numbers."""
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return plain(value.tolist()) if hasattr(value, "tolist") else value
