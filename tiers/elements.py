"""The periodic table as far as checks at the door need it: symbols and covalent radii.

Radii in Å up to radon: Cordero et al., Dalton Trans. 2008, 2832 (carbon sp3, low-spin Mn, Fe, Co).
"""

from __future__ import annotations

_ORDER = (
    "H He Li Be B C N O F Ne Na Mg Al Si P S Cl Ar K Ca Sc Ti V Cr Mn Fe Co Ni Cu Zn Ga Ge As Se Br Kr "
    "Rb Sr Y Zr Nb Mo Tc Ru Rh Pd Ag Cd In Sn Sb Te I Xe Cs Ba La Ce Pr Nd Pm Sm Eu Gd Tb Dy Ho Er Tm "
    "Yb Lu Hf Ta W Re Os Ir Pt Au Hg Tl Pb Bi Po At Rn Fr Ra Ac Th Pa U Np Pu Am Cm Bk Cf Es Fm Md No "
    "Lr Rf Db Sg Bh Hs Mt Ds Rg Cn Nh Fl Mc Lv Ts Og"
)
SYMBOLS: tuple[str, ...] = tuple(_ORDER.split())
NUMBERS: dict[str, int] = {symbol: number for number, symbol in enumerate(SYMBOLS, 1)}

_RADII = (
    "0.31 0.28 1.28 0.96 0.84 0.76 0.71 0.66 0.57 0.58 1.66 1.41 1.21 1.11 1.07 1.05 1.02 1.06 2.03 1.76 "
    "1.70 1.60 1.53 1.39 1.39 1.32 1.26 1.24 1.32 1.22 1.22 1.20 1.19 1.20 1.20 1.16 2.20 1.95 1.90 1.75 "
    "1.64 1.54 1.47 1.46 1.42 1.39 1.45 1.44 1.42 1.39 1.39 1.38 1.39 1.40 2.44 2.15 2.07 2.04 2.03 2.01 "
    "1.99 1.98 1.98 1.96 1.94 1.92 1.92 1.89 1.90 1.87 1.87 1.75 1.70 1.62 1.51 1.44 1.41 1.36 1.36 1.32 "
    "1.45 1.46 1.48 1.40 1.50 1.50"
)
RADII: dict[str, float] = dict(zip(SYMBOLS, map(float, _RADII.split()), strict=False))
UNKNOWN_RADIUS = 1.6


def radius(symbol: str) -> float:
    """Covalent radius in Å; 1.6 Å beyond radon."""
    return RADII.get(symbol, UNKNOWN_RADIUS)
