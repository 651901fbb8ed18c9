"""The deployment files: valid, what they promise, and their very commands run as processes."""

from __future__ import annotations

import fnmatch
import json
import os
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml

from tests.support import databases
from tests.support.compose import COMPOSE, Stack, Unset, extras, inherited, services, stages
from tests.support.databases import PostgresServer
from tests.support.server import ROOT, fresh, identity
from tiers.catalog import VerifierCatalog
from verifier_service.client import Client, Wait
from verifier_service.settings import Settings
from verifier_service.worker.machine import RESTING_MB
from verifier_service.worker.pulse import FOLDER, PATIENCE_S, trouble

SECRETS = {"POSTGRES_PASSWORD": "p0stgres", "REDIS_PASSWORD": "r3dis"}
WORKERS = {
    "worker-fast": "fast",
    "worker-simulation": "simulation",
    "worker-high-fidelity": "high_fidelity",
}
PINNED = re.compile(r"^[a-z]+:\d+\.\d+(\.\d+)?-[a-z0-9-]+$")
HYDROGEN = "2\n\nH 0 0 0\nH 0 0 0.74\n"


def of_schema(document: Path) -> subprocess.CompletedProcess[str]:
    """Judge a file by the published schema of the Compose Specification."""
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    return subprocess.run([*command, document], capture_output=True, text=True, check=False)


def test_the_compose_file_is_valid_by_the_published_schema(tmp_path: Path) -> None:
    assert (judged := of_schema(COMPOSE)).returncode == 0, judged.stdout
    wrong = tmp_path / "docker-compose.yml"
    wrong.write_text(COMPOSE.read_text().replace("healthcheck:", "healtcheck:"))
    assert of_schema(wrong).returncode != 0


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("value", [None, ""])
def test_nothing_starts_without_passwords(secret: str, value: str | None) -> None:
    given = {name: one for name, one in SECRETS.items() if name != secret}
    with pytest.raises(Unset, match=secret):
        services(given if value is None else {**given, secret: value})


def test_the_example_of_settings_has_no_password_in_it() -> None:
    lines = [line for line in (ROOT / ".env.example").read_text().splitlines() if line and line[0] != "#"]
    example = dict(line.split("=", 1) for line in lines)
    assert {name for name, value in example.items() if value == ""} == set(SECRETS)
    asked = set(re.findall(r"\$\{(\w+)", COMPOSE.read_text()))
    assert set(example) <= asked
    services({**example, **SECRETS})


def test_every_service_is_confined_and_bounded() -> None:
    for name, service in services(SECRETS).items():
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert "privileged" not in service, name
        assert {"cpus", "memory"} <= set(service["deploy"]["resources"]["limits"]), name
        assert service["logging"]["options"]["max-size"], name
        user = service.get("user") or inherited(service["build"]["target"], "USER")[-1]
        assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user), name
        if name != "migrate":
            assert service["restart"] == "unless-stopped"
            assert service["healthcheck"]["test"]
        if "build" not in service:
            assert PINNED.match(service["image"]), service["image"]


def test_only_the_api_can_be_reached_and_from_this_machine_only() -> None:
    found = services(SECRETS)
    assert [name for name, service in found.items() if "ports" in service] == ["api"]
    assert found["api"]["ports"] == ["127.0.0.1:8321:8321"]
    assert [name for name, service in found.items() if "outer" in service["networks"]] == ["api"]
    assert yaml.safe_load(COMPOSE.read_text())["networks"]["inner"]["internal"] is True


