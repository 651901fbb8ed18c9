"""Small texts of the desk's pages, as filters of templates."""

from __future__ import annotations

import json
from urllib.parse import quote

from verifier_service.domain.records import JsonValue
from verifier_service.services.desk_pages import undo_left

MAX_BRIEF = 80
MAX_PRETTY = 20_000
UNITS = ((86_400.0, "day"), (3_600.0, "hour"), (60.0, "minute"))


def age(seconds: float) -> str:
    """How long ago, in one unit."""
    for size, name in UNITS:
        if seconds >= size:
            count = int(seconds // size)
            return f"{count} {name}{'' if count == 1 else 's'}"
    return "just now"


def brief(candidate: JsonValue) -> str:
    """A candidate in a list: one short line."""
    text = candidate if isinstance(candidate, str) else json.dumps(candidate, ensure_ascii=False)
    line = " ".join(text[: 4 * MAX_BRIEF].split())
    return line if len(line) <= MAX_BRIEF else f"{line[:MAX_BRIEF]}…"


def pretty(value: JsonValue) -> str:
    """A document as text, bounded."""
    return json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)[:MAX_PRETTY]


def facts_at(smiles: str) -> str:
    """Where the facts of a molecule are."""
    return f"/ui/drawings/molecule?smiles={quote(smiles, safe='')}"


FILTERS = {"facts_at": facts_at, "age": age, "brief": brief, "pretty": pretty, "undo_left": undo_left}
