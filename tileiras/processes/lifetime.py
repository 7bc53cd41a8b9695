"""Cleanup after a killed process: its helper ends its programs and removes its folders.

No signal handler runs at SIGKILL, and `PR_SET_PDEATHSIG` would have to be set between fork and exec, for which Python
copies the whole process.  So the helper (`helper`) reads a pipe that closes when its owner exits for any reason.
Over the pipe, the owner announces the folders that it is about to create and the programs that run.  A folder is
announced before its creation, since its owner may be killed right after that.  A program can be announced only once it
runs; where the system reports the working directories of processes, programs in such a folder are found anyway.

A worker of a build must end with the build, even in the middle of its work: its helper also watches the pipe that
closes then.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import threading
from collections.abc import Callable, Iterator

Owned = str | int
"""A folder by its absolute path, or a program by its process number."""

SECONDS = 10.0
"""Time to wait for the exit of killed programs: until then they may create files in a folder that is being removed."""


def announcement(owned: Owned, *, is_there: bool) -> bytes:
    """The message that announces a folder to be created or a running program, or that withdraws it."""
    return marshal.dumps((owned, is_there))


def follow(receive: Callable[[], bytes | None], owner: int, sentinel: int | None) -> None:
    """Take announcements, from the `receive` that gives None when the process `owner` is gone; then end its programs,
    remove its folders, and end this process.

    The owner is made to go when the descriptor `sentinel` can be read.
    """
    owned: dict[Owned, None] = {}
    try:
        if sentinel is not None:
            threading.Thread(target=_end_owner, args=(owner, sentinel), daemon=True).start()
        while (message := receive()) is not None:
            program, is_there = marshal.loads(message)
            if is_there:
                owned[program] = None
            else:
                owned.pop(program, None)
        end(list(owned))
    finally:
        os._exit(0)


def _end_owner(owner: int, sentinel: int) -> None:
    import select
    import signal

    # `select` takes no descriptor above 1023, and owners may have many open.
    waiting = select.poll()
    waiting.register(sentinel, select.POLLIN)
    waiting.poll()
    if os.getppid() == owner:
        os.kill(owner, signal.SIGKILL)


def end(owned: list[Owned]) -> None:
    """End programs, and remove folders after ending the programs that work in them."""
    import shutil
    import time

    for program in owned:
        if isinstance(program, int):
            _kill(program)
    folders = [folder for folder in owned if isinstance(folder, str)]
    limit = time.monotonic() + SECONDS
    while folders and time.monotonic() < limit:
        for folder in folders:
            for program in _working_in(folder):
                _kill(program)
            shutil.rmtree(folder, ignore_errors=True)
        folders = [folder for folder in folders if os.path.lexists(folder)]
        if folders:
            time.sleep(0.01)


def _kill(program: int) -> None:
    import signal

    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(program, signal.SIGKILL)


def _working_in(folder: str) -> Iterator[int]:
    """The processes whose working directory is this one, where the system says so (proc(5))."""
    try:
        state = os.stat(folder)
        processes = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return
    for process in processes:
        with contextlib.suppress(OSError):
            if process != os.getpid() and os.path.samestat(os.stat(f"/proc/{process}/cwd"), state):
                yield process
