"""Jobs that wait for a child, in groups that can travel together."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from tiers.harness_directory import Listed
from tiers.harness_options import Lane
from verifier_service.domain.ports.execution import Job

MAX_FRUITLESS = 3
Key = tuple[str, str]


class Group:
    """Jobs of one verifier and equal parameters.

    ``suspects`` must run one at a time: one of them broke a child, and nobody knows which.
    ``fruitless`` counts the children that were lost in a row without a single result.
    """

    def __init__(self, key: Key, listed: Listed) -> None:
        self.key = key
        self.info, self.lane = listed
        self.jobs: deque[Job] = deque()
        self.fruitless = 0
        self._suspects: set[str] = set()

    def take(self) -> list[Job]:
        """Take out the next batch."""
        if self.jobs[0].id in self._suspects:
            return [self.jobs.popleft()]
        batch: list[Job] = []
        while self.jobs and len(batch) < self.lane.max_batch and self.jobs[0].id not in self._suspects:
            batch.append(self.jobs.popleft())
        return batch

    def suspect(self, jobs: Sequence[Job]) -> None:
        """Remember that one of these is to be found out."""
        self._suspects.update(job.id for job in jobs)

    def suspected(self, jobs: Sequence[Job]) -> list[Job]:
        """Those of these jobs that are suspects."""
        return [job for job in jobs if job.id in self._suspects]

    def acquit(self, job: str) -> None:
        """Forget a job that has its result."""
        self._suspects.discard(job)


class Waiting:
    """All groups with jobs, each lane's in turn."""

    def __init__(self) -> None:
        self._groups: dict[Key, Group] = {}

    def add(self, job: Job, listed: Listed) -> None:
        """Put a job behind the others of its group."""
        key = job.verifier, json.dumps(job.params, sort_keys=True) if job.params else ""
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = Group(key, listed)
        group.jobs.append(job)

    def put_back(self, group: Group, jobs: Sequence[Job]) -> None:
        """Put jobs before the others of their group."""
        if not jobs:
            return
        known = self._groups.setdefault(group.key, group)
        known.jobs.extendleft(reversed(jobs))
        if known is not group:
            # The group was empty for a moment and began anew: what is known of its jobs still holds.
            known.fruitless = max(known.fruitless, group.fruitless)
            known.suspect(group.suspected(jobs))

    def lanes(self) -> list[Lane]:
        """The lanes in which jobs wait, each once."""
        return list({group.lane.name: group.lane for group in self._groups.values()}.values())

    def first(self, lane: Lane) -> Group | None:
        """Return the group whose turn it is in the lane."""
        return next((group for group in self._groups.values() if group.lane.name == lane.name), None)

    def take(self, group: Group) -> list[Job]:
        """Take a batch; the group's next turn comes after the other groups'."""
        batch = group.take()
        del self._groups[group.key]
        if group.jobs:
            self._groups[group.key] = group
        return batch

    def count(self, lane: str) -> int:
        """How many jobs wait in a lane."""
        return sum(len(group.jobs) for group in self._groups.values() if group.lane.name == lane)

    def drop(self, unwanted: Callable[[Job], bool]) -> Iterator[Job]:
        """Take out, and yield, every job that matches."""
        for group in list(self._groups.values()):
            out = [job for job in group.jobs if unwanted(job)]
            if out:
                group.jobs = deque(job for job in group.jobs if not unwanted(job))
                yield from out
            if not group.jobs:
                del self._groups[group.key]
