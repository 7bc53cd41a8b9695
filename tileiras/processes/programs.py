"""Programs of the toolkit as child processes, each in its own folder; diagnostics of their failures.

Standard input is closed; standard output and error are one text, which is passed on unchanged.  Any end of a program
but exit status 0 is a CompileError (code 5) that states the cause and a command that reproduces it.

| how it ends | message |
|---|---|
| it cannot be started | `Program could not be executed`, `Couldn't fork` when the system has no process left |
| exit status 126, 127 | `Program could not be executed`: a shell's status for a missing or invalid program |
| another exit status | the program's own words |
| a signal | its name, with ` (core dumped)` |
| in any way, where the folder's disk is full | `unable to write`, code 1, with all of the above in a note |
| too long | `Child timed out`; `Child timed out but wouldn't die` when it cannot be killed either |
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence

from tileiras.diagnostics import CompileError, Diagnostic, ExitCode, Locatable
from tileiras.processes import helper
from tileiras.support.files import DISK_FULL

ALLOCATOR = "glibc.malloc.hugetlb=1:glibc.malloc.top_pad=16777216:glibc.malloc.mmap_threshold=33554432"
"""GLIBC_TUNABLES of the programs unless the user has set it: huge pages, and larger requests for memory.  With it,
ptxas takes a quarter less processor time for a small kernel, a seventh less for a matrix multiplication.
Libraries other than glibc, and its releases without these tunables, ignore it."""

GRACE = 5.0
"""Seconds to wait for the exit of a killed program."""


class _Child(subprocess.Popen):
    """Keeps the system's wait status, which includes the core dump flag."""

    status = 0

    def _handle_exitstatus(self, sts: int, *arguments: object, **keywords: object) -> None:
        self.status = sts
        super()._handle_exitstatus(sts, *arguments, **keywords)  # type: ignore[misc]


@contextlib.contextmanager
def working_folder() -> Iterator[str]:
    """The path of a new folder for temporary files, removed at the end of the block, and when this process is killed.

    Raises OSError where none can be made.
    """
    import shutil

    # Announced before it is created, so it must not be another process's: the random name is unique.
    name = f"tileiras-{os.urandom(16).hex()}"
    full: OSError | None = None
    folders = _folders_for_temporary_files()
    for folder in folders:
        path = os.path.join(os.path.abspath(folder), name)
        with helper.watching(path):
            try:
                os.mkdir(path, 0o700)
            except OSError as error:
                full = full or (error if error.errno in DISK_FULL else None)
                continue
            try:
                yield path
            finally:
                shutil.rmtree(path, ignore_errors=True)
            return
    raise full or FileNotFoundError(errno.ENOENT, f"No usable temporary directory found in {folders}")


