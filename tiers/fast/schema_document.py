"""A schema as a task brings it: checked, bounded and compiled once. Nothing is ever fetched.

JSON Schema 2020-12, https://json-schema.org/draft/2020-12/json-schema-core. The keywords that hold
schemas are listed here, because what stands anywhere else (``const``, ``enum``, ``default``) is data.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urldefrag, urljoin

from verifier_service.domain.errors import TaskError

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator

MAX_SCHEMA_CHARS = 256_000
MAX_SCHEMA_DEPTH = 100
MAX_IN_PLACE = 10_000  # schemas that one value is held against, references followed
BACKTRACKS = 100_000
_OPEN = 0  # the weight of a schema that is being weighed
DIALECT = "https://json-schema.org/draft/2020-12/schema"

_ONE = ("additionalProperties", "contains", "contentSchema", "else", "if", "items", "not")
_ONE_MORE = ("propertyNames", "then", "unevaluatedItems", "unevaluatedProperties")
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_MAPS = ("$defs", "definitions", "dependentSchemas", "patternProperties", "properties")
_IN_PLACE = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"})
_REFERENCES = ("$ref", "$dynamicRef")


@dataclass(frozen=True, slots=True)
class CompiledSchema:
    """A schema ready to be used.

    ``hard_patterns`` are the regular expressions that only a backtracking engine can run, each as a
    validator of one string. ``weight`` is the largest number of schemas that one value is held against;
    ``branches`` tells whether some of them are alternatives, whose errors multiply.
    """

    validator: Draft202012Validator
    hard_patterns: tuple[Draft202012Validator, ...]
    weight: int
    branches: bool


def compiled(schema: object, *, formats: bool) -> CompiledSchema:
    """The schema, from a cache. Raises ``TaskError`` ``bad_schema``; the message never quotes it."""
    if not isinstance(schema, (dict, bool)):
        raise _bad("it must be an object or a boolean")
    try:
        text = json.dumps(schema, sort_keys=True, allow_nan=False)
        text.encode()
    except (ValueError, RecursionError):
        raise _bad("it is not JSON, or nests too deep") from None
    if len(text) > MAX_SCHEMA_CHARS:
        raise _bad(f"it is longer than {MAX_SCHEMA_CHARS:,} characters")
    found = _compiled(text, formats)
    if isinstance(found, str):
        raise _bad(found)
    return found


@lru_cache(maxsize=128)
def _compiled(text: str, formats: bool) -> CompiledSchema | str:
    """The compiled schema, or why it is bad: a bad one is asked for by every sample of its prompt."""
    schema = json.loads(text)
    try:
        places = _Places()
        places.visit(schema, "", 0)
        places.require_local()
        weight = max(places.weight(each, base) for each, base in places.schemas)
    except _BadSchema as error:
        return str(error)
    except RecursionError:
        return "its references form too long a chain"
    if weight > MAX_IN_PLACE:
        return f"one value would be held against more than {MAX_IN_PLACE:,} schemas"
    return _build(schema, places, weight, formats)


def _build(schema: Any, places: _Places, weight: int, formats: bool) -> CompiledSchema | str:
    import jsonschema_rs as engine

    bounded = engine.FancyRegexOptions(backtrack_limit=BACKTRACKS)
    try:
        validator = engine.Draft202012Validator(
            schema, validate_formats=formats, offline=True, pattern_options=bounded
        )
        hard = tuple(
            engine.Draft202012Validator({"pattern": pattern}, offline=True, pattern_options=bounded)
            for pattern in sorted(places.patterns)
            if not _is_linear(pattern)
        )
    except (engine.ValidationError, engine.ReferencingError, ValueError) as error:
        kind = error.kind.name if isinstance(error, engine.ValidationError) else type(error).__name__
        return f"it is no schema of draft 2020-12, or a reference leads nowhere ({kind})"
    return CompiledSchema(validator, hard, weight, places.branches)


def _is_linear(pattern: str) -> bool:
    """Whether an engine without backtracking can run it: look-around and back-references cannot."""
    import jsonschema_rs as engine

    try:
        engine.Draft202012Validator(
            {"pattern": pattern}, offline=True, pattern_options=engine.RegexOptions()
        )
    except (engine.ValidationError, ValueError):
        return False
    return True


class _BadSchema(Exception):
    """What is wrong with a schema, in words that do not quote it."""


def _bad(message: str) -> TaskError:
    return TaskError("bad_schema", f"the task's schema cannot be used: {message}")


@dataclass(slots=True)
class _Places:
    """Every schema in a document with the base of its references, and what they refer to."""

    schemas: list[tuple[Any, str]] = field(default_factory=list)
    patterns: set[str] = field(default_factory=set)
    branches: bool = False
    _resources: dict[str, Any] = field(default_factory=dict)
    _anchors: dict[tuple[str, str], tuple[Any, str]] = field(default_factory=dict)
    _weights: dict[int, int] = field(default_factory=dict)

    def visit(self, schema: Any, base: str, depth: int) -> None:
        """Note a schema and all in it. Raises ``_BadSchema``."""
        if depth > MAX_SCHEMA_DEPTH:
            raise _BadSchema(f"it nests more than {MAX_SCHEMA_DEPTH} levels deep")
        if depth == 0:
            self._resources[""] = schema
        if not isinstance(schema, dict):
            self.schemas.append((schema, base))
            return
        dialect = schema.get("$schema", DIALECT)
        if not isinstance(dialect, str) or dialect.removesuffix("#") != DIALECT:
            raise _BadSchema("only draft 2020-12 is supported")
        if isinstance(schema.get("$id"), str):
            base = _joined(base, schema["$id"])
            self._resources[base] = schema
        self.schemas.append((schema, base))
        for word in ("$anchor", "$dynamicAnchor"):
            if isinstance(schema.get(word), str):
                self._anchors[base, schema[word]] = (schema, base)
        self.patterns.update(_patterns(schema))
        self.branches |= "anyOf" in schema or "oneOf" in schema
        for _, inner in _inner(schema):
            self.visit(inner, base, depth + 1)

    def require_local(self) -> None:
        """Raise ``_BadSchema`` when a reference leads out of the document."""
        for schema, base in self.schemas:
            for reference in _references(schema):
                if _target(base, reference)[0] not in self._resources:
                    raise _BadSchema("it refers to another document: only local references are followed")

    def weight(self, schema: Any, base: str) -> int:
        """How many schemas a value is held against when it is held against this one."""
        known = self._weights.get(id(schema))
        if known == _OPEN:
            raise _BadSchema("a schema refers back to itself for the same value, without end")
        if known is not None:
            return known
        self._weights[id(schema)] = _OPEN
        total = 1
        if isinstance(schema, dict):
            for word, inner in _inner(schema):
                if word in _IN_PLACE:
                    total += self.weight(inner, self._base(inner, base))
            for reference in _references(schema):
                found = self._resolve(base, reference)
                total += self.weight(*found) if found is not None else 1
        self._weights[id(schema)] = total = min(total, MAX_IN_PLACE + 1)
        return total

    def _base(self, schema: Any, base: str) -> str:
        if isinstance(schema, dict) and isinstance(schema.get("$id"), str):
            return _joined(base, schema["$id"])
        return base

    def _resolve(self, base: str, reference: str) -> tuple[Any, str] | None:
        document, fragment = _target(base, reference)
        if fragment and not fragment.startswith("/"):
            return self._anchors.get((document, fragment))
        found = self._resources.get(document)
        for part in fragment.split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            if isinstance(found, list) and name.isdecimal() and int(name) < len(found):
                found = found[int(name)]
            elif isinstance(found, dict) and name in found:
                found = found[name]
            else:
                return None
        return found, self._base(found, document)


def _joined(base: str, identifier: str) -> str:
    try:
        return str(urldefrag(urljoin(base, identifier)).url)
    except ValueError:
        raise _BadSchema("an identifier is not a URI") from None


def _target(base: str, reference: str) -> tuple[str, str]:
    if reference.startswith("#"):
        return base, unquote(reference[1:])
    try:
        whole = urldefrag(urljoin(base, reference))
    except ValueError:
        raise _BadSchema("a reference is not a URI") from None
    return whole.url, unquote(whole.fragment)


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        for word in _REFERENCES:
            if isinstance(schema.get(word), str):
                yield schema[word]


def _patterns(schema: dict[str, Any]) -> Iterator[str]:
    if isinstance(schema.get("pattern"), str):
        yield schema["pattern"]
    if isinstance(schema.get("patternProperties"), dict):
        yield from schema["patternProperties"]


def _inner(schema: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for word in (*_ONE, *_ONE_MORE):
        if word in schema:
            yield word, schema[word]
    for word in _LISTS:
        if isinstance(schema.get(word), list):
            yield from ((word, each) for each in schema[word])
    for word in _MAPS:
        if isinstance(schema.get(word), dict):
            yield from ((word, each) for each in schema[word].values())
