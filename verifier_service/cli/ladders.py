"""``verifier ladders``, ``verifier verifiers``: what can be verified, and with what."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from verifier_service.cli.connection import connect, read_json
from verifier_service.cli.screen import AsJson, dump, dump_all, number, say, table
from verifier_service.domain.evidence import TIERS
from verifier_service.domain.ladders import Ladder, VerifierUse

app = typer.Typer(help="Ladders: which verifiers on which tier, and how they become a reward.")


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """The latest version of every ladder."""
    with connect() as client:
        found = client.ladders()
    if as_json:
        dump_all(found)
        return
    table(
        "",
        ("ladder", "version", "candidate", "estimates", *TIERS),
        (
            (
                ladder.name,
                ladder.version,
                ladder.spec.candidate.kind,
                _goal(ladder),
                *(", ".join(use.use for use in ladder.spec.tiers.get(tier, ())) for tier in TIERS),
            )
            for ladder in found
        ),
    )


def _goal(ladder: Ladder) -> str:
    spec = ladder.spec
    if spec.quantity is not None:
        return f"{spec.quantity.name} [{spec.quantity.unit}]"
    return f"score of {spec.outcome.use}" if spec.outcome is not None else ""


@app.command()
def show(
    name: str,
    version: Annotated[int | None, typer.Option("--version", help="The latest when left out.")] = None,
    as_json: AsJson = False,
) -> None:
    """One ladder, rung by rung."""
    with connect() as client:
        ladder = client.ladder(name, version=version)
    if as_json:
        dump(ladder)
        return
    spec = ladder.spec
    say(f"{ladder.name}, version {ladder.version}: {_goal(ladder)}, truth at {spec.truth}")
    if spec.utility is not None:
        say(f"utility: {spec.utility.model_dump_json()}")
    say(f"process weight: {spec.process.weight:g}; people answer within {spec.deadline_s / 3600:g} h")
    table(
        "",
        ("rung", "verifier", "role", "map", "parameters"),
        (
            (rung.path, rung.use.use, rung.role, rung.use.map or "", _params(rung.use))
            for rung in ladder.rungs
        ),
    )


def _params(use: VerifierUse) -> str:
    return json.dumps(use.params) if use.params else ""


@app.command()
def put(file: Annotated[Path, typer.Argument(help="A ladder as JSON.")], as_json: AsJson = False) -> None:
    """Store a ladder. A changed one is a new version; runs keep the version they began with."""
    spec = read_json(file)
    with connect() as client:
        stored = client.put_ladder(str(spec.get("name", "")) or file.stem, spec)
    if as_json:
        dump(stored)
        return
    verb = "stored as" if stored.created else "already there as"
    say(f"{stored.ladder.name}: {verb} version {stored.ladder.version}")


def verifiers(as_json: AsJson = False) -> None:
    """The catalogue of the server: tier, typical cost, and why one cannot run there."""
    with connect() as client:
        found = client.verifiers()
    if as_json:
        dump_all(found)
        return
    table(
        "",
        ("verifier", "version", "tier", "typical", "what it does", "unavailable because"),
        (
            (
                item.info.name,
                item.info.version,
                item.info.tier,
                f"{number(item.info.typical_cpu_s, 2)} s CPU"
                if item.info.typical_human_s == 0
                else f"{number(item.info.typical_human_s / 60, 2)} min person",
                item.info.summary,
                item.unavailable or "",
            )
            for item in found
        ),
    )
