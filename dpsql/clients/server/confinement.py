"""Confinement of this process by the kernel: what it may call and which files it may reach, for good, however it is led astray.

Why     a statement runs through parsers, planners and an engine of half a million lines; if one of them is broken open, what it
        gains is a process that reaches the data it already reads, and nothing else
Limit   only where the kernel has it: Linux on x86-64 and arm64. Whoever asks is told what is missing, and goes on without it
"""

from __future__ import annotations

import ctypes
import os
import platform
import pwd
import resource
import struct
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 1, 4, 38
_SIGKILL = 9
_SET_MODE_FILTER, _ALL_THREADS = 1, 1
_ALLOW, _KILL, _EPERM, _ENOSYS = 0x7FFF0000, 0x80000000, 0x00050001, 0x00050026
_CLONE_THREAD = 0x10000
_OF_FILES = 0b110
"""CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH."""
_LANDLOCK = (444, 445, 446)
"""Numbers of landlock_create_ruleset, landlock_add_rule and landlock_restrict_self, on every architecture."""

_EVERYWHERE = {
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "pidfd_open": 434, "pidfd_getfd": 438,
    "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsmount": 432, "mount_setattr": 442,
}  # fmt: skip
_X86 = {
    "execve": 59, "execveat": 322, "fork": 57, "vfork": 58, "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311,
    "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161, "unshare": 272, "setns": 308, "bpf": 321,
    "perf_event_open": 298, "keyctl": 250, "add_key": 248, "request_key": 249, "userfaultfd": 323, "init_module": 175,
    "finit_module": 313, "kexec_load": 246, "open_by_handle_at": 304, "process_madvise": 440, "kcmp": 312, "personality": 135,
}  # fmt: skip
_ARM = {
    "execve": 221, "execveat": 281, "ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271, "mount": 40, "umount2": 39,
    "pivot_root": 41, "chroot": 51, "unshare": 97, "setns": 268, "bpf": 280, "perf_event_open": 241, "keyctl": 219, "add_key": 217,
    "request_key": 218, "userfaultfd": 282, "init_module": 105, "finit_module": 273, "kexec_load": 104, "open_by_handle_at": 265,
    "process_madvise": 440, "kcmp": 272, "personality": 92,
}  # fmt: skip
_NETWORK = {
    "x86_64": {"socket": 41, "connect": 42, "bind": 49},
    "aarch64": {"socket": 198, "connect": 203, "bind": 200},
}


@dataclass(frozen=True, slots=True)
class _Machine:
    """One architecture, as the kernel's filters name it."""

    audit: int
    seccomp: int
    clone: int
    clone3: int
    capset: int
    refused: dict[str, int]


_MACHINES = {
    "x86_64": _Machine(0xC000003E, 317, 56, 435, 126, _X86 | _EVERYWHERE),
    "aarch64": _Machine(0xC00000B7, 277, 220, 435, 91, _ARM | _EVERYWHERE),
}
_READ, _READ_FOLDER, _WRITE, _TRUNCATE = 1 << 2, 1 << 3, 1 << 1, 1 << 14
_INSIDE = 0x1FF0  # make and remove what is in a folder, links but to elsewhere
_HANDLED = ((1, 0x1FFF), (2, 0x3FFF), (3, 0x7FFF), (5, 0xFFFF))
"""Rights over files by version of Landlock, of which the last is the most that this module knows."""
_FILE_RIGHTS = _READ | _WRITE | _TRUNCATE | 1


@dataclass(frozen=True, slots=True)
class Reach:
    """Files that a process may reach.

    read     files and folders with all that is below
    write    files that are there, read too
    own      folders in which it does as it likes
    listed   folders of which it sees the names, here and below
    network  whether it may open connections: where the data is behind one
    """

    read: Sequence[Path] = ()
    write: Sequence[Path] = ()
    own: Sequence[Path] = ()
    listed: Sequence[Path] = ()
    network: bool = False


def confine(reach: Reach) -> tuple[str, ...]:
    """Confine this process and all threads that it starts. Output: what this kernel could not do, a line each.

    Call before any thread is started, and before what is not trusted is loaded.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if not sys.platform.startswith("linux"):
        return ("no seccomp and no Landlock: this system is not Linux",)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return ("no seccomp and no Landlock: this kernel has no no_new_privs",)
    _drop_capabilities(libc)
    return (*_restrict_files(libc, reach), *_restrict_calls(libc, reach.network))


def python_files() -> tuple[Path, ...]:
    """Files that a Python process reads of itself: the library, installed packages, this package, and the system's libraries."""
    import dpsql

    ours = Path(dpsql.__file__).resolve().parent
    packages = [Path(one) for one in sys.path if Path(one).name in ("site-packages", "dist-packages", "lib-dynload")]
    library = Path(os.__file__).resolve().parent
    system = map(
        Path,
        ("/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/localtime", "/etc/ssl", "/proc", "/dev", "/sys/fs/cgroup"),
    )
    found = (ours, library, Path(sys.prefix), Path(sys.base_prefix), *packages, *system)
    return tuple(dict.fromkeys(path for path in found if path.exists()))


