"""``docker-compose.yml`` and the ``Dockerfile`` as data, and their services as processes of this machine.

No container engine is needed: a service is its image's entrypoint with its command, run with its variables
and nothing else of ours. Names of services in variables become addresses of this machine, and ``/data`` a
folder of the service.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.support import brokers
from tests.support.server import ROOT
from tests.support.trouble import free_port

COMPOSE = ROOT / "docker-compose.yml"
DOCKERFILE = ROOT / "Dockerfile"
_VARIABLE = re.compile(r"\$(?:\$|\{(\w+)(?:(:?[-?])([^}]*))?\})")
_HEALTHY_S = 90.0

# Where there is no redis-cli, for its one use: ``redis-cli ping``.
_REDIS_CLI = """#!{python}
import os, sys, redis
client = redis.Redis(port=int(os.environ["REDIS_PORT"]), password=os.environ["REDISCLI_AUTH"])
assert sys.argv[1:] == ["ping"], sys.argv
print("PONG" if client.ping() else "no answer")
"""


class Unset(Exception):
    """A variable that the compose file requires has no value."""


def interpolated(value: Any, variables: Mapping[str, str]) -> Any:
    """A document of the compose file with ``${NAME}``, ``${NAME:-default}``, ``${NAME:?message}`` and
    ``$$`` replaced (Compose Specification, Interpolation). Raises ``Unset`` for a required one."""
    if isinstance(value, dict):
        return {name: interpolated(one, variables) for name, one in value.items()}
    if isinstance(value, list):
        return [interpolated(one, variables) for one in value]
    return (
        _VARIABLE.sub(lambda match: _replaced(match, variables), value) if isinstance(value, str) else value
    )


def _replaced(match: re.Match[str], variables: Mapping[str, str]) -> str:
    name, operator, given = match.groups()
    if name is None:
        return "$"
    value = variables.get(name)
    missing = value is None or (value == "" and (operator or "").startswith(":"))
    if not missing:
        return str(value)
    if operator in ("?", ":?"):
        raise Unset(f"{name}: {given}")
    return given if operator in ("-", ":-") else ""


def services(variables: Mapping[str, str]) -> dict[str, Any]:
    """The services by name. Raises ``Unset``."""
    document = yaml.safe_load(COMPOSE.read_text())
    found: dict[str, Any] = interpolated(document["services"], variables)
    return found


@dataclass
class Stage:
    """One stage of the Dockerfile: its name, what it begins from, and its instructions in order."""

    name: str
    base: str
    instructions: list[tuple[str, str]] = field(default_factory=list)

    def all(self, keyword: str) -> list[str]:
        """The arguments of every instruction of that kind."""
        return [given for kind, given in self.instructions if kind == keyword]


def stages() -> dict[str, Stage]:
    """The stages by name, in order."""
    found: dict[str, Stage] = {}
    current: Stage | None = None
    for keyword, given in _instructions(DOCKERFILE.read_text()):
        if keyword == "FROM":
            base, _, name = given.partition(" AS ")
            current = found[name] = Stage(name, base)
        elif current is not None:
            current.instructions.append((keyword, given))
    return found


def _instructions(text: str) -> Iterator[tuple[str, str]]:
    kept = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    whole = re.sub(r"\s*\\\n\s*", " ", "\n".join(kept))
    for line in whole.splitlines():
        keyword, _, given = line.partition(" ")
        yield keyword.upper(), given.strip()


def inherited(name: str, keyword: str) -> list[str]:
    """The instructions of that kind that hold in a stage, those of the stages it begins from first."""
    known = stages()
    found: list[str] = []
    while name in known:
        found = [*known[name].all(keyword), *found]
        name = known[name].base
    return found


def extras(stage: str) -> list[str]:
    """The extras of the wheel that a stage installs."""
    [named] = re.findall(r"\$\{wheel\}\[([\w,-]+)\]", " ".join(stages()[stage].all("RUN")))
    return str(named).split(",")


@dataclass
class Stack:
    """The services of the compose file on this machine. ``interpreters`` names, by build target, the
    interpreter of the environment that stands for the image; ``ports`` where postgres and redis listen."""

    folder: Path
    interpreters: Mapping[str, Path]
    ports: dict[str, int]
    postgres_binaries: Path
    variables: Mapping[str, str]
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.services = services(self.variables)
        self.ports["api"] = free_port()
        self.ports["redis"] = free_port()
        self._tools = self.folder / "bin"
        self._tools.mkdir()
        (self._tools / "redis-server").symlink_to(brokers._binary())
        found = shutil.which("redis-cli")
        if found is None:
            (self._tools / "redis-cli").write_text(_REDIS_CLI.format(python=sys.executable))
            (self._tools / "redis-cli").chmod(0o755)

    def data(self, service: str) -> Path:
        """What is ``/data`` inside."""
        folder = self.folder / service
        folder.mkdir(exist_ok=True)
        return folder

    def log(self, service: str) -> str:
        """What it has written."""
        return (self.folder / f"{service}.log").read_text()

    def command(self, service: str) -> list[str]:
        """The entrypoint of its image, where it is ours, and its command."""
        described = self.services[service]
        target = described.get("build", {}).get("target")
        entry = json.loads(inherited(target, "ENTRYPOINT")[-1]) if target else []
        more = []
        if service == "redis":
            more = ["--port", str(self.ports["redis"]), "--bind", "127.0.0.1", "--dir", str(self.folder)]
        return [*entry, *described["command"], *more]

    def environment(self, service: str) -> dict[str, str]:
        """Its variables, and nothing else of ours; one without a value is not set."""
        described = self.services[service]
        target = described.get("build", {}).get("target")
        paths = [self._tools, self.postgres_binaries, *os.environ["PATH"].split(os.pathsep)]
        if target:
            paths.insert(0, self.interpreters[target].parent)
        given = {
            name: self._here(service, value) for name, value in described["environment"].items() if value
        }
        if "VERIFIER_PORT" in given:
            given["VERIFIER_PORT"] = str(self.ports["api"])
        return {
            "PATH": os.pathsep.join(map(str, paths)),
            "HOME": str(self.folder),
            "PGPORT": str(self.ports["postgres"]),
            "REDIS_PORT": str(self.ports["redis"]),
            **given,
        }

    def _here(self, service: str, value: str) -> str:
        if value == "/data":
            return str(self.data(service))
        for name in ("postgres", "redis"):
            value = re.sub(rf"@{name}:\d+", f"@127.0.0.1:{self.ports[name]}", value)
        return value

    def start(self, service: str) -> subprocess.Popen[bytes]:
        """Start it; what it writes goes to its log."""
        with (self.folder / f"{service}.log").open("ab") as output:
            self.running[service] = subprocess.Popen(
                self.command(service),
                env=self.environment(service),
                cwd="/",
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        return self.running[service]

    def check(self, service: str) -> subprocess.CompletedProcess[str]:
        """Run its health check once."""
        kind, *command = self.services[service]["healthcheck"]["test"]
        assert kind in ("CMD", "CMD-SHELL")
        return subprocess.run(
            ["/bin/sh", "-c", *command] if kind == "CMD-SHELL" else command,
            env=self.environment(service),
            cwd="/",
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )

    def await_healthy(self, service: str) -> None:
        """Returns when its health check passes."""
        until = time.monotonic() + _HEALTHY_S
        while (looked := self.check(service)).returncode != 0:
            process = self.running.get(service)
            ended = process is not None and process.poll() is not None
            assert not ended, f"{service} ended: {self.log(service)[-3000:]}"
            assert time.monotonic() < until, f"{service}: {looked.stderr} {self.log(service)[-3000:]}"
            time.sleep(0.2)

    def stop(self, service: str) -> int:
        """SIGTERM, and its exit status within its grace period."""
        process = self.running.pop(service)
        process.send_signal(signal.SIGTERM)
        grace = self.services[service].get("stop_grace_period", "10s")
        return process.wait(float(grace.removesuffix("s")))

    def close(self) -> None:
        """Kill what lives."""
        for process in self.running.values():
            if process.poll() is None:
                process.kill()
            process.wait()
