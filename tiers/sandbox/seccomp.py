"""The system calls that no sandboxed program gets, as a classic BPF filter.

Namespaces already hide files, processes and the network. The filter takes away what they do not cover:
memory outside the limits (memfd, System V, shared anonymous mappings, pages given to pipes), other
address families (VSOCK reaches the host of a virtual machine), new namespaces, tracing, kernel keyrings,
io_uring and other large surfaces.
Format: struct sock_filter, https://docs.kernel.org/userspace-api/seccomp_filter.html
"""

from __future__ import annotations

import platform
import struct
from collections.abc import Mapping
from types import MappingProxyType

_LOAD = 0x20
_JUMP_EQUAL = 0x15
_JUMP_ANY_BIT = 0x45
_JUMP_GREATER_EQUAL = 0x35
_RETURN = 0x06
_KILL = 0x80000000
_ALLOW = 0x7FFF0000
_ERRNO = 0x00050000
_EPERM, _ENOMEM, _ENOSYS, _EAFNOSUPPORT = 1, 12, 38, 97
_X32 = 0x40000000
_AF_UNIX = 1
_NEW_NAMESPACES = 0x7E020080
_CLONE_THREAD = 0x00010000

_ARCHITECTURES = MappingProxyType({"x86_64": 0xC000003E, "aarch64": 0xC00000B7})
_COLUMN = MappingProxyType({"x86_64": 0, "aarch64": 1})

# name: (x86_64, aarch64); -1 where there is none. From the kernel's syscall tables.
DENIED: Mapping[str, tuple[int, int]] = MappingProxyType(
    {
        "memfd_create": (319, 279),
        "memfd_secret": (447, 447),
        "shmget": (29, 194),
        "shmat": (30, 196),
        "shmctl": (31, 195),
        "msgget": (68, 186),
        "semget": (64, 190),
        "mq_open": (240, 180),
        "ptrace": (101, 117),
        "process_vm_readv": (310, 270),
        "process_vm_writev": (311, 271),
        "process_madvise": (440, 440),
        "pidfd_getfd": (438, 438),
        "kcmp": (312, 272),
        "add_key": (248, 217),
        "request_key": (249, 218),
        "keyctl": (250, 219),
        "bpf": (321, 280),
        "perf_event_open": (298, 241),
        "userfaultfd": (323, 282),
        "io_setup": (206, 0),
        "io_uring_setup": (425, 425),
        "io_uring_enter": (426, 426),
        "io_uring_register": (427, 427),
        "unshare": (272, 97),
        "setns": (308, 268),
        "mount": (165, 40),
        "umount2": (166, 39),
        "pivot_root": (155, 41),
        "chroot": (161, 51),
        "open_tree": (428, 428),
        "move_mount": (429, 429),
        "fsopen": (430, 430),
        "fsmount": (432, 432),
        "mount_setattr": (442, 442),
        "open_by_handle_at": (304, 265),
        "name_to_handle_at": (303, 264),
        "fanotify_init": (300, 262),
        "kexec_load": (246, 104),
        "kexec_file_load": (320, 294),
        "init_module": (175, 105),
        "finit_module": (313, 273),
        "delete_module": (176, 106),
        "swapon": (167, 224),
        "swapoff": (168, 225),
        "reboot": (169, 142),
        "acct": (163, 89),
        "quotactl": (179, 60),
        "syslog": (103, 116),
        "settimeofday": (164, 170),
        "clock_settime": (227, 112),
        "adjtimex": (159, 171),
        "clock_adjtime": (305, 266),
        "sethostname": (170, 161),
        "setdomainname": (171, 162),
        "iopl": (172, -1),
        "ioperm": (173, -1),
        "modify_ldt": (154, -1),
        "uselib": (134, -1),
        "vhangup": (153, 58),
        "personality": (135, 92),
        "mlockall": (151, 230),
        "vmsplice": (278, 75),
        "tee": (276, 77),
        "fsconfig": (431, 431),
        "fspick": (433, 433),
        "open_tree_attr": (467, 467),
        "statmount": (457, 457),
        "listmount": (458, 458),
        "quotactl_fd": (443, 443),
        "process_mrelease": (448, 448),
        "cachestat": (451, 451),
        "lsm_get_self_attr": (459, 459),
        "lsm_set_self_attr": (460, 460),
        "lsm_list_modules": (461, 461),
        "setxattr": (188, 5),
        "lsetxattr": (189, 6),
        "fsetxattr": (190, 7),
        "setxattrat": (463, 463),
        "file_setattr": (469, 469),
        "move_pages": (279, 239),
        "migrate_pages": (256, 238),
        "remap_file_pages": (216, 234),
        "nfsservctl": (180, 42),
        "lookup_dcookie": (212, 18),
    }
)
# What a program without namespaces around it is denied as well: other processes, and leaving its group.
ALONE: Mapping[str, tuple[int, int]] = MappingProxyType(
    {
        "fork": (57, -1),
        "vfork": (58, -1),
        "execve": (59, 221),
        "execveat": (322, 281),
        "setsid": (112, 157),
        "setpgid": (109, 154),
        "socket": (41, 198),
        "socketpair": (53, 199),
        "sched_setscheduler": (144, 119),
        "sched_setattr": (314, 274),
    }
)
_CLONE = (56, 220)
_CLONE3 = (435, 435)
_SOCKET = (41, 198)
_SOCKETPAIR = (53, 199)
_MMAP = (9, 222)
_IOCTL = (16, 29)
_MAP_SHARED, _MAP_ANONYMOUS = 0x01, 0x20
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C


