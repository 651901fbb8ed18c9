"""Motifs that can be written and hardly be made: heteroatom chains, charges, radicals, isotopes.

Each rule takes a ``Graph`` and returns the name of the motif found, or ``None``. A rule names what is
unknown outside matrices, superacids and transients; ordinary energetic or reactive groups (azide,
diazo, tetrazole, nitro, peroxide, hydrazine, N-halo imides, hypochlorite) pass.
"""

from __future__ import annotations

from tiers.fast.molecule_graph import HALOGENS, NONMETALS, Graph

MAX_CHAIN_N = 4  # tetrazenes, tetrazoles and N-azides have four nitrogens in a row
MAX_CHAIN_N_AROMATIC = 7
MAX_CHAIN_CHALCOGEN = 8  # S8; longer acyclic polysulfides disproportionate to it
MAX_CHAIN_PNICTOGEN = 6  # P4, and the cyclic (RP)5 and (RP)6
MAX_CHAIN_MIXED = 4
CARBON, NITROGEN, OXYGEN, SULFUR, FLUORINE = 6, 7, 8, 16, 9


def nitrogen_chain(graph: Graph) -> str | None:
    """Catenated nitrogen: more than 4 in a row (7 with aromatic rings), 5 in one ring, a saturated
    N-N-N, or two N=N or N=O joined by a single N-N bond.

    N-N single bonds are weak (160 kJ/mol against 350 for C-C) and the loss of N2 drives decay: N. N.
    Greenwood, A. Earnshaw, Chemistry of the Elements, 2nd ed. (1997), ch. 11.
    """
    for atoms in graph.components(lambda atom: graph.number[atom] == NITROGEN):
        plain = sum(1 for atom in atoms if not graph.aromatic[atom])
        if plain > MAX_CHAIN_N or len(atoms) > MAX_CHAIN_N_AROMATIC:
            return f"chain of {len(atoms)} N"
        if len(atoms) > 2 and any(_middle_of_three(graph, atom) for atom in atoms):
            return "saturated N-N-N chain"
        if len(atoms) > MAX_CHAIN_N and _in_one_ring(graph, set(atoms)):
            return "ring with five N in a row"
        if len(atoms) > 1 and any(_joined_diazenes(graph, atom) for atom in atoms):
            return "N-N bond between two N=N or N=O"
    return None


def _in_one_ring(graph: Graph, atoms: set[int]) -> bool:
    return any(len(atoms.intersection(ring)) > MAX_CHAIN_N for ring in graph.mol.GetRingInfo().AtomRings())


def _joined_diazenes(graph: Graph, atom: int) -> bool:
    return _diazene_end(graph, atom) and any(
        order == 1 and graph.number[each] == NITROGEN and _diazene_end(graph, each)
        for each, order in graph.bonds[atom]
    )


def _diazene_end(graph: Graph, atom: int) -> bool:
    return not graph.charge[atom] and any(
        order == 2 and graph.number[each] in (NITROGEN, OXYGEN) for each, order in graph.bonds[atom]
    )


def _middle_of_three(graph: Graph, atom: int) -> bool:
    if not _plain_single(graph, atom):
        return False
    ends = [each for each, _ in graph.bonds[atom] if graph.number[each] == NITROGEN]
    return sum(1 for each in ends if _plain_single(graph, each)) > 1


def _plain_single(graph: Graph, atom: int) -> bool:
    return not graph.aromatic[atom] and not graph.charge[atom] and graph.single(atom)


def oxygen_chain(graph: Graph) -> str | None:
    """Three or more catenated oxygens; ozone itself passes.

    Polyoxides beyond peroxides decompose far below room temperature: B. Plesničar, Acta Chim. Slov.
    2005, 52, 1.
    """
    for atoms in graph.components(lambda atom: graph.number[atom] == OXYGEN):
        if len(atoms) < 3:
            continue
        ozone = len(graph.number) == 3 and any(graph.charge[atom] for atom in atoms)
        if not ozone:
            return f"O-O-O chain ({len(atoms)} O in a row)"
    return None


