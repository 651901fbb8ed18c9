"""Where an adapter that a trainer loads by its path finds how to ask: it is called without arguments."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import cast, get_args

from verifier_service.domain.wire import UNTIL_COMPUTED, Until
from verifier_service.trainers.scoring import Misconfigured, Scoring

RUN, LADDER, UNTIL, SECONDS = "VERIFIER_RUN", "VERIFIER_LADDER", "VERIFIER_UNTIL", "VERIFIER_SECONDS"


def scoring_of(look: Callable[[str], object] = os.environ.get) -> Scoring:
    """The scoring that ``VERIFIER_RUN``, ``VERIFIER_LADDER`` and, where they are set, ``VERIFIER_UNTIL``
    and ``VERIFIER_SECONDS`` say; ``look`` gives the value of a name, or null. Raises ``Misconfigured``."""
    until, seconds = str(look(UNTIL) or UNTIL_COMPUTED), look(SECONDS)
    if until not in get_args(Until):
        raise Misconfigured(f"{UNTIL}: one of {', '.join(get_args(Until))}, not {until!r}")
    try:
        wait = 60.0 if seconds is None else float(str(seconds))
    except ValueError:
        wait = -1.0
    if not 0.0 <= wait < math.inf:
        raise Misconfigured(f"{SECONDS}: a number of seconds, not {seconds!r}")
    return Scoring(
        run=_needed(look, RUN), ladder=_needed(look, LADDER), until=cast(Until, until), seconds=wait
    )


def _needed(look: Callable[[str], object], name: str) -> str:
    value = look(name)
    if not value:
        raise Misconfigured(f"{name} is not set")
    return str(value)
