"""Lines of ``tests/corpus``: what they stand for, and what a verifier makes of one."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from verifier_service.domain.evidence import Finding
from verifier_service.domain.verifiers import CheckInput, Verifier

CORPUS = Path(__file__).resolve().parents[1] / "corpus"


def read(name: str) -> list[dict[str, Any]]:
    """The cases of one file, texts that are only described written out."""
    cases = [json.loads(line) for line in (CORPUS / name).read_text().splitlines()]
    for case in cases:
        case["answer"] = _written_out(case["answer"])
        case["reference"] = {key: _written_out(value) for key, value in case["reference"].items()}
        case.setdefault("inputs", {})
    return cases


def _written_out(value: Any) -> Any:
    if isinstance(value, dict) and "repeat" in value:
        text, count = value["repeat"]
        return value.get("prefix", "") + text * count + value.get("suffix", "")
    return value


def judged(verifier: Verifier, case: dict[str, Any]) -> tuple[str, str, float]:
    """``accept``, ``reject`` or the kind of a failure; the code with it; CPU seconds.

    Nothing is validated on the way: a corpus may hold what no request can carry.
    """
    item = CheckInput.model_construct(
        candidate=case["answer"], inputs=case["inputs"], reference=case["reference"], prompt="", turns=()
    )
    began = time.process_time()
    outcome = verifier.attempt(item, verifier.params_model())
    took = time.process_time() - began
    if not isinstance(outcome, Finding):
        return outcome.kind, outcome.code, took
    code = outcome.reason.code if outcome.reason else ""
    return ("accept" if outcome.score == 1.0 else "reject"), code, took
