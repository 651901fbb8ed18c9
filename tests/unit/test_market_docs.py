"""docs/markets.md: its examples are read as it says, and it names every code."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tiers.fast.forecast_validity import ForecastValidity
from verifier_service.bootstrap.market_feed import market_feed
from verifier_service.dispatch import markets
from verifier_service.domain import forecasts, market_sources, settlement_rows
from verifier_service.domain.evidence import Verdict
from verifier_service.domain.forecasts import EventSpec, NotAForecast, event_of, read_forecast
from verifier_service.domain.market_sources import MarketSource
from verifier_service.domain.verifiers import CheckInput, Params
from verifier_service.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "markets.md").read_text("utf-8")
EXAMPLES = [
    json.loads(line)
    for line in (ROOT / "examples" / "forecast" / "trajectories.jsonl").read_text().splitlines()
]


def test_the_task_and_its_answers_are_read() -> None:
    task, answers = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    event_of(json.loads(task)["inputs"])
    events = {one["problem"]["inputs"]["event"]["id"]: one["problem"]["inputs"] for one in EXAMPLES}
    for line in answers.strip().splitlines():
        answer = json.loads(line)
        read_forecast(answer, event_of(events[answer["event"]]))


def test_the_source_is_one() -> None:
    found = re.search(r"VERIFIER_MARKET_SOURCES='(.*?)'", PAGE, re.DOTALL)
    assert found is not None
    feed = market_feed(Settings(market_sources=found[1]), {"EXCHANGE_KEY": "k"})
    assert feed.sources == {"exchange": 600.0}


def test_every_field_and_every_code_is_explained() -> None:
    for model in (EventSpec, MarketSource):
        for name in model.model_fields:
            assert f"`{name}`" in PAGE, name
    for module in (forecasts, market_sources, settlement_rows, markets):
        source = Path(str(module.__file__)).read_text("utf-8")
        for code in re.findall(r'(?:refuse|NotAForecast|TaskError|failed)\(\s*"([a-z_]+)"', source):
            assert f"`{code}`" in PAGE or code == "unknown_source", code


def test_the_examples_end_as_they_say() -> None:
    for one in EXAMPLES:
        becomes = one["metadata"]["becomes"]
        item = CheckInput(candidate=one["answer"], inputs=one["problem"]["inputs"])
        if becomes == "bad_event":
            continue
        found = ForecastValidity().verify(item, Params())
        code = None if found.reason is None else found.reason.code
        assert (found.verdict, code) == (
            (Verdict.ACCEPT, None) if becomes in ("waits", "registered_late") else (Verdict.REJECT, becomes)
        )
    assert issubclass(NotAForecast, Exception)
