"""A ladder with process rewards for episodes of several turns, and what a policy may say in them."""

from __future__ import annotations

from typing import Any

from tests.support.trouble import SPOKEN, Trouble

WEIGHT = 0.4
TURNS = 5
STEPPED: dict[str, Any] = {
    **SPOKEN,
    "name": "stepped",
    "process": {"weight": WEIGHT, "checks": [{"use": "turns.tool_calls"}, {"use": "turns.errors"}]},
}


def furnish(trouble: Trouble) -> None:
    """Store the ladder."""
    with trouble.client() as client:
        client.put_ladder("stepped", STEPPED)


def said(name: str, n: int) -> str:
    """A turn that calls a tool."""
    return f'<tool_call>{{"name": "{name}", "arguments": {{"n": {n}}}}}</tool_call>'


def double(n: int) -> int:
    """A tool that works."""
    return 2 * n


def fail(n: int) -> int:
    """A tool that does not."""
    raise RuntimeError(f"{n} is out of order")


TOOLS = {"double": double, "fail": fail}
# Good, failing, badly written, good; then the answer. Their process rewards: both checks' mean.
ACTIONS = [said("double", 1), said("fail", 2), "<tool_call>{</tool_call>", said("double", 4)]
PROCESS = [1.0, 0.5, 0.0, 1.0]
