"""Which verifier judges which data set of reasoning-gym, how responses are written, what is left out."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from tests.support.gym_changes import (
    DOCUMENTS,
    NUMBERS,
    WORDS,
    Codec,
    Entry,
    Shape,
    grids,
    groups,
    lists,
    number_or_words,
)
from tests.support.gym_forms import (
    DURATIONS,
    FRACTIONS,
    PEOPLE,
    POLYNOMIALS,
    ROLES,
    complex_numbers,
    geometry,
)

Written = Callable[[str], str]


@dataclass(frozen=True)
class Judged:
    """How one data set is judged: the verifier, its task made from an entry, and the response written."""

    verifier: str
    shape: Callable[[str], Shape]
    written: Written
    reference: Callable[[Entry], dict[str, Any]]
    inputs: Mapping[str, Any] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)

    def problem(self, entry: Entry) -> dict[str, Any]:
        """The problem of a trajectory."""
        return {
            "prompt": entry["question"],
            "inputs": dict(self.inputs),
            "reference": self.reference(entry),
        }


# How a response is written


def boxed(text: str) -> str:
    """In a box, after some words."""
    return f"I worked it out step by step.\n\nSo the final answer is $\\boxed{{{text}}}$."


def hashes(text: str) -> str:
    """On a line of its own, as in GSM8K."""
    return f"First this, then that.\n#### {text}"


def bare(text: str) -> str:
    """Nothing but the answer; for ``math.answer`` the task allows it with ``unboxed``."""
    return text


def _matrix(text: str) -> str:
    rows = " \\\\ ".join(" & ".join(row.split()) for row in text.strip().split("\n"))
    return f"\\begin{{pmatrix}} {rows} \\end{{pmatrix}}"


def _tuple(text: str) -> str:
    return f"({', '.join(text.split())})"


def _roots(text: str) -> str:
    return f"\\{{{text}\\}}" if text else "\\emptyset"


def _in(form: Callable[[str], str]) -> Written:
    return lambda text: boxed(form(text))


# Values and their texts


def _scalar(text: str) -> int | str:
    return int(text) if re.fullmatch(r"-?(?:0|[1-9]\d*)", text) else text


def _listed(text: str, separator: str) -> list[int | str]:
    return [_scalar(part) for part in re.split(separator, text.strip())] if text.strip() else []


def _join(separator: str) -> Callable[[Any], str]:
    return lambda items: separator.join(str(item) for item in items)


def _array(items: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": dict(items)}


def _digits(text: str) -> list[list[int]]:
    rows = [[int(letter) for letter in line if letter.isdigit()] for line in text.split("\n")]
    return [row for row in rows if row]


def _rows(text: str) -> list[list[int | str]]:
    return [_listed(line, r"\s+") for line in text.strip().split("\n")]


_SCALAR = {"type": ["integer", "string"]}
_WORD = {"type": "string"}
SPACED = Codec(lambda text: _listed(text, r"\s+"), _join(" "), _array(_SCALAR))
COMMAS = Codec(lambda text: _listed(text, r",\s*"), _join(", "), _array(_SCALAR))
FACTORS = Codec(lambda text: _listed(text, r"\s*×\s*"), _join(" × "), _array({"type": "integer"}))
QUOTED = Codec(lambda text: json.loads(text.replace("'", '"')), str, _array(_WORD))
NUMERIC = Codec(json.loads, json.dumps, _array({"type": "integer"}))
NESTED = Codec(json.loads, json.dumps, _array(_array(_WORD)))
BOARD = Codec(json.loads, lambda rows: json.dumps(rows, separators=(",", ":")), _array(_array(_SCALAR)))
GRID = Codec(_rows, lambda rows: "\n".join(map(_join(" "), rows)), _array(_array(_SCALAR)))
DIGITS = Codec(
    _digits, lambda rows: "\n".join(map(_join("   "), rows)), _array(_array({"type": "integer"}))
)
MARKS = Codec(
    lambda text: [list(line.strip()) for line in text.strip().split("\n")],
    lambda rows: "\n".join(map("".join, rows)),
    _array(_array(_WORD)),
)
ANY = Codec(json.loads, json.dumps, {})
_JSON_ALREADY = (NUMERIC, NESTED, BOARD, ANY)


def as_json(codec: Codec) -> Written:
    """The value as JSON; what is no value of that kind stays the text it is."""

    def written(text: str) -> str:
        try:
            return json.dumps(codec.read(text)) if text.strip() else text
        except ValueError:
            return text

    return written


# The rows of the table


def _always(shape: Shape) -> Callable[[str], Shape]:
    return lambda text: shape


def _maths(
    shape: Shape | Callable[[str], Shape],
    written: Written = boxed,
    *,
    answer: Callable[[Entry], Any] = lambda entry: entry["answer"],
    params: Mapping[str, Any] | None = None,
    **inputs: Any,
) -> Judged:
    if written is bare:
        inputs["unboxed"] = "accept"
    return Judged(
        "math.answer",
        _always(shape) if isinstance(shape, Shape) else shape,
        written,
        lambda entry: {"answer": answer(entry)},
        inputs,
        params or {},
    )


def _valued(codec: Codec, shape: Shape, **params: Any) -> Judged:
    written = bare if codec in _JSON_ALREADY else as_json(codec)

    def reference(entry: Entry) -> dict[str, Any]:
        return {"schema": dict(codec.schema), "value": codec.read(entry["answer"])}

    return Judged("schema.answer", _always(shape), written, reference, {}, params)


def _exactly() -> Judged:
    """A text in which every character counts, as a JSON string."""
    return Judged(
        "schema.answer",
        _always(WORDS),
        json.dumps,
        lambda entry: {"schema": _WORD, "value": entry["answer"]},
    )


def _words(written: Written = boxed) -> Judged:
    return _maths(WORDS, written, answer_type="text")


def _partitions(entry: Entry) -> dict[str, Any]:
    members = json.loads(entry["answer"])
    size = {"minItems": len(members), "maxItems": len(members), "uniqueItems": True}
    return {"schema": {"type": "array", "items": {"enum": members}, **size}}


def _boards(entry: Entry) -> dict[str, Any]:
    return {"schema": {"enum": [GRID.read(board) for board in entry["metadata"]["valid_answers"]]}}


def _significant(entry: Entry) -> list[str]:
    """As given, and rounded to three significant figures as the question asks."""
    return [entry["answer"], f"{Decimal(entry['answer']):.2e}"]


_EXACT = {"relative_tolerance": 0.0}  # sums and differences of decimals: every written digit counts
_FLOATS = {"relative_tolerance": 1e-12}  # the data set prints binary floats: 610040915.4679999
JUDGED: dict[str, Judged] = {
    # algebra
    "complex_arithmetic": _maths(complex_numbers, answer_type="expression"),
    "polynomial_equations": _maths(
        lists(COMMAS, ordered=False),
        _in(_roots),
        answer=lambda entry: _roots(entry["answer"]),
        answer_type="set",
    ),
    "polynomial_multiplication": _maths(POLYNOMIALS, bare),
    "simple_equations": _maths(NUMBERS),
    "simple_integration": _maths(POLYNOMIALS, hashes),
    # arithmetic
    "basic_arithmetic": _maths(NUMBERS, hashes),
    "bitwise_arithmetic": _words(bare),
    "calendar_arithmetic": _maths(number_or_words),
    "chain_sum": _maths(NUMBERS),
    "count_bits": _maths(NUMBERS, bare),
    "decimal_arithmetic": _maths(NUMBERS, params=_EXACT),
    "decimal_chain_sum": _maths(NUMBERS, hashes, params=_EXACT),
    "dice": _maths(FRACTIONS, form="fraction"),
    "fraction_simplification": _maths(FRACTIONS, form="fraction"),
    "gcd": _maths(NUMBERS),
    "gsm_symbolic": _maths(NUMBERS, hashes),
    "lcm": _maths(NUMBERS, bare),
    "leg_counting": _maths(NUMBERS),
    "number_format": _maths(NUMBERS, params=_FLOATS),
    "power_function": _maths(NUMBERS, answer=_significant),
    "prime_factorization": _valued(FACTORS, lists(FACTORS, ordered=False), unordered=True),
    "products": _maths(NUMBERS, bare),
    "time_intervals": _maths(DURATIONS, answer_type="text"),
    # algorithmic
    "ab": _valued(SPACED, lists(SPACED)),
    "base_conversion": _exactly(),
    "binary_alternation": _maths(NUMBERS),
    "binary_matrix": _maths(grids(GRID), _in(_matrix), answer=lambda entry: _matrix(entry["answer"])),
    "caesar_cipher": _words(),
    "count_primes": _maths(NUMBERS),
    "game_of_life": _valued(BOARD, grids(BOARD)),
    "game_of_life_halting": _words(),
    "group_anagrams": _valued(NESTED, groups(NESTED), unordered=True),
    "isomorphic_strings": _words(bare),
    "letter_counting": _maths(NUMBERS, hashes),
    "letter_jumble": _words(),
    "manipulate_matrix": _valued(GRID, grids(GRID)),
    "number_filtering": _valued(QUOTED, lists(QUOTED)),
    "number_sorting": _valued(QUOTED, lists(QUOTED)),
    "palindrome_partitioning": Judged("schema.answer", _always(groups(NESTED)), bare, _partitions),
    "pool_matrix": _maths(grids(GRID), _in(_matrix), answer=lambda entry: _matrix(entry["answer"])),
    "ransom_note": _words(hashes),
    "rotate_matrix": _maths(grids(GRID), _in(_matrix), answer=lambda entry: _matrix(entry["answer"])),
    "rotten_oranges": _maths(NUMBERS),
    "sentence_reordering": _words(),
    "spell_backward": _words(),
    "spiral_matrix": _maths(
        lists(SPACED), _in(_tuple), answer=lambda entry: _tuple(entry["answer"]), answer_type="tuple"
    ),
    "string_insertion": _exactly(),
    "string_manipulation": _exactly(),
    "string_splitting": _valued(SPACED, lists(SPACED)),
    "string_synthesis": _maths(
        lists(SPACED), _in(_tuple), answer=lambda entry: _tuple(entry["answer"]), answer_type="tuple"
    ),
    "word_sequence_reversal": _valued(COMMAS, lists(COMMAS)),
    "word_sorting": _valued(COMMAS, lists(COMMAS)),
    # arc and induction
    "acre": _words(),
    "arc_1d": _valued(SPACED, lists(SPACED)),
    "arc_agi": _valued(GRID, grids(GRID)),
    "list_functions": _valued(NUMERIC, lists(NUMERIC)),
    "rearc": _valued(GRID, grids(GRID)),
    # code
    "bf": _exactly(),
    "codeio": _valued(ANY, DOCUMENTS),
    # cognition
    "color_cube_rotation": _words(bare),
    "figlet_font": _words(),
    "modulo_grid": _valued(MARKS, grids(MARKS)),
    "needle_haystack": _words(),
    "number_sequence": _maths(NUMBERS),
    "rectangle_count": _maths(NUMBERS, hashes),
    # games
    "emoji_mystery": _exactly(),
    "futoshiki": _valued(DIGITS, grids(DIGITS)),
    "mahjong_puzzle": _words(hashes),
    "maze": _maths(NUMBERS),
    "mini_sudoku": _valued(GRID, grids(GRID)),
    "n_queens": Judged("schema.answer", _always(grids(GRID)), as_json(GRID), _boards),
    "sudoku": _valued(GRID, grids(GRID)),
    "survo": _valued(GRID, grids(GRID)),
    "tsumego": _words(),
    # geometry
    "advanced_geometry": _maths(geometry),
    "simple_geometry": _maths(NUMBERS),
    # graphs
    "course_schedule": _words(),
    "family_relationships": _words(),
    "largest_island": _maths(NUMBERS, hashes),
    "path_star": _valued(SPACED, lists(SPACED)),
    # logic
    "aiw": _maths(number_or_words),
    "circuit_logic": _maths(NUMBERS),
    "knights_knaves": _valued(ROLES, PEOPLE),
    "self_reference": _maths(NUMBERS, bare),
    "syllogism": _words(),
    "zebra_puzzles": _words(hashes),
    # probability
    "coin_flip": _maths(NUMBERS, params=_EXACT),
}

_ANY_SOLUTION = "every valid solution counts"
LEFT_OUT: dict[str, str] = {
    "boxnet": f"{_ANY_SOLUTION}, and the data set gives none",
    "composite": "a mixture of other data sets, not one of its own",
    "countdown": f"{_ANY_SOLUTION} (any expression that reaches the target)",
    "cryptarithm": f"{_ANY_SOLUTION} (any assignment of digits that satisfies the sum)",
    "graph_color": f"{_ANY_SOLUTION} (any proper colouring), and the data set gives none",
    "intermediate_integration": (
        "its scorer takes any antiderivative, in whatever form; some of its own answers are integrals "
        "not worked out (2*Integral(x**3*cos(2*x), x) + C), which its scorer takes and no reference may be"
    ),
    "jugs": f"{_ANY_SOLUTION} (any sequence of moves)",
    "kakurasu": f"{_ANY_SOLUTION} (any grid with the asked sums)",
    "knight_swap": f"{_ANY_SOLUTION} (any sequence of moves of the least length)",
    "palindrome_generation": f"{_ANY_SOLUTION} (any palindrome of the letters)",
    "propositional_logic": f"{_ANY_SOLUTION} (any conclusion that follows), and the data set gives none",
    "puzzle24": f"{_ANY_SOLUTION} (any expression that makes 24)",
    "quantum_lock": f"{_ANY_SOLUTION} (any sequence of the least length)",
    "rubiks_cube": f"{_ANY_SOLUTION} (any sequence of moves), and the data set gives none",
    "rush_hour": f"{_ANY_SOLUTION} (any sequence of moves), and the data set gives none",
    "shortest_path": f"{_ANY_SOLUTION} (any path of the least length)",
    "sokoban": f"{_ANY_SOLUTION} (any sequence of moves)",
    "tower_of_hanoi": f"{_ANY_SOLUTION} (any sequence of moves of the least length)",
    "word_ladder": f"{_ANY_SOLUTION} (any ladder of known words)",
}