def _folders_for_temporary_files() -> list[str]:
    """Those that the library `tempfile` would try, in its order.  It does so by writing a file, which a process that is
    killed meanwhile leaves."""
    module = sys.modules.get("tempfile")
    if module is not None and module.tempdir is not None:
        return [module.tempdir]
    if os.name == "nt":
        import tempfile

        return [tempfile.gettempdir()]
    folders = [os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP")]
    return [*filter(None, folders), "/tmp", "/var/tmp", "/usr/tmp", os.getcwd()]


def _start(path: str, arguments: Sequence[str], folder: str, stdin: int = subprocess.DEVNULL) -> _Child:
    """Raise OSError where the program at `path` cannot be executed."""
    # Relative to the caller's folder, not to the child's.
    words = [os.path.abspath(path), *arguments]
    environment = {"GLIBC_TUNABLES": ALLOCATOR, **os.environ}
    return _Child(
        words, cwd=folder, env=environment, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


class WaitingProgram:
    """A program that was started ahead of its work.

    It loads meanwhile, and then reads its arguments as a file of options from standard input.  If this process exits
    first, the program reads no arguments and exits as well.

    `option` is the program's option for such a file.  Raises OSError.
    """

    def __init__(self, path: str, option: str) -> None:
        self.path = path
        self._ends = contextlib.ExitStack()
        with contextlib.ExitStack() as ends:
            self.folder = ends.enter_context(working_folder())
            """Where it works, and its files are to be."""
            reading, self._arguments = os.pipe()
            helper.keep_alone(self._arguments)
            ends.callback(self._close_arguments)
            try:
                self._child: _Child | None = _start(path, [option, STANDARD_INPUT], self.folder, reading)
            finally:
                os.close(reading)
            ends.enter_context(helper.watching(self._child.pid))
            self._ends = ends.pop_all()

    def _close_arguments(self) -> None:
        if self._arguments >= 0:
            helper.close_alone(self._arguments)
            self._arguments = -1

    def give(self, arguments: Sequence[str]) -> _Child | None:
        """The process, which works on these arguments now and is the caller's; None where another one has to be
        started: this one has ended, or a file of options might say something else."""
        child = self._child
        if child is None or not all(map(_PLAIN, arguments)):
            return None
        try:
            os.write(self._arguments, " ".join(arguments).encode() + b"\n")
        except BrokenPipeError:
            return None
        self._child = None
        self._close_arguments()
        return child

    def close(self) -> None:
        """End the process, unless it was given work, and remove the folder."""
        if self._child is not None:
            self._child.kill()
            self._child.communicate()
            self._child = None
        self._ends.close()


STANDARD_INPUT = "/dev/stdin"

_PLAIN = re.compile(r"[\w./=,:+-]{1,256}", re.ASCII).fullmatch
"""Arguments that mean the same in a file of options: nothing is quoted, nothing is a comment."""


def run(
    name: str,
    path: str,
    arguments: Sequence[str],
    folder: str,
    *,
    waiting: WaitingProgram | None = None,
    timeout: float | None = None,
    spent: float = 0.0,
    location: Locatable | None = None,
    complaint: Callable[[str], str] = str,
    display: Sequence[str] | None = None,
    keep: str = "",
    meanwhile: Callable[[], None] | None = None,
) -> str:
    """Run the program at `path`, called `name` in messages, in `folder`; return its output.

    `waiting` is the program if it was started before; `timeout` is in seconds, and so is `spent`, the part of it that a
    query of the program's release has taken; `complaint` extracts the text for the user from the output of a failure;
    `keep` states how to obtain the input file, `display` are the arguments that reproduce the failure; `meanwhile` is
    called while it runs.  Raises CompileError.
    """

    def failed(reason: str, output: str = "") -> CompileError:
        command = shlex.join([name, *(arguments if display is None else display)])
        text = complaint(output).rstrip()
        note = f"reproduce{keep}: {command}"
        return CompileError.at(location, f"{reason}\n{text}" if text else reason, notes=[Diagnostic.note(None, note)])

    if timeout is not None and spent >= timeout:
        raise failed(f"Child timed out: {name} after {timeout:g} s")
    try:
        child = (waiting.give(arguments) if waiting is not None else None) or _start(path, arguments, folder)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.ENOMEM):
            raise failed(f"Couldn't fork: {name}: {error.strerror}") from None
        raise failed(f"Program could not be executed: {path}: {error.strerror}") from None
    try:
        with helper.watching(child.pid):
            if meanwhile is not None:
                meanwhile()
            data, _ = child.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        child.kill()
        try:
            # The program's own children may hold its output open: wait only for the program itself.
            child.wait(GRACE)
        except subprocess.TimeoutExpired:
            raise failed(f"Child timed out but wouldn't die: {name} after {timeout:g} s") from None
        raise failed(f"Child timed out: {name} after {timeout:g} s") from None
    except BaseException:
        child.kill()
        raise
    finally:
        if child.stdout is not None:
            child.stdout.close()
    output = data.decode(errors="replace").rstrip()
    code = child.returncode
    if code == 0:
        return output
    full = disk_full(folder)
    if full is not None:
        words = complaint(output).rstrip() or f"{name} ended with status {code}"
        raise CompileError.at(None, full, ExitCode.USAGE, [Diagnostic.note(None, words)])
    if code < 0:
        dumped = " (core dumped)" if hasattr(os, "WCOREDUMP") and os.WCOREDUMP(child.status) else ""
        raise failed(f"{name} ended with {_signal_name(-code)}{dumped}", output)
    if code in (126, 127):
        raise failed(f"Program could not be executed: {name} failed with exit status {code}", output)
    raise failed(f"{name} failed with exit status {code}", output)


ROOM = 1 << 16
"""Bytes that a disk has to have left for a program's failure to be the program's."""


def disk_full(folder: str) -> str | None:
    """Say, after a failure, of a folder in which no file has room that it is so."""
    path = os.path.join(folder, "room")
    try:
        with open(path, "wb") as file:
            file.write(bytes(ROOM))
    except OSError as error:
        if error.errno in DISK_FULL:
            return f"unable to write '{os.path.dirname(folder)}': {error.strerror}"
    finally:
        with contextlib.suppress(OSError):
            os.unlink(path)
    return None


def _signal_name(number: int) -> str:
    import signal

    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
