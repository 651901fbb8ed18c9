"""Changes of answers that have a form of their own: fractions, points, polynomials, durations, roles."""

from __future__ import annotations

import re

from tests.support.gym_changes import NUMBER, NUMBERS, Change, Codec, Sample, Shape, on_value, stepped

# Fractions

_FRACTION = re.compile(r"\$?(?:\\d?frac\{(\d+)\}\{(\d+)\}|(\d+)/(\d+))\$?")


def _fraction(text: str) -> tuple[int, int]:
    found = _FRACTION.fullmatch(text)
    if found is None:
        raise ValueError(text)
    top, bottom = (int(group) for group in found.groups() if group is not None)
    return top, bottom


def _as_latex(sample: Sample) -> str | None:
    top, bottom = _fraction(sample.text)
    return None if "frac" in sample.text else f"\\frac{{{top}}}{{{bottom}}}"


def _rounded(text: str) -> str:
    top, bottom = _fraction(text)
    return f"{top / bottom:.4f}"


FRACTIONS = Shape(
    wrong={
        "upside down": lambda sample: "{1}/{0}".format(*_fraction(sample.text)),
        "one more above": lambda sample: f"{_fraction(sample.text)[0] + 1}/{_fraction(sample.text)[1]}",
        "one less below": lambda sample: f"{_fraction(sample.text)[0]}/{_fraction(sample.text)[1] - 1}",
        "sign flipped": lambda sample: "-{}/{}".format(*_fraction(sample.text)),
        "not reduced": lambda sample: "/".join(str(2 * part) for part in _fraction(sample.text)),
        "rounded": lambda sample: _rounded(sample.text),
    },
    restyled={
        "with a slash": lambda sample: (
            "{} / {}".format(*_fraction(sample.text)) if "frac" in sample.text else None
        ),
        "as LaTeX": _as_latex,
    },
)


# Complex numbers

_COMPLEX = re.compile(r"(-?[\d.]+) ([+-]) ([\d.]+)i")


def _complex(text: str) -> tuple[str, str, str]:
    found = _COMPLEX.fullmatch(text)
    if found is None:
        raise ValueError(text)
    return found.group(1), found.group(2), found.group(3)


def _conjugate(sample: Sample) -> str:
    real, sign, imaginary = _complex(sample.text)
    return f"{real} {'-' if sign == '+' else '+'} {imaginary}i"


def _parts_swapped(sample: Sample) -> str | None:
    real, sign, imaginary = _complex(sample.text)
    imaginary = imaginary if sign == "+" else f"-{imaginary}"
    return None if real == imaginary else f"{imaginary} + {real}i".replace("+ -", "- ")


COMPLEX = Shape(
    wrong={
        "conjugate": _conjugate,
        "parts swapped": _parts_swapped,
        "real part altered": lambda sample: "{} {} {}i".format(
            stepped(_complex(sample.text)[0], 10), *_complex(sample.text)[1:]
        ),
        "imaginary part altered": lambda sample: "{} {} {}i".format(
            *_complex(sample.text)[:2], stepped(_complex(sample.text)[2], 1)
        ),
        "i dropped": lambda sample: sample.text[:-1],
        "real part only": lambda sample: _complex(sample.text)[0],
    },
    restyled={
        "integers": lambda sample: sample.text.replace(".0", ""),
        "brackets": lambda sample: f"({sample.text})",
        "no spaces": lambda sample: sample.text.replace(" ", ""),
        "imaginary part first": lambda sample: "{1}{2}i + {0}".format(*_complex(sample.text)),
        "times i": lambda sample: f"{sample.text[:-1]}*i",
    },
)


def complex_numbers(text: str) -> Shape:
    """The kind of one answer of ``complex_arithmetic``: a part that is zero is not written."""
    if _COMPLEX.fullmatch(text):
        return COMPLEX
    return NUMBERS if NUMBER.fullmatch(text) else Shape({"i dropped": COMPLEX.wrong["i dropped"]})


# Points, angles


def _point(text: str) -> tuple[str, str]:
    one, two = text.strip("()").split(", ")
    return one, two


def _second_flipped(sample: Sample) -> str | None:
    one, two = _point(sample.text)
    return None if not two.strip("0.") else f"({one}, {two[1:] if two[0] == '-' else '-' + two})"


POINTS = Shape(
    wrong={
        "coordinates swapped": lambda sample: (
            "({1}, {0})".format(*_point(sample.text)) if len(set(_point(sample.text))) > 1 else None
        ),
        "first altered": lambda sample: f"({stepped(_point(sample.text)[0], 1)}, {_point(sample.text)[1]})",
        "sign flipped": _second_flipped,
        "one coordinate": lambda sample: _point(sample.text)[0],
        "three coordinates": lambda sample: f"{sample.text[:-1]}, 0)",
    },
    restyled={
        "no brackets": lambda sample: sample.text.strip("()"),
        "fourth decimal": lambda sample: f"({_point(sample.text)[0]}1, {_point(sample.text)[1]})",
        "no zeros": lambda sample: sample.text.replace(".000", "") if ".000" in sample.text else None,
    },
)