def heavy_chain(graph: Graph) -> str | None:
    """More than 8 catenated S/Se/Te or 6 catenated P/As (Greenwood and Earnshaw, ch. 12, 13, 15)."""
    for kind, members, bound in (
        ("chalcogen", (16, 34, 52), MAX_CHAIN_CHALCOGEN),
        ("pnictogen", (15, 33, 51), MAX_CHAIN_PNICTOGEN),
    ):
        for atoms in graph.components(lambda atom, members=members: graph.number[atom] in members):  # type: ignore[misc]
            if len(atoms) > bound:
                return f"chain of {len(atoms)} {kind} atoms"
    return None


def mixed_chain(graph: Graph) -> str | None:
    """Chains of alternating N, O and divalent S: 5 or more, or 4 with single bonds only.

    Terminal oxo and oxide oxygens do not count, so nitramines, hyponitrites, diazeniumdiolates and
    N2O5 pass. The weakness is that of each N-N, N-O and O-O bond (Greenwood and Earnshaw, ch. 11, 14).
    """
    for atoms in graph.components(lambda atom: _backbone(graph, atom)):
        kinds = {graph.number[atom] for atom in atoms}
        if len(atoms) < MAX_CHAIN_MIXED or len(kinds) == 1:
            continue
        sulfurs = sum(1 for atom in atoms if graph.number[atom] == SULFUR)
        if sulfurs > 1 and len(atoms) - sulfurs <= 2:  # R2N-S-S-NR2 and polysulfides with ends
            continue
        saturated = all(graph.single(atom) for atom in atoms)
        if len(atoms) > MAX_CHAIN_MIXED or saturated:
            names = "-".join(sorted({graph.symbol[atom] for atom in atoms}))
            return f"chain of {len(atoms)} heteroatoms ({names})"
    return None


def _backbone(graph: Graph, atom: int) -> bool:
    number = graph.number[atom]
    if number not in (NITROGEN, OXYGEN, SULFUR) or graph.aromatic[atom]:
        return False
    if number == SULFUR:
        return len(graph.bonds[atom]) + graph.hydrogens[atom] <= 2
    return not graph.terminal_oxo(atom)


def hypohalite(graph: Graph) -> str | None:
    """Organic O-F and O-I, O-O-halogen, two O-halogen groups, or halogen on a hydrazine or
    hydroxylamine nitrogen. One O-Cl or O-Br passes (tert-butyl hypochlorite is a reagent).

    M. Anbar, D. Ginsburg, Chem. Rev. 1954, 54, 925.
    """
    if CARBON not in graph.number:
        return None
    groups = 0
    for atom, number in enumerate(graph.number):
        if number not in HALOGENS or len(graph.bonds[atom]) != 1:
            continue
        bearer = graph.bonds[atom][0][0]
        if graph.number[bearer] == OXYGEN:
            groups += 1
            if number in (FLUORINE, 53) or _bonded_to(graph, bearer, (NITROGEN, OXYGEN, SULFUR)):
                return f"O-{graph.symbol[atom]} bond"
        elif _plain_amine(graph, bearer) and _bonded_to(graph, bearer, (NITROGEN, OXYGEN)):
            return f"N-{graph.symbol[atom]} bond beside another N or O"
    return "several O-halogen bonds" if groups > 1 else None


def _plain_amine(graph: Graph, atom: int) -> bool:
    return graph.number[atom] == NITROGEN and _plain_single(graph, atom)


def _bonded_to(graph: Graph, atom: int, numbers: tuple[int, ...]) -> bool:
    return any(graph.number[each] in numbers for each, _ in graph.bonds[atom])


def crowded_hydroxyls(graph: Graph) -> str | None:
    """Carbon with three or more OH, SH or NH groups and no other hetero bond: it loses water at once.

    J. P. Guthrie, J. Am. Chem. Soc. 1973, 95, 6999 (orthoacids).
    """
    for atom, number in enumerate(graph.number):
        if number != CARBON or len(graph.bonds[atom]) < 3 or not graph.single(atom):
            continue
        labile = sum(
            1
            for each, _ in graph.bonds[atom]
            if graph.number[each] in (NITROGEN, OXYGEN, SULFUR)
            and graph.hydrogens[each]
            and not graph.charge[each]
            and len(graph.bonds[each]) == 1
        )
        if labile > 2:
            return "carbon with three OH, NH2 or SH groups"
    return None


