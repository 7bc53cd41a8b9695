"""A forked child of the service: waits for one command, becomes the process that the user started, and answers.

What it takes over from the client is what a child of the same shell would have: descriptors by their numbers, working
directory, environment, umask, limits, priority, processors.  What cannot be taken over (another container, other
groups or capabilities, a higher limit) is refused, and the command does the work itself.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import io
import os
import select
import signal
import socket
import stat
import sys
import tempfile
from collections.abc import Callable
from typing import NoReturn

from tileiras import forked_memory, process_state
from tileiras.codegen import guard, isolation
from tileiras.server import account, loaded, messages, protocol
from tileiras.server.protocol import COMMIT, EXIT, GREETING, MET, PREPARE, REFUSED, RETIRED, RUN

REHEARSAL_SECONDS = 10.0
"""What the first compilation may take."""


def rehearse(kernel: bytes, memory: forked_memory.SharedPages) -> None:
    """Has a child compile bytecode as a request would, and learns of the pages that it meets."""
    ours, theirs = socket.socketpair()
    number = os.fork()
    if number == 0:
        try:
            _compile(kernel, memory, theirs)
        finally:
            os._exit(0)
    theirs.close()
    with ours:
        ours.settimeout(REHEARSAL_SECONDS)
        with contextlib.suppress(EOFError, OSError, protocol.ProtocolError):
            memory.learn(messages.receive(ours)[1][0])
    os.kill(number, signal.SIGKILL)
    os.waitpid(number, 0)


def _compile(kernel: bytes, memory: forked_memory.SharedPages, hearer: socket.socket) -> None:
    from tileiras.cli import tileiras

    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    isolation.work_here(lambda: True)
    place = os.memfd_create("kernel")
    os.write(place, kernel)
    tileiras.main([f"/proc/self/fd/{place}", "--gpu-name=sm_90", "--cache=off", "-o", os.devnull])
    met = memory.met()
    isolation.stop()
    messages.send(hearer, MET, met)


class Refused(Exception):
    """This process cannot stand in for the client's."""


def serve(
    listener: socket.socket, control: socket.socket, lifeline: socket.socket, announcements: int, identity: bytes,
    state: loaded.Snapshot, memory: forked_memory.SharedPages, forget: Callable[[], None],
) -> NoReturn:  # fmt: skip
    """Takes connections until one brings a command, and ends with it.

    `control` leads to the zygote, which has this process prepare for a command while it waits; when the zygote is gone,
    `forget` is called, and this process ends.  `lifeline` leads to its guard, which reads
    `announcements`.
    """
    looks = False
    while True:
        connection, looks = _next(listener, control, memory, looks, forget)
        with contextlib.suppress(EOFError, OSError, protocol.ProtocolError):
            process, user, group = messages.peer(connection)
            if user == os.geteuid():
                connection.settimeout(protocol.PATIENCE)
                connection.sendall(GREETING)
                # While the client makes its message; it was started before it connected.
                is_current = state.is_current()
                kind, fields, descriptors = messages.receive(connection)
                connection.settimeout(None)
                if not fields or fields[0] != identity:
                    messages.send(connection, REFUSED, b"another version or environment of Python")
                elif kind != RUN:
                    messages.send(control, kind, *fields[1:], descriptors=(connection.fileno(),))
                else:
                    messages.send(control, RUN, str(process).encode(), descriptors=(connection.fileno(),))
                    client = _Client(connection, control, lifeline, announcements, memory if looks else None)
                    if not is_current:
                        client.leave(RETIRED)
                    _answer(client, process, group, fields[1:], descriptors)
                for number in descriptors:
                    os.close(number)
        connection.close()


def _next(
    listener: socket.socket, control: socket.socket, memory: forked_memory.SharedPages, looks: bool,
    forget: Callable[[], None],
) -> tuple[socket.socket, bool]:  # fmt: skip
    """The next connection, for which several spares wait, and whether the zygote wants to hear which pages its request
    meets; meanwhile this process is prepared."""
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    poll.register(control, select.POLLIN)
    while True:
        ready = dict(poll.poll())
        if listener.fileno() in ready:
            with contextlib.suppress(BlockingIOError):  # another spare has it
                connection, _ = listener.accept()
                return connection, looks
        if control.fileno() in ready:
            try:
                kind, fields, _ = messages.receive(control)
            except (EOFError, OSError, protocol.ProtocolError):
                forget()
                os._exit(0)
            if kind == PREPARE:
                # Pages that were met ahead could not be told from those that the request meets.
                memory.ranges, looks = fields[0], not fields[0]
                memory.meet()


def _answer(client: _Client, process: int, group: int, fields: list[bytes], descriptors: list[int]) -> NoReturn:
    """Runs the command that the fields of a RUN describe."""
    try:
        name, arguments, first, numbers, environment = fields
        program = name.decode()
        if program not in protocol.PROGRAMS:
            raise Refused(f"no program of the service: {program}")
        client.take_over_descriptors(descriptors, [int(word) for word in protocol.unpack_words(numbers)])
        take_over_process(process, group)
        pairs = protocol.unpack_words(environment)
        process_state.take_over_environment(dict(pair.partition(b"=")[::2] for pair in pairs))
        sys.argv = [os.fsdecode(word) for word in protocol.unpack_words(arguments)]
        sys.orig_argv = [sys.executable, *sys.argv]
        sys.path[:1] = [os.fsdecode(first)]
        # Remembered by the library, and a matter of the environment.
        tempfile.tempdir = None
    except (Refused, OSError, ValueError) as reason:
        client.leave(REFUSED, str(reason).encode())
    client.watch_over()
    client.watch_streams()
    client.end(_run(program))


