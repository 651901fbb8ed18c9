"""The molecules of the demo: how an agent may spell each, and the gap that ``pyscf.gap`` measures.

Gaps are r2SCAN/def2-SVP at GFN2-xTB geometries, in eV, measured with this project's own verifiers (``null``
where the cheap tier settles it). They choose the molecules and are printed in no trajectory: the service
measures them again.
"""

SPELLINGS: dict[str, tuple[float | None, tuple[str, ...]]] = {
    # outside the window, within the softness: a reward strictly between 0 and 1
    "crotonaldehyde": (3.51, ("CC=CC=O", "O=CC=CC", "C(C)=CC=O")),
    "methacrolein": (3.59, ("CC(=C)C=O", "C=C(C)C=O", "O=CC(C)=C")),
    "cyclopentenone": (3.58, ("O=C1C=CCC1", "C1CC(=O)C=C1", "O=C1CCC=C1")),
    "2-methylfuran": (5.17, ("Cc1ccco1", "CC1=CC=CO1", "c1cc(C)oc1")),
    "oxazole": (5.53, ("c1cocn1", "C1=COC=N1", "o1cncc1")),
    "isoxazole": (5.69, ("c1cnoc1", "c1conc1", "C1=CON=C1")),
    "2,3-dihydrofuran": (5.28, ("C1=COCC1", "C1CC=CO1", "O1CCC=C1")),
    "methacrylonitrile": (5.05, ("CC(=C)C#N", "C=C(C)C#N", "N#CC(C)=C")),
    "divinyl ether": (5.05, ("C=COC=C", "O(C=C)C=C")),
    "N-methylpyrrole": (5.54, ("Cn1cccc1", "CN1C=CC=C1")),
    "1-methylimidazole": (5.64, ("Cn1ccnc1", "CN1C=CN=C1", "c1cn(C)cn1")),
    # inside the window
    "propanal": (4.49, ("CCC=O", "O=CCC", "C(C)C=O")),
    "acrylamide": (4.19, ("C=CC(N)=O", "NC(=O)C=C", "C=CC(=O)N")),
    "pyrimidine": (4.03, ("c1cncnc1", "C1=CN=CN=C1", "n1cccnc1")),
    "chloroprene": (4.26, ("C=CC(=C)Cl", "ClC(=C)C=C", "C=C(Cl)C=C")),
    "methyl vinyl sulfide": (4.73, ("CSC=C", "C=CSC")),
    # just beyond the softness
    "pyrazole": (6.09, ("c1cn[nH]c1", "c1cc[nH]n1", "C1=CNN=C1")),
    "ethanethiol": (6.10, ("CCS", "SCC")),
    "formamide": (6.13, ("NC=O", "O=CN")),
    # far outside
    "1-propanol": (None, ("CCCO", "OCCC")),
    "2-propanol": (None, ("CC(C)O", "OC(C)C")),
    "ethylamine": (None, ("CCN", "NCC")),
    "tetrahydropyran": (None, ("C1CCOCC1", "O1CCCCC1")),
    "methoxyethane": (None, ("CCOC", "COCC")),
    "2,3-pentanedione": (None, ("CCC(=O)C(C)=O", "CC(=O)C(=O)CC")),
}

# What the agent's table answers: gaps of well-known molecules, from tiers/maps/gfn2-to-r2scan/data.csv.
TABLE: dict[str, float] = {
    "benzene": 5.68,
    "toluene": 5.37,
    "phenol": 4.76,
    "aniline": 4.33,
    "pyridine": 4.50,
    "butadiene": 4.44,
    "hexatriene": 3.39,
    "acrolein": 3.44,
    "acetaldehyde": 4.62,
    "ethene": 6.49,
    "ethanol": 7.82,
    "pyrrole": 5.71,
}

# Answers that get no number above the floor, by what is wrong with them.
FAULTY: dict[str, tuple[str | None, ...]] = {
    "unbalanced_ring": ("c1ccco", "C1=COCC", "c1ccc2occc1", "O=C1C=CCC"),
    "wrong_valence": ("CC(C)(C)(C)C=O", "C=N(C)(C)=O", "CN(C)(C)C", "c1ccccc1(C)C"),
    "hedged": ("CCO or CCN", "c1ccco1, maybe c1ccsc1", "Either C=CC=O or C=CC#N", "CC=O | CCC=O"),
    "prose": (
        "I would suggest furan, because its gap is close to the window.",
        "Answer: C=CC=O",
    ),
    "name": ("2-methylfuran", "para-xylene"),
    "inchi": ("InChI=1S/C4H4O/c1-2-4-5-3-1/h1-4H", "InChI=1S/C3H4O/c1-2-3-4/h2-3H,1H2"),
    "nitrogen_chain": ("NNNNNNNNN", "CNNNNNNNNC", "N=NN=NN=NN=NN"),
    "oxygen_chain": ("OOO", "COOOOC", "OOOOO"),
    "reaction": ("CCO>>CC=O", "C=CC=O>[H][H]>CCC=O"),
    "salt": ("CC(=O)[O-].[Na+]", "C[NH3+].[Cl-]", "c1cc[nH+]cc1.[Cl-]"),
    "dummy_atom": ("*c1ccccc1", "[*]C=CC=O"),
    "empty": ("",),
    "no_answer": (None,),
    "non_ascii": ("C=C–C=O",),
    # Fine molecules that no tier can measure: nobody is wrong, so the reward is null.
    "outside_method": ("O=[U]=O", "Cl[U](Cl)(Cl)Cl"),
}
