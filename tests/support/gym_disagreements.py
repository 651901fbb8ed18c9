"""Where our verdict and that of reasoning-gym's scorer differ, and who is right.

Also listed: changes meant to be wrong that both accept. The items are those of the seed in
``gym_comparison``; ``EVERY`` stands for every item to which the change applies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Items = Literal["every"] | tuple[int, ...]
EVERY: Literal["every"] = "every"


@dataclass(frozen=True)
class Judgement:
    """Answers that ``accepted_by`` alone (or both) accept: change → data set → items."""

    accepted_by: Literal["us", "them", "both"]
    right: Literal["us", "them", "either"]
    why: str
    cases: Mapping[str, Mapping[str, Items]]


def _every(*names: str) -> dict[str, Items]:
    return dict.fromkeys(names, EVERY)


_INTEGERS = (
    *("simple_equations", "basic_arithmetic", "count_bits", "gcd", "lcm", "leg_counting"),
    *("binary_alternation", "count_primes", "letter_counting", "rotten_oranges", "number_sequence"),
    *("maze", "simple_geometry", "largest_island", "aiw", "circuit_logic", "self_reference"),
)
_LOGIC = ("isomorphic_strings", "ransom_note", "course_schedule", "syllogism")

JUDGEMENTS: tuple[Judgement, ...] = (
    Judgement(
        "us",
        "us",
        "The same number in another style. Their default scorer compares characters; that of "
        "rectangle_count and calendar_arithmetic takes integers only, without a point.",
        {
            "zero after the point": _every(*_INTEGERS, "calendar_arithmetic", "rectangle_count"),
            "plus sign": _every(*_INTEGERS),
            "thousands": _every("basic_arithmetic", "lcm", "decimal_chain_sum"),
        },
    ),
    Judgement(
        "us",
        "us",
        "The same word. Type text ignores case and full stops, their scorers of these data sets compare "
        "characters (some after lowering both). No question of these asks for capitals or a bare end; "
        "where characters matter (base_conversion, bf, emoji_mystery …), schema.answer compares them.",
        {
            "upper case": _every(*_LOGIC, "calendar_arithmetic", "acre", "mahjong_puzzle"),
            "lower case": _every(*_LOGIC, "calendar_arithmetic", "caesar_cipher", "mahjong_puzzle"),
            "full stop": _every(
                *_LOGIC,
                *("bitwise_arithmetic", "calendar_arithmetic", "caesar_cipher", "letter_jumble"),
                *("sentence_reordering", "spell_backward", "acre", "color_cube_rotation", "figlet_font"),
                *("needle_haystack", "mahjong_puzzle", "tsumego", "family_relationships", "zebra_puzzles"),
            ),
        },
    ),
    Judgement(
        "us",
        "either",
        "The last letter of these sentences is their full stop. Type text ignores it; whoever wants the "
        "sentence to the character declares schema.answer.",
        {"last letter dropped": {"sentence_reordering": (0, 1, 2, 3, 5, 7)}},
    ),
    Judgement(
        "us",
        "us",
        "The same value in a common notation that their parsers do not know: a fraction in LaTeX, powers "
        "with a caret, products without a star, i before the real part or after a star.",
        {
            "as LaTeX": _every("dice"),
            "carets": _every("polynomial_multiplication", "simple_integration"),
            "no stars": _every("polynomial_multiplication", "simple_integration"),
            "imaginary part first": _every("complex_arithmetic"),
            "times i": _every("complex_arithmetic"),
        },
    ),
    Judgement(
        "us",
        "either",
        "A root that is said twice: as a set it is the same set, and they count a superfluous root.",
        {
            "element repeated": _every("polynomial_equations"),
            "two of the first": _every("polynomial_equations"),
        },
    ),
    Judgement(
        "them",
        "us",
        "Any text that is not empty counts: they compare bool(answer) with bool(reference), and both the "
        "texts 'True' and 'False' are true.",
        {
            change: _every("game_of_life_halting")
            for change in (
                *("other item's", "letter changed", "letters swapped", "last letter dropped"),
                *("said twice", "two answers", "opposite"),
            )
        },
    ),
    Judgement(
        "them",
        "us",
        "Their pattern does not take the minus before the first number and ignores all that follows it, so "
        "-73 and '73 or 74' count as 73.",
        {"sign flipped": _every("gsm_symbolic"), "two answers": _every("gsm_symbolic")},
    ),
    Judgement(
        "them",
        "us",
        "Only as many words or cells as the reference has are looked at: what is written after them, even "
        "a second answer, costs nothing.",
        {
            "said twice": {"letter_jumble": (1, 3, 4, 5)},
            "two answers": {"letter_jumble": (1, 3, 4, 5)},
            "row repeated": _every("game_of_life"),
            "element repeated": _every("word_sorting"),
            "three coordinates": _every("advanced_geometry"),
        },
    ),
    Judgement(
        "them",
        "us",
        "A partition given twice is not the list of all partitions; they compare sets.",
        {"group repeated": _every("palindrome_partitioning")},
    ),
    Judgement(
        "them",
        "us",
        "Every number may be off by 1: a list of other numbers than the given ones counts as sorted.",
        {
            "element altered": _every("number_sorting"),
            "last element altered": _every("number_sorting"),
        },
    ),
    Judgement(
        "them",
        "us",
        "The question asks for up to 12 significant digits; they allow 0.001 either way, which for "
        "0.0103598835901 is 10 %.",
        {
            "one more": _every("decimal_arithmetic"),
            "one less": _every("decimal_arithmetic"),
            "digit added": _every("decimal_arithmetic"),
        },
    ),
    Judgement(
        "them",
        "us",
        "The question asks for one of the numbers it lists; they allow 0.01 either way. We allow what "
        "printing a binary float leaves (1e-12 relative).",
        {
            "one more": {"number_format": (0, 2, 4, 5, 7)},
            "one less": {"number_format": (0, 2, 4, 7)},
            "digit added": {"number_format": (2, 5, 7)},
        },
    ),
    Judgement(
        "both",
        "either",
        "A digit beyond the precision of a binary float (number_format), or far beyond the three "
        "significant figures that are asked for (power_function).",
        {
            "one more": {"number_format": (1, 3, 6), "power_function": (0, 1, 4)},
            "one less": {"number_format": (1, 3, 6), "power_function": (0, 1, 4)},
            "digit added": {"number_format": (0, 1, 3, 4, 6), "power_function": (0, 1, 4, 5, 6)},
        },
    ),
    Judgement(
        "them",
        "either",
        "Another last digit of up to 14. Only three significant figures are asked for, but who writes more "
        "should write the right ones: two decimals that differ by a unit of the last place are not equal.",
        {"one more": {"power_function": (5, 6)}, "one less": {"power_function": (5, 6)}},
    ),
    Judgement(
        "them",
        "us",
        "The probability is exact (5/32 = 0.15625) and no rounding is asked for; they allow 0.0001 either "
        "way, also where it is 0.00024, and their credit for a common prefix makes 10 as good as 1.",
        {
            "one more": {"coin_flip": (0, 2, 5, 6, 7)},
            "one less": {"coin_flip": (0, 2, 5, 6, 7)},
            "digit added": _every("coin_flip"),
        },
    ),
    Judgement(
        "them",
        "us",
        "The question asks for two decimals: 8.26 is not 8.25. They allow 1 % of each cell, and read one "
        "column and one row as the same array.",
        {
            "cell altered": {"pool_matrix": (3, 4, 6, 7)},
            "last cell altered": {"pool_matrix": (4, 6)},
            "transposed": {"pool_matrix": (3, 4, 5, 6)},
            "one row": {"pool_matrix": (3, 6)},
        },
    ),
    Judgement(
        "them",
        "us",
        "The question asks for the form (x, y) and three decimals; they round a fourth one away and need "
        "no brackets. For us a list of two numbers is no point unless it is written as one.",
        {"fourth decimal": _every("advanced_geometry"), "no brackets": _every("advanced_geometry")},
    ),
    Judgement(
        "them",
        "either",
        "They differentiate the answer, so any constant will do, and none. The reference has + C: we want "
        "the indefinite integral that the question asks for. A constant beside C is right, only unusual.",
        {"term dropped": _every("simple_integration"), "constant added": _every("simple_integration")},
    ),
    Judgement(
        "them",
        "either",
        "The question asks for HH:MM:SS. As type text 3:30:59 is not 03:30:59; with the type left to be "
        "inferred they are hours, minutes and seconds, and equal.",
        {"no leading zero": _every("time_intervals")},
    ),
    Judgement(
        "them",
        "us",
        "Hours of -00 are read as 0, so a negative duration counts as the positive one.",
        {"sign": {"time_intervals": (4,)}},
    ),
    Judgement(
        "us",
        "us",
        "The same JSON with other white space. They compare the characters of what is not an object.",
        {"indented": {"codeio": (0,)}, "other spaces": _every("list_functions")},
    ),
)
