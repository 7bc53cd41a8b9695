"""A command's `main` as a process, which ends quietly when somebody else ends it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

CLOSED = 2
"""The exit code where nobody reads what the command prints."""


def run(main: Callable[[], int]) -> int:
    """What `main` returns.  Ctrl-C ends the process by its signal, so that whoever started it sees what ended it; a
    closed standard output is no failure to tell of."""
    try:
        code = main()
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        import signal

        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
        raise
    except BrokenPipeError:
        # The interpreter must not complain about it when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLOSED
