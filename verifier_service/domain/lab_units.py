"""Units that laboratories write, and how they convert.

Energies per particle and per mole are one dimension here (1 eV per particle = 96.485 332 kJ/mol), because
gaps and barriers are reported either way. Constants: CODATA 2022, https://physics.nist.gov/cuu/Constants/.
"""

from __future__ import annotations

from typing import NamedTuple


class Unit(NamedTuple):
    """A value in this unit is ``scale`` x value + ``offset`` in the base unit of its dimension."""

    dimension: str
    scale: float
    offset: float = 0.0


_UNITS: dict[str, Unit] = {
    "1": Unit("number", 1.0),
    "%": Unit("number", 0.01),
    "ppm": Unit("number", 1e-6),
    "eV": Unit("energy", 1.0),
    "meV": Unit("energy", 1e-3),
    "hartree": Unit("energy", 27.211386245981),
    "kJ/mol": Unit("energy", 1.0 / 96.48533212331),
    "kcal/mol": Unit("energy", 4.184 / 96.48533212331),
    "cm^-1": Unit("energy", 1.239841984e-4),
    "m": Unit("length", 1.0),
    "mm": Unit("length", 1e-3),
    "um": Unit("length", 1e-6),
    "nm": Unit("length", 1e-9),
    "pm": Unit("length", 1e-12),
    "angstrom": Unit("length", 1e-10),
    "M": Unit("concentration", 1.0),
    "mM": Unit("concentration", 1e-3),
    "uM": Unit("concentration", 1e-6),
    "nM": Unit("concentration", 1e-9),
    "pM": Unit("concentration", 1e-12),
    "kg": Unit("mass", 1.0),
    "g": Unit("mass", 1e-3),
    "mg": Unit("mass", 1e-6),
    "ug": Unit("mass", 1e-9),
    "s": Unit("time", 1.0),
    "ms": Unit("time", 1e-3),
    "min": Unit("time", 60.0),
    "h": Unit("time", 3600.0),
    "d": Unit("time", 86400.0),
    "V": Unit("voltage", 1.0),
    "mV": Unit("voltage", 1e-3),
    "K": Unit("temperature", 1.0),
    "degC": Unit("temperature", 1.0, 273.15),
}
_SPELLINGS = {
    "": "1",
    "percent": "%",
    "ev": "eV",
    "EV": "eV",
    "mev": "meV",
    "Eh": "hartree",
    "Ha": "hartree",
    "Hartree": "hartree",
    "kJ mol-1": "kJ/mol",
    "kJ·mol-1": "kJ/mol",
    "kJ mol^-1": "kJ/mol",
    "kcal mol-1": "kcal/mol",
    "kcal·mol-1": "kcal/mol",
    "kcal mol^-1": "kcal/mol",
    "cm-1": "cm^-1",
    "1/cm": "cm^-1",
    "Å": "angstrom",
    "A": "angstrom",
    "Angstrom": "angstrom",
    "mol/L": "M",
    "mol/l": "M",
    "mmol/L": "mM",
    "μM": "uM",
    "μg": "ug",
    "μm": "um",
    "sec": "s",
    "hours": "h",
    "°C": "degC",
    "C": "degC",
}


class Unconvertible(ValueError):
    """No way leads from one unit to the other: ``known`` tells whether both are units that we know."""

    def __init__(self, source: str, target: str, *, known: bool) -> None:
        what = "is another kind of unit than" if known else "is not a unit that we can turn into"
        super().__init__(f"{source!r} {what} {target!r}")
        self.known = known


def spelled(unit: str) -> str:
    """The one spelling of a unit; of what is unknown the text itself, without spaces around it."""
    text = unit.strip().replace("µ", "μ").replace("⁻¹", "-1").replace("−", "-")
    return _SPELLINGS.get(text, text)


def converted(value: float, sigma: float | None, source: str, target: str) -> tuple[float, float | None]:
    """``value`` and its standard deviation, from ``source`` to ``target``. A standard deviation is a
    difference: it takes the scale and not the offset.

    Raises ``Unconvertible``; the same text converts into itself, known or not.
    """
    from_name, to_name = spelled(source), spelled(target)
    if from_name == to_name:
        return value, sigma
    known, wanted = _UNITS.get(from_name), _UNITS.get(to_name)
    if known is None or wanted is None or known.dimension != wanted.dimension:
        raise Unconvertible(source, target, known=known is not None and wanted is not None)
    scale = known.scale / wanted.scale
    moved = scale * value + (known.offset - wanted.offset) / wanted.scale
    return moved, None if sigma is None else sigma * scale
