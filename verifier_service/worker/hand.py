"""What a worker holds: leased checks whose results have not been reported yet."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from verifier_service.domain.checks import Claim
from verifier_service.domain.errors import Contended, Unavailable
from verifier_service.domain.ports.execution import Done, Released
from verifier_service.services.execute import Taken

log = logging.getLogger(__name__)

FLUSH_S = 0.1
FLUSH_ITEMS = 256
QUIET_S = 0.008
PAUSE_S = 0.5


class Hand:
    """Claims from several takes, until each is reported. For one thread.

    Results are reported in bulk while they keep coming, and soon after they stop: somebody may be
    waiting for them, however long the items take that are still executing. What the database does not
    take is kept: it may be hours of work, and a report that comes twice is refused by its fence.
    """

    def __init__(self, report: Callable[[Taken, list[Done | Released]], None]) -> None:
        self._report = report
        self._claims: dict[str, Claim] = {}
        self._cut: frozenset[str] = frozenset()
        self._pending: list[Done | Released] = []
        self._first = self._last = 0.0
        self._pause_until = 0.0

    def __len__(self) -> int:
        return len(self._claims)

    def add(self, taken: Taken) -> None:
        """Hold what was taken."""
        self._claims |= taken.claims
        self._cut |= taken.cut

    def held(self) -> Taken:
        """All that is held, as if it had been taken at once."""
        return Taken(claims=self._claims, jobs=(), cut=self._cut, ended=())

    def keep(self, result: Done | Released) -> None:
        """Keep a result; report if enough wait, or one waits for long."""
        self._last = time.monotonic()
        if not self._pending:
            self._first = self._last
        self._pending.append(result)
        if len(self._pending) >= FLUSH_ITEMS or self._last - self._first >= FLUSH_S:
            self.flush()

    def flush_if_quiet(self) -> None:
        """Report if no result has come for a moment, or one waits for long."""
        now = time.monotonic()
        if self._pending and (now - self._last >= QUIET_S or now - self._first >= FLUSH_S):
            self.flush()

    @property
    def unreported(self) -> int:
        """How many results are kept."""
        return len(self._pending)

    def flush(self, *, at_once: bool = False) -> None:
        """Report every result that is kept, and let go of its claim; later, where the database is away, and
        after a pause unless it is tried ``at_once``."""
        if not self._pending or (not at_once and time.monotonic() < self._pause_until):
            return
        results = list(self._pending)
        try:
            self._tell(results)
        except (Contended, Unavailable) as error:
            log.warning("%d results are reported later: %s", len(results), error)
            self._pause_until = time.monotonic() + PAUSE_S
        except Exception:
            log.exception("a report of %d results failed; each is reported by itself", len(results))
            self._each(results)

    def _each(self, results: list[Done | Released]) -> None:
        """So that one which cannot be stored takes no others with it."""
        for result in results:
            try:
                self._tell([result])
            except (Contended, Unavailable) as error:
                log.warning("results are reported later: %s", error)
                return
            except Exception:
                log.exception("the result of job %s cannot be stored; its lease will expire", result.id)
                self._drop([result])

    def _tell(self, results: list[Done | Released]) -> None:
        self._report(self.held(), results)
        self._drop(results)

    def _drop(self, results: list[Done | Released]) -> None:
        """Let go of results and their claims."""
        ended = {result.id for result in results}
        self._pending = [one for one in self._pending if one.id not in ended]
        self._cut -= ended
        for job in ended:
            del self._claims[job]