def network_files() -> tuple[Path, ...]:
    """Files that tell where a host is."""
    names = ("resolv.conf", "hosts", "nsswitch.conf", "host.conf", "gai.conf", "services")
    found = (Path("/etc", name) for name in names)
    return tuple(path.resolve() for path in found if path.exists())


def become(account: str) -> None:
    """Give up root for another account of the system."""
    found = pwd.getpwnam(account)
    os.setgroups([])
    os.setgid(found.pw_gid)
    os.setuid(found.pw_uid)


def _drop_capabilities(libc: ctypes.CDLL) -> None:
    """Give up all that root may do, but to read and write files of others, which Landlock holds within `Reach`."""
    machine = _MACHINES.get(platform.machine())
    if machine is not None and os.geteuid() == 0:
        header, kept = struct.pack("Ii", 0x20080522, 0), _OF_FILES
        libc.syscall(machine.capset, header, struct.pack("IIIIII", kept, kept, 0, 0, 0, 0))


# --- files --------------------------------------------------------------------------------------------------------------


def _restrict_files(libc: ctypes.CDLL, reach: Reach) -> tuple[str, ...]:
    create, add, restrict = _LANDLOCK
    version = libc.syscall(create, None, 0, 1)
    if version < 1:
        return ("no Landlock in this kernel: files are guarded by their owners and modes alone",)
    handled = max(rights for since, rights in _HANDLED if since <= version)
    scoped = 0b11 if version >= 6 else 0  # abstract sockets and signals to others
    network = 0b11 if version >= 4 and not reach.network else 0
    attributes = struct.pack("QQQ", handled, network, scoped)
    rules = libc.syscall(create, attributes, len(attributes) if version >= 6 else 16 if version >= 4 else 8, 0)
    if rules < 0:
        return ("no Landlock: this kernel refused the rules",)
    try:
        missing = []
        granted = (
            (reach.listed, _READ_FOLDER),
            (reach.read, _READ | _READ_FOLDER),
            (reach.write, _READ | _WRITE | _TRUNCATE),
            (reach.own, _READ | _READ_FOLDER | _WRITE | _TRUNCATE | _INSIDE),
        )
        for paths, rights in granted:
            missing += [str(path) for path in paths if not _allow(libc, add, rules, path, rights & handled)]
        if libc.syscall(restrict, rules, 0) != 0:
            return ("no Landlock: this kernel refused the rules",)
    finally:
        os.close(rules)
    return tuple(f"Landlock has no rule for {path}" for path in missing)


def _allow(libc: ctypes.CDLL, add: int, rules: int, path: Path, rights: int) -> bool:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        allowed = rights if path.is_dir() else rights & _FILE_RIGHTS
        rule = struct.pack("=Qi", allowed, descriptor)
        return bool(libc.syscall(add, rules, 1, rule, 0) == 0)
    finally:
        os.close(descriptor)


# --- calls --------------------------------------------------------------------------------------------------------------


def _restrict_calls(libc: ctypes.CDLL, network: bool) -> tuple[str, ...]:
    name = platform.machine()
    machine = _MACHINES.get(name)
    if machine is None:
        return (f"no seccomp: its calls are not known for {name}",)
    refused = {*machine.refused.values(), *(() if network else _NETWORK[name].values())}
    program = _program(machine, sorted(refused))
    code = ctypes.create_string_buffer(program, len(program))
    filters = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(code))
    if libc.syscall(machine.seccomp, _SET_MODE_FILTER, _ALL_THREADS, filters) != 0:
        return ("no seccomp: this kernel refused the filter",)
    return ()


def _program(machine: _Machine, refused: Iterable[int]) -> bytes:
    """The filter as the kernel reads it: another architecture ends the process, a refused call fails, threads but no processes begin.

    clone3 hides its flags from filters, so that it seems not to be there, and the C library uses clone.
    """

    def load(offset: int) -> bytes:
        return struct.pack("HBBI", 0x20, 0, 0, offset)

    def unless(value: int, answer: int) -> bytes:
        return struct.pack("HBBI", 0x15, 0, 1, value) + struct.pack("HBBI", 0x06, 0, 0, answer)

    architecture = struct.pack("HBBI", 0x15, 1, 0, machine.audit) + struct.pack("HBBI", 0x06, 0, 0, _KILL)
    other_numbers = struct.pack("HBBI", 0x35, 0, 1, 0x40000000) + struct.pack("HBBI", 0x06, 0, 0, _EPERM)
    calls = b"".join(unless(number, _EPERM) for number in refused) + unless(machine.clone3, _ENOSYS)
    # the flags are the low half of the first argument, on machines that store the low half first
    thread = (
        struct.pack("HBBI", 0x15, 0, 3, machine.clone) + load(16)
        + struct.pack("HBBI", 0x45, 1, 0, _CLONE_THREAD) + struct.pack("HBBI", 0x06, 0, 0, _EPERM)
    )  # fmt: skip
    return load(4) + architecture + load(0) + other_numbers + calls + thread + struct.pack("HBBI", 0x06, 0, 0, _ALLOW)
