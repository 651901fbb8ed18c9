"""Quotes follow what checks of that size took; whoever submits is told what to expect."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from scheduler.cost_model import PowerLaw
from scheduler.costs import HourlyTariff
from tests.support import server
from tests.support.server import fresh, identity
from tests.support.story import Story
from tiers.catalog import TIERS_FOLDER, VerifierCatalog
from verifier_service.api.expectations import Expectations, expected_costs
from verifier_service.domain.checks import DemandView
from verifier_service.domain.costs import NotedAttempt
from verifier_service.domain.evidence import Cost, Tier
from verifier_service.domain.ladders import Ladder, LadderSpec
from verifier_service.domain.planning import rung_method
from verifier_service.domain.pricing import Pricing
from verifier_service.domain.states import DemandState
from verifier_service.domain.trajectories import TrajectorySubmission

SMALL, LARGE = "C" * 8, "C" * 40
WATER = "3\n\nO 0 0 0\nH 0.76 0.59 0\nH -0.76 0.59 0"


def demands(told: Story, run: str, trajectory: str) -> dict[Tier, DemandView]:
    with told.service.store.read() as tx:
        [case] = tx.trajectories.cases([told.standing(run, trajectory).pk])
    return {demand.tier: demand for demand in case.demands if demand.tier is not Tier.FAST}


def methods(told: Story) -> dict[str, str]:
    with told.service.store.read() as tx:
        assert not tx.costs.noted()
        return dict(tx.costs.fits())


def asked(told: Story, run: str, tier: Tier, *items: dict[str, Any]) -> list[DemandView]:
    """What is decided once the fast tier has ended; nothing of it is run."""
    told.submit(run, *({"id": f"t{at}", **item} for at, item in enumerate(items)))
    told.fast()
    told.service.decide("default", run)
    return [demands(told, run, f"t{at}")[tier] for at in range(len(items))]


def test_before_any_data_a_larger_molecule_has_a_larger_quote(told: Story) -> None:
    items = ({"answer": answer, "ladder": "organic-gap"} for answer in (SMALL, LARGE))
    small, large = asked(told, "r", Tier.SIMULATION, *items)
    assert small.state is large.state is DemandState.REQUESTED
    assert large.quote > 10 * small.quote > 0.0


def test_a_structure_is_priced_by_its_text_and_basis(told: Story) -> None:
    item = {"ladder": "quantum-energy", "answer": {"xyz": WATER}}
    problems = ({"prompt": "x", "inputs": inputs} for inputs in ({}, {"basis": "def2-tzvp"}))
    small, large = asked(told, "r", Tier.HIGH_FIDELITY, *({**item, "problem": one} for one in problems))
    assert large.quote == pytest.approx(small.quote * (43 / 7) ** 2.5)


def test_quotes_come_down_to_what_checks_take(told: Story) -> None:
    told.submit("r", {"id": "first", "answer": "CCCC"})
    told.rest()
    declared = demands(told, "r", "first")[Tier.SIMULATION].quote
    assert declared == pytest.approx(told.service.tariff.credits(Cost(cpu_s=1.0)))
    assert len(methods(told)) == 2  # simulation and high fidelity: what is quick is not noted
    told.submit("r", *({"id": f"t{index}", "answer": "C" * (index + 5)} for index in range(12)))
    told.rest()
    told.submit("r", {"id": "last", "answer": "CCC"})
    told.rest()
    assert demands(told, "r", "last")[Tier.SIMULATION].quote < 0.1 * declared


def test_a_budget_below_what_is_declared_pays_for_what_is_learned(told: Story) -> None:
    covers = told.service.tariff.credits(Cost(cpu_s=0.3))  # declared is 1 s, and it takes milliseconds
    told.put_run("before", compute=covers)
    told.submit("before", {"id": "t", "answer": "CCC"})
    told.rest()
    assert demands(told, "before", "t")[Tier.SIMULATION].state is DemandState.HELD
    told.submit("r", *({"id": f"t{index}", "answer": "C" * (index + 5)} for index in range(12)))
    told.rest()
    told.put_run("after", compute=covers)
    told.submit("after", {"id": "t", "answer": "CC"})
    told.rest()
    assert demands(told, "after", "t")[Tier.SIMULATION].state is DemandState.SATISFIED
    assert told.latest("after", "t").outcome is not None
    [account] = [one for one in told.run("after").accounts if one.kind == "compute"]
    assert account.spent <= covers


def test_what_fails_is_noted_as_well(told: Story) -> None:
    failing = {"prompt": "x", "inputs": {"fail": "permanent"}}
    told.submit(
        "r", *({"id": f"t{index}", "answer": "C" * (index + 1), "problem": failing} for index in range(9))
    )
    told.rest()
    info = told.service.catalog.verifier("test.rough")
    predicted = [told.service.costs.predict(info, 4.0, fit) for fit in methods(told).values()]
    assert predicted
    assert all(one.retries > 1.0 for one in predicted)


def organic_gap() -> Ladder:
    text = (TIERS_FOLDER / "ladders" / "organic-gap.json").read_text("utf-8")
    return Ladder(name="organic-gap", version=1, digest="d", spec=LadderSpec.model_validate_json(text))


def trajectory(answer: str) -> TrajectorySubmission:
    return TrajectorySubmission.model_validate(
        {"ladder": "organic-gap", "answer": answer, "problem": {"prompt": "x"}}
    )


def test_what_was_learned_is_expected() -> None:
    catalog, model, ladder = VerifierCatalog(), PowerLaw(), organic_gap()
    plain = Pricing(catalog, HourlyTariff(), model)
    rung = ladder.rung_at["high_fidelity/0"]
    method = rung_method(catalog, rung)
    assert method is not None
    took = [NotedAttempt("pyscf.gap", method, 202.0, 1_000.0, True)] * 20
    fit = model.learn(catalog.verifier("pyscf.gap"), took, None).fit
    informed = Pricing(catalog, HourlyTariff(), model, {method: fit})
    ladders = {"organic-gap": ladder}
    [before], [after] = (
        expected_costs(one, "p", ladders, [trajectory(SMALL)]) for one in (plain, informed)
    )
    assert before is not None
    assert after is not None
    assert after.tiers[Tier.HIGH_FIDELITY] == pytest.approx(1_000.0 * 0.05 / 3_600.0, rel=0.1)
    assert after.tiers[Tier.SIMULATION] == before.tiers[Tier.SIMULATION]
    assert after.credits > 10 * before.credits
    assert expected_costs(plain, "p", {}, [trajectory(SMALL), None]) == [None, None]


def test_the_database_is_asked_once_for_thousands_of_items() -> None:
    asked: list[int] = []

    class Store:
        @contextmanager
        def read(self) -> Iterator[None]:
            asked.append(1)
            yield

    newer = Pricing(VerifierCatalog(), HourlyTariff(), PowerLaw(), {"m": "learned"})
    service = SimpleNamespace(
        catalog=newer.catalog,
        tariff=newer.tariff,
        costs=newer.model,
        store=Store(),
        pricing=lambda _: newer,
    )

    async def ask() -> list[Pricing]:
        expectations = Expectations(service)  # type: ignore[arg-type]
        found = [expectations.prices() for _ in range(1_000)]
        while expectations.prices() is not newer:
            await asyncio.sleep(0.001)
        return found

    first = asyncio.run(ask())
    assert {len(one.fits) for one in first} == {0}  # nobody waited
    assert len(asked) == 1


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with server.shared().client() as client:
        yield client


def test_a_submission_is_told_what_it_would_cost(client: httpx.Client) -> None:
    run = fresh()
    assert client.put(f"/v1/runs/{run}", json={"budgets": {"compute": 1e-9}}).is_success
    items: list[dict[str, Any]] = [
        {"id": answer, "ladder": "organic-gap", "problem": {"prompt": "x"}, "answer": answer}
        for answer in (SMALL, LARGE)
    ]
    unfinished = {**items[0], "id": "later", "answer": None, "finished": False}
    body = {"trajectories": [*items, items[0], unfinished, {"ladder": "nobody"}, identity("OCC")]}
    answer = client.post(f"/v1/runs/{run}/trajectories", json=body)
    assert answer.is_success, answer.text
    costs = [result["expected_cost"] for result in answer.json()["results"]]
    small, large, *nothing, other = costs
    assert nothing == [None, None, None]  # a duplicate, one that is not finished, an invalid one
    assert list(small["tiers"]) == ["fast", "simulation", "high_fidelity", "lab"]
    assert large["tiers"]["high_fidelity"] > 30 * small["tiers"]["high_fidelity"]
    assert small["tiers"]["lab"] == large["tiers"]["lab"] == pytest.approx(15.0)
    below = [small["tiers"][tier] for tier in ("fast", "simulation", "high_fidelity")]
    assert small["credits"] == pytest.approx(sum(below))
    assert below == sorted(below)
    assert other["tiers"] == {"fast": other["credits"]}
    assert 0.0 < other["credits"] < 1e-6
