"""What the rows of an import say together about each check."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from verifier_service.domain.evidence import Measurement
from verifier_service.domain.lab_matching import Addressed, Directory, target_of
from verifier_service.domain.lab_results import LabValue, Range, Role, RowOutcome, RowStatus, Target
from verifier_service.domain.lab_rows import LabRow, Reading
from verifier_service.domain.lab_units import Unconvertible, converted, spelled
from verifier_service.domain.lab_values import assay_noise, mean_of, sigma_of
from verifier_service.domain.ladders import QuantitySpec

QuantityOf = Callable[[Target], QuantitySpec | None]
PERCENT = Range(low=0.0, high=100.0)
MAX_CHECKS = 2_000  # of one import: it is one transaction, and others wait to write meanwhile
REJECTED = "rejected by the laboratory"


class Told(NamedTuple):
    """What is to be stored of one check; ``status`` of its rows."""

    target: Target
    value: LabValue
    status: RowStatus


class Evaluated(NamedTuple):
    """Every row's outcome, in the order of the file, and what is to be stored."""

    rows: tuple[RowOutcome, ...]
    told: tuple[Told, ...]


@dataclass(slots=True)
class _Group:
    """Usable rows about one check."""

    target: Target
    rows: list[LabRow] = field(default_factory=list)
    seen: dict[tuple[str, str], int] = field(default_factory=dict)  # quantity and replicate: the line
    readings: dict[str, list[tuple[Reading, str | None]]] = field(default_factory=dict)  # with the plate
    verdict: Literal["accept", "reject"] | None = None
    reason: str = ""


_Controls = Mapping[tuple[str, str], tuple[str, dict[str, list[float]]]]


def evaluate(
    items: Sequence[Addressed],
    directory: Directory,
    quantity_of: QuantityOf,
    ranges: Mapping[str, Range],
) -> Evaluated:
    """Bring the rows of an import together. Errors are noted at the rows that they are about."""
    controls = _controls(items)
    groups: dict[int, _Group] = {}
    for item in items:
        if item.role is Role.SAMPLE and not item.row.errors and not item.row.empty:
            target = target_of(item, directory)
            if target is not None and target.check not in groups and len(groups) >= MAX_CHECKS:
                item.row.refuse("too_many_checks", "send the rest in another file", limit=float(MAX_CHECKS))
            elif target is not None:
                group = groups.setdefault(target.check, _Group(target))
                _take(group, item.row, quantity_of(target), ranges)
    told = [one for group in groups.values() if (one := _told(group, controls)) is not None]
    by_line = {row.line: one for one in told for row in groups[one.target.check].rows}
    return Evaluated(tuple(_outcome(item, by_line) for item in items), tuple(told))


def _outcome(item: Addressed, by_line: Mapping[int, Told]) -> RowOutcome:
    row = item.row
    told = by_line.get(row.line)
    review = told.target.review if told is not None else None
    if row.errors:
        status = RowStatus.REFUSED
    elif told is not None:
        status = told.status
    else:
        status = RowStatus.EMPTY if row.empty else RowStatus.CONTROL
    return RowOutcome(line=row.line, status=status, review=review, errors=tuple(row.errors))


def _take(group: _Group, row: LabRow, quantity: QuantitySpec | None, ranges: Mapping[str, Range]) -> None:
    """Add a row to those of its check, or note why not."""
    label = row.texts.get("replicate") or f"{row.texts.get('plate', '')}/{row.texts.get('well', '')}"
    names = [reading.quantity for reading in row.readings] or [""]
    for name in names:
        if (name, label) in group.seen:
            message = f"line {group.seen[name, label]} says it already: number replicates"
            row.refuse("duplicate_row", message, "replicate")
    if row.verdict is not None and group.verdict not in (None, row.verdict):
        row.refuse("conflicting_verdict", f"another row says {group.verdict}", "verdict")
    readings = [_in_unit(row, reading, group, quantity) for reading in row.readings]
    for reading in readings:
        if reading is not None:
            _require_plausible(row, reading, ranges)
    if row.errors:
        return
    for reading in readings:
        if reading is not None:
            group.readings.setdefault(reading.quantity, []).append((reading, row.texts.get("plate")))
    group.seen.update({(name, label): row.line for name in names})
    group.rows.append(row)
    if row.verdict is not None:
        group.verdict = row.verdict
        group.reason = group.reason or row.texts.get("reason", "")


def _in_unit(row: LabRow, reading: Reading, group: _Group, quantity: QuantitySpec | None) -> Reading | None:
    """The reading in the unit of the ladder's quantity; of others in that of the first replicate."""
    unit = reading.unit
    if quantity is not None and reading.quantity == quantity.name:
        unit = quantity.unit
    elif reading.quantity in group.readings:
        unit = group.readings[reading.quantity][0][0].unit
    return _converted(row, reading, unit)


