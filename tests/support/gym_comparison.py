"""Our verdicts beside those of reasoning-gym, on its own answers and on changed ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from decimal import localcontext
from io import StringIO
from typing import Any

from tests.support.gym_changes import EVERYWHERE, Sample
from tests.support.gym_table import JUDGED, Judged
from tiers.fast.math_answer import MathAnswer
from tiers.fast.schema_answer import SchemaAnswer
from verifier_service.domain.evidence import Finding
from verifier_service.domain.verifiers import CheckInput, Verifier

SEED = 20261201
SIZE = 8
OWN = "own answer"
VERIFIERS: dict[str, Verifier] = {"math.answer": MathAnswer(), "schema.answer": SchemaAnswer()}


@dataclass(frozen=True)
class Compared:
    """One answer to one item, and who accepts it. ``ours`` is ``None`` when we gave no score."""

    change: str
    meant: str  # own, wrong or restyled
    item: int
    text: str
    response: str
    problem: dict[str, Any]
    ours: bool | None
    theirs: bool
    reason: str


def compared(name: str) -> list[Compared]:
    """Every answer tried on the data set ``name``."""
    import reasoning_gym

    judged = JUDGED[name]
    # Some data sets set the precision of decimals for the whole thread, and one prints dots.
    with localcontext(), redirect_stdout(StringIO()):
        return _compared(judged, reasoning_gym.create_dataset(name, seed=SEED, size=SIZE))


def _compared(judged: Judged, dataset: Any) -> list[Compared]:
    entries = [dataset[place] for place in range(SIZE)]
    answers = [entry["answer"] for entry in entries]
    found = []
    for place, entry in enumerate(entries):
        text = answers[place]
        other = next((each for each in answers[place + 1 :] + answers[:place] if each != text), None)
        for change, meant, answer in _answers(judged, Sample(text, other or f"{text}1", entry)):
            score = dataset.score_answer(answer=answer.strip(), entry=entry)
            ours, reason = _verdict(judged, entry, answer)
            response, problem = judged.written(answer), judged.problem(entry)
            found.append(
                Compared(change, meant, place, answer, response, problem, ours, score >= 1.0, reason)
            )
    return found


def _answers(judged: Judged, sample: Sample) -> Iterator[tuple[str, str, str]]:
    yield OWN, "own", sample.text
    shape = judged.shape(sample.text)
    for meant, changes in (("wrong", {**EVERYWHERE, **shape.wrong}), ("restyled", shape.restyled)):
        for change, apply in changes.items():
            answer = apply(sample)
            if answer is not None and judged.written(answer) != judged.written(sample.text):
                yield change, meant, answer


def _verdict(judged: Judged, entry: Any, answer: str) -> tuple[bool | None, str]:
    verifier = VERIFIERS[judged.verifier]
    problem = judged.problem(entry)
    item = CheckInput(
        candidate=judged.written(answer), inputs=problem["inputs"], reference=problem["reference"]
    )
    outcome = verifier.attempt(item, verifier.params_model.model_validate(dict(judged.params)))
    if not isinstance(outcome, Finding):
        return None, f"{outcome.kind}: {outcome.code}"
    return outcome.score == 1.0, outcome.reason.code if outcome.reason else ""
