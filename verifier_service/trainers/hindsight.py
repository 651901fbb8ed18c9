"""Learning from mistakes: the run's hindsight export as samples for supervised and preference training.

``pages`` reads the export. A record shows a trajectory up to its first mistake and what the verifiers said
about it; the reference is no part of it. A sample therefore needs a ``Correction``: a continuation that
the policy, told the hints, wrote in the mistake's place (``retry``), or a better member of the same group,
and that the service has verified on the same ladder for the same prompt.

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
REMARKS = "This was remarked:"
AGAIN = "Try again."


class NotVerified(ValueError):
    """A continuation without a number, or one that is not shown to be better than the mistake."""


@dataclass(frozen=True, slots=True)
class Correction:
    """What to say in the mistake's place, and the record that says how good it is.

    ``prompt`` is the problem's prompt with which it was submitted. ``None``: the record is of the same run
    and group as the mistake, and a group has one prompt.
    """

    messages: Sequence[Mapping[str, Any]]
    record: RewardRecord
    prompt: str | Sequence[Mapping[str, Any]] | None = None


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
        return _messages(record.prompt) + _chat(before[:-1])
    return _messages(record.prompt) + _chat(before)


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
    """The hints as one text; each different one once. Says that it was wrong of what was rejected only."""
    texts = dict.fromkeys(hint.text.strip() for hint in record.hints if hint.text.strip())
    return "\n".join([FEEDBACK if record.rejected else REMARKS, *(f"- {text}" for text in texts), AGAIN])


def retry(record: HindsightRecord) -> Messages:
    """What to ask the policy for a correction: the conversation, the mistake, and the hints as a user."""
    return [*context(record), *mistake(record), {"role": "user", "content": feedback(record)}]


def sft(record: HindsightRecord, correction: Correction) -> dict[str, Messages]:
    """``prompt`` and ``completion``: say the correction at once, without mistake and hints.

    TRL's conversational prompt-completion format, in which the completion alone is trained on. A mistake
    without a reward is taken, too: nothing is said about it. Raises ``NotVerified``.
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

    Raises ``NotVerified``, for a mistake without a reward as well, and ``ValueError`` where the trajectory
    ended without a word to reject.
    """
    _require_better(record, correction)
    if record.reward is None:
        raise NotVerified(f"{record.trajectory}, to be rejected, has no reward: it is {record.status}")
    rejected = mistake(record)
    if not rejected:
        raise ValueError(f"{record.trajectory}: there is no answer to reject")
    return {
        "prompt": context(record),
        "chosen": [dict(one) for one in correction.messages],
        "rejected": rejected[:1],
    }


def _require_better(record: HindsightRecord, correction: Correction) -> None:
    found = correction.record
    _require_comparable(record, correction)
    if found.reward is None:
        raise NotVerified(f"{found.trajectory} has no reward: it is {found.status}")
    if record.reward is not None and found.reward <= record.reward:
        raise NotVerified(f"{found.trajectory} has {found.reward:g}, the mistake {record.reward:g}")
    if found.outcome is not None and found.outcome <= 0.0:
        raise NotVerified(f"{found.trajectory} was rejected")
    if not correction.messages:
        raise NotVerified(f"{found.trajectory} says nothing")


def _require_comparable(record: HindsightRecord, correction: Correction) -> None:
    """Numbers compare where the same checks judged answers to the same question."""
    found = correction.record
    judges = [f"{one.ladder} version {one.ladder_version}" for one in (found, record)]
    if judges[0] != judges[1]:
        raise NotVerified(f"{found.trajectory} was verified by {judges[0]}, the mistake by {judges[1]}")
    if correction.prompt is None:
        if record.group is None or (found.run, found.group) != (record.run, record.group):
            raise NotVerified(f"{found.trajectory} is not of the mistake's group: pass its prompt")
    elif _messages(correction.prompt) != _messages(record.prompt):
        raise NotVerified(f"{found.trajectory} answers another prompt than the mistake")


def _messages(prompt: str | Sequence[Mapping[str, Any]]) -> Messages:
    if isinstance(prompt, str):
        return [{"role": "user", "content": prompt}] if prompt else []
    return [dict(message) for message in prompt]


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
