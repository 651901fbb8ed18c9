"""An episode: one trajectory that grows while its policy acts, and what each turn of it earns.

``Client.grow`` is idempotent by index, so a turn that the service may or may not have received is sent
again with the next one.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from verifier_service.client import (
    CallRefused,
    Client,
    Conflict,
    InvalidRequest,
    NotFound,
    TooLarge,
    VerifierError,
    Wait,
)
from verifier_service.domain.rewards import RewardRecord
from verifier_service.domain.wire import GrowResponse
from verifier_service.trainers.chat import Text, submission
from verifier_service.trainers.connections import blocking_client
from verifier_service.trainers.scoring import (
    AWAY,
    HOPELESS,
    NOT_YET,
    UNREACHABLE,
    Misconfigured,
    Scored,
    Scoring,
    of_record,
    of_result,
    score_blocking,
)

log = logging.getLogger(__name__)

REFUSING = (InvalidRequest, TooLarge, Conflict, NotFound)
CLOSED = "run_closed"
TURN_S = 5.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """What an episode is about. ``reference`` never comes back from the service."""

    prompt: Text = ""
    reference: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, Any] = field(default_factory=dict)
    group: str | None = None
    group_size: int | None = None
    policy_version: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


class Episode:
    """One trajectory from its first turn to its reward. Blocking; for one thread at a time.

    ``horizon`` is the turn limit H. While the episode runs, turn t with process reward p_t earns
    w·p_t/H, w being the ladder's process weight; the last turn earns the rest of the record's reward,
    outcome + w·mean(p). So what all turns earn adds up to the reward, whatever was late, revised or
    judged only at the end. ``turn_s`` is the longest wait, in seconds, for the process rewards of a turn.
    """

    def __init__(self, scoring: Scoring, task: Task, *, horizon: int, turn_s: float = TURN_S) -> None:
        if horizon < 1:
            raise ValueError(f"horizon: an episode has at least one turn, not {horizon}")
        self.id = uuid.uuid4().hex
        self.paid = 0.0
        self.ending: Scored | None = None
        self.scoring = scoring
        self._task = task
        self._horizon = horizon
        self._turn_s = turn_s
        self._turns: list[dict[str, Any]] = []
        self._sent = 0
        self._tried = False
        self._opened = False

    @property
    def turns(self) -> int:
        """How many turns it has."""
        return len(self._turns)

    def step(self, turn: Mapping[str, Any]) -> float | None:
        """Add a turn that is not the last; what it earns now.

        Null when no check has judged it, because there is none or because the service is away or slow:
        then the turn goes with the next one and is paid later. If the service refuses it, ``ending`` says
        why and the episode is over. Raises ``NotAuthenticated``,
        ``NotAllowed``, ``Misconfigured``, and ``Conflict`` when the run is closed.
        """
        self._add(turn)
        try:
            grown = self._grow(finished=False, answer=None, wait_s=self._turn_s)
        except AWAY as error:
            log.warning("turn %d of %s waits for the service: %s", self.turns - 1, self.id, error)
            return None
        except REFUSING as error:
            self.ending = self._refused(error)
            return None
        if grown is None or grown.reward is None or all(one is None for one in grown.process):
            return None
        return self._pay(grown.reward)

    def finish(self, answer: str | dict[str, Any] | None, turn: Mapping[str, Any] | None = None) -> Scored:
        """End it with an answer, and wait for its reward as ``Scoring`` says. Raises as ``step``."""
        if turn is not None:
            self._add(turn)
        if not self._tried:
            whole = self._submission(answer, self._turns, finished=True)
            self._tried = True
            self.ending = score_blocking(self.scoring, [whole])[0]
            return self.ending
        try:
            self._grow(finished=True, answer=answer, wait_s=0.0)
            ending = self.ending or self._await()
        except AWAY as error:
            log.warning("%s has no reward: %s", self.id, error)
            ending = Scored(self.id, None, UNREACHABLE, str(error))
        except REFUSING as error:
            ending = self._refused(error)
        self.ending = ending
        return ending

    def rest(self) -> float:
        """What the last turn earns: the reward without what was paid. Raises ``ValueError`` when there is
        no reward."""
        reward = None if self.ending is None else self.ending.reward
        if reward is None:
            raise ValueError(f"{self.id} has no reward: {self.ending}")
        return self._settle(reward)

    def abandon(self) -> None:
        """Tell the service that nobody waits for it any more, if it is open."""
        if not self._opened or self.ending is not None:
            return
        self.ending = Scored(self.id, None, "cancelled", "the episode was abandoned before it ended")
        try:
            self._client.cancel(self.scoring.run, self.id)
        except VerifierError as error:
            log.warning("%s could not be cancelled: %s", self.id, error)

    @property
    def _client(self) -> Client:
        return blocking_client(self.scoring.address)

    def _add(self, turn: Mapping[str, Any]) -> None:
        if self.ending is not None:
            raise ValueError(
                f"{self.id} has ended ({self.ending.code or 'scored'}) and takes no more turns"
            )
        self._turns.append(dict(turn))

    def _grow(
        self, *, finished: bool, answer: str | dict[str, Any] | None, wait_s: float
    ) -> GrowResponse | None:
        """Send what was not sent; null when the service did not take the trajectory at all."""
        if not self._open():
            return None
        grown = self._client.grow(
            self.scoring.run,
            self.id,
            index=self._sent,
            turns=self._turns[self._sent :],
            answer=answer,
            finished=finished,
            wait_s=wait_s,
        )
        self._sent = len(self._turns)
        return grown

    def _open(self) -> bool:
        """Hand it in without turns, so that handing it in again is the same submission."""
        self._tried = True
        if self._opened:
            return True
        empty = self._submission(None, (), finished=False)
        [result] = self._client.submit(self.scoring.run, [empty]).results
        if result.error is not None:
            if result.error.code in HOPELESS:
                raise Misconfigured(f"run {self.scoring.run!r}: {result.error.message}")
            self.ending = of_result(result)
            return False
        self._opened = True
        return True

    def _await(self) -> Scored:
        wait = Wait(self.scoring.until, self.scoring.seconds)
        answer = self._client.query(self.scoring.run, [self.id], wait=wait)
        if not answer.records:
            return Scored(self.id, None, NOT_YET, "there was no record when the wait was over")
        return of_record(answer.records[-1])

    def _refused(self, error: CallRefused) -> Scored:
        if error.code == CLOSED:
            raise error
        code = "invalid" if isinstance(error, (InvalidRequest, TooLarge)) else "conflict"
        return Scored(self.id, None, code, str(error))

    def _pay(self, record: RewardRecord) -> float:
        judged = [one for one in record.process if one is not None]
        return self._settle(record.process_weight * sum(judged) / max(self._horizon, len(judged)))

    def _settle(self, due: float) -> float:
        payment = due - self.paid
        self.paid = due
        return payment

    def _submission(
        self, answer: str | dict[str, Any] | None, turns: Sequence[Mapping[str, Any]], *, finished: bool
    ) -> dict[str, Any]:
        task = self._task
        whole = submission(
            self.scoring.ladder,
            prompt=task.prompt,
            completion=(),
            reference=task.reference,
            inputs=task.inputs,
            id=self.id,
            group=task.group,
            group_size=task.group_size,
            policy_version=task.policy_version,
            metadata=task.metadata,
        )
        return {**whole, "turns": list(turns), "answer": answer, "finished": finished}
