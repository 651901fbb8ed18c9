"""What a wrong answer may be told: the kind of its mistake, never the reference."""

from __future__ import annotations

from collections.abc import Iterator

from tiers.mathematics.forms import Form, inverse, key, minus, rational, times
from tiers.mathematics.judging import Judgement
from tiers.mathematics.nodes import Braces, Brackets, Listing, Node, Num, Quantity, divide, is_scalar
from tiers.mathematics.normal import normal
from tiers.mathematics.refusals import BROKEN, Refusal

FORMAT = {
    "no_final_answer": "Put the final answer, and nothing else, in \\boxed{…} or on a last line '#### …'.",
    "empty_answer": "The final answer is empty.",
    "hedged_answer": "Commit to one final answer.",
    "unparsable": "Write the final answer as one mathematical expression without words around it.",
    "too_large": "Write the final answer in a shorter closed form.",
    "undefined": "The final answer is not defined (a division by zero, say).",
    "undecided": "Simplify the final answer.",
    "wrong_unit": "The unit does not measure what is asked for.",
    "wrong_form": "Write the value in the form the task asks for.",
}


def hints(judgement: Judgement) -> Iterator[tuple[str, str]]:
    """Kind and text of each hint for a rejection."""
    code = judgement.code or ""
    if code in FORMAT:
        yield {"wrong_unit": "unit"}.get(code, "format"), FORMAT[code]
        return
    gold = judgement.reference.node if judgement.reference else None
    if gold is None or judgement.answer is None:
        return
    try:
        yield from _mistake(gold, judgement.answer)
    except (Refusal, *BROKEN):
        return


def _mistake(gold: Node, answer: Node) -> Iterator[tuple[str, str]]:
    gold, answer = _bare(gold), _bare(answer)
    if is_scalar(gold) and is_scalar(answer):
        yield from _scalar(normal(gold), normal(answer))
    elif isinstance(gold, Brackets) and isinstance(answer, Brackets):
        yield from _brackets(gold, answer)
    elif isinstance(gold, Braces | Listing) and isinstance(answer, Braces | Listing):
        yield from _members(len(answer.items) - len(gold.items))


def _members(more: int) -> Iterator[tuple[str, str]]:
    if more:
        yield "members", "There are too many members." if more > 0 else "Members are missing."


def _bare(node: Node) -> Node:
    if isinstance(node, Quantity):
        return divide(node.value, Num(100)) if node.unit == "%" else node.value
    return node


def _scalar(gold: Form, answer: Form) -> Iterator[tuple[str, str]]:
    if not answer.top or not gold.top:
        return
    wanted = key(gold)
    if key(minus(answer)) == wanted:
        yield "sign", "The sign is wrong."
    elif key(inverse(answer)) == wanted:
        yield "reciprocal", "The reciprocal was given."
    elif wanted in (key(times(answer, rational(100))), key(times(answer, inverse(rational(100))))):
        yield "percent", "Off by a factor of 100: percent and fraction are mixed up."


def _brackets(gold: Brackets, answer: Brackets) -> Iterator[tuple[str, str]]:
    if len(gold.items) != len(answer.items):
        yield "members", "The number of members is not the one asked for."
        return
    ends = [_keys(gold), _keys(answer)]
    if ends[0] == ends[1]:
        yield "brackets", "The ends are right; check which of them belong to the interval."
    elif ends[0] == ends[1][::-1]:
        yield "order", "The members are in the wrong order."


def _keys(node: Brackets) -> list[object]:
    return [key(normal(item)) if is_scalar(item) else None for item in node.items]
