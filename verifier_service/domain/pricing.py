"""What checks are expected to cost, by what was learned of such checks and how large their items are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from verifier_service.domain.cases import Body, Case, Standing
from verifier_service.domain.checks import Claim
from verifier_service.domain.costs import ExpectedCost
from verifier_service.domain.evidence import Cost, Tier
from verifier_service.domain.extraction import candidate_of
from verifier_service.domain.ladders import CandidateSpec, Ladder, Rung
from verifier_service.domain.planning import rung_method
from verifier_service.domain.ports.catalog import Catalog
from verifier_service.domain.ports.costs import CostModel
from verifier_service.domain.ports.policy import Tariff
from verifier_service.domain.records import JsonObject
from verifier_service.domain.review_queues import queue_of
from verifier_service.domain.verifiers import CheckInput, VerifierInfo, expected_cost

QUICK_S = 0.02  # of CPU: what takes less has no price worth learning
QUICK_MOST_S = 0.5
QUICK_FACTOR = 25.0
CAUTION = 2.0


def is_priced(info: VerifierInfo) -> bool:
    """Whether the price of a verifier's checks is learned; of others it is what they declare."""
    return not info.external and info.typical_cpu_s > QUICK_S


@dataclass(frozen=True, slots=True)
class Pricing:
    """Expected prices as learned so far. ``fits``: what was learned, by method (``ports.costs``).
    ``approvals``: votes per item of the queues that ask for several, by project and queue."""

    catalog: Catalog
    tariff: Tariff
    model: CostModel
    fits: Mapping[str, str] = field(default_factory=dict)
    approvals: Mapping[tuple[str, str], int] = field(default_factory=dict)

    def credits(self, project: str, rung: Rung, item: CheckInput | None) -> float:
        """Expected credits of one check of a rung; an unknown item is of typical size."""
        return self.tariff.credits(self.cost(project, rung, item))

    def cost(self, project: str, rung: Rung, item: CheckInput | None) -> Cost:
        """What one check of a rung is expected to consume. Raises ``NotFound`` for an unknown verifier."""
        method = rung_method(self.catalog, rung)
        return self._cost(project, rung.use.use, rung.use.params, method, item)

    def of_claim(self, claim: Claim) -> float:
        """Expected credits of a claimed check. Raises ``NotFound`` for an unknown verifier."""
        item = None
        if is_priced(self.catalog.verifier(claim.verifier)):
            item = CheckInput.model_validate_json(claim.item)
        return self.tariff.credits(
            self._cost(claim.project, claim.verifier, claim.params, claim.method, item)
        )

    def most_of_claim(self, claim: Claim) -> float:
        """Credits that an attempt at a claimed check hardly ever exceeds: twice the 95 % quantile where its
        price is learned, else what a check that is quick by its declaration may take. Never more than the
        time limit costs. Raises ``NotFound`` for an unknown verifier."""
        info = self.catalog.verifier(claim.verifier)
        if not is_priced(info):
            most = max(QUICK_MOST_S, QUICK_FACTOR * expected_cost(info, claim.params).cpu_s)
        else:
            item = CheckInput.model_validate_json(claim.item)
            size = self.catalog.size(claim.verifier, claim.params, item)
            fit = None if claim.method is None else self.fits.get(claim.method)
            most = CAUTION * self.model.predict(info, size, fit).upper()
        return self.tariff.credits(Cost(cpu_s=min(info.limits.time_s, most)))

    def _cost(
        self, project: str, verifier: str, params: JsonObject, method: str | None, item: CheckInput | None
    ) -> Cost:
        info = self.catalog.verifier(verifier)
        declared = expected_cost(info, params, self.approvals.get((project, queue_of(params)), 1))
        if method is None or not is_priced(info):
            return declared
        size = info.typical_size if item is None else self.catalog.size(verifier, params, item)
        predicted = self.model.predict(info, size, self.fits.get(method))
        return declared.model_copy(update={"cpu_s": predicted.cpu_s})

    def of_ladder(self, project: str, ladder: Ladder, item: CheckInput | None) -> ExpectedCost:
        """Expected credits of all checks of a ladder, tier by tier."""
        tiers: dict[Tier, float] = {}
        for rung in self._usable(ladder):
            tiers[rung.tier] = tiers.get(rung.tier, 0.0) + self.credits(project, rung, item)
        reached = (price for tier, price in tiers.items() if tier.rank <= ladder.spec.truth.rank)
        return ExpectedCost(credits=sum(reached), tiers=tiers)

    def priced(self, ladder: Ladder) -> list[VerifierInfo]:
        """The verifiers of a ladder whose price is learned."""
        infos = (self.catalog.verifier(rung.use.use) for rung in self._usable(ladder))
        return [info for info in infos if is_priced(info)]

    def _usable(self, ladder: Ladder) -> list[Rung]:
        return [rung for rung in ladder.rungs if rung_method(self.catalog, rung) is not None]

    def needs_body(self, case: Case) -> bool:
        """Whether what a case's checks above the fast tier cost depends on more of it than its canonical
        form."""
        unnamed = case.standing.canonical is None
        return any(
            info.tier is not Tier.FAST and (unnamed or info.reads != {"candidate"})
            for info in self.priced(case.ladder)
        )


@dataclass(frozen=True, slots=True)
class Quotes:
    """Prices for the cases of one decision; ``bodies`` of those that need one, by trajectory; ``known``:
    rungs, as trajectory and path, whose evidence is at hand."""

    pricing: Pricing
    bodies: Mapping[int, Body] = field(default_factory=dict)
    known: frozenset[tuple[int, str]] = frozenset()

    def of(self, case: Case, rung: Rung) -> float:
        """Expected credits of one check of a rung for a case."""
        if (case.standing.pk, rung.path) in self.known:
            return 0.0
        body = self.bodies.get(case.standing.pk)
        item = case_item(case.standing, case.ladder.spec.candidate, body)
        return self.pricing.credits(case.standing.project, rung, item)


def case_item(standing: Standing, source: CandidateSpec, body: Body | None) -> CheckInput | None:
    """What is known of a case's item without its reference; ``None`` while its candidate is not."""
    inputs = {} if body is None else body.inputs
    if standing.canonical is not None:
        return CheckInput(candidate=standing.canonical, inputs=inputs)
    if body is None:
        return None
    return CheckInput(candidate=candidate_of(source, body.answer, body.turns), inputs=inputs)
