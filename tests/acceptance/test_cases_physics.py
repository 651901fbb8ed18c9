"""Submitted structures over HTTP, through the shipped ladder ``quantum-energy``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support import server
from tests.support.server import fresh, submit

WATER = "3\nwater\nO 0 0 0\nH 0.96 0 0\nH -0.24 0.93 0\n"
ATOMS = "O 0 0 0\nH 0.96 0 0\nH -0.24 0.93 0\n"
HYDROXYL = "2\nOH\nO 0 0 0\nH 0 0 0.97\n"
HYDROGEN = "1\nH\nH 0 0 0\n"
HELIUM_PAIR = "2\nHe2\nHe 0 0 0\nHe 0 0 100\n"
WATER_ENERGY = -74.963359


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with server.shared().client() as client:
        yield client


def energy(xyz: Any, reference: float | None = None, **inputs: Any) -> dict[str, Any]:
    problem = {"inputs": inputs, "reference": {} if reference is None else {"energy": reference}}
    return {"id": fresh("e"), "ladder": "quantum-energy", "problem": problem, "answer": {"xyz": xyz}}


def results_of(client: httpx.Client, *items: dict[str, Any]) -> list[dict[str, Any]]:
    return submit(client, fresh(), *items, seconds=110)


def value(result: dict[str, Any]) -> float:
    [measured] = [m for m in result["reward"]["measurements"] if not m["quantity"].endswith("/stable")]
    assert measured["unit"] == "Ha"
    return float(measured["value"])


def test_impossible_electrons_are_refused_at_the_door(client: httpx.Client) -> None:
    results = results_of(
        client,
        energy(HYDROXYL, charge=0, spin_2S=0),
        energy(HYDROGEN, charge=0, spin_2S=5),
        energy(WATER, charge=10, spin_2S=0),
        energy(WATER, spin_2S=1),
        energy(HYDROXYL, charge=1, spin_2S=1),
        energy(WATER, spin_2S=0, multiplicity=3),
        energy(HYDROXYL, charge=0, spin_2S=1, method="UHF/STO-3G"),
    )
    for result in results[:6]:
        assert result["status"] == "invalid"
        assert result["error"]["code"] == "charge_spin_inconsistent"
        assert result["reward"] is None
    assert results[6]["status"] == "accepted"
    assert results[6]["reward"]["reward"] == 1.0
    assert value(results[6]) == pytest.approx(-74.362669, abs=2e-6)


def test_an_energy_that_did_not_converge_is_no_energy(client: httpx.Client) -> None:
    unconverged, converged, wrong = results_of(
        client,
        energy(WATER, WATER_ENERGY, method="RHF/STO-3G", max_cycle=1),
        energy(WATER, WATER_ENERGY, method="RHF/STO-3G"),
        energy(WATER, -74.9, method="RHF/STO-3G"),
    )
    assert (unconverged["reward"]["reward"], unconverged["reward"]["status"]) == (None, "unscored")
    assert unconverged["reward"]["reason"]["detail"] == "not_converged"
    assert unconverged["reward"]["measurements"] == []
    assert converged["reward"]["reward"] == 1.0
    assert value(converged) == pytest.approx(WATER_ENERGY, abs=2e-6)
    assert wrong["reward"]["reward"] == 0.0
    assert wrong["reward"]["reason"]["detail"] == "energy_mismatch"


def test_dialects_of_xyz(client: httpx.Client) -> None:
    charges = "O 0 0 0 -0.4\nH 0.96 0 0 0.2\nH -0.24 0.93 0 0.2\n"
    qm9 = f"3\n17 gdb 1\n{charges}1341.3 1562.6\nO\nInChI=1S/H2O/h1H2\n"
    read = [
        energy("3\n\nO\t0\t0\t0\nH\t0.96\t0\t0\nH\t-0.24\t0.93\t0\n"),
        energy(qm9),
        energy(WATER.replace("\n", "\r\n")),
        energy("3\n42\n" + ATOMS),
    ]
    refused = [
        energy("3\n" + ATOMS),
        energy("3\nx\nO 0 0 0\nH 0,96 0 0\nH -0,24 0,93 0\n"),
        energy("4\nx\n" + ATOMS),
        energy("2\nx\n" + ATOMS),
        energy("3\nx\nO 0 0 nan\nH 0.96 0 0\nH -0.24 0.93 0\n"),
        energy("3\nx\nO 0 0 inf\nH 0.96 0 0\nH -0.24 0.93 0\n"),
        energy("3\nx\nO 0 0 ********\nH 0.96 0 0\nH -0.24 0.93 0\n"),
        energy("3\nx\nO 0 0 __import__('os')\nH 0.96 0 0\nH -0.24 0.93 0\n"),
        energy(""),
    ]
    results = results_of(client, *read, *refused)
    for result in results[: len(read)]:
        assert result["reward"]["reward"] == 1.0
        assert value(result) == pytest.approx(WATER_ENERGY, abs=2e-6)
    assert "ignored" in {hint["kind"] for hint in results[1]["reward"]["hints"]}
    codes = [_refusal(result) for result in results[len(read) :]]
    assert codes[:3] == ["missing_comment_line", "bad_number", "atom_count"]
    assert codes[4:6] == ["non_finite", "non_finite"]
    assert codes[6:8] == ["bad_number", "bad_number"]
    assert None not in codes


def _refusal(result: dict[str, Any]) -> str | None:
    """The named reason, whether it was given at the door or as the floor."""
    if result["status"] == "invalid":
        return str(result["error"]["code"])
    return str(result["reward"]["reason"]["detail"]) if result["reward"]["reward"] == 0.0 else None


def test_single_atoms_and_far_fragments(client: httpx.Client) -> None:
    atom, pair, molecule, cation = results_of(
        client,
        energy(HYDROGEN, spin_2S=1, method="UHF/STO-3G"),
        energy(HELIUM_PAIR, method="RHF/STO-3G"),
        energy(HELIUM_PAIR, method="RHF/STO-3G", task="molecule"),
        energy(HYDROGEN, charge=-1, spin_2S=0),
    )
    assert value(atom) == pytest.approx(-0.466582, abs=2e-6)
    assert value(pair) == pytest.approx(-5.615568, abs=2e-6)
    assert pair["reward"]["reward"] == 1.0
    assert "disconnected" in {hint["kind"] for hint in pair["reward"]["hints"]}
    assert molecule["reward"]["reward"] == 0.0
    assert molecule["reward"]["reason"]["detail"] == "disconnected"
    assert cation["reward"]["reward"] == 1.0
