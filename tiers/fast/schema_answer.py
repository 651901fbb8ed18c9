"""``schema.answer``: is the answer JSON of the asked form and, where the task names it, value?"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from itertools import islice
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from tiers.fast.json_answer import NotReadable, Surveyed, read_json
from tiers.fast.json_equality import difference, same_unordered
from tiers.fast.schema_document import CompiledSchema, compiled
from verifier_service.domain.errors import TaskError
from verifier_service.domain.evidence import Finding, Hint, Reason, Tier, Verdict
from verifier_service.domain.records import JsonValue
from verifier_service.domain.verifiers import CheckInput, Limits, Params, Verifier, VerifierInfo

MAX_HINTS = 5
MAX_POINTER_CHARS = 200
MAX_EXPLAINED = 20_000  # values, times the schemas each is held against: beyond it no violation is listed


class SchemaParams(Params):
    """How values are compared.

    ``formats``: whether ``format`` is asserted (the default here: who writes it in a task means it) or
    only an annotation (the default of the standard). Unknown formats assert nothing.
    ``relative_tolerance`` is for numbers of ``reference.value``, relative to its own; ``unordered`` reads
    arrays as bags. They exclude each other.
    """

    formats: Literal["assert", "annotate"] = "assert"
    relative_tolerance: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0
    unordered: bool = False

    @model_validator(mode="after")
    def _one_of_two(self) -> SchemaParams:
        if self.unordered and self.relative_tolerance > 0:
            raise ValueError("unordered and relative_tolerance exclude each other")
        return self


class SchemaAnswer(Verifier):
    """Hold the answer against ``reference.schema``, else ``inputs.schema``, and ``reference.value``.

    Score 1 or 0. A JSON object is taken as it is; text must be JSON and nothing else (a ladder extracts
    it from fences or tags). Schemas are JSON Schema 2020-12 with references into themselves only: nothing
    is fetched. Equality is that of JSON Schema: numbers by value (1 and 1.0 are one), ``true`` is no
    number, the order of arrays counts. Hints name places in the answer and keywords, never what the task
    wanted there.
    """

    info: ClassVar[VerifierInfo] = VerifierInfo(
        name="schema.answer",
        version="1",
        tier=Tier.FAST,
        summary="JSON of the asked schema (2020-12, local references) and value",
        reads=frozenset({"candidate", "inputs", "reference"}),
        on_limit="reject",
        libraries=("jsonschema-rs",),
        limits=Limits(time_s=10.0, memory_mb=1024, max_batch=64),
        typical_cpu_s=0.0002,
    )
    params_model: ClassVar[type[Params]] = SchemaParams

    def unavailable(self) -> str | None:
        """Return why the validator is missing, or ``None``."""
        if find_spec("jsonschema_rs") is None:
            return "needs the extra 'schema' (pip install 'verifier-service[schema]')"
        return None

    def warm(self) -> None:
        """Import the validator and compile a first schema."""
        compiled({"type": "object"}, formats=True)

    def verify(self, item: CheckInput, params: Params) -> Finding:
        """Return score 1 with ``accept`` or score 0 with a named rejection.

        Raises ``TaskError``: ``bad_schema``, or ``bad_reference`` when the wanted value breaks the schema.
        """
        options = SchemaParams.model_validate(params, from_attributes=True)
        source = "reference" if "schema" in item.reference else "inputs"
        document = item.reference if source == "reference" else item.inputs
        if "schema" not in document:
            raise TaskError("bad_schema", "neither reference.schema nor inputs.schema is there")
        schema = compiled(document["schema"], formats=options.formats == "assert")
        if "value" in item.reference:
            _require_possible(schema, item.reference["value"])
        assumptions = [f"schema from {source}.schema", f"format: {options.formats}"]
        if "value" in item.reference:
            assumptions.append(_comparison(options))
        finding = _judge(item, schema, options)
        return finding.model_copy(update={"assumptions": tuple(assumptions)})


def _judge(item: CheckInput, schema: CompiledSchema, params: SchemaParams) -> Finding:
    try:
        answer = read_json(item.candidate)
    except NotReadable as why:
        return _reject(why.code, why.message)
    return _judge_value(item, schema, params, answer).model_copy(
        update={"features": _features(item, answer)}
    )


def _features(item: CheckInput, answer: Surveyed) -> dict[str, float]:
    """How large the answer is: ``values`` in it, itself included, their ``depth``, and ``characters`` where
    it came as text."""
    sizes = {"values": float(answer.nodes), "depth": float(answer.depth)}
    return sizes | ({"characters": float(len(item.candidate))} if isinstance(item.candidate, str) else {})


def _judge_value(
    item: CheckInput, schema: CompiledSchema, params: SchemaParams, answer: Surveyed
) -> Finding:
    if not _patterns_decide(schema, answer.value):
        return _reject(
            "time_limit", "a text keeps a regular expression of the schema busy beyond its limit"
        )
    if not schema.validator.is_valid(answer.value):
        return _violations(schema, answer)
    labels = {"json_type": _type_name(answer.value)}
    if "value" not in item.reference:
        return Finding(verdict=Verdict.ACCEPT, score=1.0, labels=labels)
    wanted = item.reference["value"]
    if params.unordered:
        place: tuple[str | int, ...] | None = () if not same_unordered(answer.value, wanted) else None
    else:
        place = difference(answer.value, wanted, params.relative_tolerance)
    if place is None:
        return Finding(verdict=Verdict.ACCEPT, score=1.0, labels=labels)
    where = pointer(place)
    hint = Hint(kind="wrong_value", text=f"The first value that is not right stands at {where}.")
    return _reject("wrong_value", f"of the right form, but not the right value (at {where})", hint)


def _require_possible(schema: CompiledSchema, wanted: JsonValue) -> None:
    """Raise ``TaskError`` when no answer could be right."""
    try:
        value = read_json([wanted]).value[0]
    except NotReadable as why:
        raise TaskError("bad_reference", f"reference.value cannot be used ({why.code})") from None
    if not _patterns_decide(schema, value) or not schema.validator.is_valid(value):
        raise TaskError("bad_reference", "reference.value does not satisfy the task's own schema")


def _comparison(params: SchemaParams) -> str:
    order = "in any order" if params.unordered else "in order"
    return f"value: arrays {order}, numbers within {params.relative_tolerance:g} relative"


def _reject(code: str, message: str, *hints: Hint) -> Finding:
    return Finding(
        verdict=Verdict.REJECT, score=0.0, reason=Reason(code=code, message=message), hints=hints
    )


def _violations(schema: CompiledSchema, answer: Surveyed) -> Finding:
    """The first violations; listing alternatives within alternatives would take exponential time."""
    paths = schema.weight ** min(answer.depth + 1, 16) if schema.branches else schema.weight
    if answer.nodes * paths > MAX_EXPLAINED:
        return _reject("schema_violation", "the answer does not satisfy the schema")
    found = [
        (error.kind.name, pointer(error.instance_path))
        for error in islice(schema.validator.iter_errors(answer.value), MAX_HINTS)
    ]
    hints = (Hint(kind="schema_violation", text=f"At {where}: {word} is not met.") for word, where in found)
    first = f": {found[0][0]} at {found[0][1]}" if found else ""
    return _reject("schema_violation", f"the answer does not satisfy the schema{first}", *hints)


def _patterns_decide(schema: CompiledSchema, value: Any) -> bool:
    """Whether every pattern that may backtrack comes to an end on every text of the answer.

    Asked apart from the schema: under ``not``, a pattern that gave up would count as one that fails.
    """
    if not schema.hard_patterns:
        return True
    return not any(
        type(error.kind).__name__ in ("BacktrackLimitExceeded", "RegexEngineFailure")
        for text in set(_texts(value))
        for pattern in schema.hard_patterns
        for error in pattern.iter_errors(text)
    )


def _texts(root: Any) -> Iterator[str]:
    waiting = [root]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            yield from value
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)


def pointer(path: list[str | int] | tuple[str | int, ...]) -> str:
    """A place as a JSON pointer (RFC 6901), shortened; the whole answer is called so."""
    if not path:
        return "the root"
    text = "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)
    return text if len(text) <= MAX_POINTER_CHARS else text[:MAX_POINTER_CHARS] + "…"


def _type_name(value: Any) -> str:
    if value is None:
        return "null"
    names = {bool: "boolean", str: "string", dict: "object", list: "array"}
    return next((name for kind, name in names.items() if isinstance(value, kind)), "number")
