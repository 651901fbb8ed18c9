"""What senders of webhooks decide: ids, signatures, when to try again, when to stop.

Signatures and the schedule of retries are those of Standard Webhooks 1.0.0.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from verifier_service.domain.webhooks import Answer, DeliveryState, Health, Outcome, Parcel, Place, Sent

SECRET_PREFIX = "whsec_"  # noqa: S105 - the prefix of every secret
SECRET_BYTES = 32  # the standard asks for 24 to 64
SCHEDULE_S = (5.0, 300.0, 1_800.0, 7_200.0, 18_000.0, 36_000.0, 50_400.0, 72_000.0, 86_400.0)
MAX_RETRY_AFTER_S = 86_400.0
JITTER = 0.2

GONE = "gone"
FAILING = "failing"
OPERATOR = "operator"
RECORD_GONE = "record_gone"
HTTP_GONE = 410
# Statuses that speak of the endpoint, not of this request.
BUSY = frozenset({429, 500, 502, 503, 504})
GAPS = 4.0  # no pause between failures of one trouble is longer than this part of ``disable_after_s``
TOLERATED = 10  # refusals in a row before an endpoint that answers is taken for one in trouble
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0


def new_secret() -> str:
    """A signing secret of 256 random bits, in the standard's form."""
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def event_id(webhook: str, run: str, run_made_at: float, seq: int) -> str:
    """The ``webhook-id`` of a record for an endpoint: the same whenever it is sent. The time at which the
    run was made tells it from a removed one of the same name."""
    named = json.dumps([webhook, run, repr(run_made_at), seq])
    return "msg_" + hashlib.sha256(named.encode()).hexdigest()[:40]


def payload(status: str, record: str) -> bytes:
    """The body for a stored reward record: its type, when it was issued, and the record unchanged."""
    issued = json.dumps(json.loads(record)["issued_at"])
    return f'{{"type":"reward.{status}","timestamp":{issued},"data":{record}}}'.encode()


def sign(secret: str, event: str, timestamp: int, body: bytes) -> str:
    """One signature, ``v1,`` and the base64 of HMAC-SHA256 over ``event.timestamp.body``."""
    key = base64.b64decode(secret.removeprefix(SECRET_PREFIX))
    content = b"%s.%d.%s" % (event.encode(), timestamp, body)
    return "v1," + base64.b64encode(hmac.digest(key, content, "sha256")).decode()


def headers(valid: Iterable[str], event: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The headers of one attempt at ``timestamp`` (epoch seconds), signed with every valid secret."""
    return {
        "content-type": "application/json",
        "user-agent": "verifier-service",
        "webhook-id": event,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(sign(secret, event, timestamp, body) for secret in valid),
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class Patience:
    """``schedule_s``: pauses between the attempts of one delivery; ``disable_after_s``: how long an
    endpoint may fail without one success, where failures are spread over that time: one that comes more
    than a fourth of it after the last begins a new trouble. ``jitter`` draws from [0, 1)."""

    schedule_s: tuple[float, ...] = SCHEDULE_S
    disable_after_s: float = 432_000.0
    jitter: Callable[[], float]


def judge(
    place: Place, sent: Iterable[Sent], now: float, patience: Patience
) -> tuple[list[Outcome], Health | None]:
    """What becomes of parcels whose attempts ended, in that order, and of their endpoint at ``now``
    (database time). No health: nothing was tried."""
    outcomes: list[Outcome] = []
    health: Health | None = None
    streak, since = place.streak, _since(place, now, patience)
    pause = place.paused_until if (place.paused_until or 0.0) > now else None
    for one in sent:
        parcel, answer = one.parcel, one.answer
        if answer is None:
            outcomes.append(_back(parcel, pause or now))
            continue
        outcomes.append(_outcome(parcel, answer, now, patience))
        if answer.error == RECORD_GONE:
            continue
        if answer.delivered:
            streak, since, pause = 0, None, None
        else:
            since = since if since is not None else now
            if pause is None:  # else it was under way when the trouble began, and is the same trouble
                streak += 1
                pause = _pause_until(answer, streak, now)
        reason = health.disabled_reason if health is not None else None
        if answer.status == HTTP_GONE:
            reason = GONE
        elif since is not None and now - since > patience.disable_after_s:
            reason = reason or FAILING
        last = pause if pause is not None or streak == 0 else now
        health = Health(streak=streak, failing_since=since, paused_until=last, disabled_reason=reason)
    return outcomes, health


def _since(place: Place, now: float, patience: Patience) -> float | None:
    """When the trouble began that lasts at ``now``. The end of the last pause, if only of one of no length,
    tells when the endpoint failed last."""
    longest = max(LONGEST_PAUSE_S, patience.disable_after_s / GAPS)
    if place.paused_until is None or now - place.paused_until > longest:
        return None
    return place.failing_since


def _outcome(parcel: Parcel, answer: Answer, now: float, patience: Patience) -> Outcome:
    attempts = parcel.attempts + 1
    state, due = DeliveryState.PENDING, 0.0
    if answer.delivered:
        state = DeliveryState.DELIVERED
    elif answer.error == RECORD_GONE or attempts > len(patience.schedule_s):
        state = DeliveryState.FAILED
    else:
        spread = 1.0 + JITTER * (2.0 * patience.jitter() - 1.0)
        asked = min(answer.retry_after_s or 0.0, MAX_RETRY_AFTER_S)
        due = now + max(patience.schedule_s[attempts - 1] * spread, asked)
    return Outcome(
        parcel=parcel,
        state=state,
        attempts=attempts,
        not_before=due,
        status=answer.status,
        error=answer.error,
    )


def _back(parcel: Parcel, due: float) -> Outcome:
    """Given back without an attempt spent."""
    pending = DeliveryState.PENDING
    return Outcome(parcel=parcel, state=pending, attempts=parcel.attempts, not_before=due, tried=False)


def _pause_until(answer: Answer, streak: int, now: float) -> float | None:
    """An endpoint in trouble is left alone for a while, longer each time, and then tried with one parcel:
    its other deliveries keep their attempts. A refusal of one request is none, many in a row are."""
    in_trouble = answer.status is None or answer.status in BUSY
    rounds = streak if in_trouble else streak - TOLERATED
    if rounds <= 0:
        return None
    pause = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(rounds - 1, 30))
    return now + max(pause, min(answer.retry_after_s or 0.0, MAX_RETRY_AFTER_S))


def retry_after(found: Mapping[str, str]) -> float | None:
    """``Retry-After`` in seconds where an answer names a number of them."""
    text = found.get("retry-after", "").strip()
    return float(text[:9]) if text.isascii() and text.isdigit() else None
