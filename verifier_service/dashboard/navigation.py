"""What stands in the head of every page, in order. A new page adds its entry here."""

from __future__ import annotations

from dataclasses import dataclass

from verifier_service.domain.accounts import Right, Viewer

OWN_ACCOUNT = "/ui/account"


@dataclass(frozen=True, slots=True)
class Entry:
    """A link to a page, shown to those who have the right; ``jump`` is the second key after ``g``."""

    title: str
    path: str
    right: Right
    jump: str


ENTRIES: tuple[Entry, ...] = (
    Entry("Access", "/ui/access", Right.ADMINISTER, "a"),
    Entry("Desk", "/ui/desk", Right.REVIEW, "d"),
    Entry("Runs", "/ui/runs", Right.OBSERVE, "r"),
    Entry("Trust", "/ui/trust", Right.OBSERVE, "t"),
    Entry("Operations", "/ui/operations", Right.OPERATE, "o"),
    Entry("Laboratory", "/ui/lab", Right.OPERATE, "b"),
)


def entries_for(viewer: Viewer | None) -> tuple[Entry, ...]:
    """The entries that the viewer may follow."""
    return () if viewer is None else tuple(entry for entry in ENTRIES if viewer.may(entry.right))


def first_page(viewer: Viewer) -> str:
    """Where somebody starts: the first page open to them."""
    entries = entries_for(viewer)
    return entries[0].path if entries else OWN_ACCOUNT
