"""The conformance suite over every shipped verifier, and over verifiers that each break one promise."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.support import broken_declarations, broken_verifiers
from tests.support.broken_verifiers import SOUND, Sound
from tiers.catalog import TIERS_FOLDER
from tiers.catalog_sources import SHIPPED, BrokenPlugin, load_path
from tiers.conformance import conformance, read_samples
from tiers.conformance_inputs import CANARIES, secrets_of, with_canaries
from tiers.conformance_records import CheckRecord, Conformance, Sample
from verifier_service.cli.application import app
from verifier_service.domain.errors import InvalidInput, Permanent
from verifier_service.domain.evidence import Finding
from verifier_service.domain.extraction import candidate_of
from verifier_service.domain.ladders import LadderSpec
from verifier_service.domain.trajectories import TrajectorySubmission
from verifier_service.domain.verifiers import CheckInput

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
LEFT_OUT = ("too-slow", "too-much-memory", "right-second-block", "crashes")  # seconds each
ETHANE = "2\n\nH 0 0 0\nH 0 0 0.74"
CHECKS = [
    *("declaration", "parameters", "samples", "determinism", "failure_is_null", "batch", "batch_blame"),
    *("broken_task", "hostile_input", "garbage_scores_nothing", "limits", "findings", "no_leak"),
    *("no_output", "no_leftovers", "precheck"),
]


def sample(expected: str, **fields: Any) -> Sample:
    return Sample.model_validate_json(json.dumps({"expected": expected, **fields}))


def smiles(text: str, expected: str, **fields: Any) -> Sample:
    return sample(expected, candidate=text, **fields)


TURN = {
    "message": "look",
    "calls": [{"id": "1", "name": "f", "arguments": "{}"}],
    "observations": [{"call": "1", "text": "ok"}],
}
EVENT = {"id": "e", "kind": "binary", "close": "2030-01-01T00:00:00Z"}
SAMPLES: dict[str, list[Sample]] = {
    "molecule.identify": [smiles("OCC", "accept"), smiles("C1=CC", "inconclusive")],
    "molecule.validity": [
        smiles("OCC", "accept"),
        smiles("C1=CC", "reject"),
        smiles("CCO or CC", "reject", code="trailing_text"),
    ],
    "molecule.plausibility": [smiles("OCC", "accept"), smiles("NNNNNNNNN", "reject")],
    "molecule.descriptors": [smiles("OCC", "inconclusive"), smiles("C1=CC", "inconclusive", code="syntax")],
    "molecule.identity": [
        smiles("OCC", "accept", reference={"smiles": "CCO"}, score=1.0),
        smiles("OCCO", "reject", reference={"smiles": "CCO"}, score=0.0),
        smiles("OCC", "task_error", reference={"smiles": "C1=CC"}),
    ],
    "forecast.validity": [
        sample("accept", candidate={"event": "e", "probability": 0.5}, inputs={"event": EVENT}, score=1.0),
        sample("reject", candidate={"event": "e"}, inputs={"event": EVENT}, code="wrong_shape"),
        sample("task_error", candidate={"event": "e", "probability": 0.5}, inputs={}),
    ],
    "turns.tool_calls": [sample("accept", turns=[TURN]), sample("inconclusive")],
    "turns.errors": [sample("accept", turns=[TURN, {"message": "done"}]), sample("inconclusive")],
    "xtb.gap": [smiles("CO", "inconclusive"), smiles("[U]", "permanent")],
    "pyscf.gap": [smiles("O", "inconclusive"), smiles("[U]", "permanent")],
    "quantum.energy": [
        sample("accept", candidate={"xyz": ETHANE}, score=1.0),
        sample("reject", candidate={"xyz": "1\n\nQq 0 0 0"}),
    ],
}
FROM_EXAMPLES = {"math.answer": "math", "code.tests": "code", "schema.answer": "structured"}


def of_example(name: str) -> list[Sample]:
    """The shipped examples as samples: what the ladder takes from each answer, and how it ends."""
    ladder = LadderSpec.model_validate_json((TIERS_FOLDER / "ladders" / f"{name}.json").read_text())
    found = []
    for line in (EXAMPLES / name / "trajectories.jsonl").read_text().splitlines():
        trajectory = TrajectorySubmission.model_validate_json(line)
        expected = json.loads(line)["metadata"]["expected"]
        if json.loads(line)["metadata"]["kind"] in LEFT_OUT:
            continue
        ending = {1.0: "accept", 0.0: "reject", None: expected.get("code")}[expected["reward"]]
        found.append(
            sample(
                ending,
                candidate=candidate_of(ladder.candidate, trajectory.answer, trajectory.turns),
                inputs=trajectory.problem.inputs,
                reference=trajectory.problem.reference,
                code=expected.get("detail"),
                score=expected["reward"],
            )
        )
    return found


def verdicts(report: Conformance) -> dict[str, str]:
    return {check.name: check.verdict for check in report.checks}


def failed(report: Conformance) -> list[CheckRecord]:
    return [check for check in report.checks if check.verdict == "failed"]


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_verifier_conforms(name: str) -> None:
    given = of_example(FROM_EXAMPLES[name]) if name in FROM_EXAMPLES else SAMPLES.get(name, [])
    report = conformance(SHIPPED[name], given)
    assert not failed(report), [check.model_dump() for check in failed(report)]
    verifier = load_path(SHIPPED[name])
    assert verifier.unavailable() is None, "a machine that tests must have every extra"
    if verifier.info.external:
        assert verdicts(report)["execution"] == "skipped"
        return
    assert given, f"{name} needs samples here"
    assert list(verdicts(report)) == CHECKS
    allowed = {"broken_task", "precheck"}
    assert {key for key, verdict in verdicts(report).items() if verdict == "skipped"} <= allowed
    assert report.items > 20


GOOD = [
    sample("accept", candidate="aubergine", reference={"value": "aubergine"}, score=1.0),
    sample("reject", candidate="tomato", reference={"value": "aubergine"}, score=0.0),
    sample("accept", candidate="kohlrabi", reference={"value": "kohlrabi"}, turns=[TURN, TURN]),
]


BROKEN = (*broken_verifiers.BROKEN, *broken_declarations.BROKEN)


def path_of(broken: type[Sound]) -> str:
    return f"{broken.__module__}:{broken.__name__}"


@pytest.mark.parametrize("broken", BROKEN, ids=lambda each: each.__name__)
def test_whoever_breaks_one_promise_fails_that_check_and_no_other(broken: type[Sound]) -> None:
    report = conformance(path_of(broken), GOOD)
    assert [check.name for check in failed(report)] == [broken.breaks], [
        check.model_dump() for check in failed(report)
    ]
    assert failed(report)[0].examples
    assert not report.conforms


@pytest.mark.parametrize("sound", SOUND, ids=lambda each: each.__name__)
def test_whoever_keeps_every_promise_conforms(sound: type[Sound]) -> None:
    report = conformance(path_of(sound), GOOD)
    assert report.conforms, [check.model_dump() for check in failed(report)]
    assert list(verdicts(report)) == CHECKS
    skipped = {name for name, verdict in verdicts(report).items() if verdict == "skipped"}
    assert skipped == (set() if sound.__name__ == "SoundDoor" else {"precheck"})


def test_every_check_has_somebody_who_fails_it() -> None:
    assert {each.breaks for each in BROKEN} == set(CHECKS)


def test_without_samples_it_says_what_it_could_not_see() -> None:
    report = conformance(path_of(Sound))
    assert report.conforms
    assert verdicts(report)["samples"] == "skipped"


def test_canaries_stand_in_every_text_and_number_of_a_reference() -> None:
    given = sample("accept", candidate="x", reference={"a": "one", "b": [2, {"c": "three"}], "id": "name"})
    planted = [json.dumps(each.item.reference) for each in with_canaries([given])]
    for canary in CANARIES:
        for place in (r'"a": "?%s', r'"b": \[%s', r'"c": "?%s'):
            assert any(re.search(place % canary, text) for text in planted) or canary == CANARIES[0]
    assert not any(f'"id": "{canary}' in text for canary in CANARIES for text in planted)


def test_secrets_are_what_only_the_verifier_knows() -> None:
    item = CheckInput(
        candidate="I say kohlrabi",
        inputs={"shown": ["visible"]},
        reference={"value": "aubergine", "said": "kohlrabi", "shown": "visible", "n": 73911, "s": "x"},
    )
    assert secrets_of(item) == {"aubergine", "73911"}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"candidate": "x"}', "line 2: expected"),
        ('{"expected": "maybe"}', "line 2: expected"),
        ('{"expected": "accept", "answer": "x"}', "line 2: answer"),
        ("{", "line 2"),
    ],
)
def test_a_bad_sample_is_named(line: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        read_samples([b"\n", line.encode()])


def test_what_cannot_be_loaded_or_configured_is_an_error() -> None:
    with pytest.raises(BrokenPlugin, match="no_such_module"):
        conformance("no_such_module:Thing")
    with pytest.raises(BrokenPlugin, match="not a subclass"):
        conformance("json:JSONDecoder")
    with pytest.raises(InvalidInput, match="does not take"):
        conformance(path_of(Sound), params={"no_such": 1})


class Told(Sound):
    """Sound where the operator's settings arrive."""

    def verify(self, item: CheckInput, params: Any) -> Finding:
        if os.environ.get("VERIFIER_LANGUAGES") != '["bash"]':
            raise Permanent("language_unavailable", "the settings did not arrive")
        return super().verify(item, params)


