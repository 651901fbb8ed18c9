"""Workers as they say of themselves, and as an operator sees them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from verifier_service.domain.digests import build_of, version_of
from verifier_service.domain.evidence import Tier
from verifier_service.domain.records import OpenEnum, Record
from verifier_service.domain.resources import Offer

MISSED_BEATS = 3
NAMED = 3  # of the workers that cannot run something, as many are named


class Kind(NamedTuple):
    """What a check needs of a catalogue: a verifier in one build, which is its version and those of its
    libraries (``digests.build_of``)."""

    verifier: str
    version: str


class WorkerState(OpenEnum):
    """``stopped`` said goodbye, ``lost`` missed three heartbeats."""

    ALIVE = "alive"
    STOPPED = "stopped"
    LOST = "lost"
    OTHER = "other"


class VerifierHere(Record):
    """A verifier of the worker's tier. ``lacking`` says what keeps the worker from running it: a library,
    a tag, a GPU; ``None`` when it does. ``libraries`` are the versions that key its checks."""

    name: str
    version: str
    lacking: str | None = None
    libraries: dict[str, str] = {}

    @property
    def kind(self) -> Kind:
        """The checks that it judges as they were asked."""
        return Kind(self.name, build_of(self.version, self.libraries))


class WorkerCard(Record):
    """What a worker says of itself. ``id`` is the owner of its leases; a worker is one thread that drains
    one tier. ``refuses``: it claims everything of its tier and ends what it cannot run, as the workers of a
    service on one machine do; others leave that to workers that can. ``beat_s`` is the time between its
    heartbeats in seconds, ``packages`` are installed versions by distribution."""

    id: str
    host: str
    pid: int
    tier: Tier
    resources: Offer
    verifiers: tuple[VerifierHere, ...] = ()
    refuses: bool = False
    beat_s: float = 5.0
    packages: dict[str, str] = {}

    def runs(self) -> frozenset[Kind]:
        """What it can run."""
        return frozenset(one.kind for one in self.verifiers if one.lacking is None)


class Counts(NamedTuple):
    """Attempts by their end, as one worker made them: ``done`` found something, ``failed`` did not,
    ``rejected`` had lost their lease before they were reported, so that their result was discarded."""

    done: int = 0
    failed: int = 0
    rejected: int = 0

    def plus(self, other: Counts) -> Counts:
        """Both together."""
        return Counts(*(one + two for one, two in zip(self, other, strict=True)))


class Current(Record):
    """Checks of one verifier that a worker holds now; the oldest was claimed at ``since``."""

    verifier: str
    checks: int
    since: datetime


class Worker(Record):
    """A worker as an operator sees it, judged by the clock of the database."""

    card: WorkerCard
    state: WorkerState
    started_at: datetime
    beat_at: datetime
    silent_s: float = 0.0
    current: tuple[Current, ...] = ()
    done: int = 0
    failed: int = 0
    rejected: int = 0

    @property
    def alive(self) -> bool:
        """Whether its last heartbeat is recent enough."""
        return self.state is WorkerState.ALIVE


class WorkerList(Record):
    """Workers: the living first, then by tier and id."""

    workers: tuple[Worker, ...]


def runnable(kind: Kind, workers: Iterable[Worker]) -> bool:
    """Whether one of them lives and takes checks of this kind."""
    return any(one.alive and (one.card.refuses or kind in one.card.runs()) for one in workers)


def nobody_runs(
    kind: Kind, tier: Tier, workers: Sequence[Worker], here: VerifierHere | None = None
) -> str | None:
    """Why no living worker of a tier will claim a check, in words; ``None`` when one will.

    ``workers`` are those of the tier, dead ones as well; ``here`` is the verifier as this process has it.
    Where they know which libraries the check was asked with, these are named.
    """
    if runnable(kind, workers):
        return None
    living = [one for one in workers if one.alive]
    if not living:
        return f"no worker of tier {tier} is alive{_last_seen(workers)}"
    known = [here, *(of for one in workers for of in one.card.verifiers)]
    asked = next((of.libraries for of in known if of is not None and of.kind == kind), {})
    reasons = list(dict.fromkeys(f"{one.card.host} {_lacks(kind, one.card, asked)}" for one in living))
    more = f" and {len(reasons) - NAMED} more" if len(reasons) > NAMED else ""
    able = [one for one in workers if kind in one.card.runs()]
    named, why = f"{kind.verifier} {version_of(kind.version)}", "; ".join(reasons[:NAMED])
    return f"no living worker of tier {tier} runs {named}: {why}{more}{_last_seen(able)}"


def _lacks(kind: Kind, card: WorkerCard, asked: Mapping[str, str]) -> str:
    known = [one for one in card.verifiers if one.name == kind.verifier]
    same = next((one for one in known if one.version == version_of(kind.version)), None)
    if same is not None and same.kind != kind:
        return f"has other libraries: {_differing(same.libraries, asked)}"
    if same is not None:
        return f"lacks it: {same.lacking}"
    if known:
        return f"has version {', '.join(one.version for one in known)}"
    return "does not know it"


def _differing(has: Mapping[str, str], asked: Mapping[str, str]) -> str:
    """Libraries whose versions differ; where nobody knows what was asked, all of them."""
    if not asked:
        return ", ".join(f"{name} {found}" for name, found in sorted(has.items())) or "none"
    return ", ".join(
        f"{name} {has.get(name, 'missing')} instead of {asked.get(name, 'none')}"
        for name in sorted({*has, *asked})
        if has.get(name) != asked.get(name)
    )


def _last_seen(able: Sequence[Worker]) -> str:
    return next(_seen(able), "")


def _seen(able: Sequence[Worker]) -> Iterator[str]:
    for one in sorted(able, key=lambda worker: worker.silent_s):
        yield f" (last seen {one.silent_s:.0f} s ago on {one.card.host})"
