"""What a sandboxed process gives up before it takes its first order."""

from __future__ import annotations

import posix
import resource
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MIB = 1 << 20
_PR_SET_DUMPABLE = 4
_PR_SET_NO_NEW_PRIVS = 38
_PR_SET_SECCOMP = 22
_MODE_FILTER = 2
_CREATE, _ADD, _RESTRICT = 444, 445, 446
_RULE_PATH_BENEATH = 1
_ALL_FILE_RIGHTS = (1 << 16) - 1
_READ_RIGHTS = (1 << 0) | (1 << 2) | (1 << 3)
_ALL_NET_RIGHTS = 3
_ALL_SCOPES = 3
_KIND, _FOLDER = 0o170000, 0o040000  # of a file's mode, as in stat(2)


def confine(uid: int, processes: int, file_mb: int, readable: tuple[str, ...], filter: bytes) -> None:
    """Give it up, for good. Raises ``OSError`` when any part of it cannot be had.

    ``uid`` is what to become (-1: stay). ``readable`` and ``filter`` are for Landlock and seccomp where no
    namespaces stand around the process.
    """
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_FSIZE, file_mb * _MIB)
    _lower(resource.RLIMIT_NOFILE, 256)
    _lower(resource.RLIMIT_MEMLOCK, 0)
    _lower(resource.RLIMIT_MSGQUEUE, 0)
    _stack()
    if uid >= 0:
        posix.setgroups([])
        posix.setresgid(uid, uid, uid)
        posix.setresuid(uid, uid, uid)
    elif not filter:
        # Becoming another user would have done this: no program may open this process's descriptors.
        _checked(_libc().prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0), "dumpable")
    if readable:
        # Nothing may be started there at all, and the limit would count what else this user runs.
        _landlock(readable)
    else:
        _lower(resource.RLIMIT_NPROC, processes)
    if filter:
        seccomp(filter)


def limit_memory(memory_mb: int) -> None:
    """Bound the address space of this process and of what it starts."""
    _lower(resource.RLIMIT_AS, memory_mb * _MIB)


def _lower(which: int, value: int) -> None:
    _, hard = resource.getrlimit(which)
    bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(which, (bound, bound))


def _stack() -> None:
    soft = 64 * _MIB
    _, hard = resource.getrlimit(resource.RLIMIT_STACK)
    if hard != resource.RLIM_INFINITY:
        soft = min(soft, hard)
    resource.setrlimit(resource.RLIMIT_STACK, (soft, soft))


def _libc() -> Any:
    import ctypes

    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> int:
    import ctypes

    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {posix.strerror(code)}")
    return result


def landlock_version() -> int:
    """The kernel's Landlock ABI version; 0 where there is none."""
    if sys.platform != "linux":
        return 0
    return max(0, int(_libc().syscall(_CREATE, None, 0, 1)))


def _landlock(readable: tuple[str, ...]) -> None:
    """Only ``readable`` may be read and run, nothing written, no TCP, no signals to the outside.

    See https://docs.kernel.org/userspace-api/landlock.html (ABI 6 for the scopes).
    """
    import ctypes

    libc = _libc()
    rights = (ctypes.c_uint64 * 3)(_ALL_FILE_RIGHTS, _ALL_NET_RIGHTS, _ALL_SCOPES)
    rules = _checked(libc.syscall(_CREATE, ctypes.byref(rights), 24, 0), "landlock_create_ruleset")
    for path in readable:
        place = posix.open(path, posix.O_PATH | posix.O_CLOEXEC)
        rule = _PathRule(_READ_RIGHTS if _is_folder(path) else (1 << 0) | (1 << 2), place)
        _checked(libc.syscall(_ADD, rules, _RULE_PATH_BENEATH, rule, 0), f"landlock_add_rule {path}")
        posix.close(place)
    _checked(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    _checked(libc.syscall(_RESTRICT, rules, 0), "landlock_restrict_self")
    posix.close(rules)


def _is_folder(path: str) -> bool:
    return posix.stat(path).st_mode & _KIND == _FOLDER


def _PathRule(rights: int, place: int) -> Any:
    import ctypes
    import struct

    return ctypes.create_string_buffer(struct.pack("=Qi", rights, place), 12)


def seccomp(program: bytes) -> None:
    """Install a filter for system calls on this process and all that it starts. Raises ``OSError``."""
    import ctypes

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]

    libc = _libc()
    _checked(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    wanted = Program(len(program) // 8, program)
    _checked(libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(wanted), 0, 0), "seccomp")
