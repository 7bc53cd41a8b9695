"""One request in a forked child of the service: it takes over the state of the client's process, runs the command, and
answers.

It takes over the state that a child of the same shell would have: descriptors with their numbers, working directory,
environment, umask, limits, priority, CPU affinity.  If that is impossible (another container, other groups or
capabilities, a higher limit), the request is refused, and the command does the work itself.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import os
import socket
import stat
import sys
import tempfile
from collections.abc import Callable
from typing import NoReturn

from tileiras.processes import guard, helper, messages, sockets
from tileiras.processes.service import account, process_state, protocol
from tileiras.processes.service.links import Links
from tileiras.processes.service.protocol import COMMIT, EXIT, REFUSED, RETIRED
from tileiras.processes.service.unchanged import State
from tileiras.support import command_cache


class Refused(Exception):
    """This process cannot take over the state of the client's process."""


def answer(
    links: Links, before: State, cpu_us: int, process: int, group: int, fields: list[bytes], descriptors: list[int]
) -> bool:
    """Run the command of a RUN and send its exit code; return whether it ended without an error, a use of the streams
    or an exit function.  Exits this process if the request is refused.

    `cpu_us` is the processor time in microseconds of earlier requests in this process.
    """
    client = _Client(links, cpu_us)
    try:
        name, arguments, first, numbers, environment = fields
        program = name.decode()
        if program not in protocol.PROGRAMS:
            raise Refused(f"no program of the service: {program}")
        client.take_over_descriptors(descriptors, [int(word) for word in sockets.unpack_words(numbers)])
        take_over_process(process, group)
        pairs = sockets.unpack_words(environment)
        process_state.take_over_environment(dict(pair.partition(b"=")[::2] for pair in pairs))
        sys.argv = [os.fsdecode(word) for word in sockets.unpack_words(arguments)]
        sys.orig_argv = [sys.executable, *sys.argv]
        sys.path[:1] = [os.fsdecode(first)]
        # Cached by the library, but dependent on the environment.
        tempfile.tempdir = None
    except (Refused, OSError, ValueError) as reason:
        leave(links, REFUSED, str(reason).encode())
    client.watch_over()
    client.watch_streams()
    code = _run(program)
    is_clean = code == 0 and not client.has_spoken and not before.has_exit_functions()
    if not is_clean:
        code = _ended(code)
    client.end(code)
    if is_clean:
        _come_back()
    return is_clean


def leave(links: Links, kind: bytes, *fields: bytes) -> NoReturn:
    """Report to the client the reason for not running its command, and exit this process."""
    with contextlib.suppress(OSError):
        messages.send(links.control, kind if kind == RETIRED else EXIT)
    if links.connection is not None:
        with contextlib.suppress(OSError):
            messages.send(links.connection, kind, *fields)
    os._exit(0)


def _come_back() -> None:
    """Return to the service's folder and streams, and drop the state of the command."""
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)  # gets the lowest free number
    for number in (0, 1, 2):
        if number != null:
            os.dup2(null, number)
    sys.stdin, sys.stdout, sys.stderr = sys.__stdin__, sys.__stdout__, sys.__stderr__ = _ORIGINAL
    helper.let_go()
    command_cache.forget()


# ---- becoming the client's process -----------------------------------------------------------------------------------

_SAME = ("Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")
"""Fields of /proc/PID/status (proc(5)) that a process cannot change, or can only reduce."""

_NAMESPACES = ("mnt", "user", "pid", "net")


def take_over_process(process: int, group: int) -> None:
    """Take over umask, limits, priority and CPU affinity of another process; raises Refused if this process cannot have
    its rights or sees other files."""
    if process <= 0 or group != os.getegid():
        raise Refused("the client's process is not to be seen, or has another group")
    theirs, own = process_state.status(process), process_state.status(os.getpid())
    for name in _SAME:
        if theirs.get(name) != own.get(name):
            raise Refused(f"the client has another {name}")
    for name in _NAMESPACES:
        if os.readlink(f"/proc/{process}/ns/{name}") != os.readlink(f"/proc/self/ns/{name}"):
            raise Refused(f"the client is in another {name} namespace")
    root, here = os.stat(f"/proc/{process}/root"), os.stat("/")
    if (root.st_dev, root.st_ino) != (here.st_dev, here.st_ino):
        raise Refused("the client has another root")
    process_state.take_over(process, theirs)


# ---- being it --------------------------------------------------------------------------------------------------------


