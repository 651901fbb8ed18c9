"""The thread that empties runs which are being purged."""

from __future__ import annotations

import logging
import threading
import time
from functools import partial

from verifier_service.bootstrap import Service
from verifier_service.domain.errors import Contended, Unavailable
from verifier_service.services.purge import purge_step

log = logging.getLogger(__name__)

EVERY_S = 1.0
REST = 0.5  # of the time that a step took, for everybody else


class Purger:
    """Goes on with every purge that is under way, one step after the other, wherever it was left.

    There may be one in every process: steps of one run queue at its row.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._stopping = threading.Event()

    def run(self) -> None:
        """Look once a second until stopped. An error is logged and the next look tries again."""
        while not self._stopping.wait(EVERY_S):
            try:
                self.purge_all()
            except (Contended, Unavailable):
                log.info("nobody can say which runs are to be purged; it is asked again")
            except Exception:
                log.exception("looking for purges failed; it is tried again")

    def stop(self) -> None:
        """End after the running step."""
        self._stopping.set()

    def purge_all(self) -> None:
        """Bring every purge to its end unless it is stopped before; one that fails is in no other's way."""
        with self._service.store.read() as tx:
            places = tx.retention.purging()
        for project, run in places:
            try:
                self._purge(project, run)
            except (Contended, Unavailable) as error:
                log.info("the purge of run %s of %s goes on later: %s", run, project, error)
            except Exception:
                log.exception("the purge of run %s of %s failed; it is tried again", run, project)

    def _purge(self, project: str, run: str) -> None:
        while not self._stopping.is_set():
            began = time.monotonic()
            if self._service.unit(partial(purge_step, project=project, run=run)):
                log.info("run %s of %s is purged", run, project)
                return
            self._stopping.wait(REST * (time.monotonic() - began))
