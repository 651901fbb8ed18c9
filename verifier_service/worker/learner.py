"""The sweep's part that fits models: as often as there is something new, and no more than it can afford."""

from __future__ import annotations

import time
from collections.abc import Iterator

from verifier_service.bootstrap import Service
from verifier_service.domain.models import LadderKey

GROWTH = 0.05  # share of new labels that makes a model worth fitting again
PATIENCE_S = 30.0  # after which any new label is enough
FIRST_LOOK_S = 3_600.0
AGAIN_S = 60.0  # between two looks at the rewards that a ladder's models move
REST = 10.0  # times as long as the fitting took


class Learner:
    """One per sweep. Nothing is lost with it: what a model rests on is in the database."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._looked_at: float | None = None
        self._new: dict[LadderKey, int] = {}
        self._rests: dict[LadderKey, float] = {}
        self._fitted_at: dict[LadderKey, float] = {}
        self._moved: dict[LadderKey, int | None] = {}
        self._moved_at: dict[LadderKey, float] = {}

    def step(self) -> None:
        """Fit what is due, then look at the next cases whose reward may have moved."""
        due = self._due()
        alarmed = {key for key in list(self._new) if self._service.watch(key)}
        for key in dict.fromkeys([*due, *sorted(alarmed)]):
            began = time.monotonic()
            if self._service.learn(key):
                self._moved.setdefault(key, 0)
            ended = time.monotonic()
            self._new.pop(key, None)
            self._fitted_at[key] = ended
            self._rests[key] = ended + REST * (ended - began)
        self._tell_moved()

    def _due(self) -> list[LadderKey]:
        with self._service.store.read() as tx:
            now = tx.now()
            since = now - FIRST_LOOK_S if self._looked_at is None else self._looked_at
            for news in (tx.models.labelled(since), tx.retractions.untaught(since)):
                for key, count in news.items():
                    self._new[key] = self._new.get(key, 0) + count
            self._looked_at = now
            return [key for key in self._new if self._is_due(key, tx.models.labels(key))]

    def _is_due(self, key: LadderKey, labels: int) -> bool:
        now = time.monotonic()
        if now < self._rests.get(key, 0.0):
            return False
        waited = now - self._fitted_at.get(key, 0.0) > PATIENCE_S
        return waited or self._new[key] > GROWTH * labels

    def _tell_moved(self) -> None:
        for key in self._ready():
            after = self._moved[key] or 0
            self._moved[key] = self._service.relook(key, after)
            if self._moved[key] is None:
                del self._moved[key]
                self._moved_at[key] = time.monotonic()

    def _ready(self) -> Iterator[LadderKey]:
        now = time.monotonic()
        for key, after in list(self._moved.items()):
            if after or now - self._moved_at.get(key, -AGAIN_S) >= AGAIN_S:
                yield key
