"""``verifier conformance``: put a verifier through the suite that all of them must pass."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from verifier_service.cli.boundary import FAILED, USAGE, Failed
from verifier_service.cli.lines import opened
from verifier_service.cli.screen import AsJson, dump, note, say, table
from verifier_service.cli.server import require_server
from verifier_service.domain.errors import InvalidInput
from verifier_service.domain.records import JsonObject

if TYPE_CHECKING:
    from tiers.conformance_records import Conformance, Sample


def conformance(
    path: Annotated[str, typer.Argument(help="module:Class, of an installed package; or a shipped name.")],
    samples: Annotated[
        Path | None,
        typer.Option("--samples", help="JSON lines: items with the ending you expect of each."),
    ] = None,
    params: Annotated[str, typer.Option("--params", help="Parameters as a JSON object.")] = "{}",
    as_json: AsJson = False,
) -> None:
    """Try everything a verifier promises: determinism, failures, blame, limits, hostile input, secrets."""
    require_server()
    from tiers import conformance as suite
    from tiers.catalog_sources import SHIPPED, BrokenPlugin
    from verifier_service.settings import Settings

    found = SHIPPED.get(path, path)
    if ":" not in found:
        raise Failed(f"{path!r} is not module:Class", "write my.module:MyVerifier", code=USAGE)
    given = _params(params)
    try:
        read: tuple[Sample, ...] = ()
        if samples is not None:
            with opened(samples) as (lines, _):
                read = suite.read_samples(lines)
        report = suite.conformance(
            found,
            read,
            given,
            environment=Settings().for_verifiers(),
            progress=note if not as_json else lambda _: None,
        )
    except BrokenPlugin as error:
        step = "install its package where verifier is (pip install -e .), and check the name"
        raise Failed(f"{path} {error}", step) from error
    except InvalidInput as error:
        raise Failed(error.message, "correct the samples or the parameters") from error
    if as_json:
        dump(report)
    else:
        _show(report)
    if not report.conforms:
        raise typer.Exit(FAILED)


def _params(text: str) -> JsonObject:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise typer.BadParameter(f"not JSON: {error}", param_hint="--params") from error
    if not isinstance(value, dict):
        raise typer.BadParameter("a JSON object is needed", param_hint="--params")
    return value


def _show(report: Conformance) -> None:
    table("", ("check", "", "what was seen"), ((c.name, c.verdict, c.message) for c in report.checks))
    for check in report.checks:
        for example in check.examples:
            say(f"{check.name}: {example}")
    failed = [check.name for check in report.checks if check.verdict == "failed"]
    ending = f"does not conform: {', '.join(failed)}" if failed else "conforms"
    say(
        f"\n{report.verifier} {report.version} {ending} "
        f"({report.samples} samples, {report.items} outcomes, {report.seconds:.1f} s)"
    )
