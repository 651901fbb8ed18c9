"""Units beside values: what they measure and how they convert, exactly."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

Dimension = tuple[tuple[str, int], ...]


class Unit(NamedTuple):
    """Dimension (powers of base names) and the factor to that dimension's own base."""

    dimension: Dimension
    factor: Fraction


_ROWS = {
    "length": "m meter meters metre metres=1; cm centimeter centimeters centimetre centimetres=1/100; "
    "mm millimeter millimeters=1/1000; dm=1/10; km kilometer kilometers kilometre kilometres=1000; "
    "in inch inches=127/5000; ft foot feet=381/1250; yd yard yards=1143/1250; mi mile miles=201168/125",
    "mass": "g gram grams=1; kg kilogram kilograms=1000; mg=1/1000; lb lbs pound pounds=45359237/100000; "
    "oz ounce ounces=45359237/1600000; t ton tons tonne tonnes=1000000",
    "time": "s sec secs second seconds=1; min mins minute minutes=60; h hr hrs hour hours=3600; "
    "day days=86400; week weeks=604800; ms=1/1000; year years=31536000",
    "volume": "L l liter liters litre litres=1; mL ml=1/1000; cl cL=1/100; dl dL=1/10",
    "gallon": "gal gallon gallons=1",
    "money": "$ dollar dollars USD=1; cent cents ¢=1/100",
    "euro": "€ euro euros EUR=1",
    "pound sterling": "£ GBP=1",
    "angle": "° degree degrees deg=1",
    "rad": "rad radian radians=1",
    "frequency": "Hz hz=1; kHz=1000; MHz=1000000",
    "force": "N newton newtons=1; kN=1000",
    "energy": "J joule joules=1; kJ=1000; MJ=1000000",
    "power": "W watt watts=1; kW=1000; MW=1000000",
    "pressure": "Pa=1; kPa=1000; MPa=1000000",
    "current": "A=1",
    "voltage": "V volt volts=1",
    "temperature": "K=1",
    "celsius": "°C=1",
    "fahrenheit": "°F=1",
    "amount": "mol mole moles=1",
}


def _table() -> Mapping[str, tuple[str, Fraction]]:
    table = {}
    for dimension, row in _ROWS.items():
        for entry in row.split(";"):
            names, _, factor = entry.partition("=")
            for name in names.split():
                table[name] = (dimension, Fraction(factor))
    return table


_UNITS = _table()
_ALIASES = {"mph": "mi/h", "kmh": "km/h", "kph": "km/h", "cc": "cm^3"}
_ITEM = re.compile(r"([A-Za-z°$€£¢]+)\.?(?:\^?\(?(-?[123]|[²³])\)?)?")
_SPLIT = re.compile(r"\s*(/|\*|\bper\b)\s*|\s+")


@lru_cache(maxsize=512)
def read_unit(text: str) -> Unit | None:
    """The unit that a text names, or ``None`` for words that are no known unit (``apples``)."""
    words = text.strip().replace("²", "^2").replace("³", "^3")
    words = re.sub(r"\b(?:square|sq\.?)\s+([A-Za-z]+)", r"\1^2", words)
    words = re.sub(r"\b(?:cubic|cu\.?)\s+([A-Za-z]+)", r"\1^3", words)
    words = re.sub(r"\b([A-Za-z]+)\s+squared\b", r"\1^2", words)
    words = re.sub(r"\b([A-Za-z]+)\s+cubed\b", r"\1^3", words)
    words = _ALIASES.get(words, words)
    powers: dict[str, int] = {}
    factor = Fraction(1)
    sign = 1
    for piece in _SPLIT.split(words):
        if not piece:
            continue
        if piece in ("/", "per"):
            sign = -1
            continue
        if piece == "*":
            continue
        found = _ITEM.fullmatch(piece)
        known = found and (_UNITS.get(found.group(1)) or _UNITS.get(found.group(1).lower()))
        if not found or not known:
            return None
        power = sign * int(found.group(2) or 1)
        powers[known[0]] = powers.get(known[0], 0) + power
        factor *= known[1] ** power
    dimension = tuple(sorted((name, power) for name, power in powers.items() if power))
    return _litres(Unit(dimension, factor)) if dimension else None


def _litres(unit: Unit) -> Unit:
    if unit.dimension == (("volume", 1),):
        return Unit((("length", 3),), unit.factor / 1000)
    return unit