class _Client:
    """The waiting command, and the connections to the zygote and the guard, which supervise both processes."""

    def __init__(self, links: Links, cpu_us: int) -> None:
        """`cpu_us` is the processor time of earlier requests."""
        self._links = links
        self._cpu_us = cpu_us
        self.has_spoken = False
        """Whether the command must not be restarted: it writes to a stream, or has read one."""
        self._own = 0
        """The service's own descriptors have this number or higher ones, the client's have lower ones."""
        self._has_others = False
        """Whether the client has passed descriptors besides the standard streams."""

    def take_over_descriptors(self, received: list[int], numbers: list[int]) -> None:
        """Change to the working directory, the first descriptor, and give the others their `numbers` in the client."""
        if len(received) != len(numbers) + 1:
            raise Refused("a descriptor is missing")
        self._own = max([2, *numbers]) + 1
        self._has_others = self._own > 3
        here, *others = self._links.make_room(self._own, received)
        os.fchdir(here)
        os.close(here)
        for number, target in zip(others, numbers):
            os.dup2(number, target)
            os.close(number)

    def _client(self) -> socket.socket:
        assert self._links.connection is not None
        return self._links.connection

    def commit(self) -> None:
        """Send COMMIT, before the first action that cannot be repeated.  If the client has gone, exit."""
        if not self.has_spoken:
            self.has_spoken = True
            try:
                messages.send(self._client(), COMMIT)
            except OSError:
                os._exit(1)

    def watch_over(self) -> None:
        """Make this process and its subprocesses end with the client.  Before COMMIT, LLVM may run in this process,
        where a crash ends it."""
        helper.guard_with(guard.Guard(self._links.lifeline, self._links.announcements))
        # Readable only once the client has gone: it sends no further message.
        helper.end_with(self._client().fileno())
        helper.work_here(lambda: not self.has_spoken)

    def watch_streams(self) -> None:
        """Create the standard streams as Python does; the first use of a stream that is not a regular file commits."""
        sys.stdin = sys.__stdin__ = _stream(0, "r", "<stdin>", self.commit)
        sys.stdout = sys.__stdout__ = _stream(1, "w", "<stdout>", self.commit)
        sys.stderr = sys.__stderr__ = _stream(2, "w", "<stderr>", self.commit)
        _watch_files(self)

    def opened(self, event: str, arguments: tuple) -> None:
        """Commit before a pipe or device is opened: unlike files, it cannot be read or written again."""
        if event != "open" or not isinstance(arguments[0], (str, bytes)):
            return
        if not self.has_spoken and arguments[0] not in (os.devnull, "/dev/urandom"):
            with contextlib.suppress(OSError, ValueError):
                mode = os.stat(arguments[0]).st_mode
                if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                    self.commit()

    def end(self, code: int) -> None:
        """Send the exit code.  From here on this process does not end with its client."""
        # The reader of a pipe waits until all its writers are closed.  A helper process of LLVM has streams of its own,
        # but has inherited the client's other descriptors.
        if self._has_others:
            helper.stop()
        # Otherwise the helper and the guard would end this process with its client, which is about to exit.
        helper.kill()
        os.closerange(0, self._own)
        with contextlib.suppress(OSError):
            messages.send(self._links.control, EXIT)
        with contextlib.suppress(OSError):
            cpu_us = (account.microseconds() - self._cpu_us).to_bytes(8, "little")
            messages.send(self._client(), EXIT, code.to_bytes(4, "little", signed=True), cpu_us)
        self._links.hang_up()


_watching: _Client | None = None


def _watch_files(client: _Client) -> None:
    """Report opened files to `client` from now on.  Audit hooks cannot be removed, so one is added once per process."""
    global _watching
    if _watching is None:
        sys.addaudithook(lambda event, arguments: _watching.opened(event, arguments))
    _watching = client


class _Watched(io.FileIO):
    """A standard stream that commits before it is used, except for reads of regular files, which can be repeated."""

    commit: Callable[[], None]

    def readinto(self, buffer) -> int | None:
        self._use()
        return super().readinto(buffer)

    def readall(self) -> bytes:
        self._use()
        return super().readall()

    def read(self, size: int = -1) -> bytes | None:
        self._use()
        return super().read(size)

    def write(self, data) -> int | None:
        self.commit()
        return super().write(data)

    def _use(self) -> None:
        if not stat.S_ISREG(os.fstat(self.fileno()).st_mode):
            self.commit()


def _stream(number: int, mode: str, name: str, commit: Callable[[], None]) -> io.TextIOWrapper | None:
    """Create a stream like CPython's create_stdio (Python/pylifecycle.c); None if the descriptor is closed."""
    try:
        raw = _Watched(number, mode, closefd=False)
    except OSError:
        return None
    raw.commit = commit
    raw.name = name
    original = _ORIGINAL[number]
    unbuffered = mode == "w" and original.write_through
    buffered: io.BufferedIOBase | io.FileIO
    buffered = io.BufferedReader(raw) if mode == "r" else raw if unbuffered else io.BufferedWriter(raw)
    stream = io.TextIOWrapper(
        buffered, original.encoding, original.errors, newline="\n",
        line_buffering=not unbuffered and (number == 2 or raw.isatty()), write_through=unbuffered,
    )  # fmt: skip
    stream.mode = mode
    return stream


_ORIGINAL = (sys.stdin, sys.stdout, sys.stderr)
"""The service's initial streams: the variables that determine their encoding are part of its identity."""


def _run(program: str) -> int:
    """Run the command with the exit behavior of a separate interpreter: a traceback for an exception, and exit code
    `_UNFLUSHED` if a stream cannot be flushed."""
    import gc
    import importlib

    from tileiras.cli import process

    gc.disable()
    main = importlib.import_module(f"tileiras.cli.{program.replace('-', '_')}").main
    try:
        code = process.run(main)
    except SystemExit as stopped:
        code = stopped.code if isinstance(stopped.code, int) else int(stopped.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    return _flush(int(code))


def _ended(code: int) -> int:
    """Run the exit functions and flush the streams; return the exit code."""
    atexit._run_exitfuncs()
    return _flush(code)


def _flush(code: int) -> int:
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except OSError:
        return _UNFLUSHED
    return code


_UNFLUSHED = 120
"""Exit code of an interpreter that cannot flush its streams (`Py_FinalizeEx`)."""
