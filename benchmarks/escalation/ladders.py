"""Ladders whose every level has been measured for every candidate, so that any policy can be replayed.

Public data come from a folder that the caller names; the project's own ladder lies beside this module.
A file that is missing, too large, or not of the expected form raises ``BadData`` with its name and line.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from scheduler.observations import Declared, DeclaredLine
from scheduler.pool import Ints
from scheduler.worth import Floats

OWN = Path(__file__).parent / "data" / "organic_gaps.csv"
MOST_BYTES = 64 * 2**20
MOST_ROWS = 100_000
LEAST_ROWS = 100
HALVES_SEED = 20_261


class BadData(Exception):
    """A data file cannot be replayed; the message names the file."""


@dataclass(frozen=True, eq=False, slots=True)
class ReplayLadder:
    """n candidates, p free features, K levels of which the last is the truth.

    ``x`` (n, p); ``y`` (n, K), all finite; ``costs`` (n, K): what each measurement took, in ``cost_unit``;
    ``quoted`` (n, K): what a scheduler knows of that beforehand. ``arrival``: the level that every
    candidate is given (and charged for) on arrival, -1 for none. ``declared``: what is said of the
    levels before anything has been bought.
    """

    name: str
    about: str
    unit: str
    cost_unit: str
    levels: tuple[str, ...]
    x: Floats
    y: Floats
    costs: Floats
    quoted: Floats
    declared: Declared
    arrival: int = -1

    @property
    def top(self) -> int:
        """The level of the truth."""
        return self.y.shape[1] - 1

    @property
    def truth(self) -> Floats:
        """(n,)"""
        return self.y[:, self.top]

    def take(self, rows: Ints) -> ReplayLadder:
        """Some of the candidates."""
        parts = {name: getattr(self, name)[rows] for name in ("x", "y", "costs", "quoted")}
        return replace(self, **parts)

    def half(self, which: str) -> ReplayLadder:
        """``tune`` and ``report`` are disjoint random halves of the rows, ``all`` is everything."""
        if which == "all":
            return self
        order = np.random.default_rng(HALVES_SEED).permutation(len(self.y))
        middle = len(order) // 2
        return self.take(np.sort(order[:middle] if which == "tune" else order[middle:]))


def band_gaps(folder: Path) -> ReplayLadder:
    """PBE, HSE and experimental band gaps of crystals (Chen et al. 2021, Nature Computational Science 1).

    Rows that have all three. The costs are assumptions: 0.05, 1 and 20. PBE comes with the candidate.
    """
    path = folder / "band_gaps" / "all_datapairs.csv"
    wanted = (0, 3, 4)
    kept = [line for line in _lines(path, 5) if all(line.cells[column].strip() for column in wanted)]
    y = _table(path, [line.numbers(wanted) for line in kept])
    lines = (DeclaredLine(0.5, 1.2, 1.2), DeclaredLine(0.0, 1.0, 0.8))
    return ReplayLadder(
        name="gap",
        about="crystals: PBE, HSE, experimental band gap",
        unit="eV",
        cost_unit="HSE runs (assumed)",
        levels=("PBE", "HSE", "experiment"),
        x=np.zeros((len(y), 0)),
        y=y,
        **_flat_costs(len(y), (0.05, 1.0, 20.0)),
        declared=Declared(2.0, 2.0, lines),
        arrival=0,
    )


def cofs(folder: Path) -> ReplayLadder:
    """Xe/Kr selectivity of covalent organic frameworks, Henry regime and GCMC (Gantzler et al. 2023,
    Digital Discovery 2); natural logarithms. Mean costs of the paper: 16.4 and 63 minutes."""
    path = folder / "cofs" / "cofs.csv"
    table = _table(path, [line.numbers(range(16)) for line in _lines(path, 16)])
    if (table[:, -2:] <= 0).any():
        raise BadData(f"{path}: selectivities are positive")
    y = np.log(table[:, [-1, -2]])
    return ReplayLadder(
        name="cof",
        about="frameworks: Henry, GCMC selectivity",
        unit="log",
        cost_unit="min",
        levels=("Henry", "GCMC"),
        x=table[:, :-2],
        y=y,
        **_flat_costs(len(y), (16.4, 63.0)),
        declared=Declared(1.5, 0.8, (DeclaredLine(0.0, 1.0, 0.2),)),
    )


def freesolv(folder: Path) -> ReplayLadder:
    """Hydration free energies, alchemical simulation and experiment (Mobley and Guthrie 2014, J. Comput.
    Aided Mol. Des. 28), as minus kcal/mol. Costs are assumptions: 1 and 10."""
    path = folder / "freesolv" / "freesolv.csv"
    lines = list(_lines(path, 3))
    y = _table(path, [line.numbers((2, 1)) for line in lines])
    return ReplayLadder(
        name="freesolv",
        about="molecules: simulated, measured hydration free energy",
        unit="kcal/mol",
        cost_unit="simulations (assumed)",
        levels=("simulation", "experiment"),
        x=features_of(path, [line.cells[0] for line in lines]),
        y=y,
        **_flat_costs(len(y), (1.0, 10.0)),
        declared=Declared(4.0, 4.0, (DeclaredLine(0.0, 1.0, 1.5),)),
    )


def organic(_: Path) -> ReplayLadder:
    """The project's own: orbital gaps of small molecules, GFN2-xTB and r2SCAN, with measured CPU time.

    What is declared is the shipped map's scatter over all classes; what a scheduler knows of a cost
    beforehand is a power of the number of heavy atoms.
    """
    kept = [line for line in _lines(OWN, 9) if not line.cells[8] and line.cells[3] and line.cells[6]]
    y = _table(OWN, [line.numbers((3, 6)) for line in kept])
    costs = np.maximum(_table(OWN, [line.numbers((5, 7)) for line in kept]), 1e-3)
    heavy = _table(OWN, [line.numbers((2,)) for line in kept])[:, 0]
    quoted = np.stack([0.3 * (heavy / 7.0) ** 2, 20.0 * (heavy / 7.0) ** 3], axis=1)
    return ReplayLadder(
        name="organic",
        about="molecules: GFN2-xTB, r2SCAN orbital gap",
        unit="eV",
        cost_unit="CPU s",
        levels=("GFN2-xTB", "r2SCAN"),
        x=features_of(OWN, [line.cells[0] for line in kept]),
        y=y,
        costs=costs,
        quoted=quoted,
        declared=Declared(5.5, 1.5, (DeclaredLine(0.6, 1.0, 0.8),)),
    )


LOADERS: dict[str, Callable[[Path], ReplayLadder]] = {
    "cof": cofs,
    "gap": band_gaps,
    "freesolv": freesolv,
    "organic": organic,
}


def load(folder: Path, names: Sequence[str]) -> list[ReplayLadder]:
    """The named ladders, public ones from ``folder``."""
    return [_long_enough(LOADERS[name](folder)) for name in names]


def features_of(path: Path, smiles: Sequence[str]) -> Floats:
    """Descriptors of the fast tier, (n, p); needs RDKit."""
    from tiers.fast.molecule_descriptors import descriptors
    from tiers.molecule import Refusal, rdkit_missing, read_smiles

    if (missing := rdkit_missing()) is not None:
        raise BadData(f"{path}: descriptors need RDKit ({missing})")
    found: list[list[float]] = []
    for text in smiles:
        try:
            found.append(list(descriptors(read_smiles(text, allow_fragments=True)).values()))
        except Refusal as refusal:
            raise BadData(f"{path}: {text[:80]!r}: {refusal.message}") from refusal
    return _table(path, found)


def _flat_costs(n: int, costs: tuple[float, ...]) -> dict[str, Floats]:
    table = np.tile(np.array(costs), (n, 1))
    return {"costs": table, "quoted": table}


class _Line(NamedTuple):
    path: Path
    place: int
    cells: list[str]

    def numbers(self, columns: Iterable[int]) -> list[float]:
        try:
            return [float(self.cells[column]) for column in columns]
        except ValueError as error:
            raise BadData(f"{self.path}, line {self.place}: {error}") from error


def _lines(path: Path, columns: int) -> Iterator[_Line]:
    if not path.is_file():
        raise BadData(f"{path} is missing; see --data")
    if path.stat().st_size > MOST_BYTES:
        raise BadData(f"{path} has more than {MOST_BYTES >> 20} MiB")
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.reader(file)
            next(reader, None)
            for place, cells in enumerate(reader, start=2):
                if len(cells) != columns:
                    raise BadData(f"{path}, line {place}: {len(cells)} columns, expected {columns}")
                if place > MOST_ROWS:
                    raise BadData(f"{path} has more than {MOST_ROWS} rows")
                yield _Line(path, place, cells)
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadData(f"{path}: {error}") from error


def _table(path: Path, rows: list[list[float]]) -> Floats:
    table = np.array(rows, dtype=np.float64)
    if table.ndim != 2 or not np.isfinite(table).all():
        raise BadData(f"{path}: expected rows of finite numbers")
    return table


def _long_enough(ladder: ReplayLadder) -> ReplayLadder:
    if len(ladder.y) < LEAST_ROWS:
        raise BadData(f"{ladder.name}: {len(ladder.y)} usable rows, at least {LEAST_ROWS} are needed")
    if not math.isfinite(float(ladder.costs.sum())) or (ladder.costs <= 0).any():
        raise BadData(f"{ladder.name}: costs are positive")
    return ladder
