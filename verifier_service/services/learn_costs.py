"""Learn what checks cost from the attempts that have ended since the last time."""

from __future__ import annotations

from collections import defaultdict

from verifier_service.domain.costs import NotedAttempt
from verifier_service.domain.errors import NotFound
from verifier_service.domain.ports.catalog import Catalog
from verifier_service.domain.ports.costs import CostModel
from verifier_service.domain.ports.store import Transaction

LIMIT = 1_000
LOCK = "costs"


def learn_costs(tx: Transaction, catalog: Catalog, model: CostModel, limit: int = LIMIT) -> int:
    """Take noted attempts in, one method after the other; how many there were.

    Those of a verifier that is not installed here are dropped: nobody can ask for its price.
    """
    if not tx.try_lock(LOCK):
        return 0
    of_method: dict[tuple[str, str], list[NotedAttempt]] = defaultdict(list)
    taken = tx.costs.take(limit)
    for attempt in taken:
        of_method[attempt.verifier, attempt.method].append(attempt)
    for (verifier, method), attempts in sorted(of_method.items()):
        try:
            info = catalog.verifier(verifier)
        except NotFound:
            continue
        tx.costs.put(verifier, method, model.learn(info, attempts, tx.costs.learned(method)))
    return len(taken)
