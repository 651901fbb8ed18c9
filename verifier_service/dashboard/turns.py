"""What an agent did, in portions: a page shows the first turns, and more when asked."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from verifier_service.domain.records import JsonValue
from verifier_service.domain.trajectories import Turn

AT_ONCE = 10
MAX_SHOWN = 4_000  # characters of one text
MAX_WHOLE = 200_000  # when the whole of it is asked for
MAX_PARTS = 32  # calls, or observations, of one turn


@dataclass(frozen=True, slots=True)
class Part:
    """One text of a turn: ``label`` says whose; ``cut`` is how many characters are left out."""

    label: str
    text: str
    cut: int
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Told:
    """One turn, counted from 1."""

    number: int
    parts: Sequence[Part]
    left_out: int  # parts


@dataclass(frozen=True, slots=True)
class Portion:
    """Some turns of one trajectory. ``after``: where the next one begins; none when there is no more."""

    trajectory: int
    turns: Sequence[Told]
    count: int
    after: int | None


def portion(trajectory: int, turns: Sequence[Turn], start: int = 0) -> Portion:
    """Turns from one on, with long texts cut."""
    end = start + AT_ONCE
    told = [_told(number, turn, MAX_SHOWN) for number, turn in enumerate(turns[start:end], start + 1)]
    return Portion(trajectory, told, len(turns), end if end < len(turns) else None)


def whole(turns: Sequence[Turn], number: int) -> Told | None:
    """One turn with its texts as long as they may be."""
    return _told(number, turns[number - 1], MAX_WHOLE) if 1 <= number <= len(turns) else None


def _told(number: int, turn: Turn, most: int) -> Told:
    parts = [] if turn.message is None else [_part("Message", turn.message, most)]
    parts += [
        _part(f"Call of {call.name or 'a tool without a name'}", call.arguments, most)
        for call in turn.calls
    ]
    for seen in turn.observations:
        label = "Error that came back" if seen.is_error else "What came back"
        found = seen.text if seen.data is None else {"text": seen.text, "data": seen.data}
        parts.append(_part(label, found, most, failed=seen.is_error))
    return Told(number, parts[: 2 * MAX_PARTS], max(0, len(parts) - 2 * MAX_PARTS))


def _part(label: str, value: JsonValue, most: int, *, failed: bool = False) -> Part:
    text = (
        value
        if isinstance(value, str)
        else ""
        if value is None
        else json.dumps(value, indent=2, ensure_ascii=False)
    )
    return Part(label[:200], text[:most], max(0, len(text) - most), failed)
