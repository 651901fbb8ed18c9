"""A molecule as plain lists, read once, for rules that look at many small patterns."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

NONMETALS = frozenset(
    {1, 2, 5, 6, 7, 8, 9, 10, 14, 15, 16, 17, 18, 32, 33, 34, 35, 36, 51, 52, 53, 54, 85, 86}
)
HALOGENS = frozenset({9, 17, 35, 53})


@dataclass(slots=True)
class Graph:
    """Heavy-atom graph of one RDKit molecule; index = RDKit's atom index.

    ``bonds[i]`` lists ``(neighbour, order)`` with order 1, 2, 3, 4 or 1.5 (aromatic). ``local[i]`` is
    the formal charge of i (in e) after cancelling opposite charges of its neighbours, so that nitro
    groups, N-oxides, ylides and perchlorate count as neutral.
    """

    mol: Any
    symbol: list[str] = field(default_factory=list)
    number: list[int] = field(default_factory=list)
    charge: list[int] = field(default_factory=list)
    local: list[int] = field(default_factory=list)
    hydrogens: list[int] = field(default_factory=list)
    aromatic: list[bool] = field(default_factory=list)
    unpaired: list[int] = field(default_factory=list)
    isotope: list[int] = field(default_factory=list)
    bonds: list[list[tuple[int, float]]] = field(default_factory=list)

    @classmethod
    def of(cls, mol: Any) -> Graph:
        """Read the graph of a sanitised molecule."""
        graph = cls(mol)
        for atom in mol.GetAtoms():
            graph.symbol.append(atom.GetSymbol())
            graph.number.append(atom.GetAtomicNum())
            graph.charge.append(atom.GetFormalCharge())
            graph.hydrogens.append(atom.GetTotalNumHs())
            graph.aromatic.append(atom.GetIsAromatic())
            graph.unpaired.append(atom.GetNumRadicalElectrons())
            graph.isotope.append(atom.GetIsotope())
            graph.bonds.append([])
        for bond in mol.GetBonds():
            first, second = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
            order = bond.GetBondTypeAsDouble()
            graph.bonds[first].append((second, order))
            graph.bonds[second].append((first, order))
        graph.local = [graph._residual(atom) for atom in range(len(graph.number))]
        return graph

    def _residual(self, atom: int) -> int:
        own = self.charge[atom]
        if not own:
            return 0
        other = sum(self.charge[each] for each, _ in self.bonds[atom] if self.charge[each] * own < 0)
        return 0 if abs(other) >= abs(own) else own + other

    def single(self, atom: int) -> bool:
        """Whether all bonds of the atom are single."""
        return all(order == 1 for _, order in self.bonds[atom])

    def terminal_oxo(self, atom: int) -> bool:
        """Whether the atom is an O that ends at a double bond or as a charge-separated oxide."""
        if self.number[atom] != 8 or len(self.bonds[atom]) != 1:
            return False
        return self.bonds[atom][0][1] == 2 or self.charge[atom] < 0

    def components(self, member: Callable[[int], bool]) -> Iterable[list[int]]:
        """Yield the connected sets of atoms that satisfy ``member``, in time linear in the bonds."""
        pending = {atom for atom in range(len(self.number)) if member(atom)}
        while pending:
            found = [pending.pop()]
            for atom in found:
                for neighbour, _ in self.bonds[atom]:
                    if neighbour in pending:
                        pending.remove(neighbour)
                        found.append(neighbour)
            yield found

    def cycle(self, start: int, through: int, end: int, bound: int) -> int | None:
        """Size of the shortest ring that contains start-through-end, if below ``bound``."""
        front, seen, size = [start], {start, through}, 2
        while front and size < bound:
            following = []
            for atom in front:
                for neighbour, _ in self.bonds[atom]:
                    if neighbour == end:
                        return size + 1 if size + 1 < bound else None
                    if neighbour not in seen:
                        seen.add(neighbour)
                        following.append(neighbour)
            front, size = following, size + 1
        return None