# ---- becoming the client's process -----------------------------------------------------------------------------------

_SAME = ("Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")
"""Lines of /proc/PID/status (proc(5)) that a process cannot change, or only give up."""

_NAMESPACES = ("mnt", "user", "pid", "net")


def take_over_process(process: int, group: int) -> None:
    """Umask, limits, priority and processors of another process; raises Refused where this one cannot have its rights
    or sees other files."""
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


def _moved(number: int, first: int) -> int:
    """A descriptor under a number from `first` on."""
    moved = fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, first)
    os.close(number)
    return moved


# ---- being it --------------------------------------------------------------------------------------------------------


class _Client:
    """The command that waits for this process, and the zygote and the guard, which look after both."""

    def __init__(
        self, connection: socket.socket, control: socket.socket, lifeline: socket.socket, announcements: int,
        memory: forked_memory.SharedPages | None,
    ) -> None:  # fmt: skip
        """`memory` is there where the zygote wants to hear what of it this process meets."""
        self._connection = connection
        self._control = control
        self._lifeline = lifeline
        self._announcements = announcements
        self._memory = memory
        self._committed = False
        self._own = 0
        """Descriptors of the service's own have this number or a higher one, the client's lower ones."""
        self._has_others = False
        """Whether the client has handed over more than standard streams."""

    def take_over_descriptors(self, received: list[int], numbers: list[int]) -> None:
        """The first is the working directory, the others get the `numbers` that they have in the client; the service's
        own go out of their way."""
        if len(received) != len(numbers) + 1:
            raise Refused("a descriptor is missing")
        self._own = max([2, *numbers]) + 1
        self._has_others = self._own > 3
        # A number that is free now may be one that a client's is to have.
        own = (self._connection, self._control, self._lifeline)
        first = max(self._own, *received, self._announcements, *(one.fileno() for one in own)) + 1
        here, *others = [_moved(number, first) for number in received]
        self._connection, self._control, self._lifeline = (
            socket.socket(fileno=_moved(one.detach(), first)) for one in own
        )
        self._announcements = _moved(self._announcements, first)
        os.fchdir(here)
        os.close(here)
        os.closerange(0, first)
        for number, target in zip(others, numbers):
            os.dup2(number, target)
            os.close(number)

    def commit(self) -> None:
        """Called before anything that cannot be done twice.  Where the client has gone, this process has no business
        left."""
        if not self._committed:
            self._committed = True
            try:
                messages.send(self._connection, COMMIT)
            except OSError:
                os._exit(1)

    def watch_over(self) -> None:
        """Has this process end with the client, with what it runs.  Until it has committed LLVM may end it."""
        isolation.guard_with(guard.Guard(self._lifeline, self._announcements))
        # Readable once the client has gone: it says nothing more.
        isolation.end_with(self._connection.fileno())
        isolation.work_here(lambda: not self._committed)

    def watch_streams(self) -> None:
        """Makes the standard streams as Python makes them, and commits before the first use of what is no file."""
        sys.stdin = sys.__stdin__ = _stream(0, "r", "<stdin>", self.commit)
        sys.stdout = sys.__stdout__ = _stream(1, "w", "<stdout>", self.commit)
        sys.stderr = sys.__stderr__ = _stream(2, "w", "<stderr>", self.commit)
        sys.addaudithook(self._opened)

    def _opened(self, event: str, arguments: tuple) -> None:
        """Files can be read and written again.  Pipes and devices cannot, and are not told from files by their names.
        """
        if event != "open" or not isinstance(arguments[0], (str, bytes)):
            return
        if not self._committed and arguments[0] not in (os.devnull, "/dev/urandom"):
            with contextlib.suppress(OSError, ValueError):
                mode = os.stat(arguments[0]).st_mode
                if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                    self.commit()

    def end(self, code: int) -> NoReturn:
        """Hands the exit code over and ends this process."""
        # Whoever reads a pipe of the client waits until all its writers are gone; LLVM's process, where there is one,
        # has its own streams, and what else the client has inherited.
        if self._has_others:
            isolation.stop()
        # It and the guard would end this process with its client, which has its answer now.
        isolation.kill()
        os.closerange(0, self._own)
        with contextlib.suppress(OSError):
            messages.send(self._control, EXIT)
        with contextlib.suppress(OSError):
            taken = account.microseconds().to_bytes(8, "little")
            messages.send(self._connection, EXIT, code.to_bytes(4, "little", signed=True), taken)
        # The zygote counts the time of processes that were waited for.
        isolation.stop()
        if self._memory is not None:
            with contextlib.suppress(OSError, protocol.ProtocolError):
                messages.send(self._control, MET, self._memory.met())
        os._exit(0)

    def leave(self, kind: bytes, *fields: bytes) -> NoReturn:
        """Says why this process does not run the command, and ends it."""
        with contextlib.suppress(OSError):
            messages.send(self._control, kind if kind == RETIRED else EXIT)
        with contextlib.suppress(OSError):
            messages.send(self._connection, kind, *fields)
        os._exit(0)


class _Watched(io.FileIO):
    """A standard stream that says so before it is used; files can be read again."""

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
    """As CPython's create_stdio (Python/pylifecycle.c) does it; None where the descriptor is closed."""
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
"""Those that the service started with: what the environment says of their encoding is part of its identity."""


def _run(program: str) -> int:
    """The command as a process of its own, whose interpreter ends as one does: with a traceback, or what a stream that
    cannot be flushed has to say."""
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
    atexit._run_exitfuncs()
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except OSError:
        return _UNFLUSHED
    return int(code)


_UNFLUSHED = 120
"""What the interpreter ends with when it cannot flush its streams (`Py_FinalizeEx`)."""
