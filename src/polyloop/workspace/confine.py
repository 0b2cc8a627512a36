"""Runs a program in a workspace and nowhere else. Started as a script (`exec.py`): `confine` PLAN FD, or `inside` PLAN FD where
something else has confined it. It needs only the standard library.

Theory of operation. Namespaces first: own users, mounts, processes, network and IPC. Areas that are only read are mounted
read-only; over the product's hidden folder lies an empty scratch file system, so what it holds can be neither seen nor
forged. Then Landlock: reading and running only beneath the system's own folders, writing only beneath the workspace. The
program is process 1 of its namespace: when it ends, or its parent does, the system ends all it has started. Says `confined`
on a pipe of its own before the program begins; without that word nothing has been run.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import stat
import sys
from pathlib import Path
from typing import Any, NoReturn

_NEW = 0x00020000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000  # mounts, IPC, users, processes, network
_BIND, _REMOUNT, _READ_ONLY, _PRIVATE, _RECURSIVE, _NO_DEVICES, _NO_SETUID = 0x1000, 0x20, 0x1, 0x40000, 0x4000, 0x4, 0x2
_CREATE_RULESET, _ADD_RULE, _RESTRICT = 444, 445, 446
_PDEATHSIG, _NO_NEW_PRIVILEGES = 1, 38
_READS = 1 << 0 | 1 << 2 | 1 << 3  # execute, read file, read folder
_FILE_RIGHTS = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14  # those a rule on a file may hold
#: Rights on files that Landlock knows, by its version; from 4 on it also rules TCP, which the namespace has cut off.
_RIGHTS_BY_VERSION = {1: (1 << 13) - 1, 2: (1 << 14) - 1}
_RIGHTS = (1 << 15) - 1
_DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random")
_FILE_BYTES = 256 << 20

_libc: Any = ctypes.CDLL(None, use_errno=True)


def confine(plan: dict[str, Any], told: int) -> NoReturn:
    """`plan`: {workspace, read_only, hidden, readable, argv}; `told`: the pipe."""
    _checked(_libc.prctl(_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")
    uid, gid = os.geteuid(), os.getegid()
    _checked(_libc.unshare(_NEW), "namespaces")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
    Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    _mounts(plan["workspace"], plan["read_only"], plan["hidden"])
    child = os.fork()
    if child:
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        os._exit(code if code >= 0 else 128 - code)
    _checked(_libc.prctl(_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")
    _landlock(plan["workspace"], plan["readable"])
    inside(plan, told)


def inside(plan: dict[str, Any], told: int) -> NoReturn:
    """The last step, in this very process: limits, the word on the pipe, the program."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (_FILE_BYTES, _FILE_BYTES))
    home: str = plan["workspace"]
    environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": home, "TMPDIR": f"{home}/{plan['hidden']}", "LANG": "C.UTF-8"}
    os.chdir(home)
    os.write(told, b"confined")
    os.close(told)
    try:
        os.execvpe(plan["argv"][0], plan["argv"], environment)  # noqa: S606  # no shell, on purpose
    except OSError as error:
        sys.stderr.write(f"{plan['argv'][0]}: {error.strerror}\n")
        os._exit(127)


def _mounts(workspace: str, read_only: list[str], hidden: str) -> None:
    _mount("none", "/", _RECURSIVE | _PRIVATE)
    for area in read_only:
        if stat.S_ISDIR(os.lstat(area).st_mode):
            _mount(area, area, _BIND | _RECURSIVE)
            _mount(area, area, _BIND | _REMOUNT | _READ_ONLY | _NO_DEVICES | _NO_SETUID)
    _mount("tmpfs", f"{workspace}/{hidden}", _NO_DEVICES | _NO_SETUID, "tmpfs")


def _mount(source: str, target: str, flags: int, kind: str = "") -> None:
    _checked(_libc.mount(source.encode(), target.encode(), kind.encode() or None, ctypes.c_ulong(flags), None), f"mount {target}")


def _landlock(workspace: str, readable: list[str]) -> None:
    version = _checked(_libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1)), "landlock")
    rights = _RIGHTS_BY_VERSION.get(version, _RIGHTS)
    handled = ctypes.c_uint64(rights)
    rules = _checked(_libc.syscall(_CREATE_RULESET, ctypes.byref(handled), ctypes.c_size_t(8), ctypes.c_uint32(0)), "landlock")
    for path in readable:
        _allow(rules, path, rights & _READS)
    for path in (workspace, *_DEVICES):
        _allow(rules, path, rights)
    _checked(_libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0), "prctl")
    _checked(_libc.syscall(_RESTRICT, rules, ctypes.c_uint32(0)), "landlock")
    os.close(rules)


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("rights", ctypes.c_uint64), ("parent", ctypes.c_int32))


def _allow(rules: int, path: str, rights: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    allowed = rights if stat.S_ISDIR(os.fstat(fd).st_mode) else rights & _FILE_RIGHTS
    _checked(_libc.syscall(_ADD_RULE, rules, 1, ctypes.byref(_Beneath(allowed, fd)), ctypes.c_uint32(0)), f"landlock {path}")
    os.close(fd)


def _checked(result: int, what: str) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")
    return result


if __name__ == "__main__":
    (confine if sys.argv[1] == "confine" else inside)(json.loads(sys.argv[2]), int(sys.argv[3]))
