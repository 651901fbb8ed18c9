"""Ids in the paths of pages; a slash in one is written %2F, as in the API."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path
from pydantic import BeforeValidator, StringConstraints

from verifier_service.domain.trajectories import ID_PATTERN


def _decoded(value: object) -> object:
    return value.replace("%2F", "/") if isinstance(value, str) else value


PathId = Annotated[str, StringConstraints(pattern=ID_PATTERN), BeforeValidator(_decoded), Path()]
