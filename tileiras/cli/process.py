"""Shared by all commands: running `main` as a process that ends quietly on an interrupt or a closed pipe, reading
input, and reporting mistakes on a command line."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable

import tileiras
from tileiras.diagnostics import CompileError, Diagnostic, ExitCode, Severity, to_json
from tileiras.support.files import DISK_FULL

CLOSED = 2
"""The exit code when the reader of standard output has closed it."""

KERNEL_FAILED = 6
"""The exit code for a kernel that compiles and fails when it is executed or estimated."""


class UsageError(Exception):
    """An incomplete or invalid command line, or a file that cannot be used.

    Each message is one mistake for the user; its further lines are hints.
    """

    def __init__(self, *messages: str) -> None:
        self.messages = messages
        super().__init__("\n".join(messages))


class CommandLineError(UsageError):
    """The same in the words of another tool, which has the program's name in some of them."""


def tell(program: str, error: UsageError, json: bool = False) -> None:
    """Print mistakes to standard error, each behind the program's name or as an object of JSON."""
    if json:
        print(to_json(_diagnostic(program, message) for message in error.messages), end="", file=sys.stderr)
    elif isinstance(error, CommandLineError):
        complain(str(error))
    else:
        complain("\n".join(f"{program}: {message}" for message in error.messages))


def simulating(program: str, command: Callable[[], int]) -> int:
    """The exit status of a command that executes or estimates kernels; its exceptions are reported."""
    from tileiras.sim.errors import ArgumentMismatch, SimulationError

    try:
        return command()
    except SystemExit as stopped:  # raised for --help
        return ExitCode.USAGE if stopped.code else ExitCode.SUCCESS
    except UsageError as problem:
        tell(f"{program}: error", problem)
        return ExitCode.USAGE
    except ArgumentMismatch as problem:
        tell(f"{program}: error", UsageError(str(problem)))
        return ExitCode.USAGE
    except CompileError as problem:
        complain(problem.render())
        return problem.code
    except SimulationError as problem:
        complain(f"error: {problem}")
        return KERNEL_FAILED


def complain(text: str) -> None:
    """Write to standard error, on a terminal in colour; bytes of a command line or an input that are not text are
    printed as escapes."""
    if sys.stderr is not None and sys.stderr.isatty():
        text = tileiras.diagnostics.colours.for_stream(text, sys.stderr)
    print(text.encode("utf-8", "backslashreplace").decode(), file=sys.stderr)


def _diagnostic(program: str, message: str) -> Diagnostic:
    prefix = re.compile(rf"(?:{re.escape(program)}|error|note): ")
    first, *hints = (prefix.sub("", line, count=1) if prefix.match(line) else line for line in message.split("\n"))
    return Diagnostic(Severity.ERROR, None, first, [Diagnostic.note(None, hint) for hint in hints])


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
    """The status that `main` returns.  Ctrl-C ends the process by its signal, so that the parent sees the cause; a
    closed standard output is not reported as a failure, a full one is reported once."""
    code: int | None = None
    try:
        code = main()
        if sys.stdout is not None:  # as where it was closed before the command started
            sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        import signal

        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
        raise
    except BrokenPipeError:
        _drop_output()
        return CLOSED
    except OSError as error:
        if error.errno not in DISK_FULL:
            raise
        if not code:
            complain(f"error: IO failure on output stream: {error.strerror}")
        _drop_output()
        return code or int(ExitCode.USAGE)


def _drop_output() -> None:
    """Discard the rest of standard output: the Python interpreter must not report an error when it flushes it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