def charges(graph: Graph) -> str | None:
    """Charges that no condensed phase holds: neighbours of like sign, multiply charged non-metals,
    positive fluorine or terminal halogen, bare carbocations, more charge than a third of the atoms.

    L. Pauling, The Nature of the Chemical Bond, 3rd ed. (1960), ch. 8 (adjacent charge rule); G. A.
    Olah, J. Am. Chem. Soc. 1972, 94, 808 (carbocations).
    """
    if not any(graph.local):
        return None
    for atom, charge in enumerate(graph.local):
        number = graph.number[atom]
        if not charge or number not in NONMETALS:
            continue
        symbol, neighbours = graph.symbol[atom], graph.bonds[atom]
        if abs(charge) > 1 and neighbours:
            return f"{symbol} with charge {charge:+d}"
        if charge > 0 and number in HALOGENS and (number == FLUORINE or len(neighbours) < 2):
            return f"positive {symbol}"
        if number == CARBON and charge > 0 and not _stabilised(graph, atom):
            return "carbocation without a stabilising neighbour"
        if any(_repels(graph, atom, each) for each, _ in neighbours):
            return "neighbouring charges of like sign"
    return _too_charged(graph)


def _repels(graph: Graph, atom: int, other: int) -> bool:
    """Like charges on bonded non-metals, diatomic ions apart (peroxide, carbide, disulfide)."""
    diatomic = len(graph.bonds[atom]) == len(graph.bonds[other]) == 1
    return graph.local[atom] * graph.local[other] > 0 and graph.number[other] in NONMETALS and not diatomic


def _stabilised(graph: Graph, atom: int) -> bool:
    if graph.aromatic[atom] or not graph.single(atom):
        return True
    return any(
        graph.number[each] not in (1, CARBON) or not graph.single(each) for each, _ in graph.bonds[atom]
    )


def _too_charged(graph: Graph) -> str | None:
    for atoms in graph.components(lambda atom: graph.number[atom] > 1):
        charged = sum(1 for atom in atoms if graph.local[atom])
        net = abs(sum(graph.charge[atom] for atom in atoms))
        bound = max(4, len(atoms) // 3)
        if (charged > bound or net > bound) and all(graph.number[atom] in NONMETALS for atom in atoms):
            return f"{max(charged, net)} charges on {len(atoms)} atoms"
    return None


def radicals(graph: Graph) -> str | None:
    """Three or more unpaired electrons on non-metals, or a carbene without a heteroatom beside it.

    One unpaired electron is flagged elsewhere and passes: nitroxides are stable. D. Griller, K. U.
    Ingold, Acc. Chem. Res. 1976, 9, 13 (persistence); D. Bourissou et al., Chem. Rev. 2000, 100, 39
    (stable carbenes).
    """
    total = 0
    for atom, unpaired in enumerate(graph.unpaired):
        if not unpaired or graph.number[atom] not in NONMETALS:
            continue
        total += unpaired
        carbene = unpaired > 1 and graph.number[atom] == CARBON
        if carbene and not _bonded_to(graph, atom, (NITROGEN, OXYGEN, 15, SULFUR)):
            return "carbene without a stabilising heteroatom"
    return f"{total} unpaired electrons" if total > 2 else None


def exotic_atoms(graph: Graph) -> str | None:
    """Isotopes without a known nuclide, elements beyond einsteinium, bonds of order 4 between
    non-metals (masses: the periodic table in RDKit, from the CIAAW and NUBASE tables)."""
    for atom, number in enumerate(graph.number):
        if number > 99:
            return f"{graph.symbol[atom]}: made atom by atom"
        if graph.isotope[atom] and not _known_nuclide(number, graph.isotope[atom]):
            return f"no nuclide {graph.isotope[atom]}{graph.symbol[atom]}"
        if number in NONMETALS and any(order > 3 for _, order in graph.bonds[atom]):
            return "quadruple bond between non-metals"
    return None


def _known_nuclide(number: int, mass: int) -> bool:
    from rdkit.Chem import GetPeriodicTable

    return bool(GetPeriodicTable().GetMassForIsotope(number, mass))


CHAIN_RULES = (nitrogen_chain, oxygen_chain, heavy_chain, mixed_chain, hypohalite, crowded_hydroxyls)
STATE_RULES = (charges, radicals, exotic_atoms)
