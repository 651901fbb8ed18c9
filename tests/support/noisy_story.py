"""The ladders of ``tests.support.noisy`` with real children, in stories."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tiers.catalog import VerifierCatalog
from tiers.catalog_sources import Sources
from tiers.harness import ProcessHarness
from tiers.harness_options import HarnessOptions

PLUGINS = ("tests.support.noisy",)


@contextmanager
def children() -> Iterator[ProcessHarness]:
    """A harness whose children know these verifiers."""
    harness = ProcessHarness(VerifierCatalog(Sources(PLUGINS)), HarnessOptions(plugins=PLUGINS))
    yield harness
    harness.close()
