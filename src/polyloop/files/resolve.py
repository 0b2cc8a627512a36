"""Opening beneath a folder's descriptor without ever following a link.

Two resolvers of one contract, tested by one suite. `by_kernel` asks Linux to resolve the whole path at once (openat2:
beneath, no links of either sort); `by_walk` opens component after component with O_NOFOLLOW, each from the descriptor of
the one before. Neither compares strings, and neither looks first and opens later, so a folder swapped for a link in
between wins nothing. Both raise OSError: ELOOP or EXDEV for a link or a way out.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import sys
from collections.abc import Callable
from functools import cache
from typing import Any, Final

#: (folder descriptor, components, flags) -> descriptor. No components = the folder itself.
Resolver = Callable[[int, tuple[str, ...], int], int]

FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY
_ALWAYS: Final = os.O_CLOEXEC | os.O_NOCTTY
_OPENAT2: Final = 437
_NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x02, 0x04, 0x08
_RENAME_NOREPLACE: Final = 1
#: Attempts when the kernel cannot tell because something moved meanwhile.
_TRIES: Final = 32


def by_walk(folder: int, parts: tuple[str, ...], flags: int) -> int:
    """Component by component."""
    here = folder
    try:
        for name in parts[:-1]:
            there = _step(here, name, FOLDER)
            if here != folder:
                os.close(here)
            here = there
        return _step(here, parts[-1] if parts else ".", flags)
    finally:
        if here != folder:
            os.close(here)


def _step(folder: int, name: str, flags: int) -> int:
    try:
        return os.open(name, flags | os.O_NOFOLLOW | _ALWAYS, dir_fd=folder)
    except NotADirectoryError:  # what O_DIRECTORY says of a link too
        if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None
        raise


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def by_kernel(folder: int, parts: tuple[str, ...], flags: int) -> int:
    """By openat2, where the system has it."""
    how = _OpenHow(flags | _ALWAYS, 0, _BENEATH | _NO_SYMLINKS | _NO_MAGICLINKS)
    path = "/".join(parts).encode() or b"."
    for _ in range(_TRIES):
        fd = _libc().syscall(_OPENAT2, ctypes.c_long(folder), path, ctypes.byref(how), ctypes.c_size_t(ctypes.sizeof(how)))
        if fd >= 0:
            return fd
        if ctypes.get_errno() not in (errno.EAGAIN, errno.EINTR):
            break
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def resolver_of(folder: int) -> Resolver:
    """The best one this system has for this folder."""
    if sys.platform == "linux":
        try:
            os.close(by_kernel(folder, (), FOLDER))
        except OSError:  # an old kernel, or one that forbids the call
            return by_walk
        return by_kernel
    return by_walk


def publish_new(folder: int, temporary: str, name: str) -> None:
    """Give a file its final name, in one step, only if the name is free. Raises FileExistsError if it is not."""
    rename_new(folder, temporary, folder, name)


def rename_new(folder: int, old: str, home: int, new: str) -> None:
    """Rename from one folder into another, only if the name is free there. Raises FileExistsError if it is not."""
    try:
        _rename_new(folder, old, home, new)
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP):
            raise
        os.link(old, new, src_dir_fd=folder, dst_dir_fd=home, follow_symlinks=False)
        os.unlink(old, dir_fd=folder)


def _rename_new(folder: int, old: str, home: int, new: str) -> None:
    call = getattr(_libc(), "renameat2", None)
    if call is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    if call(folder, old.encode(), home, new.encode(), _RENAME_NOREPLACE):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


@cache
def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)
