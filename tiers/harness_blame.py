"""What a job came to when no verifier could say it: limits, crashes, and jobs that never ran."""

from __future__ import annotations

import signal
from collections.abc import Mapping

from verifier_service.domain.evidence import Cost, Failure, Finding, Outcome, Reason, Verdict
from verifier_service.domain.ports.execution import Done, Job, LimitHit
from verifier_service.domain.verifiers import VerifierInfo

_OUTSIDE_SIGNALS = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT})


def limit_outcome(limit: LimitHit, job: Job, info: VerifierInfo) -> Outcome:
    """A rejection with score 0 where the limit is the candidate's own doing, a failure elsewhere."""
    if limit == "time_limit":
        message = f"stopped after {job.time_s:g} s"
    else:
        message = f"stopped above {job.memory_mb} MiB"
    if info.on_limit == "reject" and not job.limit_is_cut:
        return Finding(verdict=Verdict.REJECT, reason=Reason(code=limit, message=message), score=0.0)
    kind = "timed_out" if limit == "time_limit" else "resource"
    return Failure.model_validate({"kind": kind, "code": limit, "message": message})


def crash_failure(exit_code: int, last_words: str) -> Failure:
    """The child ended by itself. Signals that come from outside are the machine's trouble."""
    if exit_code < 0:
        name = signal.Signals(-exit_code).name
        code = "worker_lost" if -exit_code in _OUTSIDE_SIGNALS else "crashed"
        message = f"the process was ended by {name}"
    else:
        code, message = "crashed", f"the process ended itself with status {exit_code}"
    frames = [line.strip() for line in last_words.splitlines() if line.lstrip().startswith("File ")]
    where = f", in {frames[0].rsplit('/', 1)[-1]}" if frames else ""
    return Failure(kind="transient", code=code, message=message + where, retryable=True)


def garbled_failure() -> Failure:
    """The item's process wrote something else than results to the channel of results, or closed it."""
    message = "the process broke the channel that carries its results"
    return Failure(kind="permanent", code="bad_output", message=message)


def not_started(message: str) -> Failure:
    """No child could be started or warmed for the job."""
    return Failure(kind="transient", code="child_start_failed", message=message[:500], retryable=True)


def lost() -> Failure:
    """Children kept dying before the job's turn came."""
    message = "processes kept dying before this item started"
    return Failure(kind="transient", code="worker_lost", message=message, retryable=True)


def refused(code: str, message: str) -> Failure:
    """The job can never be executed here."""
    return Failure(kind="permanent", code=code, message=message)


def unexecuted(
    job: Job, failure: Failure, version: str, libraries: Mapping[str, str] | None = None
) -> Done:
    """The result of a job that never ran: nobody is to blame and it cost nothing."""
    return Done(
        id=job.id,
        outcome=failure,
        cost=Cost(),
        wall_s=0.0,
        libraries=dict(libraries or {}),
        version=version,
    )
