"""Port for pictures of molecules."""

from __future__ import annotations

from typing import Literal, NamedTuple, Protocol

DrawingCode = Literal["missing", "not_a_structure", "too_large", "too_slow", "failed"]


class Drawing(NamedTuple):
    """A picture as SVG text, or a typed reason in words why there is none."""

    svg: str | None
    code: DrawingCode | None = None
    message: str | None = None


class Drawer(Protocol):
    """Draws structures from untrusted text. Thread-safe; what it does is bounded in time and memory."""

    def draw(self, text: str) -> Drawing:
        """The picture of a SMILES. Never raises for a text."""
        ...

    def close(self) -> None:
        """End what it has started."""
        ...
