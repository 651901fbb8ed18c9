"""Templates by lane: what is known to be used in a lane is loaded there, so that children can be copied."""

from __future__ import annotations

import logging
import sys
import time

from tiers.harness_options import HarnessOptions, Lane
from tiers.harness_template import Template, Unforkable
from verifier_service.domain.verifiers import VerifierInfo

log = logging.getLogger(__name__)

_MAX_LOST = 3
_PAUSE_S = 5.0


class _Room:
    """What is known of one lane."""

    def __init__(self) -> None:
        self.known: dict[str, VerifierInfo] = {}
        self.template: Template | None = None
        self.lost = 0
        self.not_before = 0.0


class Nursery:
    """One thread uses it; ``close`` may come from another."""

    def __init__(self, options: HarnessOptions) -> None:
        self._options = options
        self._rooms: dict[str, _Room] = {}
        self._closed = False

    def learn(self, lane: Lane, info: VerifierInfo) -> None:
        """Remember that a verifier is used in a lane."""
        self._room(lane).known[info.name] = info

    def known(self, lane: Lane) -> dict[str, VerifierInfo]:
        """The verifiers that a child of the lane should begin with."""
        return self._room(lane).known

    def hopeless(self, lane: Lane) -> bool:
        """True when children of this lane cannot be copied, now or ever."""
        room = self._room(lane)
        return (
            sys.platform != "linux"
            or not lane.spares
            or room.lost >= _MAX_LOST
            or time.monotonic() < room.not_before
        )

    def template(self, lane: Lane) -> Template | None:
        """Bring the lane's template on by one step; return it if it has loaded all that is known."""
        room = self._room(lane)
        if self._closed or self.hopeless(lane):
            return None
        try:
            if room.template is None:
                room.template = Template(lane, self._options)
            template = room.template
            if not template.settle():
                return None
            missing = room.known.keys() - template.loaded.keys() - template.refused
            if not missing:
                return template
            template.load(min(missing))
        except OSError as error:
            self.failed(lane, error)
        return None

    def failed(self, lane: Lane, error: OSError) -> None:
        """A template has died or cannot be copied: go on without it, for a while or for good."""
        room = self._room(lane)
        log.warning("children of lane %s are not copied from a template: %s", lane.name, error)
        room.lost = _MAX_LOST if isinstance(error, Unforkable) else room.lost + 1
        room.not_before = time.monotonic() + _PAUSE_S
        if room.template is not None:
            room.template.discard()
            room.template = None

    def close(self) -> None:
        """Kill every template."""
        self._closed = True
        for room in self._rooms.values():
            if room.template is not None:
                room.template.discard()

    def _room(self, lane: Lane) -> _Room:
        return self._rooms.setdefault(lane.name, _Room())