def test_everything_begins_on_migrated_tables() -> None:
    found = services(SECRETS)
    assert found["migrate"]["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    for name in ("api", *WORKERS):
        assert found[name]["depends_on"] == {
            "postgres": {"condition": "service_healthy"},
            "redis": {"condition": "service_healthy"},
            "migrate": {"condition": "service_completed_successfully"},
        }


def test_the_images_are_pinned_and_end_as_an_ordinary_user() -> None:
    known = stages()
    assert [stage.base for stage in known.values() if stage.base not in known] == [known["base"].base]
    assert PINNED.match(known["base"].base)
    for target in ("api", "worker"):
        assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", known[target].all("USER")[-1])
        assert json.loads(inherited(target, "ENTRYPOINT")[-1]) == ["verifier"]
        assert known[target].instructions[-1][0] == "CMD"
        assert json.loads(known[target].all("CMD")[-1])


@pytest.mark.parametrize(("target", "service"), [("api", "api"), ("worker", "worker-fast")])
def test_images_and_services_have_one_health_check(target: str, service: str) -> None:
    [check] = stages()[target].all("HEALTHCHECK")
    described = services(SECRETS)[service]["healthcheck"]
    assert json.loads(check.partition(" CMD ")[2]) == described["test"][1:]
    assert f"--interval={described['interval']}" in check


def test_what_the_images_copy_is_there_and_all_of_the_package() -> None:
    known = list(stages())
    copied: set[str] = set()
    for at, (name, stage) in enumerate(stages().items()):
        for given in stage.all("COPY"):
            *sources, _ = given.split()
            if sources[0].startswith("--from="):
                assert sources[0].removeprefix("--from=") in known[:at], f"{name}: {given}"
                continue
            copied.update(sources)
    ignored = [
        line for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] not in ("#", "")
    ]
    assert ignored[0] == "*"
    for source in copied:
        assert (ROOT / source).exists(), source
        assert any(fnmatch.fnmatch(source, line[1:]) for line in ignored if line[0] == "!"), source
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"][
        "wheel"
    ]
    assert {*build["packages"], *build["force-include"]} <= copied


def test_the_images_install_extras_that_exist_and_none_brings_torch() -> None:
    offered = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    api, worker = extras("api-environment"), extras("worker-environment")
    assert set(api) <= set(offered)
    assert {"simulation", "high-fidelity"} <= set(worker) <= set(offered)
    assert not set(api) & {"chem", "simulation", "high-fidelity"}
    for extra in {*api, *worker}:
        assert not any("torch" in requirement for requirement in offered[extra])


def test_a_worker_that_stopped_working_is_ill(tmp_path: Path) -> None:
    assert "no worker" in str(trouble(tmp_path, PATIENCE_S))
    pulses = tmp_path / FOLDER
    pulses.mkdir()
    for name in ("fast.0", "fast.1"):
        (pulses / name).touch()
    assert trouble(tmp_path, PATIENCE_S) is None
    then = time.time() - PATIENCE_S - 5
    os.utime(pulses / "fast.1", (then, then))
    assert "fast.1 was last at work 35 s ago" in str(trouble(tmp_path, PATIENCE_S))


