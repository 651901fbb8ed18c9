"""The API keeps to its own description: generated requests, no surprise in any answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    ignored_auth,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from tests.support import server
from tests.support.server import JUDGED, Server, act, identity, submit

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    unsupported_method,
    ignored_auth,
]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of its own: generated requests close runs and store ladders."""
    with server.running(tmp_path_factory.mktemp("schema")) as running:
        with running.client() as client:
            client.put(f"/v1/ladders/{JUDGED['name']}", json=JUDGED).raise_for_status()
            submit(client, "0", identity("CCO") | {"id": "0", "group": "0"}, act("ok"))
        yield running


@settings(
    max_examples=8,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(data=st.data())
def exercise(running: Server, operation: Any, data: st.DataObject) -> None:
    """Send generated requests to one operation and compare the answers with its description."""
    case = data.draw(operation.as_strategy())
    if isinstance(case.query, dict) and "wait" in case.query:
        case.query["wait"] = 0  # drawn from up to two minutes
    if isinstance(case.body, dict):
        case.body.pop("wait", None)
    case.call_and_validate(headers=running.headers, checks=CHECKS)


def test_answers_are_as_described(running: Server) -> None:
    schema = schemathesis.openapi.from_url(f"{running.url}/openapi.json")
    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) > 20
    for operation in operations:
        exercise(running, operation)
