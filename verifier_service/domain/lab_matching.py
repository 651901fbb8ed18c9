"""Which check each row means: by review, trajectory, candidate, or the well of a plate."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from verifier_service.domain.lab_results import PlateMap, PlateWell, Role, Target
from verifier_service.domain.lab_rows import LabRow
from verifier_service.domain.lab_senders import GRADE, MAY_NOT_JUDGE, OWN_SUBMISSION
from verifier_service.domain.reviews import ReviewState

Place = tuple[str, str]  # run and trajectory


class Address(NamedTuple):
    """What a row, or its well, says of the check it is for."""

    review: str | None = None
    place: Place | None = None
    candidate: str | None = None


@dataclass(slots=True)
class Directory:
    """Checks on the desk by every name that rows use, and the names that exist without such a check."""

    reviews: dict[str, list[Target]] = field(default_factory=dict)
    places: dict[Place, list[Target]] = field(default_factory=dict)
    candidates: dict[str, list[Target]] = field(default_factory=dict)
    known_reviews: Collection[str] = ()
    known_places: Collection[Place] = ()
    own: Collection[int] = ()  # checks about what the sender submitted
    judges: bool = False  # whether the sender's files may hold judgements

    def checks(self) -> set[int]:
        """All that rows may mean, but gold items."""
        named = (*self.reviews.values(), *self.places.values(), *self.candidates.values())
        return {target.check for targets in named for target in targets if not target.gold}

    def note(self, targets: Iterable[Target]) -> None:
        """Take in what was found by review or place."""
        for target in targets:
            self.reviews.setdefault(target.review, []).append(target)
            self.places.setdefault((target.run, target.trajectory), []).append(target)


class Addressed(NamedTuple):
    """A row with what it names; ``role`` is that of its well."""

    row: LabRow
    addresses: tuple[Address, ...]
    role: Role = Role.SAMPLE


def addressed(rows: Sequence[LabRow], plates: Mapping[str, PlateMap]) -> list[Addressed]:
    """What each row names, by itself and through its plate. Notes errors at the rows."""
    return [_addressed(row, plates) for row in rows]


def _addressed(row: LabRow, plates: Mapping[str, PlateMap]) -> Addressed:
    texts = row.texts
    place = (texts["run"], texts["trajectory"]) if "run" in texts and "trajectory" in texts else None
    own = Address(texts.get("review"), place, texts.get("candidate"))
    named = (own,) if any(part is not None for part in own) else ()
    if "plate" in texts and "well" in texts:
        well = _well(row, plates.get(texts["plate"]))
        if well is not None:
            return Addressed(row, (*named, *_of_well(well)), Role(well.role))
    if not named and not row.errors and not row.empty:
        row.refuse("missing_target", "the row names no check")
    return Addressed(row, named)


def _well(row: LabRow, plate: PlateMap | None) -> PlateWell | None:
    if plate is None:
        row.refuse("unknown_plate", f"no map of a plate {row.texts['plate'][:60]!r}", "plate")
        return None
    try:
        found = plate.at(row.texts["well"])
    except ValueError as error:
        row.refuse("bad_well", str(error), "well", float(plate.size))
        return None
    if found is None:
        row.refuse("unknown_well", f"nothing is at {row.texts['well']!r} on this plate", "well")
    return found


def _of_well(well: PlateWell) -> tuple[Address, ...]:
    if well.role is not Role.SAMPLE:
        return ()
    place = (well.run, well.trajectory) if well.run is not None and well.trajectory is not None else None
    return (Address(well.review, place, well.candidate),)


def target_of(item: Addressed, directory: Directory) -> Target | None:
    """The one check that all names of a row mean, if it takes results. Notes what is wrong at the row."""
    row = item.row
    found: list[tuple[str, list[Target]]] = []
    loose: list[tuple[str, list[Target]]] = []
    for address in item.addresses:
        if address.review is not None:
            found.append(("review", _by_review(row, address.review, directory)))
        if address.place is not None:
            found.append(("trajectory", _by_place(row, address.place, directory)))
        if address.candidate is not None:
            loose.append((address.candidate, directory.candidates.get(address.candidate, [])))
    if row.errors:
        return None
    if not found:
        text, hits = loose[0]
        if not hits:
            row.refuse("unknown_check", f"no check waits for the candidate {text[:80]!r}", "candidate")
            return None
        found = [("candidate", hits)]
    target = _common(row, found)
    if target is None or not all(_is_candidate(target, text, hits) for text, hits in loose):
        if target is not None:
            row.refuse("target_mismatch", "the check is about another candidate", "candidate")
        return None
    _require_takes(row, target)
    _require_may(row, target, directory)
    return None if row.errors else target


def _by_review(row: LabRow, review: str, directory: Directory) -> list[Target]:
    found = directory.reviews.get(review, [])
    if not found and review in directory.known_reviews:
        row.refuse("check_not_waiting", f"review {review!r} has ended without a result", "review")
    elif not found:
        row.refuse("unknown_check", f"no review {review!r}", "review")
    return found


def _by_place(row: LabRow, place: Place, directory: Directory) -> list[Target]:
    found = directory.places.get(place, [])
    if not found and place in directory.known_places:
        row.refuse("check_not_waiting", f"{place[1]!r} does not wait at the lab", "trajectory")
    elif not found:
        row.refuse("unknown_check", f"no trajectory {place[1]!r} in run {place[0]!r}", "trajectory")
    return found


def _common(row: LabRow, found: Sequence[tuple[str, list[Target]]]) -> Target | None:
    checks = set.intersection(*({target.check for target in hits} for _, hits in found))
    column = found[0][0]
    if not checks:
        row.refuse("target_mismatch", "the row's names mean different checks", column)
    elif len(checks) > 1:
        code = "ambiguous_candidate" if column == "candidate" else "ambiguous_check"
        message = f"{len(checks)} checks wait for it: name the review"
        row.refuse(code, message, column, 1.0)
    else:
        wanted = checks.pop()
        return min((one for one in found[0][1] if one.check == wanted), key=lambda one: one.pk)
    return None


def _is_candidate(target: Target, text: str, hits: Sequence[Target]) -> bool:
    return (
        target.canonical is None or text == target.canonical or target.check in {one.check for one in hits}
    )


def _require_takes(row: LabRow, target: Target) -> None:
    """A check takes results while it waits and nobody works on it, and amendments of a file by a file."""
    refused: tuple[str, str] | None = None
    limit: float | None = None
    if target.retracted:
        refused = ("check_not_waiting", "the check's evidence was taken back")
    elif target.state == ReviewState.OPEN and target.expired:
        refused = ("check_not_waiting", "the check's deadline has passed")
    elif target.state == ReviewState.OPEN and target.claimed:
        refused = ("check_claimed", "a reviewer works on this check")
    elif target.state == ReviewState.OPEN and target.approvals > 1:
        limit = float(target.approvals)
        refused = ("needs_approvals", f"{target.approvals} people must approve it; a file is none of them")
    elif target.state == ReviewState.DECIDED or (
        target.state != ReviewState.OPEN and target.latest is None
    ):
        refused = ("check_not_waiting", "people have decided this check")
    if refused is not None:
        row.refuse(*refused, limit=limit)


def _require_may(row: LabRow, target: Target, directory: Directory) -> None:
    """Nobody answers what they submitted, and only who may judge sends judgements."""
    if row.errors:
        return
    if target.check in directory.own:
        row.refuse(OWN_SUBMISSION, "it is about what you submitted yourself")
    elif row.verdict is not None and not directory.judges:
        row.refuse(MAY_NOT_JUDGE, "this file may hold measurements and no verdicts", "verdict")
    elif not directory.judges:
        graded = next((one for one in row.readings if one.unit.casefold() == GRADE), None)
        if graded is not None:
            row.refuse(MAY_NOT_JUDGE, "this file may hold measurements and no grades", graded.column)