def _degrees(change: Change) -> Change:
    def changed(sample: Sample) -> str | None:
        text = change(Sample(sample.text.rstrip("°"), sample.other, sample.entry))
        return None if text is None else f"{text}°"

    return changed


ANGLES = Shape(
    wrong={
        **{name: _degrees(change) for name, change in NUMBERS.wrong.items() if name != "two answers"},
        "radians": lambda sample: f"{sample.text.rstrip('°')} rad",
    },
    restyled={"no degree sign": lambda sample: sample.text.rstrip("°")},
)


def geometry(text: str) -> Shape:
    """The kind of one answer of ``advanced_geometry``."""
    return POINTS if text.startswith("(") else ANGLES if text.endswith("°") else NUMBERS


# Polynomials

_TERM = re.compile(r" [+-] ")


def _coefficient_altered(sample: Sample) -> str:
    return re.sub(r"\d+", lambda found: str(int(found.group()) + 1), sample.text, count=1)


def _term_dropped(sample: Sample) -> str | None:
    return re.sub(r" [+-] [^ ]+$", "", sample.text) if _TERM.search(sample.text) else None


def _negated(sample: Sample) -> str:
    return f"-({sample.text})"


def _reordered(sample: Sample) -> str | None:
    terms = re.sub(r" ([+-]) ", r"|\1", sample.text).split("|")
    return None if len(terms) < 2 else " ".join(terms[::-1])


POLYNOMIALS = Shape(
    wrong={
        "coefficient altered": _coefficient_altered,
        "term dropped": _term_dropped,
        "negated": _negated,
        "constant added": lambda sample: f"{sample.text} + 1",
        "other variable": lambda sample: re.sub("[xXyz]", "w", sample.text),
        "an equation": lambda sample: f"{sample.text} = 0",
    },
    restyled={
        "terms reordered": _reordered,
        "carets": lambda sample: sample.text.replace("**", "^") if "**" in sample.text else None,
        "no stars": lambda sample: re.sub(r"(?<!\*)\*(?!\*)", "", sample.text.replace("**", "^")),
        "factor outside": lambda sample: f"2*(({sample.text})/2)",
    },
)


# Durations


def _fields_swapped(sample: Sample) -> str | None:
    found = re.search(r"(\d\d):(\d\d)", sample.text)
    if found is None or found.group(1) == found.group(2):
        return None
    return f"{sample.text[: found.start()]}{found.group(2)}:{found.group(1)}{sample.text[found.end() :]}"


DURATIONS = Shape(
    wrong={
        "last digit altered": lambda sample: re.sub(
            r"\d(?=\D*$)", lambda found: str((int(found.group()) + 1) % 10), sample.text
        ),
        "first number altered": lambda sample: re.sub(
            r"^\d+", lambda found: f"{int(found.group()) + 1:0{len(found.group())}}", sample.text
        ),
        "fields swapped": _fields_swapped,
        "sign": lambda sample: f"-{sample.text}",
    },
    restyled={
        "no leading zero": lambda sample: sample.text[1:] if re.match(r"0\d", sample.text) else None,
        "last field dropped": lambda sample: (
            re.sub(r":\d+(?:\.\d+)?$", "", sample.text) if sample.text.count(":") == 2 else None
        ),
    },
)


# Who is what


def _roles(text: str) -> dict[str, str]:
    found = re.findall(r"(\w+) is an? (\w+)", text)
    if not found:
        raise ValueError(text)
    return dict(found)


def _told(roles: dict[str, str]) -> str:
    return ", and ".join(f"{name} is a {role}" for name, role in roles.items()) + "."


def _first_other(roles: dict[str, str]) -> dict[str, str]:
    name, role = next(iter(roles.items()))
    return {**roles, name: "knave" if role != "knave" else "knight"}


def _exchanged(roles: dict[str, str]) -> dict[str, str]:
    return dict(zip(roles, list(roles.values())[::-1], strict=True))


ROLES = Codec(_roles, _told, {"type": "object", "additionalProperties": {"type": "string"}})
PEOPLE = Shape(
    wrong={
        "role altered": on_value(ROLES, _first_other),
        "roles exchanged": on_value(ROLES, _exchanged),
        "person dropped": on_value(ROLES, lambda roles: dict(list(roles.items())[1:])),
        "other names": on_value(ROLES, lambda roles: {f"{name}a": role for name, role in roles.items()}),
    },
    restyled={"told in the other order": lambda sample: _told(dict(reversed(_roles(sample.text).items())))},
)
