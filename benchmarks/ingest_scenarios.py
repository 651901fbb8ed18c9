"""What the ingest benchmark submits: a ladder, and bodies for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

FULL_LADDER: dict[str, Any] = {
    "name": "ingest",
    "candidate": {"kind": "molecule", "format": "smiles", "from": "answer"},
    "outcome": {"use": "molecule.identity"},
    "truth": "fast",
    "process": {"weight": 0.2, "checks": [{"use": "turns.tool_calls"}, {"use": "turns.errors"}]},
    "tiers": {
        "fast": [
            {"use": "molecule.validity", "gate": "hard"},
            {"use": "molecule.plausibility", "gate": "soft"},
            {"use": "molecule.identity"},
        ]
    },
}
ONE_CHECK_LADDER: dict[str, Any] = {
    "name": "one-check",
    "candidate": {"kind": "text", "format": "text", "from": "answer"},
    "outcome": {"use": "bench.text_equal"},
    "truth": "fast",
    "tiers": {"fast": [{"use": "bench.text_equal"}]},
}


class Scenario(NamedTuple):
    """``ladder`` is stored first unless it is shipped; ``texts`` makes answers that no other tag has."""

    name: str
    ladder: dict[str, Any] | None
    texts: Callable[[int, str], list[str]]
    item: Callable[[int, str, str], dict[str, Any]]
    checks: str


def molecules(count: int) -> list[str]:
    """Single-fragment SMILES of the NCI set, repeated in other atom orders when it runs out."""
    from rdkit import Chem, RDConfig, rdBase

    rdBase.DisableLog("rdApp.*")
    lines = (Path(RDConfig.RDDataDir) / "NCI" / "first_5K.smi").read_text().split("\n")
    found = [line.split()[0] for line in lines if line.strip() and "." not in line.split()[0]]
    readable = [smiles for smiles in found if Chem.MolFromSmiles(smiles) is not None]
    while len(readable) < count:
        readable += [Chem.MolToSmiles(Chem.MolFromSmiles(s), doRandom=True) for s in readable]
    return readable[:count]


def longer_molecules(count: int, tag: str) -> list[str]:
    """Molecules that no other tag has seen: another carbon chain on every molecule."""
    from rdkit import Chem

    tail = "C" * (1 + sum(tag.encode()) % 7)
    found = []
    for text in molecules(count):
        longer = f"{tail}{text}"
        found.append(longer if Chem.MolFromSmiles(longer) is not None else text)
    return found


def numbers(count: int, tag: str) -> list[str]:
    """Answers that no other tag has."""
    return [f"{tag} {index}" for index in range(count)]


def with_turns(index: int, smiles: str, tag: str) -> dict[str, Any]:
    """One submission with 5 turns of a tool call and its observation, about 2.8 kB."""
    turns = [
        {
            "message": f"Step {turn}: I look the candidate up and compare its gap. " * 3,
            "calls": [
                {
                    "id": f"c{turn}",
                    "name": "lookup",
                    "arguments": json.dumps({"q": f"{tag} {index} {turn}"}),
                }
            ],
            "observations": [{"call": f"c{turn}", "text": f"entry {index}: gap 4.{turn} eV. " * 12}],
        }
        for turn in range(5)
    ]
    bare = _bare("ingest", "Propose the molecule.", {"smiles": smiles}, smiles, index, tag)
    return bare | {"turns": turns}


def molecule_only(index: int, smiles: str, tag: str) -> dict[str, Any]:
    """One submission for the shipped ladder ``molecule-identity``."""
    return _bare("molecule-identity", "Which molecule is it?", {"smiles": smiles}, smiles, index, tag)


def integers(count: int, tag: str) -> list[str]:
    """Integers that no other tag has."""
    return [str(sum(tag.encode()) * 1_000_000 + index) for index in range(count)]


def sum_only(index: int, text: str, tag: str) -> dict[str, Any]:
    """One submission for the shipped ladder ``math``."""
    answer = f"Adding both numbers gives $\\boxed{{{text}}}$."
    return _bare("math", f"What is {int(text) - 7} + 7?", {"answer": text}, answer, index, tag)


def text_only(index: int, text: str, tag: str) -> dict[str, Any]:
    """One submission for the ladder with one check."""
    return _bare("one-check", f"What is the name of number {index}?", {"text": text}, text, index, tag)


def _bare(
    ladder: str, prompt: str, reference: dict[str, Any], answer: str, index: int, tag: str
) -> dict[str, Any]:
    return {
        "id": f"{tag}-{index}",
        "ladder": ladder,
        "group": f"{tag}-{index // 8}",
        "group_size": 8,
        "problem": {"prompt": prompt, "reference": reference},
        "turns": [],
        "answer": answer,
    }


SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario("full", FULL_LADDER, longer_molecules, with_turns, "identify, 2 gates, judge, 2 process"),
        Scenario("molecule-identity", None, longer_molecules, molecule_only, "identify, judge"),
        Scenario("math", None, integers, sum_only, "judge"),
        Scenario("one-check", ONE_CHECK_LADDER, numbers, text_only, "judge"),
    )
}
