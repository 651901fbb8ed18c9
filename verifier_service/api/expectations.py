"""What the checks of a submission are expected to cost, from prices that this process remembers."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence

from verifier_service.api.threads import in_thread
from verifier_service.bootstrap import Service
from verifier_service.domain.costs import ExpectedCost
from verifier_service.domain.errors import VerificationError
from verifier_service.domain.extraction import candidate_of
from verifier_service.domain.ladders import Ladder
from verifier_service.domain.pricing import Pricing
from verifier_service.domain.trajectories import TrajectorySubmission
from verifier_service.domain.verifiers import CheckInput

log = logging.getLogger(__name__)

EVERY_S = 10.0


class Expectations:
    """Prices of one process, asked of the database at most every ten seconds and never waited for: what is
    declared, or what was known before, is an answer too."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._pricing = Pricing(service.catalog, service.tariff, service.costs)
        self._asked_at = float("-inf")
        self._asking: asyncio.Task[None] | None = None

    def prices(self) -> Pricing:
        """The prices as known; on the loop. Asks for newer ones when these have been known for long."""
        now = time.monotonic()
        if now - self._asked_at >= EVERY_S:
            self._asked_at = now
            self._asking = asyncio.get_running_loop().create_task(self._ask())
        return self._pricing

    async def _ask(self) -> None:
        try:
            self._pricing = await in_thread(self._read)
        except VerificationError as error:
            log.info("prices are as they were: %s", error)

    def _read(self) -> Pricing:
        with self._service.store.read() as tx:
            return self._service.pricing(tx)


def expected_costs(
    pricing: Pricing,
    project: str,
    ladders: Mapping[str, Ladder],
    items: Sequence[TrajectorySubmission | None],
) -> list[ExpectedCost | None]:
    """Of each item of a project, in order; ``None`` where there is nothing yet that has a price."""
    flat: dict[str, ExpectedCost | None] = {
        name: None if pricing.priced(ladder) else pricing.of_ladder(project, ladder, None)
        for name, ladder in ladders.items()
    }
    return [
        None if item is None or not item.finished else _of(pricing, project, ladders, flat, item)
        for item in items
    ]


def _of(
    pricing: Pricing,
    project: str,
    ladders: Mapping[str, Ladder],
    flat: Mapping[str, ExpectedCost | None],
    item: TrajectorySubmission,
) -> ExpectedCost | None:
    ladder, price = ladders.get(item.ladder), flat.get(item.ladder)
    if ladder is None or price is not None:
        return price
    candidate = candidate_of(ladder.spec.candidate, item.answer, item.turns)
    return pricing.of_ladder(project, ladder, CheckInput(candidate=candidate, inputs=item.problem.inputs))
