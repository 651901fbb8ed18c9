"""What verifiers say of a candidate beside their verdict, for models to learn from."""

from __future__ import annotations

import pytest

from tiers.fast.math_answer import MathAnswer, MathAnswerParams
from tiers.fast.schema_answer import SchemaAnswer, SchemaParams
from tiers.high_fidelity.quantum_energy import QuantumEnergy
from verifier_service.domain.evidence import Evidence, Finding, Verdict
from verifier_service.domain.verifiers import CheckInput, Params


@pytest.mark.parametrize(
    ("candidate", "score"), [("so \\boxed{4}", 1.0), ("so \\boxed{5}", 0.0), ("four", 0.0)]
)
def test_a_response_has_a_length_whatever_it_is_worth(candidate: str, score: float) -> None:
    item = CheckInput(candidate=candidate, reference={"answer": "4"})
    finding = MathAnswer().verify(item, MathAnswerParams())
    assert (finding.score, finding.features) == (score, {"characters": float(len(candidate))})


def test_no_text_no_length() -> None:
    item = CheckInput(candidate=None, reference={"answer": "4"})
    assert MathAnswer().verify(item, MathAnswerParams()).features == {}


@pytest.mark.parametrize("wanted", [[1, [2]], [1, [3]]])
def test_json_has_a_size(wanted: list[object]) -> None:
    reference = {"schema": {"type": "array"}, "value": wanted}
    item = CheckInput(candidate="[1, [2]]", reference=reference)  # type: ignore[arg-type]
    finding = SchemaAnswer().verify(item, SchemaParams())
    assert finding.score == float(wanted == [1, [2]])
    assert finding.features == {"values": 4.0, "depth": 2.0, "characters": 8.0}
    as_object = item.model_copy(update={"candidate": [1, [2]]})
    assert SchemaAnswer().verify(as_object, SchemaParams()).features == {"values": 4.0, "depth": 2.0}


def test_unreadable_json_has_none() -> None:
    item = CheckInput(candidate="[1,", inputs={"schema": {}})
    assert SchemaAnswer().verify(item, SchemaParams()).features == {}


def test_a_structure_has_atoms_and_electrons() -> None:
    item = CheckInput(candidate="2\n\nH 0 0 0\nH 0 0 0.74", inputs={"charge": 1, "spin_2S": 1})
    finding = QuantumEnergy().verify(item, Params())
    wanted = {"atoms": 2.0, "electrons": 1.0, "unpaired_electrons": 1.0, "charge": 1.0, "fragments": 1.0}
    assert finding.features == wanted


def test_evidence_from_before_features_is_read() -> None:
    old = '{"verdict": "accept", "labels": {"a": "b"}}'
    assert Finding.model_validate_json(old).features == {}
    assert "features" in Evidence.model_fields
    assert Finding(verdict=Verdict.ACCEPT, features={"x": 1.0}).model_dump()["features"] == {"x": 1.0}
