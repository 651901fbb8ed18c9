"""The demo's trajectories are what their README says."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

from tiers.fast.molecule_plausibility import motifs
from tiers.molecule import Refusal, read_smiles
from verifier_service.cli.demo import recorded
from verifier_service.domain.trajectories import TrajectorySubmission

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "organic_gap"
IMPLAUSIBLE = ("nitrogen_chain", "oxygen_chain")
READABLE = (*IMPLAUSIBLE, "outside_method")


def _module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"demo_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MOLECULES = _module("molecules")


def test_the_script_writes_what_is_committed(tmp_path: Path) -> None:
    for script in FOLDER.glob("*.py"):
        (tmp_path / script.name).write_bytes(script.read_bytes())
    subprocess.run([sys.executable, "make_trajectories.py"], cwd=tmp_path, check=True, timeout=60)
    written = (tmp_path / "trajectories.jsonl").read_bytes()
    assert written == (FOLDER / "trajectories.jsonl").read_bytes()


def test_every_line_is_a_submission() -> None:
    for line in recorded():
        TrajectorySubmission.model_validate_json(json.dumps(line))


@pytest.mark.parametrize("name", MOLECULES.SPELLINGS)
def test_all_spellings_are_one_plausible_molecule(name: str) -> None:
    _, spellings = MOLECULES.SPELLINGS[name]
    found = [read_smiles(text) for text in spellings]
    assert len({molecule.canonical for molecule in found}) == 1
    assert motifs(found[0]) == []


@pytest.mark.parametrize(
    ("kind", "answer"), [(kind, answer) for kind, answers in MOLECULES.FAULTY.items() for answer in answers]
)
def test_faulty_answers_are_faulty_in_their_way(kind: str, answer: str | None) -> None:
    if kind in READABLE:
        assert bool(motifs(read_smiles(answer))) is (kind in IMPLAUSIBLE)
    else:
        with pytest.raises(Refusal):
            read_smiles(answer)


def test_most_molecules_are_neither_right_nor_wrong() -> None:
    names = [line["metadata"]["molecule"] for line in recorded() if line["metadata"]["molecule"]]
    gaps = [MOLECULES.SPELLINGS[name][0] for name in names]
    between = sum(gap is not None and (3.0 < gap < 4.0 or 5.0 < gap < 6.0) for gap in gaps)
    assert between >= len(names) / 2


def test_groups_twins_and_repeats() -> None:
    lines = recorded()
    ids = Counter(line["id"] for line in lines)
    assert sorted(ids.values())[-2:] == [2, 2]
    unique = list({line["id"]: line for line in lines}.values())
    assert set(Counter(line["group"] for line in unique).values()) == {8}
    contents = Counter(json.dumps({**line, "id": None}, sort_keys=True) for line in unique)
    assert sum(count > 1 for count in contents.values()) >= 3
