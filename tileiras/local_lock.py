"""The lock of a process that is there once for a user, beside its socket."""

from __future__ import annotations

import contextlib
import fcntl
import os


def locked(directory: int, name: str) -> int | None:
    """The lock of a process `name` in an open directory, held until it and its children end.

    None where another process has it.  Raises OSError.
    """
    while True:
        lock = os.open(f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600, dir_fd=directory)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return None
        with contextlib.suppress(FileNotFoundError):
            if os.stat(f"{name}.lock", dir_fd=directory).st_ino == os.fstat(lock).st_ino:
                return lock
        os.close(lock)  # that of a service which has ended since


def unlock(directory: int, name: str, lock: int) -> None:
    """Removes a lock, unless another service has made one since."""
    with contextlib.suppress(OSError):
        if os.stat(f"{name}.lock", dir_fd=directory).st_ino == os.fstat(lock).st_ino:
            os.unlink(f"{name}.lock", dir_fd=directory)
