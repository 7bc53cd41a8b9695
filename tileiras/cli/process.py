"""What the commands have in common: `main` as a process, which ends quietly when somebody else ends it, and input."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

CLOSED = 2
"""The exit code where nobody reads what the command prints."""


class UsageError(Exception):
    """A command line that does not say what to do, or a file that cannot be used; the message is for the user."""


def read_input(name: str) -> bytes:
    """The content of a file, of standard input for `-`; raises UsageError."""
    try:
        if name == "-":
            return sys.stdin.buffer.read()
        with open(name, "rb") as file:
            return file.read()
    except OSError as error:
        raise UsageError(f"cannot open input file '{name}': {error.strerror}") from None


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
