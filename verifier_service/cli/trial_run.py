"""The run behind ``verifier try``: the real service in a folder that is thrown away, in one thread."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from verifier_service import bootstrap
from verifier_service.api.parsing import parse_body
from verifier_service.cli.boundary import Failed
from verifier_service.cli.server import settings
from verifier_service.cli.trial import read_ladder
from verifier_service.cli.trial_explain import explained, refused
from verifier_service.cli.trial_records import Tried
from verifier_service.domain.cases import Case
from verifier_service.domain.errors import InvalidInput
from verifier_service.domain.evidence import TIERS, Tier
from verifier_service.domain.ladders import Ladder, LadderSpec
from verifier_service.domain.trajectories import TrajectorySubmission
from verifier_service.services import tenants
from verifier_service.services.inspect_case import whole_case
from verifier_service.worker.loop import TierWorker
from verifier_service.worker.sweep import Sweep

RUN = "try"
OWNER = "embedded/try"
BATCH = 64
PAUSE_S = 0.05


class Trial:
    """A service of its own with one worker per tier up to the highest wanted, stepped by its caller."""

    def __init__(self, service: bootstrap.Service, ladder: Ladder, highest: Tier) -> None:
        self._service = service
        self._ladder = ladder
        self._highest = highest
        tiers = [tier for tier in TIERS if tier.rank <= highest.rank and ladder.spec.tiers.get(tier)]
        self._workers = [
            TierWorker(service, tier, f"{OWNER}/{tier}", batch=BATCH) for tier in {Tier.FAST, *tiers}
        ]
        self._sweep = Sweep(service, f"{OWNER}/sweep") if highest is not Tier.FAST else None

    def tried(self, lines: Sequence[tuple[int, bytes]], *, show_reference: bool) -> Iterator[Tried]:
        """What becomes of each line, in their order. A bad line costs only itself."""
        read = [(number, self._read(number, raw)) for number, raw in lines]
        taken = self._service.submit(self._service.settings.project, RUN, [item for _, item in read])
        self._work([result.pk for result in taken.results if result.pk is not None])
        for (number, item), result in zip(read, taken.results, strict=True):
            if result.error is not None or isinstance(item, InvalidInput) or result.id is None:
                yield refused(number, result.id, result.error)
                continue
            with self._service.store.read() as tx:
                whole = whole_case(
                    tx, self._service.catalog, self._service.settings.project, RUN, result.id
                )
            told = explained(
                self._service.catalog, number, whole, highest=self._highest, show_reference=show_reference
            )
            if result.status == "duplicate":
                told = told.model_copy(update={"note": "the same as an earlier line, with the same id"})
            yield told

    def close(self) -> None:
        """End the children."""
        for worker in self._workers:
            worker.stop()

    def _read(self, number: int, raw: bytes) -> TrajectorySubmission | InvalidInput:
        """One line, as strict as at the door; the ladder is the one that is tried, whatever it names."""
        text = raw.strip().removeprefix(b"\xef\xbb\xbf") if number == 1 else raw.strip()
        try:
            item = parse_body(_Line, text)
        except InvalidInput as error:
            return InvalidInput(
                error.code, error.message.replace("the body", "the line"), field=error.field
            )
        name = item.id if item.id is not None else f"line-{number}"
        return TrajectorySubmission.model_validate(
            item.model_copy(update={"id": name, "ladder": self._ladder.name}), from_attributes=True
        )

    def _work(self, pks: Collection[int]) -> None:
        """Work until nothing moves at or below the highest tier; failed attempts are tried again."""
        while True:
            if self._sweep is not None:
                self._sweep.tick()
            busy = [worker.drain_once() for worker in self._workers]
            if any(busy):
                continue
            with self._service.store.read() as tx:
                cases = tx.trajectories.cases(sorted(set(pks)))
            if not any(self._moves(case) for case in cases):
                return
            time.sleep(PAUSE_S)

    def _moves(self, case: Case) -> bool:
        undecided = self._sweep is not None and case.standing.needs_decision
        return undecided or case.live(up_to=self._highest)


class _Line(TrajectorySubmission):
    """A line of a file that is tried: it need not name the ladder."""

    ladder: str = RUN


@contextmanager
def trial(name: str, highest: Tier, plugins: tuple[str, ...]) -> Iterator[Trial]:
    """A trial of one ladder; its database and its children are gone afterwards, however it ends.

    Raises ``Failed`` when the ladder cannot be read, stored, or run here.
    """
    from tiers.catalog_sources import BrokenPlugin

    with tempfile.TemporaryDirectory(prefix="verifier-try-") as folder:
        chosen = settings(plugins=plugins or None).model_copy(
            update={
                "data": Path(folder),
                "database_url": None,
                "budget_compute": None,
                "budget_human": None,
            }
        )
        try:
            service = bootstrap.build(chosen)
        except BrokenPlugin as error:
            raise Failed(str(error)) from error
        made = None
        try:
            made = Trial(service, _stored(service, name, highest), highest)
            yield made
        finally:
            if made is not None:
                made.close()
            service.store.close()


def _stored(service: bootstrap.Service, name: str, highest: Tier) -> Ladder:
    shipped = {str(document["name"]): dict(document) for document in service.catalog.shipped_ladders()}
    text = read_ladder(name, {key: dict(value) for key, value in shipped.items()})
    try:
        spec = parse_body(LadderSpec, text.encode("utf-8", "surrogateescape"))
        with service.store.begin() as tx:
            ladder, _ = tenants.put_ladder(tx, service.catalog, service.settings.project, spec)
    except InvalidInput as error:
        where = f"{error.field}: " if error.field else ""
        message = error.message.replace("the body", "the file")
        raise Failed(f"{name} is not a ladder that can be used: {where}{message}") from error
    _require_available(service, ladder, highest)
    return ladder


def _require_available(service: bootstrap.Service, ladder: Ladder, highest: Tier) -> None:
    for rung in ladder.rungs:
        why = service.catalog.availability(rung.use.use) if rung.tier.rank <= highest.rank else None
        if why is not None:
            raise Failed(f"{rung.use.use} cannot run here: {why}", "install it, or try a lower --tier")
