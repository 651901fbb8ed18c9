"""From a reference and a response to a judgement, with what was decided and how."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from tiers.mathematics.answers import read_answer
from tiers.mathematics.arithmetic import grouped
from tiers.mathematics.comparing import same_answer
from tiers.mathematics.effort import MAX_SHARES, begin, spent
from tiers.mathematics.equality import DEFAULT_TOLERANCE, Match, ReferenceRefusal, require_workable
from tiers.mathematics.final_answer import FinalAnswer, final_answer
from tiers.mathematics.nodes import (
    Braces,
    Brackets,
    Chain,
    Listing,
    Node,
    Num,
    Table,
    Union,
    is_scalar,
    symbols,
)
from tiers.mathematics.nodes import Quantity as QuantityNode
from tiers.mathematics.quantities import Rules, WrongUnit
from tiers.mathematics.ranges import infinite, is_range
from tiers.mathematics.refusals import BROKEN, Refusal
from tiers.mathematics.relations import is_equality, named_value, variables
from tiers.mathematics.words import looks_like_choice, looks_like_words, plain, read_choice, same_words
from tiers.mathematics.written import FORMS, has_form

KINDS = (
    "number",
    "expression",
    "percent",
    "interval",
    "set",
    "tuple",
    "point",
    "matrix",
    "equation",
    "inequality",
    "choice",
    "text",
)
_MISSING = frozenset({"nan", "null", "n/a", "#n/a", "<na>"})  # what a table writes where nothing is
BROKE_OFF = "the answer broke off the comparison"
_NO_WORDS = re.compile(r"[0-9.,/+*^\s$-]*+(?:\\[dt]?frac[0-9{}]*+)?")
_SEPARATE = frozenset({"set", "tuple", "point", "interval"})
_POINTS = frozenset({"tuple", "point"})
_SINGLE = frozenset({"number", "expression", "percent"})


@dataclass(frozen=True, slots=True)
class Task:
    """What a task declares beside its reference; ``choices`` as pairs, so that tasks can be cached."""

    kind: str | None = None
    unit: str | None = None
    form: str | None = None
    decimal_comma: bool = False
    tolerance: float = DEFAULT_TOLERANCE
    choices: tuple[tuple[str, str], ...] | None = None

    def rules(self) -> Rules:
        """What comparing needs to know."""
        return Rules(self.kind, self.unit, self.tolerance)


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference that was read and found equal to itself: ``node``, or letters or words; and the share
    of one judgement's work that this took."""

    text: str
    kind: str
    node: Node | None = None
    letters: frozenset[str] = frozenset()
    effort: float = field(default=0.0, compare=False)


