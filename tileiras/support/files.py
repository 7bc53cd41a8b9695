"""Atomic writes of files, and identities that detect changed files."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import sys
from typing import Any

from tileiras.support.command_cache import remembered

RACY_NS = 2_000_000_000
"""Two seconds, the coarsest granularity of time stamps in use (FAT): a younger file may change without a new time."""


FileState = tuple[int, int, int]
"""Size, time of the last change and inode of a file."""

DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors for a file without room: on the disk, in the user's quota, or under the process's limit (`ulimit -f`).
"""


def write_atomically(path: str, data: bytes, temporary: str | None = None, checked: bool = False) -> None:
    """Write a file atomically: no reader and no crash sees a part of it; create its folder.

    `temporary` is a folder of the same file system for the temporary file, which a killed process leaves behind;
    by default it is a hidden file beside the target.  `checked`: readers compare the file's digest, or treat a damaged
    file as missing; then a power failure may leave it empty, and the write does not wait for the disk.
    """
    folder = os.path.dirname(path) or "."
    import threading

    name = f".{os.path.basename(path)[:60]}.{os.getpid()}.{threading.get_ident()}.tmp"
    name = os.path.join(temporary or folder, name)
    for again in (True, False):
        os.makedirs(folder, exist_ok=True)
        try:
            with open(name, "wb") as file:
                file.write(data)
            if not checked or not _exchange(name, path):
                os.replace(name, path)
            return
        except BaseException as error:
            with contextlib.suppress(OSError):
                os.unlink(name)
            # Another program, such as `rm -r` or `git clean`, has removed the file or its folder meanwhile.
            if not (again and isinstance(error, FileNotFoundError)):
                raise
            os.makedirs(temporary or folder, exist_ok=True)


_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
"""From fcntl.h and linux/fs.h."""


def _exchange(name: str, path: str) -> bool:
    """Replace another regular file; False if it does not exist or the system cannot exchange files.

    A rename over a file makes ext4 write the new one's blocks at once (`auto_da_alloc`, ext4(5)), which takes 4 ms; an
    exchange of two files does not.
    """
    import stat

    if not sys.platform.startswith("linux"):
        return False
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            return False
    except OSError:
        return False
    try:
        if _renameat2()(_AT_FDCWD, os.fsencode(name), _AT_FDCWD, os.fsencode(path), _RENAME_EXCHANGE) != 0:
            return False
    except AttributeError:  # a C library from before 2018
        return False
    # `name` is now the earlier file, which `remove_left_over` of another process removes where it is old.
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name)
    return True


@functools.cache
def _renameat2() -> Any:
    """glibc's function; raises AttributeError if glibc lacks it."""
    import ctypes

    return ctypes.CDLL(None).renameat2


def store_directory() -> str | None:
    """The folder of the user's store, shared by all checkouts; None if `TILEIRAS_CACHE_DIR` is `off`.

    It is `TILEIRAS_CACHE_DIR`, or `tileiras` in `XDG_CACHE_HOME` or `~/.cache`.
    """
    directory = os.environ.get("TILEIRAS_CACHE_DIR")
    if directory:
        return None if directory == "off" else directory
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "tileiras")


def stem(path: str) -> str:
    """`kernels/saxpy.mlir` -> `saxpy`."""
    return os.path.splitext(os.path.basename(path))[0]


def read_if_there(path: str) -> bytes | None:
    """A file's content; None if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return None


def file_identity(path: str) -> str:
    """Digest of a file's content for keys, cached until its state changes; `missing` if it cannot be read."""
    try:
        state = os.stat(path)
        return _digest(path, state.st_ino, state.st_size, state.st_mtime_ns)
    except OSError:
        return "missing"


def content_digest(path: str) -> str:
    """Digest of a file's content for keys; raises OSError."""
    import xxhash

    with open(path, "rb") as file:
        return xxhash.xxh3_128_hexdigest(file.read())


def digest_if_there(path: str) -> str | None:
    """As `content_digest`; None if the file cannot be read."""
    try:
        return content_digest(path)
    except OSError:
        return None


@remembered
@functools.lru_cache(64)
def _digest(path: str, *state: int) -> str:
    """As `content_digest`, cached by the file's state."""
    return content_digest(path)


def read_json_object(path: str) -> dict[str, Any]:
    """The object in a JSON file; an empty one if the file is missing, damaged or holds another type."""
    import json

    try:
        data = json.loads(read_if_there(path) or b"")
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}


def remove_left_over(folder: str) -> None:
    """Remove temporary files of killed processes: those not written to for an hour."""
    import time

    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith(".tmp") and entry.stat().st_mtime < time.time() - 3600:
                    os.unlink(entry.path)
    except OSError:
        pass  # removed by another process, or the folder does not exist


def file_state(path: str) -> FileState | None:
    """The state of a file; None if it cannot be read."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns, status.st_ino
