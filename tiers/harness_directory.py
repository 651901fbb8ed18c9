"""Which verifiers a harness can run, and in which lane each of them runs."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from tiers.harness_blame import refused
from tiers.harness_options import HarnessOptions, Lane, lane_of
from verifier_service.domain.errors import NotFound
from verifier_service.domain.evidence import Failure
from verifier_service.domain.ports.catalog import Catalog
from verifier_service.domain.verifiers import VerifierInfo


class Listed(NamedTuple):
    """A verifier that can be run here."""

    info: VerifierInfo
    lane: Lane


class Directory:
    """What the catalogue and the options say about each verifier, asked once."""

    def __init__(self, catalog: Catalog, options: HarnessOptions) -> None:
        self._catalog = catalog
        self._options = options
        self._known: dict[str, Listed | Failure] = {}
        self._by_lane: dict[str, set[str]] = {}
        for listing in catalog.list():
            lane = lane_of(listing.info, options)
            self._by_lane.setdefault(lane.name, set()).add(listing.info.name)

    def find(self, name: str) -> Listed | Failure:
        """Return a verifier, or why its jobs are refused."""
        if name not in self._known:
            self._known[name] = self._look_up(name)
        return self._known[name]

    def names(self, lanes: Collection[str]) -> frozenset[str]:
        """The verifiers of these lanes."""
        if not lanes:
            return frozenset()
        return frozenset(name for lane in lanes for name in self._by_lane.get(lane, ()))

    def _look_up(self, name: str) -> Listed | Failure:
        try:
            info = self._catalog.verifier(name)
        except NotFound as error:
            return refused(error.code, error.message)
        if info.external:
            return refused("external_verifier", f"{info.name} is not executed")
        return Listed(info, lane_of(info, self._options))
