"""Where the drawing of a molecule is, made in a process of its own: a short text may take long."""

from __future__ import annotations

from urllib.parse import quote

from verifier_service.dashboard.candidates import MAX_SMILES, Shown

DRAWINGS = "/ui/drawings"


def drawing_of(candidate: Shown) -> str | None:
    """The address of the drawing; none for what is no molecule, or too long a text for an address."""
    if candidate.kind != "molecule" or not 0 < len(candidate.text) <= MAX_SMILES:
        return None
    return f"{DRAWINGS}/{quote(candidate.text, safe='')}.svg"
