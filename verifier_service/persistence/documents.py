"""Records as stored text."""

from __future__ import annotations

import json

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError

from verifier_service.persistence.database import clean


def dumped(record: BaseModel) -> str:
    """JSON text of a record; a lone surrogate inside becomes U+FFFD instead of failing its batch."""
    try:
        return record.model_dump_json(by_alias=True)
    except PydanticSerializationError:
        readable = json.dumps(record.model_dump(by_alias=True), ensure_ascii=False, default=str)
        return clean(readable)
