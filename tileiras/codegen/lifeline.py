"""What a process that is killed leaves running is ended by its helper.

No signal handler runs at SIGKILL, and `PR_SET_PDEATHSIG` would have to be set between fork and exec, for which Python
copies the whole process.  So the helper (`isolation`) reads a pipe that closes when its owner is gone, however that
came about: over it, it is told which program runs, and where.  A worker of a build is to end with the build as well, in
the middle of its work: its helper looks at the pipe that says so, too.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import threading
from collections.abc import Callable


def announcement(pid: int, folder: str) -> bytes:
    """Says that the program `pid` works in `folder`; without a folder, that it has ended."""
    return marshal.dumps((pid, folder))


def follow(read: Callable[[], bytes | None], owner: int, sentinel: int | None) -> None:
    """Takes announcements, from the `read` that gives None when the process `owner` is gone; then ends its programs,
    removes their folders, and ends this process.

    The owner is made to go when the descriptor `sentinel` can be read.
    """
    running: dict[int, str] = {}
    try:
        if sentinel is not None:
            threading.Thread(target=_end_owner, args=(owner, sentinel), daemon=True).start()
        while (message := read()) is not None:
            pid, folder = marshal.loads(message)
            if folder:
                running[pid] = folder
            else:
                running.pop(pid, None)
        _end(running)
    finally:
        os._exit(0)


def _end_owner(owner: int, sentinel: int) -> None:
    import select
    import signal

    select.select([sentinel], [], [])
    if os.getppid() == owner:
        os.kill(owner, signal.SIGKILL)


def _end(running: dict[int, str]) -> None:
    import shutil
    import signal

    for pid, folder in running.items():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)
