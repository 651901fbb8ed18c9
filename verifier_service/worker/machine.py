"""What this machine offers: the cores, memory and GPUs that this process may use."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import psutil

from verifier_service.domain.resources import Offer
from verifier_service.settings import MEGABYTE, Settings

log = logging.getLogger(__name__)

NVIDIA_SMI = ("nvidia-smi", "--list-gpus")
ASK_S = 10.0
RESTING_MB = 150  # what a worker has for itself: 100 to 127 MiB were measured, by tier
UNLIMITED = 1 << 60  # cgroup v1 writes "no limit" as a number near 2^63


def offer(settings: Settings) -> Offer:
    """The resources of a worker: what is set, else what is found, but no memory that the worker itself
    needs."""
    cpus, gpus, memory_mb = settings.worker_cpus, settings.worker_gpus, settings.worker_memory_mb
    return Offer(
        cpus=cores() if cpus is None else cpus,
        gpus=gpu_count() if gpus is None else gpus,
        memory_mb=max(1, memory() // MEGABYTE - RESTING_MB) if memory_mb is None else memory_mb,
        tags=tuple(sorted(set(settings.worker_tags))),
    )


def cores(root: Path = Path("/")) -> float:
    """Cores that this process may use: its affinity, and the quota of its control groups."""
    allowed = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return min([float(allowed), *_quotas(root)])


def memory(root: Path = Path("/")) -> int:
    """Bytes of memory that this process may use: the machine's, and the limits of its control groups."""
    return min([int(psutil.virtual_memory().total), *_memory_limits(root)])


def gpu_count(root: Path = Path("/")) -> int:
    """NVIDIA devices: as the driver lists them, else as ``nvidia-smi`` does, which is all that some
    containers have. 0 where there is neither."""
    listed = root / "proc/driver/nvidia/gpus"
    if listed.is_dir():
        return len(list(listed.iterdir()))
    try:
        told = subprocess.run(NVIDIA_SMI, capture_output=True, text=True, timeout=ASK_S, check=False)
    except FileNotFoundError:
        return 0
    except (OSError, subprocess.TimeoutExpired) as error:
        log.warning("nvidia-smi does not say which GPUs there are: %s", error)
        return 0
    return len(re.findall(r"^GPU \d+:", told.stdout, re.MULTILINE))


def _quotas(root: Path) -> Iterator[float]:
    """CPU quotas in cores, of every control group above this process."""
    for folder in _groups(root, ""):
        quota, _, period = (_read(folder / "cpu.max") or "").partition(" ")
        if quota.isdigit() and period.strip().isdigit():
            yield int(quota) / int(period)
    for folder in _groups(root, "cpu"):
        quota, period = _read(folder / "cpu.cfs_quota_us") or "", _read(folder / "cpu.cfs_period_us") or ""
        if quota.isdigit() and period.isdigit():
            yield int(quota) / int(period)


def _memory_limits(root: Path) -> Iterator[int]:
    for controller, name in (("", "memory.max"), ("memory", "memory.limit_in_bytes")):
        for folder in _groups(root, controller):
            limit = _read(folder / name) or ""
            if limit.isdigit() and int(limit) < UNLIMITED:
                yield int(limit)


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """Folders of the control group of this process and of those above it: version 2, or one controller of
    version 1."""
    base = root / "sys/fs/cgroup" / controller
    for line in (_read(root / "proc/self/cgroup") or "").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controller in controllers.split(","):
            below = PurePosixPath(path.lstrip("/"))
            yield from (base / folder for folder in (below, *below.parents) if ".." not in folder.parts)


def _read(file: Path) -> str | None:
    try:
        return file.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
