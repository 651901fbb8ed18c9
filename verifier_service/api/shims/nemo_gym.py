"""NeMo Gym's ``/verify`` (nemo_gym/base_resources_server.py, ``BaseVerifyRequest`` and its response).

The request is a Responses API call with its response and the task's fields; the reply repeats it with
``reward``. Gym declares ``reward`` as a number, and from 2026-08 on ``mask_sample``, ``failure_kind`` and
``failure_reason`` beside it. Without a reward it is ``null`` here, which a reader of any version refuses;
only who says ``unscored=mask``, because the reader knows the mask, gets 0.0 under ``mask_sample: true``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import ConfigDict, Field

from verifier_service.api import strict_json
from verifier_service.api.shims.asked import (
    Asked,
    Format,
    Manner,
    Outcome,
    TrainerRequest,
    decoded,
    made,
    reference_of,
)
from verifier_service.domain.errors import InvalidInput
from verifier_service.domain.records import JsonObject

FAILURE_KIND = "verifier-service:{}"
ATTEMPT = ("_ng_rollout_id", "_ng_task_index", "_ng_rollout_index")  # tell rollouts of one task apart
THE_MODELS = frozenset({"message", "function_call", "reasoning"})
ANSWERS = "function_call_output"


class CreateParams(TrainerRequest):
    """What the model was called with; only ``input`` is read."""

    input: str | list[JsonObject] = ""


class ModelResponse(TrainerRequest):
    """What the model answered: messages, function calls and their outputs."""

    id: str | None = None
    output: list[JsonObject]


class NemoGymRequest(TrainerRequest):
    """A request to verify. Fields of the task are beside these, the label among them."""

    model_config = ConfigDict(extra="allow")

    params: CreateParams = Field(default=CreateParams(), alias="responses_create_params")
    response: ModelResponse


def read(raw: bytes, manner: Manner) -> Asked:
    """The one item of a request. Raises ``InvalidInput`` when there is no output to judge."""
    body = decoded(raw)
    flaw = strict_json.find_flaw_of_part(body)
    if flaw is not None:  # the reply repeats the request, and JSON cannot
        raise flaw
    response = body.get("response")
    output = response.get("output") if isinstance(response, dict) else None
    if not isinstance(response, dict) or not isinstance(output, list):
        raise InvalidInput("wrong_type", "'response.output' must be an array", field="response.output")
    params = body.get("responses_create_params")
    turns = list(_turns(output))
    parts = {
        "prompt": (params.get("input") if isinstance(params, dict) else None) or "",
        "reference": reference_of(body.get(manner.label), manner.reference),
        "answer": next((turn["message"] for turn in reversed(turns) if turn["message"] is not None), None),
        "turns": turns,
        "metadata": {"response": response["id"]} if isinstance(response.get("id"), str) else {},
    }
    attempt = [str(body[name]) for name in ATTEMPT if name in body]
    return Asked((made(manner, parts, attempt),), body)


def _turns(output: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """Turns: what the model said and called, with the outputs of its calls; reasoning is left out."""
    turn: dict[str, Any] | None = None
    for item in output:
        if not isinstance(item, Mapping):
            continue
        kind = item.get("type")
        if kind == ANSWERS and turn is not None:
            turn["observations"].append(
                {"call": _text(item.get("call_id")), "text": _said(item.get("output"))}
            )
        elif kind in THE_MODELS:
            if turn is not None and turn["observations"]:
                yield _closed(turn)
                turn = None
            turn = turn or {"message": [], "calls": [], "observations": []}
            _add(turn, item)
    if turn is not None:
        yield _closed(turn)


def _closed(turn: dict[str, Any]) -> dict[str, Any]:
    """A turn with its messages as one."""
    said = turn["message"]
    return {**turn, "message": "\n".join(said) if said else None}


def _add(turn: dict[str, Any], item: Mapping[str, Any]) -> None:
    if item["type"] == "function_call":
        arguments = item.get("arguments")
        turn["calls"].append(
            {
                "id": _text(item.get("call_id")),
                "name": _text(item.get("name")),
                "arguments": arguments if isinstance(arguments, dict) else _text(arguments),
            }
        )
    elif item["type"] == "message" and item.get("role", "assistant") == "assistant":
        turn["message"].append(_said(item.get("content")))


def _said(content: object) -> str:
    """The text of a content: a string, or the texts of its parts, joined."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = (part for part in content if isinstance(part, Mapping))
    return "".join(text for part in parts if isinstance(text := part.get("text"), str))


def _text(value: object) -> str | None:
    return value if value is None or isinstance(value, str) else str(value)


def reply(asked: Asked, outcomes: Sequence[Outcome], manner: Manner) -> dict[str, Any]:
    """The request with its reward, and why there is none."""
    [outcome] = outcomes
    unscored = outcome.reward is None
    return {
        **asked.body,
        "reward": 0.0 if unscored and manner.unscored == "mask" else outcome.reward,
        "mask_sample": unscored,
        "failure_kind": None if outcome.code is None else FAILURE_KIND.format(outcome.code),
        "failure_reason": None if outcome.code is None else outcome.message or outcome.code,
        "verifier_trajectory": outcome.id,
    }


FORMAT = Format(
    request=NemoGymRequest,
    reply_schema={
        "type": "object",
        "required": ["reward", "mask_sample"],
        "properties": {
            "reward": {"type": ["number", "null"]},
            "mask_sample": {"type": "boolean"},
            "failure_kind": {"type": ["string", "null"]},
            "failure_reason": {"type": ["string", "null"]},
        },
    },
    read=read,
    reply=reply,
)
