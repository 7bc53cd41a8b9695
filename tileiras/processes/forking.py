"""Exit handler of the fork server: removes the folder of its socket.  Imported only in that process.

multiprocessing creates that folder in the build's process, and removes it when the build exits, but not if the build is
killed.  The fork server exits after the build and its workers, when their ends of a pipe are closed.
"""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import stat

PREFIX = "pymp-"
"""Name prefix of the folders that multiprocessing creates (`multiprocessing.util.get_temp_dir`)."""


def listening_folder() -> str | None:
    """The folder of the socket on which this process listens, or None."""
    for name in os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else ():
        try:
            number = int(name)
            if not stat.S_ISSOCK(os.fstat(number).st_mode):
                continue
            with socket.socket(fileno=os.dup(number)) as context:
                address = context.getsockname()
        except OSError:
            continue  # the descriptor from which the list was read
        if isinstance(address, str) and os.path.basename(os.path.dirname(address)).startswith(PREFIX):
            return os.path.dirname(address)
    return None


_folder = listening_folder()
if _folder is not None:
    # Workers exit without running atexit functions.
    atexit.register(shutil.rmtree, _folder, ignore_errors=True)
