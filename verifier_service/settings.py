"""Settings: ``VERIFIER_*`` environment variables, read once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from platformdirs import user_data_path
from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from verifier_service.domain.accounts import RoleName
from verifier_service.domain.resources import Tag
from verifier_service.domain.webhook_rules import SCHEDULE_S

MEGABYTE = 1024 * 1024


class Settings(BaseSettings):
    """Everything an operator may set. Durations in seconds, sizes in bytes, prices in credits.

    A fast worker has up to ``fast_children`` processes (default: the cores and six) to go on with when
    an item takes longer than ``overtake_s``, and ``parallel_children`` (default: the cores) for verifiers
    that wait for processes of their own. ``worker_tags`` are separated by commas; the other resources of a
    worker are found where they are not set. Rates are per key and second, in each process; ``max_queued``
    are checks of one run that wait for machines, in the database. ``public_url`` is the address under which
    browsers reach the pages behind a proxy. ``oidc_roles`` say which value of the role claim makes which
    role, ``group=role`` separated by commas; of several that somebody has, the first counts.
    ``market_sources`` is JSON, or the path of a file with it.
    """

    model_config = SettingsConfigDict(env_prefix="VERIFIER_", extra="ignore", frozen=True)

    data: Path = Field(default_factory=lambda: user_data_path("verifier-service"))
    database_url: str | None = None
    broker_url: str | None = Field(default=None, repr=False)
    embedded_workers: bool | None = None
    foresight: bool | None = None
    host: str = "127.0.0.1"
    port: int = Field(default=8321, ge=0, le=65_535)
    project: str = "default"
    plugins: tuple[str, ...] = ()

    fast_workers: int = Field(default=1, ge=1)
    slow_workers: int = Field(default=1, ge=1)
    fast_batch: int = Field(default=256, ge=1, le=4_096)
    fast_children: int | None = Field(default=None, ge=1)
    parallel_children: int | None = Field(default=None, ge=1)
    overtake_s: float = Field(default=0.05, gt=0)
    lease_s: float = Field(default=30.0, gt=0)
    tick_s: float = Field(default=0.2, gt=0)
    heartbeat_s: float = Field(default=5.0, gt=0, le=600)
    worker_tags: Annotated[tuple[Tag, ...], NoDecode] = ()
    worker_cpus: float | None = Field(default=None, gt=0)
    worker_gpus: int | None = Field(default=None, ge=0)
    worker_memory_mb: int | None = Field(default=None, gt=0)

    max_body_bytes: int = Field(default=64 * MEGABYTE, ge=1_024)
    max_batch: int = Field(default=4_096, ge=1)
    max_wait_s: float = Field(default=120.0, ge=0)
    gather_ms: float = Field(default=2.0, ge=0)
    rate_requests: float | None = Field(default=None, gt=0)
    rate_trajectories: float | None = Field(default=None, gt=0)
    max_queued: int = Field(default=1_000_000, ge=1)

    review_grace_s: float = Field(default=10.0, ge=0)
    review_held: int = Field(default=20, ge=1, le=1_000)

    webhook_http: bool = False
    webhook_ports: Annotated[tuple[int, ...] | None, NoDecode] = None
    webhook_allow: Annotated[tuple[str, ...], NoDecode] = ()
    webhook_timeout_s: float = Field(default=20.0, gt=0)
    webhook_at_once: int = Field(default=8, ge=1, le=64)
    webhook_schedule_s: Annotated[tuple[float, ...], NoDecode] = SCHEDULE_S
    webhook_disable_after_s: float = Field(default=432_000.0, gt=0)
    webhook_rotation_s: float = Field(default=86_400.0, ge=0)
    webhook_keep_s: float = Field(default=259_200.0, ge=0)
    webhook_keep_failed_s: float = Field(default=2_592_000.0, ge=0)
    max_webhooks: int = Field(default=32, ge=0)

    market_sources: str | None = None
    market_http: bool = False
    market_ports: Annotated[tuple[int, ...] | None, NoDecode] = None
    market_allow: Annotated[tuple[str, ...], NoDecode] = ()

    sandbox: Literal["auto", "namespaces", "landlock", "remote", "off"] = "auto"
    sandbox_url: str | None = None
    sandbox_key: str | None = Field(default=None, repr=False)
    languages: str | None = None

    cpu_hour: float = Field(default=0.05, ge=0)
    gpu_hour: float = Field(default=2.0, ge=0)
    human_hour: float = Field(default=60.0, ge=0)
    budget_compute: float | None = Field(default=None, ge=0)
    budget_human: float | None = Field(default=None, ge=0)

    public_url: str | None = Field(default=None, pattern=r"^https?://[^/?#@\s]+/?$")
    oidc_issuer: str | None = Field(default=None, pattern=r"^https?://[^\s]+$")
    oidc_client_id: str | None = None
    oidc_client_secret: str | None = Field(default=None, repr=False)
    oidc_role_claim: str = "roles"
    oidc_roles: Annotated[dict[str, RoleName], NoDecode] = {}
    session_idle_s: float = Field(default=43_200.0, gt=0)
    session_max_s: float = Field(default=604_800.0, gt=0)

    learning: bool = True

    log_level: str = "info"
    log_json: bool = False
    tracing: bool = False

    @field_validator(
        "worker_tags",
        "webhook_allow",
        "webhook_ports",
        "webhook_schedule_s",
        "market_ports",
        "market_allow",
        mode="before",
    )
    @classmethod
    def _parts_of_text(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        return tuple(part for found in value.split(",") if (part := found.strip()))

    @field_validator("oidc_roles", mode="before")
    @classmethod
    def _pairs_of_text(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        pairs = (part.rpartition("=") for part in value.split(",") if part.strip())
        return {name.strip(): role.strip() for name, _, role in pairs}

    @property
    def runs_workers(self) -> bool:
        """Whether ``verifier serve`` runs the tiers' workers itself: by default when there is no broker."""
        return self.broker_url is None if self.embedded_workers is None else self.embedded_workers

    @property
    def foresees(self) -> bool:
        """Whether ``verifier serve`` runs fast checks of those who wait before it stores their batch: by
        default where it runs workers."""
        return self.runs_workers if self.foresight is None else self.foresight

    def engine_url(self) -> str:
        """The database: ``database_url``, else a SQLite file in the data folder."""
        return self.database_url or f"sqlite:///{self.data / 'verifier.db'}"

    def for_verifiers(self) -> dict[str, str]:
        """The variables that verifiers may read, in this process and in the children."""
        chosen = {
            "SANDBOX": self.sandbox,
            "SANDBOX_URL": self.sandbox_url,
            "SANDBOX_KEY": self.sandbox_key,
            "LANGUAGES": self.languages,
        }
        return {f"VERIFIER_{name}": value for name, value in chosen.items() if value is not None}
