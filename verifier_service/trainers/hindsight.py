"""Learning from mistakes: the run's hindsight export as samples for supervised and preference training.

``pages`` reads the export. A record shows a trajectory up to its first mistake and what the verifiers said
about it; what would have been right is never in it. A sample therefore needs a ``Correction``: a
continuation that the policy, told the hints, wrote in the mistake's place (``retry``), or a better member
of the same group, and that the service has verified.

Sources: corrections written with feedback at hand: Scheurer et al. 2023, "Training language models with
language feedback at scale", arXiv 2303.16755; both answers with feedback between them: Liu et al. 2023,
"Chain of hindsight", arXiv 2302.02676; preferences: Rafailov et al. 2023, DPO, arXiv 2305.18290.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from verifier_service.client import Client
from verifier_service.domain.hindsight import HindsightPage, HindsightRecord
from verifier_service.domain.records import JsonObject
from verifier_service.domain.rewards import RewardRecord
from verifier_service.domain.trajectories import Observation, ToolCall, Turn

Messages: TypeAlias = list[dict[str, Any]]
FEEDBACK = "That was not right:"
AGAIN = "Try again."


class NotVerified(ValueError):
    """A continuation without a number, or not better than the mistake: it is no correction."""


@dataclass(frozen=True, slots=True)
class Correction:
    """What to say in the mistake's place, and the record that says how good it is."""

    messages: Sequence[Mapping[str, Any]]
    record: RewardRecord


def pages(
    client: Client, run: str, *, after: int = 0, limit: int = 100, wait_s: float = 0.0
) -> Iterator[HindsightPage]:
    """The export after a cursor, page by page; a page's ``cursor`` is where to resume after it.

    Ends at the end of the feed, or once ``wait_s`` seconds bring nothing. A record with ``supersedes``
    takes the place of the trajectory's earlier one; what was kept of a trajectory in ``withdrawn`` is to be
    dropped.
    """
    while True:
        page = client.hindsight(run, after=after, limit=limit, wait_s=wait_s)
        if not (page.records or page.withdrawn):
            return
        yield page
        if not page.more and wait_s == 0.0:
            return
        after = page.cursor


def context(record: HindsightRecord) -> Messages:
    """The conversation before the mistake: the prompt, and the turns before it with what came back."""
    before = record.turns if record.mistake is None else record.turns[: record.mistake]
    if record.mistake is None and before and _says_the_answer(before[-1], record.answer):
        return _prompt(record) + _chat(before[:-1])
    return _prompt(record) + _chat(before)


def mistake(record: HindsightRecord) -> Messages:
    """The messages of the mistake: the wrong turn, or the wrong answer."""
    if record.mistake is not None:
        return _chat(record.turns[record.mistake : record.mistake + 1])
    if record.turns and _says_the_answer(record.turns[-1], record.answer):
        return _chat(record.turns[-1:])
    if record.answer is None:
        return []
    text = record.answer if isinstance(record.answer, str) else json.dumps(record.answer)
    return [{"role": "assistant", "content": text}]


def feedback(record: HindsightRecord) -> str:
    """The hints as one text; each different one once."""
    texts = dict.fromkeys(hint.text.strip() for hint in record.hints if hint.text.strip())
    return "\n".join([FEEDBACK, *(f"- {text}" for text in texts), AGAIN])


def retry(record: HindsightRecord) -> Messages:
    """What to ask the policy for a correction: the conversation, the mistake, and the hints as a user."""
    return [*context(record), *mistake(record), {"role": "user", "content": feedback(record)}]


def sft(record: HindsightRecord, correction: Correction) -> dict[str, Messages]:
    """``prompt`` and ``completion``: say the correction at once, without mistake and hints.

    TRL's conversational prompt-completion format, in which the completion alone is trained on. Raises
    ``NotVerified``.
    """
    _require_better(record, correction)
    return {"prompt": context(record), "completion": [dict(one) for one in correction.messages]}


def chain(record: HindsightRecord, correction: Correction) -> dict[str, Messages]:
    """``prompt`` and ``completion``: say the correction after mistake and hints, which are in the prompt
    and not trained on. Raises ``NotVerified``."""
    _require_better(record, correction)
    return {"prompt": retry(record), "completion": [dict(one) for one in correction.messages]}


def dpo(record: HindsightRecord, correction: Correction) -> dict[str, Messages]:
    """``prompt``, ``chosen`` and ``rejected``: TRL's conversational preference format.

    Raises ``NotVerified``, and ``ValueError`` where the trajectory ended without a word to reject.
    """
    _require_better(record, correction)
    rejected = mistake(record)
    if not rejected:
        raise ValueError(f"{record.trajectory}: there is no answer to reject")
    return {
        "prompt": context(record),
        "chosen": [dict(one) for one in correction.messages],
        "rejected": rejected[:1],
    }


def _require_better(record: HindsightRecord, correction: Correction) -> None:
    reward = correction.record.reward
    if reward is None:
        raise NotVerified(f"{correction.record.trajectory} has no reward: it is {correction.record.status}")
    if record.reward is not None and reward <= record.reward:
        raise NotVerified(f"{correction.record.trajectory} has {reward:g}, the mistake {record.reward:g}")
    if correction.record.outcome is not None and correction.record.outcome <= 0.0:
        raise NotVerified(f"{correction.record.trajectory} was rejected")
    if not correction.messages:
        raise NotVerified(f"{correction.record.trajectory} says nothing")


def _prompt(record: HindsightRecord) -> Messages:
    if isinstance(record.prompt, str):
        return [{"role": "user", "content": record.prompt}] if record.prompt else []
    return [dict(message) for message in record.prompt]


def _says_the_answer(turn: Turn, answer: object) -> bool:
    """Whether the last turn is the answer's own message, as adapters submit chats."""
    return isinstance(answer, str) and turn.message == answer


def _chat(turns: Sequence[Turn]) -> Messages:
    messages: Messages = []
    for turn in turns:
        spoken: dict[str, Any] = {"role": "assistant", "content": turn.message or ""}
        if turn.calls:
            spoken["tool_calls"] = [_call(call) for call in turn.calls]
        messages.append(spoken)
        messages.extend(_reply(seen) for seen in turn.observations)
    return messages


def _call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name or "", "arguments": _arguments(call.arguments)}
    named = {} if call.id is None else {"id": call.id}
    return {**named, "type": "function", "function": function}


def _arguments(arguments: str | JsonObject | None) -> str | JsonObject:
    """An object where it is one: chat templates write arguments as JSON, and would quote a text twice."""
    if not isinstance(arguments, str):
        return arguments or {}
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    return value if isinstance(value, dict) else arguments


def _reply(seen: Observation) -> dict[str, Any]:
    text = seen.text if seen.text is not None else json.dumps(seen.data)
    if seen.call is None:
        return {"role": "user", "content": text}
    return {"role": "tool", "tool_call_id": seen.call, "content": text}
