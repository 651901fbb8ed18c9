"""Verifiers that break a promise before they judge anything: in what they declare, or at the door."""

from __future__ import annotations

import itertools
import time
from pathlib import Path

from pydantic import ConfigDict

from tests.support.broken_verifiers import LONG, Sound, SoundDoor, info
from verifier_service.domain.evidence import Reason
from verifier_service.domain.verifiers import CheckInput, Params


class Unversioned(Sound):
    info = info("unversioned", version=" ")
    breaks = "declaration"


class Misnamed(Sound):
    info = info("Not A Name")
    breaks = "declaration"


class MissingLibrary(Sound):
    info = info("missing_library", libraries=("no-such-distribution",))
    breaks = "declaration"


class LaxParams(Params):
    """Takes what it does not know."""

    model_config = ConfigDict(extra="allow")


class Lax(Sound):
    info = info("lax")
    breaks = "parameters"
    params_model = LaxParams


class PathParams(Params):
    """Names a file of the server."""

    table: Path = Path("/etc/passwd")


class ReadsFiles(Sound):
    info = info("reads_files")
    breaks = "parameters"
    params_model = PathParams


class WrongDefaults(Params):
    """Its default is no number."""

    limit: int = "many"  # type: ignore[assignment]


class Undefaulted(Sound):
    info = info("undefaulted")
    breaks = "parameters"
    params_model = WrongDefaults


class SlowDoor(SoundDoor):
    """A question that takes time by the square."""

    info = info("slow_door")
    breaks = "precheck"

    def precheck(self, item: CheckInput, params: Params) -> Reason | None:
        text = item.candidate if isinstance(item.candidate, str) else ""
        until = time.process_time() + (len(text) / LONG) ** 2 * 0.1
        for _ in itertools.takewhile(lambda _: time.process_time() < until, itertools.count()):
            continue
        return None


class HeavyDoor(SoundDoor):
    info = info("heavy_door")
    breaks = "precheck"

    def precheck(self, item: CheckInput, params: Params) -> Reason | None:
        import numpy

        return None if numpy.isfinite(1.0) else Reason(code="never", message="never")


class RaisingDoor(SoundDoor):
    info = info("raising_door")
    breaks = "precheck"

    def precheck(self, item: CheckInput, params: Params) -> Reason | None:
        return Reason(code="empty", message="nothing") if not str(item.candidate)[0] else None


class ShutDoor(SoundDoor):
    info = info("shut_door")
    breaks = "precheck"

    def precheck(self, item: CheckInput, params: Params) -> Reason | None:
        return Reason(code="closed", message="come back tomorrow")


class RaisingSize(Sound):
    info = info("raising_size")
    breaks = "precheck"

    def size(self, item: CheckInput, params: Params) -> float:
        return float(str(item.candidate)[0] != "")


class EmptySize(Sound):
    """As large as its text is long: 0 where there is none."""

    info = info("empty_size")
    breaks = "precheck"

    def size(self, item: CheckInput, params: Params) -> float:
        return float(len(str(item.candidate or "")))


BROKEN = tuple(
    each
    for each in list(globals().values())
    if isinstance(each, type) and issubclass(each, Sound) and each.__module__ == __name__
)
