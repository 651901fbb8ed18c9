"""The server: one process that serves the API and runs the workers, on one data folder."""

from __future__ import annotations

import ctypes
import fcntl
import gc
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from fastapi.telemetry import TelemetryConfig

from verifier_service import bootstrap
from verifier_service.api import bodies, problems
from verifier_service.api.body_limit import BodyLimit
from verifier_service.api.connections import protocol, raise_file_limit
from verifier_service.api.context import Context
from verifier_service.api.paths import EncodedSlashes
from verifier_service.api.routes import ROUTERS
from verifier_service.api.threads import limit_threads
from verifier_service.api.waiting import Hub
from verifier_service.bootstrap import Service
from verifier_service.bootstrap.accounts import Accounts, setup_url
from verifier_service.dashboard import reference, site
from verifier_service.domain.errors import InvalidInput, Unauthenticated
from verifier_service.observability import configure_logging
from verifier_service.services import tenants
from verifier_service.settings import Settings
from verifier_service.tracing import OtelTracer
from verifier_service.worker.ending import end_within
from verifier_service.worker.supervisor import OWNER_PREFIX, Supervisor

log = logging.getLogger(__name__)

VERSION = "1"
BACKLOG = 2_048
KEEP_ALIVE_S = 75
GRACE_S = 4
M_ARENA_MAX, ARENAS = -8, 2  # malloc.h of glibc
LOCK_FILE = "serve.lock"
KEY_FILE = "admin.key"
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class CannotStart(RuntimeError):
    """The server cannot start here, in words for its operator."""


def create_app(
    service: Service, *, alive: Callable[[], bool] = lambda: True, foresight: bool = False
) -> FastAPI:
    """The application over one service. ``alive`` tells whether the workers behind it live; with
    ``foresight`` it runs fast checks by itself, for those who wait for them."""
    context = Context.of(service, alive, foresight=foresight)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        limit_threads()
        yield
        context.hub.close()
        context.gatherer.close()

    app = FastAPI(
        title="verifier-service",
        version=VERSION,
        description="Multi-tier verification of agent trajectories: reward records for RL.",
        lifespan=lifespan,
        redirect_slashes=False,
        docs_url=None,  # FastAPI's pages load scripts from elsewhere; ours is ``dashboard.reference``
        redoc_url=None,
        telemetry=_telemetry(service),
    )
    app.state.context = context
    for router in ROUTERS:
        app.include_router(router)
    problems.install(app)
    site.install(app, service, context.accounts)
    reference.install(app)
    app.add_middleware(BodyLimit, limit=service.settings.max_body_bytes)
    app.add_middleware(EncodedSlashes)
    app.openapi = lambda: bodies.describe(app)  # type: ignore[method-assign]
    return app


def _telemetry(service: Service) -> TelemetryConfig:
    """Spans of requests where traces are collected. Never logs, which hold bodies, and nothing of pages:
    the address of a one-time link is a secret."""
    config: TelemetryConfig = {
        "metrics": False,
        "logs": False,
        "operation_spans": False,
        "exclude": lambda scope: str(scope.get("path", "")).startswith(f"{site.ROOT}/"),
    }
    if isinstance(service.tracer, OtelTracer):
        return config | {"tracing": True, "tracer_provider": service.tracer.provider}
    return config | {"tracing": False}


def serve(settings: Settings) -> None:
    """Serve until SIGINT or SIGTERM; print the URL on standard output once requests are answered.

    Raises ``CannotStart`` when another process uses the data folder or the address is taken. On the
    way out running work is given back without an attempt spent.
    """
    configure_logging(settings.log_level, as_json=settings.log_json)
    settings.data.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _locked(settings.data), _listening(settings.host, settings.port) as listener:
        service = bootstrap.build(settings)
        try:
            ensure_admin_key(service)
            _serve(service, listener)
        finally:
            service.tracer.close()
            service.drawer.close()
            service.store.close()