@pytest.fixture(scope="module")
def api_interpreter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the extras of the image ``api`` and nothing else."""
    folder = tmp_path_factory.mktemp("api") / "environment"
    uv = [sys.executable, "-m", "uv"]
    subprocess.run([*uv, "venv", "--quiet", "--python", sys.executable, str(folder)], check=True)
    interpreter = folder / "bin" / "python"
    wanted = f"{ROOT}[{','.join(extras('api-environment'))}]"
    install = [*uv, "pip", "install", "--quiet", "--python", str(interpreter), wanted]
    subprocess.run(install, check=True, timeout=300)
    return interpreter


@pytest.fixture(scope="module")
def stack(
    api_interpreter: Path, postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stack]:
    """The services, started in the order of their conditions."""
    folder = tmp_path_factory.mktemp("compose")
    made = Stack(
        folder,
        {"api": api_interpreter, "worker": Path(sys.executable)},
        {"postgres": int(postgres.base.rpartition(":")[2].partition("/")[0])},
        databases._binaries(folder),
        SECRETS,
    )
    with database(postgres, made.services["postgres"]):
        try:
            made.start("redis")
            for service in ("postgres", "redis"):
                made.await_healthy(service)
            assert made.start("migrate").wait(60) == 0, made.log("migrate")
            assert made.check("api").returncode == 1
            assert all(made.check(worker).returncode == 1 for worker in WORKERS)
            for service in ("api", *WORKERS):
                made.start(service)
            for service in ("api", *WORKERS):
                made.await_healthy(service)
            yield made
        finally:
            made.close()


class database:  # noqa: N801 - reads as a block
    """What the image of Postgres makes of its variables: a role and a database of its own."""

    def __init__(self, server: PostgresServer, service: dict[str, Any]) -> None:
        self._base, self._of, self._command = server.base, service["environment"], service["command"]

    def __enter__(self) -> None:
        role, name = self._of["POSTGRES_USER"], self._of["POSTGRES_DB"]
        with psycopg.connect(self._base, autocommit=True) as connection:
            settings = [one.partition("=")[0] for one in self._command[2::2]]
            known = connection.execute("SELECT name FROM pg_settings WHERE name = ANY(%s)", [settings])
            assert {row[0] for row in known} == set(settings)
            connection.execute(f"CREATE ROLE {role} LOGIN")  # type: ignore[call-overload]
            connection.execute(f"CREATE DATABASE {name} OWNER {role}")  # type: ignore[call-overload]

    def __exit__(self, *_: object) -> None:
        role, name = self._of["POSTGRES_USER"], self._of["POSTGRES_DB"]
        with psycopg.connect(self._base, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")  # type: ignore[call-overload]
            connection.execute(f"DROP ROLE {role}")  # type: ignore[call-overload]


@pytest.fixture(scope="module")
def client(stack: Stack) -> Iterator[Client]:
    """A client with the key that the guide says to read."""
    key = (stack.data("api") / "admin.key").read_text().strip()
    with Client(f"http://127.0.0.1:{stack.ports['api']}", key) as opened:
        yield opened


def test_the_api_lists_what_only_workers_have(client: Client) -> None:
    listed = {one.info.name: one for one in client.verifiers()}
    assert listed["pyscf.gap"].unavailable
    assert listed["molecule.identity"].unavailable
    assert listed["pyscf.gap"].libraries["pyscf"] != "missing"


def test_workers_of_every_tier_judge(client: Client, stack: Stack) -> None:
    items = [
        identity("OCC"),
        identity("CCC"),
        {"id": fresh("g"), "ladder": "organic-gap", "answer": "C=O"},
        {
            "id": fresh("e"),
            "ladder": "quantum-energy",
            "problem": {"inputs": {"charge": 0, "spin_2S": 0, "method": "UHF/STO-3G"}},
            "answer": {"xyz": HYDROGEN},
        },
    ]
    answer = client.submit("r", items, wait=Wait("high_fidelity", 120))
    right, wrong, gap, energy = (result.reward for result in answer.results)
    assert right is not None
    assert right.reward == 1.0
    assert wrong is not None
    assert wrong.reward == 0.0
    assert gap is not None
    assert gap.reward is not None
    assert "simulation" in gap.tiers
    assert energy is not None, answer.results[3]
    assert energy.reward == 1.0
    assert judges(client, items) == {stack.running[name].pid for name in WORKERS}


def judges(client: Client, items: list[dict[str, Any]]) -> set[int]:
    """The processes whose evidence the cases cite."""
    found = set()
    for item in items:
        for demand in client.trajectory("r", item["id"]).demands:
            if demand.check is not None and demand.check.evidence is not None:
                owner = demand.check.evidence.provenance.worker or ""
                found.add(int(re.findall(r"/(\d+)-", owner)[0]))
    return found


def test_everything_ends_in_order(stack: Stack) -> None:
    for service in ("api", *WORKERS):
        assert stack.check(service).returncode == 0, service
    for service in (*WORKERS, "api"):
        assert stack.stop(service) == 0, stack.log(service)[-2000:]
    assert stack.check("api").returncode == 1
    assert stack.stop("redis") == 0
    assert stack.check("redis").returncode != 0


def test_every_verifier_fits_the_container_of_its_tier() -> None:
    """And everything that runs side by side in it fits, beside the worker itself."""
    settings, document = Settings(), services(SECRETS)
    for name, tier in WORKERS.items():
        limit = document[name]["deploy"]["resources"]["limits"]["memory"]
        assert limit.endswith("g")
        memory_mb = int(limit[:-1]) * 1024
        infos = [one.info for one in VerifierCatalog().list() if one.info.tier.value == tier]
        alone = [one.limits.memory_mb for one in infos if not one.parallel]
        beside = [one.limits.memory_mb for one in infos if one.parallel]
        parallel = int(document[name]["environment"].get("VERIFIER_PARALLEL_CHILDREN", "1"))
        assert tier == "fast" or not beside
        lanes = settings.fast_workers if tier == "fast" else settings.slow_workers
        needed = max(alone) + parallel * max(beside, default=0)
        assert RESTING_MB + lanes * needed <= memory_mb, name


def test_programs_beside_each_other_do_not_depend_on_the_machine_of_a_container() -> None:
    """Its quota of processors is not what the harness counts: on 64 cores there would be 64 programs."""
    assert services(SECRETS)["worker-fast"]["environment"]["VERIFIER_PARALLEL_CHILDREN"] == "2"
