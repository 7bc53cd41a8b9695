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
from tileiras.codegen import isolation
from tileiras.server import loaded, messages, protocol
from tileiras.server.protocol import COMMIT, EXIT, GREETING, MET, PREPARE, REFUSED, RETIRED, RUN

REHEARSAL_SECONDS = 10.0
"""What the first compilation may take."""


class Memory:
    """What is known of the pages that requests meet, and the helpers that work for them."""

    def __init__(self) -> None:
        self.own = forked_memory.SharedPages()
        self.of_helper = forked_memory.SharedPages()
        self._looks = True
        """Whether the zygote wants to hear what this process meets."""

    def rehearse(self, kernel: bytes) -> None:
        """Has a child compile bytecode as a request would, and learns of the pages that it meets."""
        ours, theirs = socket.socketpair()
        number = os.fork()
        if number == 0:
            try:
                self._compile(kernel, theirs)
            finally:
                os._exit(0)
        theirs.close()
        with ours:
            ours.settimeout(REHEARSAL_SECONDS)
            with contextlib.suppress(EOFError, OSError, protocol.ProtocolError):
                self.learn(messages.receive(ours)[1])
        os.kill(number, signal.SIGKILL)
        os.waitpid(number, 0)

    def _compile(self, kernel: bytes, hearer: socket.socket) -> None:
        from tileiras.cli import tileiras

        null = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(null, number)
        self.prepare(b"", b"", b"\1", b"\1")
        place = os.memfd_create("kernel")
        os.write(place, kernel)
        tileiras.main([f"/proc/self/fd/{place}", "--gpu-name=sm_90", "--cache=off", "-o", os.devnull])
        of_helper = isolation.met_pages()
        isolation.stop()
        messages.send(hearer, MET, self.own.met(), of_helper)

    def learn(self, said: list[bytes]) -> None:
        """Takes what a child says with MET."""
        for pages, ranges in zip((self.own, self.of_helper), said):
            pages.learn(ranges)

    def prepare(self, own: bytes, of_helper: bytes, has_helper: bytes, looks: bytes) -> None:
        """Has this process ready for a request: what is known now, whether a helper is likely to be needed, and whether
        the zygote wants to hear more."""
        self.own.ranges, self.of_helper.ranges, self._looks = own, of_helper, bool(looks)
        if has_helper:
            # Before this process has pages of its own, which it would share again.
            with contextlib.suppress(OSError):
                isolation.start_waiting(self.of_helper)
        self.own.meet()

    def met_by_helper(self) -> bytes:
        """Of the helper, while it is there; empty where nobody wants to hear it."""
        try:
            return isolation.met_pages() if self._looks else b""
        except (OSError, RuntimeError, isolation.HelperDied):
            return b""

    def met(self) -> bytes:
        """Of this process.  Raises OSError."""
        return self.own.met() if self._looks else b""


class Refused(Exception):
    """This process cannot stand in for the client's."""


def serve(
    listener: socket.socket, control: socket.socket, identity: bytes, state: loaded.Snapshot,
    memory: Memory, forget: Callable[[], None],
) -> NoReturn:  # fmt: skip
    """Takes connections until one brings a command, and ends with it.

    `control` leads to the zygote, which has this process prepare for a command while it waits; when the zygote is gone,
    `forget` is called, and this process ends.
    """
    while True:
        connection = _next(listener, control, memory, forget)
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
                    messages.send(control, RUN, descriptors=(connection.fileno(),))
                    client = _Client(connection, control, memory)
                    if not is_current:
                        client.leave(RETIRED)
                    _answer(client, process, group, fields[1:], descriptors)
                for number in descriptors:
                    os.close(number)
        connection.close()


def _next(
    listener: socket.socket, control: socket.socket, memory: Memory, forget: Callable[[], None]
) -> socket.socket:
    """The next connection, for which several spares wait; meanwhile this one is prepared."""
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    poll.register(control, select.POLLIN)
    while True:
        ready = dict(poll.poll())
        if listener.fileno() in ready:
            with contextlib.suppress(BlockingIOError):  # another spare has it
                connection, _ = listener.accept()
                return connection
        if control.fileno() in ready:
            try:
                kind, fields, _ = messages.receive(control)
            except (EOFError, OSError, protocol.ProtocolError):
                forget()
                os._exit(0)
            if kind == PREPARE:
                memory.prepare(*fields)


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
    isolation.end_with(client.fileno())
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
    """The command that waits for this process, and the zygote, which looks after both."""

    def __init__(self, connection: socket.socket, control: socket.socket, memory: Memory) -> None:
        self._connection = connection
        self._control = control
        self._memory = memory
        self._committed = False
        self._own = 0
        """Descriptors of the service's own have this number or a higher one, the client's lower ones."""
        self._has_others = False
        """Whether the client has handed over more than standard streams."""

    def fileno(self) -> int:
        """Readable once the client has gone: it says nothing more."""
        return self._connection.fileno()

    def take_over_descriptors(self, received: list[int], numbers: list[int]) -> None:
        """The first is the working directory, the others get the `numbers` that they have in the client; the service's
        own go out of their way."""
        if len(received) != len(numbers) + 1:
            raise Refused("a descriptor is missing")
        self._own = max([2, *numbers]) + 1
        self._has_others = self._own > 3
        # A number that is free now may be one that a client's is to have.
        first = max(self._own, *received, self._connection.fileno(), self._control.fileno()) + 1
        lowest = isolation.lowest_of_waiting()
        if lowest is not None and first > lowest:
            isolation.stop()
        here, *others = [_moved(number, first) for number in received]
        self._connection = socket.socket(fileno=_moved(self._connection.detach(), first))
        self._control = socket.socket(fileno=_moved(self._control.detach(), first))
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
        has_helper = isolation.was_asked()
        # Whoever reads a pipe of the client waits until all its writers are gone; LLVM's process has its own streams,
        # and, unless it was there before, what else the client has inherited.
        if self._has_others and isolation.lowest_of_waiting() is None:
            isolation.stop()
        of_helper = self._memory.met_by_helper()
        # It would end this process with its client, which has its answer now.
        isolation.kill()
        os.closerange(0, self._own)
        with contextlib.suppress(OSError):
            messages.send(self._control, EXIT, b"\1" if has_helper else b"")
        with contextlib.suppress(OSError):
            messages.send(self._connection, EXIT, code.to_bytes(4, "little", signed=True))
        # The zygote counts the time of processes that were waited for.
        isolation.stop()
        with contextlib.suppress(OSError, protocol.ProtocolError):
            own = self._memory.met()
            if own or of_helper:
                messages.send(self._control, MET, own, of_helper)
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
