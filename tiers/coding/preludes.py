"""What a task puts before every program must run by itself: else nobody can be judged behind it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from tiers.coding.cases import Case, Stdio
from tiers.sandbox import shops
from tiers.sandbox.box import Limits
from tiers.sandbox.workshop import CompileFault, Program
from verifier_service.domain.errors import TaskError


def require_prelude(program: Program, cases: Sequence[Case], limits: Limits) -> None:
    """Run the prelude alone, once in this process. Raises ``TaskError`` ``bad_inputs`` if it fails.

    To be asked when a program failed: its own word on whose error it was is worth nothing.
    """
    if program.prelude and program.toolchain.run is None:
        stdin = next((case.stdin for case in cases if isinstance(case, Stdio)), "")
        _prove(program._replace(source=""), stdin, limits)


@lru_cache(maxsize=64)
def _prove(program: Program, stdin: str, limits: Limits) -> None:
    try:
        with shops.open_shop(program, limits.memory_mb).workshop as workshop:
            run = workshop.run(stdin.encode("utf-8", "surrogatepass"), limits)
    except CompileFault as fault:
        raise TaskError("bad_inputs", f"inputs.prelude does not compile: {fault}") from fault
    if run.ending != "ended" or run.exit != 0:
        raise TaskError("bad_inputs", f"inputs.prelude fails by itself ({run.ending}, exit {run.exit})")
