"""The sources of settlements that an operator declares: read once, and refused at the start if broken."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from verifier_service.dispatch.markets import HttpMarketFeed
from verifier_service.domain.errors import InvalidInput
from verifier_service.domain.market_sources import MarketSource
from verifier_service.domain.webhook_targets import Guard
from verifier_service.settings import Settings

FIELD = "VERIFIER_MARKET_SOURCES"
MAX_SOURCES = 100
_NAMED = TypeAdapter(dict[str, MarketSource])


def market_feed(settings: Settings, environment: Mapping[str, str] = os.environ) -> HttpMarketFeed:
    """The feed over the declared sources. Raises ``InvalidInput``, naming the setting and the field."""
    try:
        guard = Guard.of(
            plain_http=settings.market_http, ports=settings.market_ports, allow=settings.market_allow
        )
    except ValueError as error:
        raise InvalidInput("bad_setting", str(error), field="VERIFIER_MARKET_ALLOW") from error
    sources = _declared(settings.market_sources)
    for name, source in sources.items():
        try:
            guard.target(source.url_of("event"))
        except InvalidInput as error:
            raise InvalidInput("bad_setting", f"{name}.url: {error.message}", field=FIELD) from error
    credentials = {
        name: _credential(name, source.header_from, environment)
        for name, source in sources.items()
        if source.header_from is not None
    }
    return HttpMarketFeed(guard, sources, credentials=credentials)


def _declared(given: str | None) -> dict[str, MarketSource]:
    if given is None or not given.strip():
        return {}
    try:
        text = given if given.lstrip().startswith("{") else Path(given).read_text("utf-8")
        found = _NAMED.validate_python(json.loads(text))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InvalidInput("bad_setting", f"{where}: {first['msg']}", field=FIELD) from error
    except (OSError, ValueError) as error:
        message = f"neither JSON nor a file with it: {type(error).__name__}"
        raise InvalidInput("bad_setting", message, field=FIELD) from error
    if len(found) > MAX_SOURCES:
        raise InvalidInput("bad_setting", f"at most {MAX_SOURCES} sources", field=FIELD)
    return found


def _credential(name: str, variable: str, environment: Mapping[str, str]) -> str:
    value = environment.get(variable, "")
    if not value or not value.isascii() or not value.isprintable():
        message = f"{name}.header_from: {variable} is not set to printable ASCII text"
        raise InvalidInput("bad_setting", message, field=FIELD)
    return value
