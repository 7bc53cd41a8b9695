"""Locks of build directories: one process at a time writes in each.

The lock is an flock of the operating system on `BUILD/.tileiras/lock`, so it is released whenever its process ends.  It
is held from before the records of the build directory and SCons' signatures are read until they are written.  A build
started by another one, as one of its commands, does not wait for it: that would be a deadlock.

A worker process may still be running a stage when its build is killed.  While it works it therefore holds a second
lock, shared with other workers, and the next build waits for that one, too.

On systems without such locks (Windows, some network drives), builds do not wait.  Two simultaneous builds may then
overwrite each other's artifacts; the next build repairs them, since artifacts are compared by content
(`tileiras.build.ledger.history`).
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator

from tileiras.build import NOTES

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

FILE = os.path.join(NOTES, "lock")
WORKERS = os.path.join(NOTES, "lock.workers")
"""Paths of the lock files, relative to the build directory."""

_open: set[int] = set()
"""Descriptors of lock files, closed in forked processes, which must not keep a lock after their parent ends."""


def _forget() -> None:
    for descriptor in _open:
        with contextlib.suppress(OSError):
            os.close(descriptor)
    _open.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


class BuildLock:
    """The lock of one build directory; reentrant within the process."""

    def __init__(self, build: str, say: Callable[[str], None]) -> None:
        self.build = build
        self._say = say
        self._count = 0
        self._descriptor: int | None = None
        self._guard = threading.Lock()

    def acquire(self) -> None:
        """Take the lock; if another process holds it, print a line that names the process, and wait."""
        with self._guard:
            if not self._count:
                self._take()
            self._count += 1

    def release(self) -> None:
        with self._guard:
            self._count -= 1
            if not self._count and self._descriptor is not None:
                _close(self._descriptor)
                self._descriptor = None

    def __enter__(self) -> BuildLock:
        self.acquire()
        return self

    def __exit__(self, *exception: object) -> None:
        self.release()

    def _take(self) -> None:
        path = os.path.join(self.build, FILE)
        result = False
        while fcntl is not None:
            try:
                descriptor = _opened(path)
            except OSError:
                return  # the first stage that runs reports a folder that cannot be written to
            try:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    holder = _read(descriptor)
                    if holder.partition("\n")[0] in _ancestors():
                        _close(descriptor)
                        return
                    if not result:
                        result = True
                        self._say(f"tileiras: waiting for {_describe(holder)}, which builds in {self.build}")
                    fcntl.flock(descriptor, fcntl.LOCK_EX)
                if _is_at(descriptor, path):
                    self._wait_for_workers()
                    _write(descriptor, f"{_identity(os.getpid())}\n{os.getpid()}\n{' '.join(sys.argv)}")
                    self._descriptor = descriptor
                    return
            except OSError:
                _close(descriptor)
                return  # a file system without locks
            except BaseException:
                _close(descriptor)
                raise
            # The build directory was removed meanwhile: try again.
            _close(descriptor)

    def _wait_for_workers(self) -> None:
        descriptor = _opened(os.path.join(self.build, WORKERS))
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        finally:
            _close(descriptor)


_locks: dict[str, BuildLock] = {}


def lock_of(build: str, say: Callable[[str], None]) -> BuildLock:
    """The lock of a build directory; one object per process."""
    build = os.path.abspath(build)
    lock = _locks.get(build)
    if lock is None:
        lock = _locks[build] = BuildLock(build, say)
    return lock


@contextlib.contextmanager
def turn(builds: Iterable[str], say: Callable[[str], None]) -> Iterator[None]:
    """Hold the locks of several build directories, taken in sorted order to avoid deadlocks."""
    with contextlib.ExitStack() as stack:
        for build in sorted(set(map(os.path.abspath, builds))):
            stack.enter_context(lock_of(build, say))
        yield


@contextlib.contextmanager
def working(build: str) -> Iterator[None]:
    """Make later builds wait while a worker of this build, which may outlive it, is running a chain.

    The worker must check inside whether its build still exists: if the build ends before the lock is taken, the next
    build does not wait for this worker.
    """
    descriptor = None
    if fcntl is not None:
        with contextlib.suppress(OSError):
            descriptor = _opened(os.path.join(build, WORKERS))
            fcntl.flock(descriptor, fcntl.LOCK_SH)
    try:
        yield
    finally:
        if descriptor is not None:
            _close(descriptor)


def _opened(path: str) -> int:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    _open.add(descriptor)
    return descriptor


def _close(descriptor: int) -> None:
    _open.discard(descriptor)
    os.close(descriptor)


def _is_at(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except OSError:
        return False


def _read(descriptor: int) -> str:
    return os.pread(descriptor, 4096, 0).decode(errors="replace")


def _write(descriptor: int, text: str) -> None:
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, text.encode(errors="replace")[:4096], 0)


def _describe(holder: str) -> str:
    lines = holder.split("\n")
    return f"process {lines[1]} ({lines[2]})" if len(lines) == 3 else "another build"


def _identity(process: int) -> str:
    """PID namespace, number and start time of a process, which identify it uniquely; only its number if unknown."""
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            # The name of the program, in parentheses, may contain any character.
            start_time = file.read().rpartition(b")")[2].split()[19].decode()
        return f"{os.readlink('/proc/self/ns/pid')} {process} {start_time}"
    except (OSError, IndexError):
        return str(process)


def _ancestors() -> set[str]:
    """The identities of this process's ancestors."""
    ancestors = set()
    process = os.getppid()
    while process > 0:
        ancestors.add(_identity(process))
        process = _parent(process)
    return ancestors


def _parent(process: int) -> int:
    """The number of a process's parent; 0 if unknown."""
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        pass
    if os.path.isdir("/proc/self"):
        return 0
    import subprocess

    try:
        result = subprocess.run(["ps", "-o", "ppid=", "-p", str(process)], capture_output=True, text=True, check=False)
        return int(result.stdout)
    except (OSError, ValueError):
        return 0
