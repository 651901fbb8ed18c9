"""Sources over real sockets: what is asked, what is not, and what comes of strange answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.markets import Market, done, feed_of, market, poll
from verifier_service.domain.errors import InvalidInput
from verifier_service.domain.market_sources import MAX_BODY_BYTES
from verifier_service.domain.settlements import Actual, SettlementState


@pytest.fixture
def there() -> Iterator[Market]:
    with market() as made:
        yield made


@pytest.mark.parametrize(
    ("document", "state", "actual"),
    [
        (done("YES"), "settled", ("YES", None)),
        (done("4.25"), "settled", ("4.25", 4.25)),
        (done(3), "settled", ("3", 3.0)),
        (done(True), "settled", ("true", None)),
        ({"state": "void", "result": []}, "void", (None, None)),
        ({"state": "open", "result": [{"value": 0.5}]}, "open", None),
    ],
)
def test_answers_are_read(there: Market, document: Any, state: str, actual: Any) -> None:
    there.answers["rain"] = document
    [answer] = feed_of(m=there.source()).ask([poll()])
    assert (answer.state, answer.error) == (state, None)
    assert (None if answer.actual is None else (answer.actual.text, answer.actual.number)) == actual


def test_words_are_translated_and_the_key_is_sent(there: Market) -> None:
    there.answers["rain"] = done("OUTCOME_7")
    declared = there.source(
        values={"OUTCOME_7": "yes"}, header="Authorization", header_from="MARKET_KEY", interval_s=60.0
    )
    feed = feed_of(m=declared)
    assert feed.sources == {"m": 60.0}
    [answer] = feed.ask([poll()])
    assert answer.actual == Actual("rain", SettlementState.SETTLED, "yes", None)
    assert there.asked[0][1]["authorization"] == "secret"


@pytest.mark.parametrize(
    ("said", "code", "busy"),
    [
        (b"<html>", "not_json", False),
        (b"[" * 20_000, "not_json", False),
        (b'{"state": "done", "result": [{"value": NaN}]}', "not_json", False),
        (b'{"state": "done", "result": [{"value": 1e999}]}', "bad_value", False),
        (b'{"state": "done", "result": [{"value": ' + b"9" * 5_000 + b"}]}", "not_json", False),
        ({"state": "who knows"}, "unknown_state", False),
        (done({"deep": 1}), "bad_value", False),
        (done("x" * 300), "bad_value", False),
        (done("a\nb"), "bad_value", False),
        (done(None), "bad_value", False),
        (b" " * (MAX_BODY_BYTES + 1), "too_large", False),
        (404, "http_404", False),
        (500, "http_500", True),
        (429, "http_429", True),
    ],
    ids=lambda value: str(value)[:20],
)
def test_strange_answers_settle_nothing(there: Market, said: Any, code: str, busy: bool) -> None:
    there.answers["rain"] = said
    [answer] = feed_of(m=there.source()).ask([poll()])
    assert (answer.state, answer.error, answer.busy, answer.actual) == ("failed", code, busy, None)


def test_a_redirect_is_refused_and_not_followed(there: Market) -> None:
    there.answers |= {"rain": 302, "elsewhere": done("yes")}
    there.headers["location"] = there.url.replace("{event}", "elsewhere")
    [answer] = feed_of(m=there.source()).ask([poll()])
    assert (answer.state, answer.error) == ("failed", "redirect")
    assert [path for path, _ in there.asked] == ["/events/rain"]


def test_what_is_packed_is_refused(there: Market) -> None:
    there.answers["rain"] = done("yes")
    there.headers["content-encoding"] = "gzip"
    [answer] = feed_of(m=there.source()).ask([poll()])
    assert answer.error == "encoded"


def test_retry_after_is_heard(there: Market) -> None:
    there.answers["rain"] = 429
    there.headers["retry-after"] = "77"
    [answer] = feed_of(m=there.source()).ask([poll()])
    assert (answer.retry_after_s, answer.busy) == (77.0, True)


def test_internal_addresses_are_refused_unless_they_are_allowed(there: Market) -> None:
    there.answers["rain"] = done("yes")
    [answer] = feed_of((), m=there.source()).ask([poll()])
    assert (answer.state, answer.error) == ("failed", "blocked_address")
    assert there.asked == []


def test_a_slow_and_a_dead_source_hold_up_no_other(there: Market) -> None:
    there.answers["rain"] = done("yes")
    with market() as slow:
        slow.answers["rain"], slow.delay_s = done("no"), 2.0
        with market() as gone:
            dead = gone.source()
        feed = feed_of(m=there.source(), slow=slow.source(timeout_s=0.3), dead=dead)
        found = feed.ask([poll(source="slow"), poll(source="dead"), poll(), poll(source="unheard")])
    assert [one.error for one in found] == ["timeout", "connection", None, "unknown_source"]


def test_an_event_is_one_part_of_the_path(there: Market) -> None:
    feed_of(m=there.source()).ask([poll("a:b@c+d")])
    assert [path for path, _ in there.asked] == ["/events/a%3Ab%40c%2Bd"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"url": "http://127.0.0.1/events"}, "m: Value error, url holds {event} once"),
        ({"url": "http://{event}.example.org/x"}, "m: Value error, url holds {event} once"),
        ({"url": "ftp://example.org/{event}"}, "m.url"),
        ({"url": "http://user:pw@example.org/{event}"}, "m.url"),
        ({"value": "no pointer"}, "m.value"),
        ({"header": "Authorization"}, "m: Value error, header and header_from"),
        ({"header": "Authorization", "header_from": "UNSET"}, "m.header_from: UNSET is not set"),
        ({"void": ["done"]}, "m: Value error, a word of the state means one thing"),
        ({"interval_s": 0.0}, "m.interval_s"),
        ({"script": "x"}, "m.script"),
    ],
)
def test_a_broken_declaration_stops_the_start(there: Market, change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        feed_of(m=there.source() | change)
    assert refused.value.field == "VERIFIER_MARKET_SOURCES"
    assert message in refused.value.message


def test_sources_come_from_a_file_too(there: Market, tmp_path: Any) -> None:
    from verifier_service.bootstrap.market_feed import market_feed
    from verifier_service.settings import Settings

    file = tmp_path / "sources.json"
    file.write_text(json.dumps({"m": there.source()}))
    settings = Settings(market_sources=str(file), market_http=True, market_allow=("127.0.0.1",))
    assert market_feed(settings).sources == {"m": 1.0}
    with pytest.raises(InvalidInput, match="neither JSON nor a file"):
        market_feed(Settings(market_sources=str(tmp_path / "absent.json")))