def test_what_the_operator_sets_for_verifiers_reaches_them(tmp_path: Path) -> None:
    file = tmp_path / "samples.jsonl"
    file.write_text("".join(each.model_dump_json() + "\n" for each in GOOD))
    command = ["conformance", path_of(Told), "--samples", str(file)]
    told = CliRunner(env={"VERIFIER_LANGUAGES": '["bash"]'}).invoke(app, command)
    assert told.exit_code == 0, told.stdout + told.stderr
    assert CliRunner(env={"VERIFIER_LANGUAGES": None}).invoke(app, command).exit_code == 1


def test_the_command(tmp_path: Path) -> None:
    file = tmp_path / "samples.jsonl"
    file.write_text("".join(each.model_dump_json() + "\n" for each in GOOD))
    runner = CliRunner(env={"COLUMNS": "100"})
    good = runner.invoke(app, ["conformance", path_of(Sound), "--samples", str(file), "--json"])
    assert good.exit_code == 0, good.stderr
    report = json.loads(good.stdout)
    assert [check["name"] for check in report["checks"]] == CHECKS
    bad = runner.invoke(
        app, ["conformance", "tests.support.broken_verifiers:Leaky", "--samples", str(file)]
    )
    assert bad.exit_code == 1
    assert "does not conform: no_leak" in bad.stdout
    assert "aubergine" not in bad.stdout
    for command, code, words in (
        (["review"], 0, "people decide"),
        (["review", "--params", "{"], 2, "not JSON"),
        (["no_such_module:Thing"], 1, "pip install -e"),
        (["nonsense"], 2, "module:Class"),
        (["schema.answer", "--samples", str(tmp_path / "none")], 1, "none"),
        (["schema.answer", "--params", '{"formats": "x"}'], 1, "does not take"),
    ):
        result = runner.invoke(app, ["conformance", *command])
        assert result.exit_code == code, (command, result.stdout, result.stderr)
        assert words in " ".join((result.stdout + result.stderr).split())