class NoFilter(RuntimeError):
    """This architecture is not in the tables."""


def _step(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("=HBBI", code, yes, no, value)


def _deny(number: int, errno: int = _EPERM) -> bytes:
    return _step(_JUMP_EQUAL, number, 0, 1) + _step(_RETURN, _ERRNO | errno)


def build(*, alone: bool = False, machine: str | None = None) -> bytes:
    """The filter's program. ``alone`` also denies new processes and all sockets. Raises ``NoFilter``."""
    machine = machine or platform.machine()
    if machine not in _ARCHITECTURES:
        raise NoFilter(f"no system call table for {machine}")
    column = _COLUMN[machine]
    program = [_step(_LOAD, 4), _step(_JUMP_EQUAL, _ARCHITECTURES[machine], 1, 0), _step(_RETURN, _KILL)]
    program.append(_step(_LOAD, 0))
    if machine == "x86_64":
        program += [_step(_JUMP_GREATER_EQUAL, _X32, 0, 1), _step(_RETURN, _KILL)]
    for numbers in (*DENIED.values(), *(ALONE.values() if alone else ())):
        if numbers[column] >= 0:
            program.append(_deny(numbers[column]))
    program.append(_deny(_CLONE3[column], _ENOSYS))
    program.append(_on_argument(_CLONE[column], _clone_rule(alone)))
    program.append(_on_argument(_SOCKET[column], _socket_rule()))
    program.append(_on_argument(_SOCKETPAIR[column], _socket_rule()))
    program.append(_on_argument(_MMAP[column], _mmap_rule(), 3))
    program.append(_on_argument(_IOCTL[column], _ioctl_rule(), 1))
    program.append(_step(_RETURN, _ALLOW))
    return b"".join(program)


def _on_argument(number: int, rule: bytes, place: int = 0) -> bytes:
    """Run ``rule`` on one argument of a system call (its low half); it must end in a verdict."""
    body = _step(_LOAD, 16 + 8 * place) + rule
    return _step(_JUMP_EQUAL, number, 0, len(body) // 8) + body


def _clone_rule(alone: bool) -> bytes:
    if alone:
        return (
            _step(_JUMP_ANY_BIT, _CLONE_THREAD, 1, 0)
            + _step(_RETURN, _ERRNO | _EPERM)
            + _step(_RETURN, _ALLOW)
        )
    return (
        _step(_JUMP_ANY_BIT, _NEW_NAMESPACES, 0, 1)
        + _step(_RETURN, _ERRNO | _EPERM)
        + _step(_RETURN, _ALLOW)
    )


def _socket_rule() -> bytes:
    return (
        _step(_JUMP_EQUAL, _AF_UNIX, 1, 0) + _step(_RETURN, _ERRNO | _EAFNOSUPPORT) + _step(_RETURN, _ALLOW)
    )


def _mmap_rule() -> bytes:
    """Shared anonymous memory stays when nobody has it mapped in: no process would be seen to hold it."""
    return (
        _step(_JUMP_ANY_BIT, _MAP_ANONYMOUS, 1, 0)
        + _step(_RETURN, _ALLOW)
        + _step(_JUMP_ANY_BIT, _MAP_SHARED, 0, 1)
        + _step(_RETURN, _ERRNO | _ENOMEM)
        + _step(_RETURN, _ALLOW)
    )


def _ioctl_rule() -> bytes:
    """No typing into terminals."""
    return (
        _step(_JUMP_EQUAL, _TIOCSTI, 1, 0)
        + _step(_JUMP_EQUAL, _TIOCLINUX, 0, 1)
        + _step(_RETURN, _ERRNO | _EPERM)
        + _step(_RETURN, _ALLOW)
    )
