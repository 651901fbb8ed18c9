"""Verifiers that not every worker runs, for tests of routing: like ``hostile`` they do as they are told."""

from __future__ import annotations

import os

from tests.support.verifiers import Hostile, info
from verifier_service.domain.resources import Needs
from verifier_service.domain.verifiers import Limits

VERSION = "TEST_PLACED_VERSION"  # which version a worker's installation has
LONG = Limits(time_s=600.0, memory_mb=1_024, max_batch=256)


class Tagged(Hostile):
    """Needs a worker with a tag."""

    info = info("placed.tagged", needs=Needs(tags=("a100",)), limits=LONG)


class Versioned(Hostile):
    """Its version differs between installations."""

    info = info("placed.versioned", version=os.environ.get(VERSION, "1"), limits=LONG)


class Large(Hostile):
    """Needs more memory than any machine has."""

    info = info("placed.large", limits=Limits(time_s=5.0, memory_mb=1 << 30))


VERIFIERS = (Tagged, Versioned, Large)
