"""OpenRLHF's ``--reward.remote_url`` (openrlhf/utils/agent.py of 0.11.2, ``SingleTurnAgentExecutor``).

It sends one sample a request, and other versions of it send empty lists to all endpoints but the first.
``rewards`` and ``scores`` of the reply become tensors as they are. Of ``rewards: [null]`` the trainer dies
where it makes the tensor. ``rewards: null`` with ``scores: [NaN]`` is its "no reward": dynamic filtering
drops the group, for NaN is in no range, and asks for another; without it the run stops at the missing
reward.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field

from verifier_service.api.shims.asked import (
    Asked,
    Format,
    Item,
    Manner,
    Outcome,
    TrainerRequest,
    decoded,
    made,
    reference_of,
    texts,
)
from verifier_service.domain.completions import completion_of, without_end
from verifier_service.domain.errors import InvalidInput
from verifier_service.domain.records import JsonValue

_NUMBERS = {"type": "array", "items": {"type": ["number", "null"]}}


class OpenRlhfRequest(TrainerRequest):
    """``query``: prompt and completion as one text; ``prompts`` and ``labels`` are as long."""

    query: Annotated[list[str], Field(max_length=4_096)]
    prompts: list[str] = []
    labels: list[JsonValue] = []


def read(raw: bytes, manner: Manner) -> Asked:
    """The items of a request. Raises ``InvalidInput`` when the lists do not belong together."""
    body = decoded(raw)
    if not isinstance(body.get("query"), list):
        raise InvalidInput("wrong_type", "'query' must be an array of texts", field="query")
    queries, prompts, labels = (texts(body, field) for field in ("query", "prompts", "labels"))
    if len(queries) > manner.max_batch:
        message = f"a request holds at most {manner.max_batch} items"
        raise InvalidInput("batch_too_large", message, field="query")
    for field, values in (("prompts", prompts), ("labels", labels)):
        if values and len(values) != len(queries):
            raise InvalidInput("wrong_length", f"{field!r} is not as long as 'query'", field=field)
    items = tuple(
        _item(manner, query, prompts[at] if prompts else None, labels[at] if labels else None)
        for at, query in enumerate(queries)
    )
    return Asked(items, body)


def _item(manner: Manner, query: Any, prompt: Any, label: Any) -> Item:
    if not isinstance(query, str):
        return made(manner, {"prompt": "", "reference": {}, "answer": query})
    if not isinstance(prompt, str):
        message = "without its prompt nobody can tell where the completion begins"
        return InvalidInput("prompt_missing", message, field="prompts")
    completion = completion_of(prompt, query)
    if completion is None:
        message = "the query does not begin with the prompt (was it cut to the length limit?)"
        return InvalidInput("prompt_mismatch", message, field="query")
    parts = {
        "prompt": prompt,
        "reference": reference_of(label, manner.reference),
        "answer": without_end(completion, manner.end),
    }
    return made(manner, parts)


def reply(_asked: Asked, outcomes: Sequence[Outcome], _manner: Manner) -> dict[str, Any]:
    """Rewards, scores and logs, each as long as ``query``; the same keys whatever came of the items, for
    the trainer stacks them. ``reasons`` is for people: the trainer does not read it."""
    rewards = [one.reward for one in outcomes]
    return {
        "rewards": None if rewards == [None] else rewards,
        "scores": [math.nan if reward is None else reward for reward in rewards],
        "extra_logs": {
            "verified": [float(reward is not None) for reward in rewards],
            "verifier_credits": [0.0 if one.record is None else one.record.credits for one in outcomes],
        },
        "reasons": [
            None if one.code is None else {"code": one.code, "message": one.message} for one in outcomes
        ],
    }


FORMAT = Format(
    request=OpenRlhfRequest,
    reply_schema={
        "type": "object",
        "required": ["rewards", "scores", "extra_logs"],
        "properties": {
            "rewards": {"anyOf": [_NUMBERS, {"type": "null"}]},
            "scores": {"type": "array", "description": "Numbers, and NaN where there is no reward."},
            "extra_logs": {"type": "object", "additionalProperties": _NUMBERS},
            "reasons": {"type": "array", "items": {"type": ["object", "null"]}},
        },
    },
    read=read,
    reply=reply,
)
