"""Chat messages, as trainers hold them, as trajectories.

The messages are those of the OpenAI chat format, which TRL, verl, SkyRL and slime use: ``role``,
``content`` (text, or parts of which the texts count), ``tool_calls`` of the assistant, ``tool_call_id`` of
the tools' replies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

Message: TypeAlias = Mapping[str, Any]
Text: TypeAlias = str | Sequence[Message]


def submission(
    ladder: str,
    *,
    prompt: Text,
    completion: Text,
    reference: Mapping[str, Any] | None = None,
    inputs: Mapping[str, Any] | None = None,
    id: str | None = None,
    group: str | None = None,
    group_size: int | None = None,
    policy_version: str | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A finished trajectory. ``completion`` is the answer as text, or the messages after the prompt, which
    become turns; the answer then is the text of the last assistant message."""
    alone = isinstance(completion, str)
    messages = [] if isinstance(completion, str) else list(completion)
    optional = {
        "id": id,
        "group": group,
        "group_size": group_size,
        "policy_version": policy_version,
        "metadata": dict(metadata) if metadata else None,
    }
    return {
        "ladder": ladder,
        "problem": {
            "prompt": prompt if isinstance(prompt, str) else [dict(message) for message in prompt],
            "inputs": dict(inputs or {}),
            "reference": dict(reference or {}),
        },
        "turns": [] if alone else turns_of(messages),
        "answer": completion if alone else answer_of(messages),
        **{field: value for field, value in optional.items() if value is not None},
    }


def reference_of(ground_truth: object, field: str = "answer") -> dict[str, Any]:
    """What a data set calls ground truth as a reference: an object as it is, nothing as nothing, any other
    value under ``field``."""
    if ground_truth is None:
        return {}
    return dict(ground_truth) if isinstance(ground_truth, Mapping) else {field: ground_truth}


def turns_of(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """Turns: each assistant message with its tool calls and all that came back before the next one.

    What other roles say before the first assistant message belongs to the prompt and is left out.
    """
    turns: list[dict[str, Any]] = []
    for message in messages:
        if message.get("role") == "assistant":
            turns.append(
                {
                    "message": text_of(message.get("content")),
                    "calls": [_call(call) for call in message.get("tool_calls") or ()],
                    "observations": [],
                }
            )
        elif turns:
            turns[-1]["observations"].append(_observation(message))
    return turns


def answer_of(messages: Sequence[Message]) -> str | None:
    """The text of the last assistant message; null where there is none."""
    for message in reversed(messages):
        if message.get("role") == "assistant":
            return text_of(message.get("content"))
    return None


def text_of(content: object) -> str:
    """The text of a message's content: a string, or the texts of its parts, joined."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, Mapping):
        return text_of(content.get("text"))
    if isinstance(content, Iterable):
        return "".join(text_of(part) for part in content)
    return str(content)


def _call(call: Message) -> dict[str, Any]:
    """A tool call; ``arguments`` stays raw text where it is text, as the model wrote it."""
    function = call.get("function")
    named: Message = function if isinstance(function, Mapping) else call
    arguments = named.get("arguments")
    if arguments is not None and not isinstance(arguments, str):
        arguments = dict(arguments) if isinstance(arguments, Mapping) else str(arguments)
    return {"id": _text(call.get("id")), "name": _text(named.get("name")), "arguments": arguments}


def _observation(message: Message) -> dict[str, Any]:
    return {
        "call": _text(message.get("tool_call_id")),
        "text": text_of(message.get("content")),
        "is_error": bool(message.get("is_error", False)),
    }


def _text(value: object) -> str | None:
    return None if value is None else str(value)
