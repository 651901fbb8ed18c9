"""Tool calls that a policy writes as text, and what tools answer.

The form is that of the Hermes and Qwen chat templates:
``<tool_call>{"name": ..., "arguments": {...}}</tool_call>``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

Tools: TypeAlias = Mapping[str, Callable[..., object]]

OPENING, CLOSING = "<tool_call>", "</tool_call>"
MAX_CALLS = 64  # of one turn; the service takes 256
MAX_OBSERVATION_CHARS = 32_768


def calls_in(text: str, prefix: str = "call") -> list[dict[str, Any]]:
    """The calls that a text makes, in order, at most ``MAX_CALLS``, with ids ``{prefix}-{n}``.

    ``arguments`` is JSON as text. A call that is not one JSON object with a name is kept with the whole
    text between the tags as its arguments: what is wrong with it is the process checks' to say. Linear.
    """
    calls: list[dict[str, Any]] = []
    at = text.find(OPENING)
    while at >= 0 and len(calls) < MAX_CALLS:
        start = at + len(OPENING)
        end = text.find(CLOSING, start)
        inside = text[start:] if end < 0 else text[start:end]
        calls.append({"id": f"{prefix}-{len(calls)}", **_read(inside.strip())})
        at = -1 if end < 0 else text.find(OPENING, end)
    return calls


def observe(tools: Tools, call: Mapping[str, Any]) -> dict[str, Any]:
    """Run a call: what the tool returned, as text (JSON unless it is text already), or its error.

    Whatever a tool raises is an observation for the policy, with ``is_error``.
    """
    name = call.get("name")
    tool = tools.get(name) if isinstance(name, str) else None
    if name is None:
        return _observation(call, "Error: this is not a call: write one JSON object.", failed=True)
    if tool is None:
        return _observation(call, f"Error: there is no tool {name[:80]!r}.", failed=True)
    arguments = _arguments(call.get("arguments"))
    if arguments is None:
        return _observation(call, "Error: the arguments must be one JSON object.", failed=True)
    try:
        found = tool(**arguments)
        text = found if isinstance(found, str) else json.dumps(found, default=str)
    except Exception as error:  # noqa: BLE001 - a tool's failure is news for the policy, not ours
        return _observation(call, f"{type(error).__name__}: {error}", failed=True)
    return _observation(call, text, failed=False)


def message_of(observations: Sequence[Mapping[str, Any]]) -> str:
    """Observations as the text that the policy sees next."""
    return "\n".join(f"<tool_response>\n{seen['text']}\n</tool_response>" for seen in observations)


def _read(inside: str) -> dict[str, Any]:
    try:
        value = _STRICT.decode(inside)
        if isinstance(value, dict) and isinstance(value.get("name"), str) and value["name"].strip():
            return {"name": value["name"], "arguments": json.dumps(value.get("arguments", {}))}
    except (ValueError, RecursionError):
        return {"name": None, "arguments": inside}
    return {"name": None, "arguments": inside}


def _arguments(given: object) -> dict[str, Any] | None:
    """Arguments as an object; null where they are none."""
    try:
        value = json.loads(given or "{}") if given is None or isinstance(given, str) else given
    except (ValueError, RecursionError):
        return None
    return dict(value) if isinstance(value, Mapping) else None


def _observation(call: Mapping[str, Any], text: str, *, failed: bool) -> dict[str, Any]:
    if len(text) > MAX_OBSERVATION_CHARS:
        text = f"{text[:MAX_OBSERVATION_CHARS]}\n[{len(text) - MAX_OBSERVATION_CHARS} characters more]"
    # Lone surrogates are no text that could be sent.
    return {"call": call.get("id"), "text": text.encode("utf-8", "replace").decode(), "is_error": failed}


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a name is given twice")
    return value


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is no JSON number")
    return value


_STRICT = json.JSONDecoder(object_pairs_hook=_unique, parse_float=_finite, parse_constant=_finite)
