"""Strain: multiple bonds that small rings, bridgeheads and chains cannot hold.

Each rule takes a ``Graph`` and returns the name of the motif found, or ``None``.
"""

from __future__ import annotations

from typing import Any

from tiers.fast.molecule_graph import Graph

MIN_RING_ALKYNE = 8  # cyclooctyne is the smallest that can be kept
MIN_RING_ALLENE = 8
MIN_TRANS_RING = 8  # Wiseman: a bridgehead alkene is as stable as the trans-cycloalkene it contains
MAX_CUMULATED = 3
MAX_POLYYNE = 7
CARBON, NITROGEN, OXYGEN, SULFUR = 6, 7, 8, 16


def small_ring_multiple_bond(graph: Graph) -> str | None:
    """Triple bond or cumulated double bonds at carbon in a ring of fewer than 8 atoms.

    A. Krebs, J. Wilke, Top. Curr. Chem. 1983, 109, 189; R. P. Johnson, Chem. Rev. 1989, 89, 1111.
    """
    for atom, number in enumerate(graph.number):
        if number != CARBON or len(graph.bonds[atom]) != 2:
            continue
        (left, first), (right, second) = graph.bonds[atom]
        if 3 in (first, second):
            size = graph.cycle(left, atom, right, MIN_RING_ALKYNE)
            if size:
                return f"triple bond in a ring of {size}"
        elif first == second == 2:
            size = graph.cycle(left, atom, right, MIN_RING_ALLENE)
            if size:
                return f"cumulated double bonds in a ring of {size}"
    return None


def cumulene(graph: Graph) -> str | None:
    """More than 3 cumulated double bonds between carbons: known only between bulky end groups.

    J. A. Januszewski, R. R. Tykwinski, Chem. Soc. Rev. 2014, 43, 3184.
    """
    for atoms in graph.components(lambda atom: _cumulated(graph, atom)):
        if len(atoms) >= MAX_CUMULATED:
            return f"{len(atoms) + 1} cumulated double bonds"
    return None


def _cumulated(graph: Graph, atom: int) -> bool:
    bonds = graph.bonds[atom]
    ends = all(order == 2 and graph.number[each] == CARBON for each, order in bonds)
    return graph.number[atom] == CARBON and len(bonds) == 2 and ends


def polyyne(graph: Graph) -> str | None:
    """More than 7 conjugated triple bonds in a chain: explosive without bulky end groups.

    W. A. Chalifoux, R. R. Tykwinski, Nature Chem. 2010, 2, 967.
    """
    for atoms in graph.components(lambda atom: _acetylenic(graph, atom)):
        if len(atoms) > 2 * MAX_POLYYNE:
            return f"{len(atoms) // 2} conjugated triple bonds"
    return None


def _acetylenic(graph: Graph, atom: int) -> bool:
    return graph.number[atom] == CARBON and any(order == 3 for _, order in graph.bonds[atom])


def antiaromatic_small_ring(graph: Graph) -> str | None:
    """Oxirene, 1H-azirine, thiirene and isolated cyclobutadiene.

    E. G. Lewars, Chem. Rev. 1983, 83, 519; G. Maier, Angew. Chem. Int. Ed. 1988, 27, 309.
    """
    for ring in graph.mol.GetRingInfo().AtomRings():
        if len(ring) > 4:
            continue
        members = set(ring)
        double = sum(1 for a in ring for b, order in graph.bonds[a] if b in members and order == 2) // 2
        others = [atom for atom in ring if graph.number[atom] != CARBON]
        if len(ring) == 3 and double == 1 and len(others) == 1 and _lone_pair(graph, others[0]):
            return f"antiaromatic three-membered ring with {graph.symbol[others[0]]}"
        if len(ring) == 4 and double == 2 and not others:
            return "cyclobutadiene"
    return None


def _lone_pair(graph: Graph, atom: int) -> bool:
    return (
        graph.number[atom] in (NITROGEN, OXYGEN, SULFUR)
        and graph.single(atom)
        and not graph.charge[atom]
        and len(graph.bonds[atom]) + graph.hydrogens[atom] <= 3
    )


def anti_bredt(graph: Graph) -> str | None:
    """C=C at a bridgehead whose trans ring has fewer than 8 atoms.

    J. Bredt, Liebigs Ann. Chem. 1924, 437, 1; J. R. Wiseman, J. Am. Chem. Soc. 1967, 89, 5966.
    """
    if graph.mol.GetRingInfo().NumRings() < 2:
        return None
    from rdkit.Chem import rdMolDescriptors

    count: Any = rdMolDescriptors.CalcNumBridgeheadAtoms  # typed wrongly in RDKit's stubs
    bridgeheads: list[int] = []
    if not count(graph.mol, bridgeheads):
        return None
    for atom in bridgeheads:
        for partner, order in graph.bonds[atom]:
            if order == 2 and graph.number[atom] == graph.number[partner] == CARBON:
                size = _trans_ring(graph, atom, partner)
                if size is not None:
                    return f"bridgehead double bond (trans in a ring of {size})"
    return None


def _trans_ring(graph: Graph, bridgehead: int, partner: int) -> int | None:
    """Larger of the two rings that run through the double bond, if below the bound."""
    others = [each for each, _ in graph.bonds[bridgehead] if each != partner]
    sizes = [graph.cycle(partner, bridgehead, each, MIN_TRANS_RING) for each in others]
    if len(sizes) < 2 or any(size is None for size in sizes):
        return None
    return max(size for size in sizes if size is not None)


def tetrahedrane(graph: Graph) -> str | None:
    """Four mutually bonded atoms, all carbon (Maier 1988, as above)."""
    rings = graph.mol.GetRingInfo().AtomRings()
    triangles = [frozenset(ring) for ring in rings if len(ring) == 3]
    for first, one in enumerate(triangles):
        for two in triangles[first + 1 :]:
            corners = one | two
            if len(corners) == 4 and all(graph.number[atom] == CARBON for atom in corners):
                bonds = sum(1 for a in corners for b, _ in graph.bonds[a] if b in corners) // 2
                if bonds == 6:
                    return "tetrahedrane"
    return None


RING_RULES = (small_ring_multiple_bond, antiaromatic_small_ring, anti_bredt, tetrahedrane)
UNSATURATED_CHAIN_RULES = (cumulene, polyyne)
