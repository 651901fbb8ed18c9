"""Labels of data sets whose columns hold text only."""

from __future__ import annotations

import json
from typing import Any


def object_of(label: Any) -> Any:
    """The JSON object that a label is the text of; null for the empty text; else the label."""
    if not isinstance(label, str):
        return label
    if label.lstrip().startswith("{"):
        try:
            found = json.loads(label, parse_constant=_refused)
        except (ValueError, RecursionError):
            return label
        return found if isinstance(found, dict) else label
    return label or None


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")
