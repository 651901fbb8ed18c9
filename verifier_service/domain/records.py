"""Bases of every record that crosses a boundary.

``Record`` is what the service says: frozen, tolerant of fields it does not know, so that a newer
server never breaks an older client. ``Request`` is what the service is told: frozen, strict, and it
refuses unknown fields, so that a misspelt option is an error and not a silence.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Self, TypeAlias

from pydantic import BaseModel, ConfigDict, JsonValue

__all__ = ["JsonObject", "JsonValue", "OpenEnum", "Record", "Request"]

JsonObject: TypeAlias = dict[str, JsonValue]


class Record(BaseModel):
    """A frozen record published by the service."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False, defer_build=True)


class Request(BaseModel):
    """A frozen record received by the service; unknown fields and lax coercions are errors."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, defer_build=True
    )


class OpenEnum(StrEnum):
    """An enum that reads values it does not know as ``other`` (each subclass defines ``OTHER``)."""

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        return cls("other") if isinstance(value, str) and value != "other" else None
