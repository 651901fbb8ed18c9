"""How large a quantum chemical calculation is: basis functions, counted from text at the door.

Standard library only and linear in the text, so that a candidate can be priced before anything reads it
properly. Text that is no molecule has some size all the same: it costs little to find out.

Sources: opensmiles.org 2016 (valences of the organic subset); the spherical functions per row of the
periodic table of W. J. Hehre et al., J. Chem. Phys. 1969, 51, 2657 (STO-3G); R. Ditchfield et al., J. Chem.
Phys. 1971, 54, 724 (6-31G and its like); T. H. Dunning, J. Chem. Phys. 1989, 90, 1007 (cc-pVXZ);
F. Weigend, R. Ahlrichs, Phys. Chem. Chem. Phys. 2005, 7, 3297 (def2).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from tiers.elements import NUMBERS

MAX_CHARS, MAX_XYZ_CHARS = 2_000, 32_768  # what the readers of either take
# Functions of one atom, by row: H and He; Li to Ne; Na to Ar; K to Kr; all that follow.
FUNCTIONS: Mapping[str, tuple[int, int, int, int, int]] = {
    "sto-3g": (1, 5, 9, 18, 27),
    "3-21g": (2, 9, 13, 24, 31),
    "6-31g": (2, 9, 13, 24, 31),
    "6-31g*": (2, 14, 18, 30, 40),
    "6-31g**": (5, 14, 18, 30, 40),
    "cc-pvdz": (5, 14, 18, 27, 36),
    "cc-pvtz": (14, 30, 34, 43, 60),
    "def2-svp": (5, 14, 18, 32, 28),
    "def2-tzvp": (6, 31, 37, 45, 48),
}
DEFAULT = "def2-svp"
_LAST_OF_ROW = (2, 10, 18, 36)
_VALENCES = {
    "B": (3,),
    "C": (4,),
    "N": (3, 5),
    "O": (2,),
    "P": (3, 5),
    "S": (2, 4, 6),
    "F": (1,),
    "Cl": (1,),
    "Br": (1,),
    "I": (1,),
}
_ORDERS = {"-": 1, "=": 2, "#": 3, "$": 4, ":": 1, "/": 1, "\\": 1}
_SIGN = re.compile(
    r"\[[^\[\]]{0,64}\]|Br|Cl|[BCNOPSFIbcnops]|%\(\d{1,5}\)|%\d\d|\d|[-=#$:/\\().]", re.ASCII
)
_BRACKET = re.compile(r"\[\d{0,3}([A-Z][a-z]?|[a-z]{1,2})@{0,2}(?:[A-Z]{2}\d{1,2})?(?:(H)(\d?))?")
_XYZ_ATOM = re.compile(r"^[ \t]*([A-Z][a-z]?)[ \t]+[-+.\d]", re.MULTILINE)


def functions(composition: Mapping[str, int], basis: str = DEFAULT) -> float:
    """About as many basis functions as these atoms have, at least 1; an unknown basis counts as def2-SVP.

    ``composition`` is a number of atoms by element symbol, hydrogen among them.
    """
    by_row = FUNCTIONS.get(basis.lower(), FUNCTIONS[DEFAULT])
    return float(max(1, sum(count * by_row[_row(symbol)] for symbol, count in composition.items())))


def _row(symbol: str) -> int:
    number = NUMBERS.get(symbol, 6)
    return sum(number > last for last in _LAST_OF_ROW)


def of_smiles(text: object, basis: str = DEFAULT) -> float:
    """Basis functions of a molecule written as SMILES, as far as its first 2,000 characters say."""
    return functions(composition(text[:MAX_CHARS]), basis) if isinstance(text, str) else 1.0


def of_xyz(text: object, basis: str = DEFAULT) -> float:
    """Basis functions of a structure in XYZ form, as far as its first 32,768 characters say."""
    if not isinstance(text, str):
        return 1.0
    return functions(Counter(_XYZ_ATOM.findall(text[:MAX_XYZ_CHARS])), basis)


@lru_cache(maxsize=4_096)
def composition(smiles: str) -> Mapping[str, int]:
    """Atoms by element, with the hydrogens that are not written."""
    return _Composition().of(smiles)


@dataclass(slots=True)
class _Atom:
    """An atom whose hydrogens are not written: how many bonds it has by now."""

    symbol: str
    aromatic: bool
    orders: int = 0

    def hydrogens(self) -> int:
        """What fills the atom up to its lowest fitting valence."""
        if self.aromatic:
            return max(0, _VALENCES[self.symbol][0] - self.orders - 1)
        return next((most - self.orders for most in _VALENCES[self.symbol] if most >= self.orders), 0)


@dataclass(slots=True)
class _Composition:
    """One pass over a SMILES: atoms with the orders of their bonds, branches and rings."""

    counts: Counter[str] = field(default_factory=Counter)
    atoms: list[_Atom] = field(default_factory=list)
    branches: list[_Atom | None] = field(default_factory=list)
    rings: dict[int, tuple[_Atom, int]] = field(default_factory=dict)
    last: _Atom | None = None
    order: int = 0

    def of(self, text: str) -> Counter[str]:
        """Atoms by element, those of hydrogen as far as valences tell."""
        for sign in _SIGN.findall(text):
            self._take(sign)
        for atom in self.atoms:
            self.counts["H"] += atom.hydrogens()
        return self.counts

    def _take(self, sign: str) -> None:
        if sign in _ORDERS:
            self.order = _ORDERS[sign]
        elif sign == "(":
            self.branches.append(self.last)
        elif sign == ")":
            self.last = self.branches.pop() if self.branches else self.last
        elif sign == ".":
            self.last, self.order = None, 0
        elif sign[0] == "%" or sign.isdigit():
            self._ring(int(sign.strip("%()")))
        else:
            self._atom(sign)

    def _ring(self, label: int) -> None:
        if self.last is None:
            return
        opened = self.rings.pop(label, None)
        if opened is None:
            self.rings[label] = (self.last, self.order)
        else:
            other, order = opened
            self._bond(other, self.last, max(order, self.order))
        self.order = 0

    def _atom(self, sign: str) -> None:
        bracket = sign[0] == "["
        found = _BRACKET.match(sign) if bracket else None
        written = sign if found is None else found.group(1)
        symbol = written.capitalize()
        atom = _Atom(symbol, written.islower())
        if found is not None:
            self.counts["H"] += int(found.group(3) or 1) if found.group(2) else 0
        elif not bracket:
            self.atoms.append(atom)
        self.counts[symbol if not bracket or found is not None else "C"] += 1
        if self.last is not None:
            self._bond(self.last, atom, self.order)
        self.last, self.order = atom, 0

    @staticmethod
    def _bond(first: _Atom, second: _Atom, order: int) -> None:
        first.orders += order or 1
        second.orders += order or 1
