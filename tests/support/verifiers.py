"""Verifiers that misbehave on request, for tests of the harness.

``hostile`` does what its candidate names: ``{"do": "spin"}``. ``strict`` is the same with limits that
count against the candidate.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from typing import Any

from tests.support.acts import ACTS, accept
from verifier_service.domain.evidence import Finding, Outcome, Reason, Tier, Verdict
from verifier_service.domain.verifiers import CheckInput, Limits, Params, Verifier, VerifierInfo


def info(name: str, **changes: Any) -> VerifierInfo:
    """A declaration with test defaults."""
    fields: dict[str, Any] = {
        "name": name,
        "version": "1",
        "tier": Tier.FAST,
        "summary": "for tests",
        "libraries": ("pydantic",),
        "limits": Limits(time_s=5.0, memory_mb=1024, max_batch=256),
    }
    return VerifierInfo(**{**fields, **changes})


class Hostile(Verifier):
    """Does what the candidate says."""

    info = info("hostile")

    def verify(self, item: CheckInput, params: Params) -> Finding:
        assert isinstance(item.candidate, dict)
        return ACTS[str(item.candidate["do"])](item.candidate)


class Strict(Hostile):
    """Limits are the candidate's own doing."""

    info = info("strict", on_limit="reject")


class Spoken(Hostile):
    """As ``hostile``, told in a text: the last line is the act as JSON; anything else is a wrong answer."""

    info = info("spoken")

    def verify(self, item: CheckInput, params: Params) -> Finding:
        lines = str(item.candidate).strip().splitlines()
        try:
            act = json.loads(lines[-1])
            do = ACTS[act["do"]]
        except (ValueError, LookupError, TypeError):
            wrong = Reason(code="not_an_act", message="the last line is no act")
            return Finding(verdict=Verdict.REJECT, score=0.0, reason=wrong)
        return do(act)


class Dear(Hostile):
    """Not on the fast tier: a lane of its own."""

    info = info("dear", tier=Tier.SIMULATION)


class Lasting(Hostile):
    """Fast, but with a limit that no test waits for."""

    info = info("lasting", limits=Limits(time_s=600.0, memory_mb=1024, max_batch=256))


class Parallel(Lasting):
    """Waits for processes of its own."""

    info = info("parallel", parallel=True, limits=Limits(time_s=600.0, memory_mb=1024))


class Heavy(Hostile):
    """As long to warm up as a computer algebra system."""

    info = info("heavy")

    def warm(self) -> None:
        ACTS["burn"]({"s": 1.0})


class SizeParams(Params):
    """One parameter, to tell groups apart."""

    size: int = 1


class Sized(Verifier):
    """Returns its parameter."""

    info = info("sized")
    params_model = SizeParams

    def verify(self, item: CheckInput, params: Params) -> Finding:
        assert isinstance(params, SizeParams)
        return accept(labels={"size": str(params.size), "pid": str(os.getpid())})


class Idle(Verifier):
    """Does nothing, to measure what the harness adds."""

    info = info("idle")
    found = accept(score=1.0)

    def verify(self, item: CheckInput, params: Params) -> Finding:
        return self.found


class Lazy(Verifier):
    """A batch method that stops early, or raises, in the middle of a batch."""

    info = info("lazy")

    def verify(self, item: CheckInput, params: Params) -> Finding:
        return accept(score=1.0)

    def verify_batch(self, items: Sequence[CheckInput], params: Params) -> Iterator[Outcome]:
        for item in items:
            if item.candidate == "stop":
                return
            if item.candidate == "raise":
                raise RuntimeError("in the middle")
            yield self.attempt(item, params)


class Unstartable(Verifier):
    """Warm-up fails."""

    info = info("unstartable")

    def warm(self) -> None:
        raise ImportError("no such toolkit")

    def verify(self, item: CheckInput, params: Params) -> Finding:
        return accept()


class DyingStart(Unstartable):
    """Warm-up ends the process."""

    info = info("dying_start", tier=Tier.SIMULATION)

    def warm(self) -> None:
        os._exit(9)


class SlowStart(Unstartable):
    """Warm-up takes longer than one item may."""

    info = info("slow_start", tier=Tier.SIMULATION, limits=Limits(time_s=0.2, memory_mb=1024))

    def warm(self) -> None:
        time.sleep(0.6)


class Missing(Unstartable):
    """Not available here."""

    info = info("missing")

    def unavailable(self) -> str | None:
        return "needs the extra 'chem'"


class External(Unstartable):
    """People decide."""

    info = info("external", tier=Tier.LAB, external=True)


VERIFIERS = (
    Hostile,
    Strict,
    Spoken,
    Dear,
    Lasting,
    Parallel,
    Heavy,
    Sized,
    Idle,
    Lazy,
    Unstartable,
    DyingStart,
    SlowStart,
    Missing,
    External,
)
PLUGIN = "tests.support.verifiers"
