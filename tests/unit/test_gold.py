"""What a gold item shows is read as strictly as any other request."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from verifier_service.domain.gold import GoldShown

EVIDENCE: dict[str, Any] = {
    "check": "k",
    "tier": "simulation",
    "verdict": "accept",
    "score": 0.5,
    "per_turn": [0.5, None],
    "provenance": {"verifier": "v", "version": "1"},
}


def shown(**changed: Any) -> GoldShown:
    return GoldShown.model_validate_json(json.dumps({"evidence": [EVIDENCE | changed]}))


def test_evidence_is_kept() -> None:
    [one] = shown().evidence
    assert (one.verdict, one.per_turn) == ("accept", (0.5, None))


@pytest.mark.parametrize(
    "changed",
    [{"verdict": "perhaps"}, {"per_turn": [True]}, {"score": "0.5"}, {"tier": "attic"}, {"check": 1}],
)
def test_what_a_record_would_read_kindly_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="evidence"):
        shown(**changed)
