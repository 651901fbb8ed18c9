"""A candidate as people look at it: drawn, plotted, as code, or as the document it is.

What it is follows from its ladder, else from its looks. Nothing here is trusted: texts are shown as texts,
and what is too long is cut with a word about it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tiers.structure import Structure, read_xyz
from verifier_service.dashboard.series_plots import Plot, plot
from verifier_service.domain.evidence import Evidence
from verifier_service.domain.ladders import CandidateSpec
from verifier_service.domain.records import JsonObject, JsonValue

MAX_CHARS = 100_000
MAX_LINES = 2_000
MAX_POINTS = 2_000
MAX_SERIES = 8
MAX_SMILES = 1_000
MAX_TESTS = 200
CODE = ("program", "code", "source")
BOUNDS = (("lower", "upper"), ("low", "high"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Shown:
    """What the page draws. ``kind``: molecule, geometry, code, series, number, text or json. ``text`` is
    what was written, at most ``MAX_CHARS``; ``cut`` is how much more there was."""

    kind: str
    text: str
    cut: int = 0
    structure: Structure | None = None
    formula: str | None = None
    lines: Sequence[str] = ()
    plot: Plot | None = None
    tests: Sequence[Mapping[str, JsonValue]] = ()


def shown(candidate: JsonValue, spec: CandidateSpec | None, evidence: Sequence[Evidence]) -> Shown:
    """How to show a candidate."""
    kind = "" if spec is None else spec.kind
    smiles = _field(candidate, "smiles")
    if (
        smiles is not None
        and len(smiles) <= MAX_SMILES
        and (kind == "molecule" or (spec is None and isinstance(candidate, dict)))
    ):
        return _text("molecule", smiles)
    structure = _structure(candidate)
    if structure is not None:
        written = _field(candidate, "xyz") or ""
        formula = _hill(structure.formula())
        return Shown(kind="geometry", text=written, structure=structure, formula=formula)
    tests = _tests(evidence)
    if isinstance(candidate, str) and (kind in CODE or tests):
        whole = _text("code", candidate)
        lines = whole.text.splitlines()
        return Shown(kind="code", text=whole.text, cut=whole.cut, lines=lines[:MAX_LINES], tests=tests)
    return _numbers(candidate) or _plain(candidate)


def _field(candidate: JsonValue, name: str) -> str | None:
    """The text of a candidate that is one, or that holds it under a name."""
    found = candidate.get(name) if isinstance(candidate, dict) else candidate
    return found if isinstance(found, str) else None


def _structure(candidate: JsonValue) -> Structure | None:
    text = _field(candidate, "xyz")
    found = None if text is None else read_xyz(text)
    return found if isinstance(found, Structure) else None


def _hill(counts: Mapping[str, int]) -> str:
    """Carbon, hydrogen, then the rest by name (E. A. Hill, J. Am. Chem. Soc. 22 (1900) 478)."""
    rest = dict(counts)
    first = [(name, rest.pop(name)) for name in ("C", "H") if "C" in counts and name in rest]
    return "".join(
        name + (str(count) if count > 1 else "") for name, count in [*first, *sorted(rest.items())]
    )


def _tests(evidence: Sequence[Evidence]) -> list[JsonObject]:
    """What became of every test, as ``code.tests`` reports it."""
    found: list[JsonObject] = []
    for one in evidence:
        for artifact in one.artifacts:
            rows = artifact.get("tests") if artifact.get("kind") == "tests" else None
            if isinstance(rows, list):
                found += [row for row in rows if isinstance(row, dict)]
    return found[:MAX_TESTS]


def _numbers(candidate: JsonValue) -> Shown | None:
    """A number, a series, or several under their names; a band where one has a lower and an upper end."""
    if _is_number(candidate):
        return Shown(kind="number", text=json.dumps(candidate))
    series = _series(candidate)
    if not series:
        return None
    band = next((pair for pair in BOUNDS if all(name in series for name in pair)), None)
    if band is not None and len(series[band[0]]) != len(series[band[1]]):
        band = None
    written = _plain(candidate)
    return Shown(kind="series", text=written.text, cut=written.cut, plot=plot(series, band))


def _series(candidate: JsonValue) -> dict[str, list[float]]:
    """Lists of numbers by name, also where they are one level down, and all alone."""
    if isinstance(candidate, dict) and len(candidate) == 1:
        inner = next(iter(candidate.values()))
        candidate = inner if isinstance(inner, dict) else candidate
    named = candidate if isinstance(candidate, dict) else {"value": candidate}
    found = {str(name): numbers for name, values in named.items() if (numbers := _numbers_of(values))}
    return found if found and len(found) <= MAX_SERIES and len(found) == len(named) else {}


def _numbers_of(values: JsonValue) -> list[float]:
    """A list of at least two numbers, else nothing."""
    if not isinstance(values, list) or len(values) < 2 or not all(_is_number(value) for value in values):
        return []
    return [float(value) for value in values[:MAX_POINTS] if isinstance(value, int | float)]


def _is_number(value: JsonValue) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _plain(candidate: JsonValue) -> Shown:
    if isinstance(candidate, str):
        return _text("text", candidate)
    return _text("json", json.dumps(candidate, indent=2, ensure_ascii=False, sort_keys=True))


def _text(kind: str, text: str) -> Shown:
    return Shown(kind=kind, text=text[:MAX_CHARS], cut=max(0, len(text) - MAX_CHARS))
