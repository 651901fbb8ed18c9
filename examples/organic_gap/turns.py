"""What the demo's agent does before it answers: calls of a gap table and a calculator, some gone wrong."""

from __future__ import annotations

import json
import random
from typing import Any

from molecules import TABLE

STYLES = ("clean", "clean", "parallel", "silent", "traceback", "repeated", "malformed", "unanswered")
TRACEBACK = (
    "Traceback (most recent call last):\n"
    '  File "/tools/gap_table.py", line 31, in lookup\n'
    "    return TABLE[name]\n"
    "           ~~~~~^^^^^^\n"
    "KeyError: {name!r}"
)

Turn = dict[str, Any]


def write_turns(rng: random.Random, style: str, start: str, answer: str | None) -> list[Turn]:
    """Turns in one style, closing with the agent's last message."""
    other = rng.choice([name for name in sorted(TABLE) if name != start])
    opening = {
        "clean": lambda: [_lookup(0, start), _shift(1, start, other)],
        "parallel": lambda: [_parallel(start, other)],
        "silent": list,
        "traceback": lambda: [
            _failed(0, rng.choice(("furan-like", "fulvenone", "C5H6O"))),
            _lookup(1, other),
        ],
        "repeated": lambda: [_lookup(turn, start) for turn in range(3)],
        "malformed": lambda: [_malformed(start), _lookup(1, start)],
        "unanswered": lambda: [_lookup(0, other), _unanswered(1, start)],
    }[style]()
    last = "I cannot decide." if answer is None else f"My answer is {answer}" if answer else "Here it is:"
    return [*opening, {"message": last}]


def _call(turn: int, name: str, arguments: str | dict[str, Any], place: int = 0) -> dict[str, Any]:
    return {"id": f"call-{turn}-{place}", "name": name, "arguments": arguments}


def _lookup(turn: int, name: str) -> Turn:
    return {
        "message": f"What is the gap of {name}?",
        "calls": [_call(turn, "gap_table", json.dumps({"name": name}))],
        "observations": [
            {"call": f"call-{turn}-0", "text": f"{TABLE[name]:.2f} eV", "data": {"gap_ev": TABLE[name]}}
        ],
    }


def _shift(turn: int, start: str, other: str) -> Turn:
    expression = f"{TABLE[start]:.2f} - {TABLE[other]:.2f}"
    return {
        "message": f"How far apart are {start} and {other}?",
        "calls": [_call(turn, "calculator", {"expression": expression})],
        "observations": [{"call": f"call-{turn}-0", "text": f"{TABLE[start] - TABLE[other]:.2f}"}],
    }


def _parallel(start: str, other: str) -> Turn:
    names = (start, other)
    return {
        "message": f"Compare {start} with {other}.",
        "calls": [_call(0, "gap_table", {"name": name}, place) for place, name in enumerate(names)],
        "observations": [
            {"call": f"call-0-{place}", "text": f"{TABLE[name]:.2f} eV"} for place, name in enumerate(names)
        ],
    }


def _failed(turn: int, name: str) -> Turn:
    return {
        "message": f"Look up {name}.",
        "calls": [_call(turn, "gap_table", {"name": name})],
        "observations": [{"call": f"call-{turn}-0", "text": TRACEBACK.format(name=name), "is_error": True}],
    }


def _malformed(name: str) -> Turn:
    return {
        "message": f"What is the gap of {name}?",
        "calls": [_call(0, "gap_table", f'{{"name": "{name}"')],
        "observations": [
            {"call": "call-0-0", "text": "error: the arguments are not valid JSON", "is_error": True}
        ],
    }


def _unanswered(turn: int, name: str) -> Turn:
    return {"message": f"And {name}?", "calls": [_call(turn, "gap_table", {"name": name})]}