def _converted(row: LabRow, reading: Reading, unit: str) -> Reading | None:
    try:
        value, sigma = converted(reading.value, reading.sigma, reading.unit, unit)
    except Unconvertible as error:
        code = "unit_not_convertible" if error.known else "unknown_unit"
        row.refuse(code, str(error), reading.column)
        return None
    return replace(reading, value=value, unit=unit, sigma=sigma)


def _require_plausible(row: LabRow, reading: Reading, ranges: Mapping[str, Range]) -> None:
    range_ = ranges.get(reading.quantity) or (PERCENT if spelled(reading.unit) == "%" else None)
    if range_ is None:
        return
    for limit, beyond in ((range_.low, -1.0), (range_.high, 1.0)):
        if limit is not None and beyond * (reading.value - limit) > 0:
            message = f"{reading.quantity} = {reading.value:.6g} {reading.unit} is not plausible"
            row.refuse("implausible", message, reading.column, limit)


def _controls(items: Sequence[Addressed]) -> _Controls:
    """Readings of control wells by plate and quantity, in the unit of the first, by role."""
    found: dict[tuple[str, str], tuple[str, dict[str, list[float]]]] = {}
    for item in items:
        if item.role not in (Role.POSITIVE, Role.NEGATIVE) or item.row.errors:
            continue
        for reading in item.row.readings:
            at = (item.row.texts["plate"], reading.quantity)
            unit, groups = found.setdefault(at, (reading.unit, defaultdict(list)))
            same = _converted(item.row, reading, unit)
            if same is not None:
                groups[item.role.value].append(same.value)
    return found


def _noise(
    row: LabRow, readings: Sequence[tuple[Reading, str | None]], controls: _Controls
) -> float | None:
    """The largest scatter of the controls on the plates of these readings, in their unit."""
    first = readings[0][0]
    found = []
    for plate in {plate for _, plate in readings if plate is not None}:
        unit, groups = controls.get((plate, first.quantity), (first.unit, {}))
        noise = assay_noise(groups)
        if noise is None:
            continue
        same = _converted(row, replace(first, value=0.0, sigma=noise, unit=unit), first.unit)
        if same is not None and same.sigma is not None:
            found.append(same.sigma)
    return max(found, default=None)


def _told(group: _Group, controls: _Controls) -> Told | None:
    """The value of one check with what an earlier file said and this one does not mention."""
    if not group.rows:
        return None
    target, trial = group.target, LabRow(group.rows[-1].line)
    new: dict[str, tuple[Measurement, int]] = {}
    for quantity, found in group.readings.items():
        values = [reading.value for reading, _ in found]
        sigma = sigma_of(values, [reading.sigma for reading, _ in found], _noise(trial, found, controls))
        measured = Measurement(quantity=quantity, value=mean_of(values), unit=found[0][0].unit, sigma=sigma)
        new[quantity] = (measured, len(values))
    old = target.latest
    if trial.errors:
        for row in group.rows:
            row.errors += trial.errors
        return None
    moments = [row.measured_at for row in group.rows if row.measured_at is not None]
    value = _merged(target, group, new, max(moments, default=None))
    if old is None:
        return Told(target, value, RowStatus.ACCEPTED)
    if _same(old, value):
        return Told(target, old, RowStatus.UNCHANGED)
    if (
        old.measured_at is not None
        and value.measured_at is not None
        and value.measured_at < old.measured_at
    ):
        for row in group.rows:
            row.refuse("older_than_stored", "a later measurement is stored", "measured_at")
        return None
    return Told(target, value, RowStatus.AMENDED)


def _merged(
    target: Target, group: _Group, new: Mapping[str, tuple[Measurement, int]], moment: object
) -> LabValue:
    old = target.latest
    kept = (
        {}
        if old is None
        else {
            one.quantity: (one, count) for one, count in zip(old.measurements, old.replicates, strict=True)
        }
    )
    merged = {**kept, **new}
    verdict = group.verdict or (old.verdict if old is not None else None)
    reason = group.reason if group.verdict is not None or old is None else old.reason
    return LabValue.model_validate(
        {
            "review": target.review,
            "check": target.key,
            "version": 1 if old is None else old.version + 1,
            "measurements": [one for one, _ in merged.values()],
            "replicates": [count for _, count in merged.values()],
            "verdict": verdict,
            "reason": (reason or REJECTED) if verdict == "reject" else reason,
            "measured_at": moment if moment is not None else (old.measured_at if old is not None else None),
        }
    )


def _same(old: LabValue, new: LabValue) -> bool:
    return (old.measurements, old.verdict, old.reason) == (new.measurements, new.verdict, new.reason)
