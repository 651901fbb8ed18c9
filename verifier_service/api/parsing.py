"""From the bytes of a body to a checked request, or to the error that names what is wrong."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from verifier_service.api import strict_json
from verifier_service.domain.errors import InvalidInput

M = TypeVar("M", bound=BaseModel)

CODES = {
    "missing": "missing_field",
    "extra_forbidden": "unknown_field",
    "finite_number": "not_finite",
    "string_pattern_mismatch": "bad_format",
    "literal_error": "not_one_of",
    "enum": "not_one_of",
    "union_tag_invalid": "not_one_of",
    "union_tag_not_found": "missing_field",
    "too_short": "too_short",
    "string_too_short": "too_short",
    "too_long": "too_long",
    "string_too_long": "too_long",
    "greater_than": "out_of_range",
    "greater_than_equal": "out_of_range",
    "less_than": "out_of_range",
    "less_than_equal": "out_of_range",
}


def decode_body(raw: bytes) -> str:
    """The text of a body; bytes that are not UTF-8 become lone surrogates, to be found where they are."""
    return raw.decode("utf-8", "surrogateescape")


def parse_body(model: type[M], raw: bytes) -> M:
    """Read one request. Raises ``InvalidInput`` for anything that is not exactly a ``model``."""
    text = decode_body(raw)
    try:
        value, end = strict_json.decode(text, _skip(text, 0))
    except json.JSONDecodeError as error:
        raise unparsable(error) from error
    except (strict_json.Flaw, RecursionError) as error:
        raise _flaw_of(text) from error
    if _skip(text, end) != len(text):
        raise InvalidInput("invalid_json", "the body holds more than one JSON value")
    refused = strict_json.check_text(text) or strict_json.find_nul(text, value)
    if refused is not None:
        raise refused
    return validated(model, text, value)


def validated(model: type[M], text: str, value: Any) -> M:
    """``text`` as a ``model``; ``value`` is the same, decoded. Raises ``InvalidInput``."""
    if strict_json.is_too_deep(text, value):
        raise strict_json.too_deep()
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        raise _invalid(error, text, value) from error


def unparsable(error: json.JSONDecodeError) -> InvalidInput:
    """The error of a body that is not JSON at all."""
    return InvalidInput(
        "invalid_json", f"the body is not JSON: {error.msg} at line {error.lineno} column {error.colno}"
    )


def invalid_value(kind: str, message: str, path: Sequence[str | int], value: Any) -> InvalidInput:
    """A pydantic error as ours: a stable code, and the part of ``path`` that exists in ``value``."""
    field = ".".join(_parts(kind, path, value)) or None
    code = CODES.get(kind) or ("wrong_type" if kind.endswith("_type") else "invalid_value")
    if code == "too_long" and field == "turns":
        code = "too_many_turns"
    return InvalidInput(code, message, field=field)


def _invalid(error: ValidationError, text: str, value: Any) -> InvalidInput:
    found = error.errors(include_url=False, include_context=False, include_input=False)
    # Of a union every member complains; the one that was meant got furthest.
    first = max(found, key=lambda each: len(_parts(each["type"], each["loc"], value)))
    if first["type"] == "json_invalid":  # what the standard library takes and pydantic does not
        flaw = strict_json.find_flaw(text, strict_json.decode_flawed(text))
        return flaw or InvalidInput("invalid_json", first["msg"])
    return invalid_value(first["type"], first["msg"], first["loc"], value)


def _parts(kind: str, path: Sequence[str | int], value: Any) -> list[str]:
    """Names of union members, which pydantic puts into its paths, are left out."""
    parts: list[str] = []
    for index, part in enumerate(path):
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and isinstance(part, int):
            value = value[part] if part < len(value) else None
        elif kind == "missing" and index == len(path) - 1:
            value = None
        else:
            continue
        parts.append(str(part))
    return parts


def _flaw_of(text: str) -> InvalidInput:
    text = text.strip(strict_json.WHITESPACE)
    return strict_json.find_flaw(text, strict_json.decode_flawed(text)) or strict_json.too_deep()


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in strict_json.WHITESPACE:
        at += 1
    return at
