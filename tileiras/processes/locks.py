"""The lock, beside its socket, of a process that runs once per user."""

from __future__ import annotations

import contextlib
import fcntl
import os


def locked(directory: int, name: str) -> int | None:
    """Take the lock of the process `name` in an open directory; it is held until the process and its children end.

    Returns None if another process holds it.  Raises OSError.
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
        os.close(lock)  # the file was removed: the service that held it has ended


def unlock(directory: int, name: str, lock: int) -> None:
    """Remove the file of a lock, unless another service has created a new one."""
    with contextlib.suppress(OSError):
        if os.stat(f"{name}.lock", dir_fd=directory).st_ino == os.fstat(lock).st_ino:
            os.unlink(f"{name}.lock", dir_fd=directory)
