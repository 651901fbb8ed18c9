"""Molecules over HTTP, through the shipped ladders: identity, and what is valid but absurd."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support import server
from tests.support.server import fresh, identity, submit


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with server.shared().client() as client:
        yield client


def judged(client: httpx.Client, *items: dict[str, Any]) -> list[dict[str, Any]]:
    """The reward records of items, in order; all are taken and all are judged."""
    results = submit(client, fresh(), *items)
    assert [result["status"] for result in results] == ["accepted"] * len(items), results
    return [result["reward"] for result in results]


def refusals(client: httpx.Client, *items: dict[str, Any]) -> list[str | None]:
    """Why each item got the floor; ``None`` where it did not."""
    return [
        record["reason"]["detail"] if record["reward"] == 0.0 else None for record in judged(client, *items)
    ]


EMPTY = ["", " ", "\t", "\n", "  \r\n", "\u00a0", None]


def test_no_molecule_is_no_molecule(client: httpx.Client) -> None:
    gaps = [{"id": fresh("g"), "ladder": "organic-gap", "answer": answer} for answer in EMPTY]
    records = judged(client, *[identity(answer) for answer in EMPTY], *gaps)
    for record in records:
        assert (record["reward"], record["status"]) == (0.0, "final")
        assert record["reason"]["code"] == "rejected"
        assert record["measurements"] == []
    details = [record["reason"]["detail"] for record in records]
    assert details[:5] == ["empty_structure"] * 5
    assert details[6] == "empty_structure"


PORPHYRAZINES = (
    "CC(C)(C)COc1ccc2c(c1)C1=NC3=NC(=NC4=NC(=NC5=NC(=NC2=N1)c1ccc(OCC(C)(C)C)cc15)"
    "c1cc(OCC(C)(C)C)ccc14)c1cc(OCC(C)(C)C)ccc13",
    "CC(C)(C)COc1ccc2c(c1)C1=NC2=NC2=NC(=NC3=NC(=NC4=NC(=N1)c1ccc(OCC(C)(C)C)cc14)"
    "c1ccc(OCC(C)(C)C)cc13)c1cc(OCC(C)(C)C)ccc12",
)


def test_two_spellings_are_one_molecule(client: httpx.Client) -> None:
    pairs = [
        PORPHYRAZINES,
        PORPHYRAZINES[::-1],
        ("C1=CC=CC=C1", "c1ccccc1"),
        ("c1ccc2ccccc2c1", "C1=CC=C2C=CC=CC2=C1"),
        ("OCC", "CCO"),
        ("[H]OC([H])([H])C", "CCO"),
        ("F/C=C/F", "F\\C=C\\F"),
        ("N[C@@H](C)C(=O)O", "C[C@H](N)C(O)=O"),
        ("C[N+](=O)[O-]", "[O-][N+](=O)C"),
    ]
    assert [record["reward"] for record in judged(client, *[identity(*pair) for pair in pairs])] == [
        1.0
    ] * 9


def test_stereo_and_other_isomers_are_other_molecules(client: httpx.Client) -> None:
    pairs = [
        ("F/C=C/F", "F/C=C\\F"),
        ("N[C@@H](C)C(=O)O", "N[C@H](C)C(=O)O"),
        ("CCO", "COC"),
        ("CCO", "CC=O"),
    ]
    assert refusals(client, *[identity(*pair) for pair in pairs]) == ["different_molecule"] * 4


def test_isotopes_and_radicals_are_identity(client: httpx.Client) -> None:
    pairs = [
        ("[2H]OC", "CO"),
        ("[2H]C([2H])([2H])O", "CO"),
        ("[13CH3]O", "CO"),
        ("CO", "[2H]OC"),
        ("C[CH2]", "CC"),
        ("[CH3]", "C"),
        ("C[O]", "CO"),
    ]
    records = judged(client, *[identity(*pair) for pair in pairs])
    assert [record["reward"] for record in records] == [0.0] * 7
    for record in records[4:]:
        assert "radical" in {hint["kind"] for hint in record["hints"]}
    [same] = judged(client, identity("OC[2H]", "[2H]CO"))
    assert same["reward"] == 1.0


def test_a_labelled_tautomer_does_not_crash(client: httpx.Client) -> None:
    labelled = "[2H]C([2H])(C(=O)O)C([2H])([2H])C=O"
    inputs = {"identity": "tautomer"}
    same, other, plain = judged(
        client,
        identity(labelled, labelled, inputs=inputs),
        identity("CCO", labelled, inputs=inputs),
        identity("O=c1cccc[nH]1", "Oc1ccccn1", inputs=inputs),
    )
    assert same["reward"] == 1.0 or same["reward"] is None
    assert other["reward"] == 0.0 or other["reward"] is None
    assert plain["reward"] == 1.0


def test_unfinished_molecules_are_refused(client: httpx.Client) -> None:
    answers = ["*", "CC*", "[*:1]c1ccccc1", "[R1]CC", "C%99*C%99", "[*]"]
    refused = refusals(client, *[identity(answer, "CCO") for answer in answers])
    assert refused[:3] == ["dummy_atom"] * 3
    assert None not in refused
    assert refused[5] == "dummy_atom"
    assert refusals(client, identity("*CC*", "CC*")) == ["dummy_atom"]


def test_pieces_are_never_dropped_in_silence(client: httpx.Client) -> None:
    def of(answer: str, gold: str, level: str = "default") -> dict[str, Any]:
        return identity(answer, gold, inputs={"identity": level})

    assert (
        refusals(
            client,
            of("CCO.c1ccccc1", "CCO"),
            of("CCO.CCO", "CCO"),
            of("CCO.O", "CCO"),
            of("CC(=O)[O-].[Na+]", "CC(=O)O"),
        )
        == ["multiple_fragments"] * 4
    )
    assert (
        refusals(
            client,
            of("[Na]Cl", "[Na+].[Cl-]", "inchikey"),
            of("[Cl-].[Na+]", "[Na+].[Cl-]"),
            of("CC(=O)[O-].[Na+]", "CC(=O)O", "parent"),
            of("N.Cl", "[NH4+].[Cl-]", "inchikey"),
        )
        == [None] * 4
    )


def test_a_merged_match_says_so(client: httpx.Client) -> None:
    run, item = fresh(), identity("N.Cl", "[NH4+].[Cl-]", inputs={"identity": "inchikey"})
    submit(client, run, item)
    case = client.get(f"/v1/runs/{run}/trajectories/{item['id']}").json()
    assumed = [demand["check"]["evidence"]["assumptions"] for demand in case["demands"] if demand["check"]]
    assert any("InChI merges" in each for found in assumed for each in found)


def test_absurd_molecules_are_valid_and_refused(client: httpx.Client) -> None:
    answers = ["NN=NN=NNN=NN", "COOOOOO", "NN=NN=NNN=N", "COOOC"]
    run = fresh()
    items = [{"id": fresh("a"), "ladder": "organic-gap", "answer": answer} for answer in answers]
    results = submit(client, run, *items, until="fast")
    for result in results:
        assert (result["reward"]["reward"], result["reward"]["status"]) == (0.0, "provisional")
        assert result["reward"]["reason"]["detail"] == "implausible"
    case = client.get(f"/v1/runs/{run}/trajectories/{items[0]['id']}").json()
    verdicts = {
        demand["check"]["verifier"]: demand["check"]["evidence"]["verdict"]
        for demand in case["demands"]
        if demand["check"] and demand["check"]["evidence"]
    }
    assert (verdicts["molecule.validity"], verdicts["molecule.plausibility"]) == ("accept", "reject")


def test_a_task_without_gold_scores_nobody(client: httpx.Client) -> None:
    records = judged(
        client,
        identity("CCO", None),
        identity("CCO", "not a molecule"),
        identity("CCO", "CCO", inputs={"identity": "vibes"}),
        identity("CCO", ""),
    )
    assert [(record["reward"], record["status"]) for record in records] == [(None, "unscored")] * 4
    assert {record["reason"]["code"] for record in records} == {"task_error"}


def test_what_is_not_one_molecule_text_is_refused_by_name(client: httpx.Client) -> None:
    answers = [
        "C C",
        "CCO extra",
        "CCO>>CC=O",
        "ССО",
        "C" * 30_000,
        "c1ccc",
        "C(C)(C)(C)(C)C",
        "xyz",
        7,
        ["C"],
    ]
    body = {
        "trajectories": [identity(answer) for answer in answers],
        "wait": {"until": "final", "seconds": 30},
    }
    results = client.post(f"/v1/runs/{fresh()}/trajectories", json=body).json()["results"]
    for result in results[:8]:
        assert result["reward"]["reward"] == 0.0
        assert result["reward"]["reason"]["detail"]
    assert [result["status"] for result in results[8:]] == ["invalid", "invalid"]