class BadReference(Exception):
    """No answer can be judged against this reference; ``code`` of the refusal says why."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True, slots=True)
class Judgement:
    """``code`` is ``None`` for a right answer, else the named rejection."""

    code: str | None
    message: str
    kind: str
    method: str
    marker: str = "none"
    answer: Node | None = field(default=None, compare=False)
    reference: Reference | None = field(default=None, compare=False)


@lru_cache(maxsize=512)
def read_reference(text: str, task: Task) -> Reference:
    """Read a reference and compare it with itself, so that its own trouble shows before any answer's.

    Raises ``BadReference``.
    """
    begin()
    try:
        return replace(_read_reference(text, task), effort=spent())
    except ReferenceRefusal as trouble:
        raise BadReference(trouble.refusal.code) from trouble
    except Refusal as refusal:
        raise BadReference(refusal.code) from refusal
    except WrongUnit as trouble:
        raise BadReference("wrong_unit") from trouble
    except RecursionError as error:
        raise BadReference("too_large") from error


def _read_reference(text: str, task: Task) -> Reference:
    found = final_answer(text, unboxed=True)
    content = ", ".join(found.parts)
    kind = task.kind
    words = "" if kind is not None or _NO_WORDS.fullmatch(content) else plain(content)
    if kind == "choice" or (
        kind is None and (task.choices is not None or looks_like_choice(content, words))
    ):
        return Reference(content, "choice", letters=read_choice(content, _choices(task)))
    if content.strip("$ ").casefold() in _MISSING and kind != "text":
        raise Refusal("empty_answer", "a mark for a missing value")
    if kind == "text" or (kind is None and looks_like_words(words)):
        if not plain(content):
            raise Refusal("empty_answer", "no words")
        return Reference(content, "text")
    node = _declared(_parsed(content, task, kind), kind)
    if kind == "number" and variables(node):
        raise Refusal("unparsable", "a number with variables")
    if isinstance(node, Chain) and is_equality(node):
        named_value(node, task.tolerance)
    if not infinite(node):
        require_workable(node)
    if not isinstance(node, Num) and not same_answer(node, node, task.rules()).equal:
        raise Refusal("undecided", "not equal to itself")
    return Reference(content, kind or kind_of(node), node)


def _parsed(text: str, task: Task, kind: str | None, *, several: bool = False) -> Node:
    return read_answer(
        text,
        thousands=not several and task.kind not in _SEPARATE,
        decimal_comma=task.decimal_comma,
        points=kind in _POINTS,
    )


def _declared(node: Node, kind: str | None) -> Node:
    """What a declared type makes of brackets and lists: a set without braces, brackets that only group.

    ``[3,5]`` stays what it is: beside a set it could as well be an interval.
    """
    if kind in _SINGLE:
        return grouped(node)
    if kind != "set":
        return node
    if isinstance(node, Brackets) and node.opening + node.closing == "[]" and len(node.items) != 2:
        return Braces(node.items)
    return Braces(node.items) if isinstance(node, Listing) else node


def _choices(task: Task) -> Mapping[str, str] | None:
    return None if task.choices is None else dict(task.choices)


def kind_of(node: Node) -> str:
    """The answer type of what was read, as ``inputs.answer_type`` names it."""
    if isinstance(node, QuantityNode):
        return "percent" if node.unit == "%" else "number"
    if is_scalar(node):
        return "expression" if symbols(node) else "number"
    if isinstance(node, Table):
        return "matrix"
    if isinstance(node, Chain):
        return "equation" if set(node.ops) <= {"=", "≈"} else "inequality"
    if is_range(node) or isinstance(node, Union):
        return "interval"
    if isinstance(node, Brackets):
        return "tuple"
    return "set"


def judge(references: tuple[str, ...], response: object, task: Task, *, unboxed: bool) -> Judgement:
    """Judge a response: right if its one final answer equals any of the alternative references.

    Raises ``BadReference`` when a reference cannot be read or compared.
    """
    golds = _read_all(references, task)
    kind = golds[0].kind
    try:
        found = final_answer(response, unboxed=unboxed)
    except Refusal as refusal:
        return Judgement(refusal.code, refusal.message, kind, "none")
    judgements = []
    for gold in golds:
        judgement = _against(gold, found, task)
        if judgement.code is None:
            return judgement
        judgements.append(judgement)
    return next((each for each in judgements if each.code != "unparsable"), judgements[0])


def _read_all(references: tuple[str, ...], task: Task) -> list[Reference]:
    """All alternatives. Each is compared with every answer: together they must leave time for that."""
    golds: list[Reference] = []
    for text in references:
        golds.append(read_reference(text, task))
        if sum(gold.effort for gold in golds) > MAX_SHARES:
            raise BadReference("too_large")
    return golds


def _against(gold: Reference, found: FinalAnswer, task: Task) -> Judgement:
    node: Node | None = None
    begin()
    try:
        if gold.node is None:
            match = _words(gold, found, task)
        else:
            node = _read(gold, found, task)
            match = same_answer(gold.node, node, task.rules())
    except ReferenceRefusal as trouble:  # the reference equals itself, so this is an answer it cannot meet
        refusal = trouble.refusal
        return Judgement(refusal.code, refusal.message, gold.kind, "none", found.marker)
    except WrongUnit:
        message = "the unit is not one of what is asked for"
        return Judgement("wrong_unit", message, gold.kind, "exact", found.marker, node, gold)
    except BROKEN as error:  # the reference did not: no answer may cost a task its score
        message = f"{BROKE_OFF} ({type(error).__name__})"
        return Judgement("undecided", message, gold.kind, "none", found.marker)
    except RecursionError:
        return Judgement("too_large", "the answer nests too deeply", gold.kind, "none", found.marker)
    except Refusal as refusal:
        code, message = refusal.code, refusal.message
        if found.marker == "bare" and code == "unparsable":
            code, message = "no_final_answer", "no marker, and the response is not one bare expression"
        return Judgement(code, message, gold.kind, "none", found.marker)
    if not match.equal:
        message = "not the value the task asks for"
        return Judgement("wrong_answer", message, gold.kind, match.method, found.marker, node, gold)
    if task.form is not None and not has_form(found.parts[0], task.form):
        message = f"the right value, but not written as the task asks ({task.form})"
        return Judgement("wrong_form", message, gold.kind, match.method, found.marker)
    return Judgement(None, "", gold.kind, match.method, found.marker)


def _words(gold: Reference, found: FinalAnswer, task: Task) -> Match:
    if len(found.parts) > 1 and gold.kind == "text":
        raise Refusal("hedged_answer", "several boxes where one answer is asked for")
    if gold.kind == "text":
        return Match(same_words(gold.text, found.parts[0]), "text")
    letters: frozenset[str] = frozenset().union(
        *(read_choice(part, _choices(task)) for part in found.parts)
    )
    if len(letters) > 1 and len(gold.letters) == 1:
        raise Refusal("hedged_answer", "several choices where one is asked for")
    return Match(letters == gold.letters, "letter")


def _read(gold: Reference, found: FinalAnswer, task: Task) -> Node:
    """Read the answer; where the reference is a list, a comma separates members."""
    several = isinstance(gold.node, Braces | Listing | Brackets)
    nodes = [_parsed(part, task, gold.kind, several=several) for part in found.parts]
    if len(nodes) == 1:
        node = nodes[0]
    elif several:
        node = Listing(tuple(nodes), ",")
    elif all(same_answer(nodes[0], other, task.rules()).equal for other in nodes[1:]):
        node = nodes[-1]
    else:
        raise Refusal("hedged_answer", "several boxes with different values where one is asked for")
    return _declared(node, task.kind)


__all__ = ["FORMS", "KINDS", "BadReference", "Judgement", "Reference", "Task", "judge", "read_reference"]
