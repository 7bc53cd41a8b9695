"""Loaded by the process that forks workers and by nothing else: it removes the folder of its socket when it ends.

multiprocessing makes that folder in the build's process, and removes it at that one's end.  A build that is killed does
not come to its end; this process ends behind it and its workers, whose ends of a pipe it waits for.
"""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import stat

PREFIX = "pymp-"
"""Of folders that multiprocessing makes (`multiprocessing.util.get_temp_dir`)."""


def listening_folder() -> str | None:
    """The folder of the socket that this process has been started with."""
    for name in os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else ():
        try:
            number = int(name)
            if not stat.S_ISSOCK(os.fstat(number).st_mode):
                continue
            with socket.socket(fileno=os.dup(number)) as found:
                address = found.getsockname()
        except OSError:
            continue  # the one that the list was read from
        if isinstance(address, str) and os.path.basename(os.path.dirname(address)).startswith(PREFIX):
            return os.path.dirname(address)
    return None


_folder = listening_folder()
if _folder is not None:
    # Workers end without such functions.
    atexit.register(shutil.rmtree, _folder, ignore_errors=True)
