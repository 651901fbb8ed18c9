"""What senders of webhooks decide: signatures, ids, retries, pauses, the end of an endpoint."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from tests.support.receivers import verified
from verifier_service.domain.webhook_rules import (
    FAILING,
    GONE,
    LONGEST_PAUSE_S,
    RECORD_GONE,
    SCHEDULE_S,
    TOLERATED,
    Patience,
    event_id,
    headers,
    judge,
    new_secret,
    payload,
    retry_after,
    sign,
)
from verifier_service.domain.webhooks import Answer, DeliveryState, Outcome, Parcel, Place, Sent

NOW = 1_000_000.0
PATIENCE = Patience(jitter=lambda: 0.5)
REFUSED, BROKEN, TAKEN = Answer(status=400), Answer(error="connection: x"), Answer(status=200)
GIVEN_BACK = None


def parcel(attempts: int = 0, pk: int = 1) -> Parcel:
    return Parcel(pk=pk, fence=1, event="msg_1", attempts=attempts, body=b"{}")


def place(**changes: object) -> Place:
    return Place(**{"pk": 1, "id": "wh_1", "url": "https://x.example/", "secrets": (), **changes})  # type: ignore[arg-type]


def after(answer: Answer | None, attempts: int = 0, patience: Patience = PATIENCE) -> Outcome:
    [outcome], _ = judge(place(), [Sent(parcel=parcel(attempts), answer=answer)], NOW, patience)
    return outcome


def test_a_signature_is_the_published_one() -> None:
    """The vector of the reference libraries, standard-webhooks/libraries/python/tests/test_webhooks.py."""
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    made = sign(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, b'{"test": 2432232314}')
    assert made == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_the_reference_library_accepts_what_is_signed_and_nothing_else() -> None:
    old, new, other = new_secret(), new_secret(), new_secret()
    body = '{"type":"reward.final","data":{"text":"größer → ∞"}}'.encode()
    timestamp = int(datetime.now(UTC).timestamp())
    sent = headers([new, old], "msg_1", timestamp, body)
    for secret in (old, new):
        assert Webhook(secret).verify(body, sent)["type"] == "reward.final"
        assert verified(secret, sent, body)
    for changed in ({"webhook-id": "msg_2"}, {"webhook-timestamp": str(timestamp + 1)}):
        with pytest.raises(WebhookVerificationError):
            Webhook(new).verify(body, sent | changed)
        assert not verified(new, sent | changed, body)
    with pytest.raises(WebhookVerificationError):
        Webhook(other).verify(body, sent)
    assert not verified(other, sent, body)
    assert not verified(new, sent, body + b" ")


def test_secrets_are_long_enough_and_differ() -> None:
    made = {new_secret() for _ in range(100)}
    assert len(made) == 100
    assert all(24 <= len(base64.b64decode(one.removeprefix("whsec_"), validate=True)) <= 64 for one in made)


def test_an_event_s_id_is_the_record_s_and_the_endpoint_s() -> None:
    same = {event_id("wh_1", "run", 1.5, 7) for _ in range(3)}
    others = {
        event_id("wh_2", "run", 1.5, 7),
        event_id("wh_1", "run-2", 1.5, 7),
        event_id("wh_1", "run", 2.5, 7),
        event_id("wh_1", "run", 1.5, 8),
        event_id("wh_1", 'run", 1.5, "', 1.5, 7),
    }
    assert len(same) == 1
    assert len(others | same) == 6
    assert all("." not in one for one in others)


def test_a_payload_holds_the_record_unchanged() -> None:
    record = '{"issued_at":"2026-01-01T00:00:00Z","run":"r","seq":1,"reward":0.1}'
    assert json.loads(payload("final", record)) == {
        "type": "reward.final",
        "timestamp": "2026-01-01T00:00:00Z",
        "data": json.loads(record),
    }


@pytest.mark.parametrize("answer", [REFUSED, BROKEN, Answer(status=302), Answer(status=500)])
def test_a_failure_is_tried_again_on_the_standard_s_schedule(answer: Answer) -> None:
    pauses = []
    for attempts in range(len(SCHEDULE_S)):
        outcome = after(answer, attempts)
        assert (outcome.state, outcome.attempts) == (DeliveryState.PENDING, attempts + 1)
        pauses.append(outcome.not_before - NOW)
    assert pauses == pytest.approx(SCHEDULE_S)
    last = after(answer, len(SCHEDULE_S))
    assert (last.state, last.attempts, last.status) == (DeliveryState.FAILED, 10, answer.status)


def test_retries_are_spread() -> None:
    early = after(BROKEN, 1, Patience(jitter=lambda: 0.0)).not_before - NOW
    late = after(BROKEN, 1, Patience(jitter=lambda: 1.0)).not_before - NOW
    assert (early, late) == (pytest.approx(240.0), pytest.approx(360.0))


def test_an_endpoint_may_ask_for_more_time_and_not_for_less() -> None:
    assert after(Answer(status=429, retry_after_s=900.0), 1).not_before == NOW + 900
    assert after(Answer(status=503, retry_after_s=1.0), 1).not_before == NOW + 300
    assert after(Answer(status=503, retry_after_s=1e9), 1).not_before == NOW + 86_400
    assert retry_after({"retry-after": " 30 "}) == 30
    assert retry_after({"retry-after": "9" * 400}) == 999_999_999
    for text in ("", "soon", "-1", "٣", "1.5", "Wed, 21 Oct 2026 07:28:00 GMT"):
        assert retry_after({"retry-after": text}) is None


def test_a_parcel_given_back_spends_no_attempt() -> None:
    outcome = after(GIVEN_BACK, 3)
    assert (outcome.state, outcome.attempts, outcome.tried) == (DeliveryState.PENDING, 3, False)
    assert judge(place(), [Sent(parcel=parcel(), answer=None)], NOW, PATIENCE)[1] is None


def test_an_endpoint_in_trouble_is_left_alone_longer_each_time() -> None:
    pauses = []
    for streak in range(10):
        _, health = judge(place(streak=streak), [Sent(parcel=parcel(), answer=BROKEN)], NOW, PATIENCE)
        assert health is not None
        assert health.streak == streak + 1
        assert health.paused_until is not None
        pauses.append(health.paused_until - NOW)
    assert pauses == [1, 2, 4, 8, 16, 32, *[LONGEST_PAUSE_S] * 4]


def test_attempts_at_once_are_one_trouble() -> None:
    failed = [Sent(parcel=parcel(pk=pk), answer=BROKEN) for pk in range(8)]
    _, health = judge(place(), failed, NOW, PATIENCE)
    assert health is not None
    assert (health.streak, health.paused_until) == (1, NOW + 1)
    _, later = judge(place(streak=1, paused_until=NOW + 1), failed, NOW + 0.5, PATIENCE)
    assert later is not None
    assert (later.streak, later.paused_until) == (1, NOW + 1)
    _, next_round = judge(place(streak=1, paused_until=NOW + 1), failed, NOW + 1, PATIENCE)
    assert next_round is not None
    assert (next_round.streak, next_round.paused_until) == (2, NOW + 3)


def test_refusals_of_some_records_do_not_hold_the_others_up() -> None:
    for streak, pause in ((0, NOW), (TOLERATED - 1, NOW), (TOLERATED, NOW + 1)):
        _, health = judge(place(streak=streak), [Sent(parcel=parcel(), answer=REFUSED)], NOW, PATIENCE)
        assert health is not None
        assert health.paused_until == pause


def test_a_success_ends_the_trouble() -> None:
    sent = [Sent(parcel=parcel(), answer=BROKEN), Sent(parcel=parcel(), answer=TAKEN)]
    _, health = judge(place(streak=5, failing_since=NOW - 99), sent, NOW, PATIENCE)
    assert health is not None
    assert (health.streak, health.failing_since, health.paused_until) == (0, None, None)


def test_gone_disables_and_so_does_failing_for_long() -> None:
    _, gone = judge(place(), [Sent(parcel=parcel(), answer=Answer(status=410))], NOW, PATIENCE)
    assert gone is not None
    assert gone.disabled_reason == GONE
    for since, reason in ((NOW - 432_001, FAILING), (NOW - 431_999, None)):
        failing = place(streak=9, failing_since=since, paused_until=NOW - 60)
        _, health = judge(failing, [Sent(parcel=parcel(), answer=BROKEN)], NOW, PATIENCE)
        assert health is not None
        assert (health.disabled_reason, health.failing_since) == (reason, since)


def fares(*failures: tuple[float, Answer]) -> tuple[str | None, float | None]:
    """Why an endpoint is disabled, and since when it fails, after failures at these times."""
    found = place()
    for now, answer in failures:
        _, health = judge(found, [Sent(parcel=parcel(), answer=answer)], now, PATIENCE)
        assert health is not None
        found = place(
            streak=health.streak, failing_since=health.failing_since, paused_until=health.paused_until
        )
        if health.disabled_reason is not None:
            return health.disabled_reason, health.failing_since
    return None, found.failing_since


@pytest.mark.parametrize("first", [REFUSED, BROKEN, Answer(status=503)])
def test_two_failures_with_quiet_days_between_them_disable_nothing(first: Answer) -> None:
    day = 86_400.0
    assert fares((NOW, first), (NOW + 6 * day, Answer(status=503))) == (None, NOW + 6 * day)
    burst = [(NOW + second, first) for second in range(30)]
    assert fares(*burst, (NOW + 6 * day, BROKEN)) == (None, NOW + 6 * day)


@pytest.mark.parametrize("answer", [REFUSED, BROKEN])
def test_failures_spread_over_the_days_do(answer: Answer) -> None:
    """Once a day, as one delivery is tried at last."""
    spread = [(NOW + 86_400.0 * day, answer) for day in range(7)]
    assert fares(*spread[:6]) == (None, NOW)
    assert fares(*spread) == (FAILING, NOW)


def test_a_record_that_is_no_more_is_given_up_and_nobody_s_fault() -> None:
    answer = Answer(error=RECORD_GONE)
    [outcome], health = judge(place(), [Sent(parcel=parcel(), answer=answer)], NOW, PATIENCE)
    assert (outcome.state, outcome.error, health) == (DeliveryState.FAILED, RECORD_GONE, None)


def test_secrets_are_not_in_what_is_logged() -> None:
    assert "whsec" not in repr(place(secrets=(new_secret(),)))
