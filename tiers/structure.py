"""Reads XYZ text strictly and checks a quantum job before anything expensive is queued.

Standard library only, bounded by ``MAX_TEXT`` characters and ``MAX_ATOMS`` atoms; numbers are read by one
pattern and never evaluated. Every refusal is a ``Problem`` with a stable code.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Literal

from tiers.elements import NUMBERS, SYMBOLS, radius

MAX_TEXT = 32_768
MAX_ATOMS = 100
MAX_COORDINATE = 10_000.0
MIN_DISTANCE = 0.3
CLOSE, JOINED = 0.4, 1.4

Blame = Literal["answer", "inputs"]
Position = tuple[float, float, float]

_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?", re.ASCII)
_NOT_FINITE = re.compile(r"[+-]?(?:nan|inf|infinity)", re.IGNORECASE | re.ASCII)
_COUNT = re.compile(r"\d{1,9}", re.ASCII)
_GHOST = re.compile(r"(?:gh|ghost|x|bq|du|q)(?:\d{1,4}|[-_:@][a-z]{1,2}\d{0,4})?", re.IGNORECASE | re.ASCII)
_SPACE = re.compile(r"[ \t]+")


@dataclass(frozen=True)
class Problem:
    """Why a job cannot run: ``code``, ``message`` and ``field`` (a path into the submission)."""

    code: str
    message: str
    field: str

    @property
    def blame(self) -> Blame:
        """Whether the answer itself is wrong, or what was asked of it."""
        return "answer" if self.field.startswith("answer") else "inputs"


@dataclass(frozen=True)
class Structure:
    """Atoms in the order given: ``symbols`` and ``positions`` in Å; ``notes`` says what was ignored."""

    symbols: tuple[str, ...]
    positions: tuple[Position, ...]
    notes: tuple[str, ...] = ()

    def atoms(self) -> list[tuple[str, Position]]:
        """Symbol and position per atom."""
        return list(zip(self.symbols, self.positions, strict=True))

    def formula(self) -> dict[str, int]:
        """Number of atoms per element."""
        return {symbol: self.symbols.count(symbol) for symbol in set(self.symbols)}

    def protons(self) -> int:
        """Sum of the atomic numbers."""
        return sum(NUMBERS[symbol] for symbol in self.symbols)

    def fragments(self) -> int:
        """Number of groups of atoms joined by distances up to 1.4 times the sum of covalent radii."""
        left, groups = set(range(len(self.symbols))), 0
        while left:
            groups += 1
            reached = [left.pop()]
            while reached:
                atom = reached.pop()
                near = {other for other in left if self._ratio(atom, other) <= JOINED}
                left -= near
                reached.extend(near)
        return groups

    def closest(self) -> tuple[int, int] | None:
        """A pair of atoms closer than 0.3 Å or 0.4 times the sum of their radii, or ``None``."""
        for first in range(len(self.symbols)):
            for second in range(first):
                apart = math.dist(self.positions[first], self.positions[second])
                if apart < MIN_DISTANCE or self._ratio(first, second) < CLOSE:
                    return second, first
        return None

    def _ratio(self, first: int, second: int) -> float:
        apart = math.dist(self.positions[first], self.positions[second])
        return apart / (radius(self.symbols[first]) + radius(self.symbols[second]))


def read_xyz(text: object, field: str = "answer.xyz") -> Structure | Problem:
    """Read one XYZ structure: a count, a comment line, then exactly that many atom lines.

    Accepts tabs, an empty or numeric comment, extra columns and trailing property lines (QM9); the ignored
    parts are reported in ``notes``. Codes: ``not_text``, ``too_long``, ``bad_header``, ``empty_structure``,
    ``too_many_atoms``, ``missing_comment_line``, ``atom_count``, ``several_structures``, ``bad_atom_line``,
    ``unknown_element``, ``ghost_atom``, ``bad_number``, ``non_finite``, ``out_of_range``.
    """
    if not isinstance(text, str):
        return Problem("not_text", "the structure is not XYZ text", field)
    if len(text) > MAX_TEXT:
        return Problem("too_long", f"more than {MAX_TEXT} characters", field)
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    header = lines[0].strip(" \t")
    if not _COUNT.fullmatch(header):
        return Problem("bad_header", "the first line is not the number of atoms", field)
    count = int(header)
    problem = _count_problem(count, lines, field)
    return problem or _read_atoms(lines[2 : 2 + count], lines[2 + count :], field)


def _count_problem(count: int, lines: list[str], field: str) -> Problem | None:
    if count == 0:
        return Problem("empty_structure", "no atoms", field)
    if count > MAX_ATOMS:
        return Problem("too_many_atoms", f"{count} atoms, at most {MAX_ATOMS}", field)
    body = lines[2 : 2 + count]
    missing_line = len(body) < count or not _looks_like_atom(body[-1])
    if len(lines) > 1 and _looks_like_atom(lines[1]) and missing_line:
        return Problem("missing_comment_line", "the second line must be a comment, it is an atom", field)
    if len([line for line in body if line.strip()]) < count:
        return Problem("atom_count", f"fewer than the {count} atoms announced", field)
    rest = lines[2 + count :]
    if rest and _looks_like_atom(rest[0]):
        return Problem("atom_count", f"more than the {count} atoms announced", field)
    if any(_starts_structure(rest, i) for i in range(len(rest))):
        return Problem("several_structures", "more than one structure", field)
    return None


def _looks_like_atom(line: str) -> bool:
    parts = _SPACE.split(line.strip(" \t"))
    return len(parts) >= 4 and parts[0].capitalize() in NUMBERS and all(_numeric(p) for p in parts[1:4])


def _numeric(text: str) -> bool:
    return bool(_NUMBER.fullmatch(text.replace(",", ".")) or _NOT_FINITE.fullmatch(text))


def _starts_structure(lines: list[str], at: int) -> bool:
    counted = bool(_COUNT.fullmatch(lines[at].strip(" \t")))
    return counted and len(lines) > at + 2 and _looks_like_atom(lines[at + 2])


def _read_atoms(body: list[str], rest: list[str], field: str) -> Structure | Problem:
    symbols, positions, extra = [], [], 0
    for number, line in enumerate(body, 3):
        parts = _SPACE.split(line.strip(" \t"))
        atom = _read_atom(parts, number, field)
        if isinstance(atom, Problem):
            return atom
        symbols.append(atom[0])
        positions.append(atom[1])
        extra = max(extra, len(parts) - 4)
    notes = []
    if extra:
        notes.append(f"{extra} extra column(s) after the coordinates ignored")
    trailing = sum(1 for line in rest if line.strip())
    if trailing:
        notes.append(f"{trailing} line(s) after the last atom ignored")
    return Structure(tuple(symbols), tuple(positions), tuple(notes))


def _read_atom(parts: list[str], number: int, field: str) -> tuple[str, Position] | Problem:
    symbol = _symbol(parts[0])
    if symbol is None:
        ghost = _GHOST.fullmatch(parts[0])
        code, kind = ("ghost_atom", "a ghost atom") if ghost else ("unknown_element", "no element")
        return Problem(code, f"line {number}: {parts[0][:20]!r} is {kind}", field)
    if len(parts) < 4:
        return Problem("bad_atom_line", f"line {number} needs a symbol and three coordinates", field)
    values = []
    for text in parts[1:4]:
        if _NOT_FINITE.fullmatch(text):
            return Problem("non_finite", f"line {number}: {text!r} is not finite", field)
        if not _NUMBER.fullmatch(text):
            return Problem("bad_number", f"line {number}: {text[:30]!r} is not a decimal number", field)
        value = float(text)
        if not math.isfinite(value):
            return Problem("non_finite", f"line {number}: {text!r} is not finite", field)
        if abs(value) > MAX_COORDINATE:
            return Problem("out_of_range", f"line {number}: beyond {MAX_COORDINATE:g} Å", field)
        values.append(value)
    return symbol, (values[0], values[1], values[2])


def _symbol(text: str) -> str | None:
    """The element named by a symbol in any case or by an atomic number."""
    if _COUNT.fullmatch(text):
        number = int(text)
        return SYMBOLS[number - 1] if 0 < number <= len(SYMBOLS) else None
    symbol = text.capitalize()
    return symbol if text.isascii() and symbol in NUMBERS else None


def spin_problem(structure: Structure, charge: int, spin_2s: int) -> Problem | None:
    """``charge_spin_inconsistent`` if no state with this charge and 2S = ``spin_2s`` exists."""
    code, total = "charge_spin_inconsistent", structure.protons() - charge
    if total < 1:
        return Problem(code, f"charge {charge} leaves no electrons", "inputs.charge")
    if spin_2s < 0 or spin_2s > total:
        return Problem(code, f"2S = {spin_2s} with {total} electron(s)", "inputs.spin_2S")
    if (total - spin_2s) % 2:
        multiplicity = spin_2s + 1
        return Problem(
            code,
            f"{total} electrons cannot have 2S = {spin_2s} (multiplicity {multiplicity})",
            "inputs.spin_2S",
        )
    return None
