"""The verifier by itself, then the promises that every verifier makes."""

from __future__ import annotations

from pathlib import Path

import pytest
from anagram_verifier import Anagram, AnagramParams

from tiers.conformance import conformance, read_samples
from verifier_service.domain.errors import TaskError
from verifier_service.domain.verifiers import CheckInput

SAMPLES = Path(__file__).resolve().parents[1] / "samples.jsonl"


def code(answer: object, **params: bool) -> str | None:
    item = CheckInput(candidate=answer, reference={"word": "Listen"})
    found = Anagram().verify(item, AnagramParams(**params))
    return found.reason.code if found.reason is not None else None


def test_verdicts() -> None:
    assert code("Silent") is None
    assert code("silent", ignore_case=False) == "other_letters"
    assert code("LISTEN") == "same_word"
    assert code({"word": "silent"}) == "empty_answer"
    assert code("silent" * 100) == "too_long"


def test_a_broken_task_is_nobodys_fault() -> None:
    with pytest.raises(TaskError):
        Anagram().verify(CheckInput(candidate="silent"), AnagramParams())


def test_it_conforms() -> None:
    report = conformance("anagram_verifier:Anagram", read_samples(SAMPLES.read_bytes().splitlines()))
    assert report.conforms, [check for check in report.checks if check.verdict == "failed"]
