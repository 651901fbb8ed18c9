"""Port for pictures of molecules."""

from __future__ import annotations

from typing import Literal, NamedTuple, Protocol

DrawingCode = Literal["missing", "not_a_structure", "too_large", "too_slow", "failed"]


class MoleculeFacts(NamedTuple):
    """What is known of a molecule by its structure alone. ``molar_mass`` is in g/mol, with the isotopes
    that are written."""

    formula: str
    heavy_atoms: int
    molar_mass: float


class Drawing(NamedTuple):
    """A picture as SVG text with facts of what it shows, or a typed reason in words why there is none."""

    svg: str | None
    code: DrawingCode | None = None
    message: str | None = None
    facts: MoleculeFacts | None = None


class Drawer(Protocol):
    """Draws structures from untrusted text. Thread-safe; what it does is bounded in time and memory."""

    def draw(self, text: str) -> Drawing:
        """The picture of a SMILES. Never raises for a text."""
        ...

    def close(self) -> None:
        """End what it has started."""
        ...