def ensure_admin_key(service: Service) -> Path:
    """The file with a working key that holds every scope; a new one is made where there is none."""
    path = service.settings.data / KEY_FILE
    if path.exists():
        try:
            with service.store.read() as tx:
                tenants.authenticate(tx, path.read_text("ascii").strip())
            return path
        except (Unauthenticated, UnicodeDecodeError):
            log.warning("the key in %s does not work here; it is replaced", path)
    with service.store.begin() as tx:
        made = tenants.create_key(tx, service.settings.project, "admin", tenants.EVERY_SCOPE)
    fresh = path.with_suffix(f".{os.getpid()}")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(made.token + "\n")
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    log.info("wrote the admin key to %s", path)
    return path


def _settle_garbage_collector() -> None:
    """Records live for one transaction and hold few cycles: look for them seldom, and never among the
    modules. The default thresholds took a third of the CPU of the fast path; five times these let 20 MB
    of garbage wait."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 20)


def _share_arenas() -> None:
    """Two arenas of glibc's allocator for all threads (``mallopt(3)``, ``MALLOC_ARENA_MAX``): with one for
    each, what a burst of requests needed once stays with every thread that served it."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None and "MALLOC_ARENA_MAX" not in os.environ:
        mallopt(M_ARENA_MAX, ARENAS)


def _serve(service: Service, listener: socket.socket) -> None:
    _share_arenas()
    _settle_garbage_collector()
    supervisor = Supervisor(service)
    supervisor.start()
    workers = [thread for thread in threading.enumerate() if thread.name.startswith(OWNER_PREFIX)]
    try:
        app = _application(service, lambda: all(thread.is_alive() for thread in workers))
        config = uvicorn.Config(
            app,
            http=protocol(raise_file_limit()),
            log_config=None,
            access_log=False,
            server_header=False,
            backlog=BACKLOG,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=GRACE_S,
        )
        url = _url(service.settings.host, listener.getsockname()[1])
        invitation = _invitation(app.state.context.accounts, url)
        _Server(config, app.state.context.hub, url, invitation).run(sockets=[listener])
    finally:
        end_within()
        supervisor.stop()


class _Server(uvicorn.Server):
    """uvicorn that says when it is ready, ends waits before it stops, and returns after a signal."""

    def __init__(self, config: uvicorn.Config, hub: Hub, url: str, invitation: str) -> None:
        super().__init__(config)
        self._hub = hub
        self._invitation = invitation
        self._url = url

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Print the URL when connections are accepted, and the link for the first admin; never log it."""
        await super().startup(sockets)
        if self.started:
            sys.stdout.write(f"verifier serving on {self._url}\n{self._invitation}")
            sys.stdout.flush()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer those who wait with what there is; else they would hold the stop up."""
        self._hub.close()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """The base raises a captured signal again when it is done, which would skip our own cleaning up."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in STOP_SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the data folder: two servers on it would take each other's work for a dead predecessor's."""
    with (folder / LOCK_FILE).open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.seek(0)
            holder = file.read().strip() or "unknown"
            raise CannotStart(f"the data folder {folder} is in use by process {holder}") from error
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield


@contextmanager
def _listening(host: str, port: int) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise CannotStart(f"cannot listen on {_url(host, port)}: {error.strerror or error}") from error
    with listener:
        yield listener


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _application(service: Service, alive: Callable[[], bool]) -> FastAPI:
    try:
        return create_app(service, alive=alive, foresight=service.settings.foresees)
    except InvalidInput as error:
        raise CannotStart(f"{error.field}: {error.message}") from error


def _invitation(accounts: Accounts, url: str) -> str:
    """What to tell whoever starts a service without an admin."""
    token = accounts.make_setup_link()
    if token is None:
        return ""
    return (
        "no admin yet: open this link on this machine within 15 minutes (it works once)\n"
        f"  {setup_url(url, token)}\n"
    )


def main() -> int:
    """Serve with the settings of the environment."""
    try:
        serve(Settings())
    except CannotStart as error:
        sys.stderr.write(f"verifier: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
