"""A forked child of the service: waits for one command, becomes the process that the user started, and answers.

What it takes over from the client is what a child of the same shell would have: descriptors by their numbers, working
directory, environment, umask, limits, priority, processors.  What cannot be taken over (another container, other
groups or capabilities, a higher limit) is refused, and the command does the work itself.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import os
import signal
import socket
import stat
import sys
import tempfile
from collections.abc import Callable
from typing import NoReturn

from tileiras import of_a_command
from tileiras.codegen import guard, isolation
from tileiras.server import account, forked_memory, messages, process_state, protocol
from tileiras.server.links import Links
from tileiras.server.protocol import COMMIT, EXIT, MET, REFUSED, RETIRED
from tileiras.server.unchanged import State

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


def answer(
    links: Links, before: State, taken: int, process: int, group: int, fields: list[bytes], descriptors: list[int]
) -> bool:
    """Runs the command that the fields of a RUN describe, and hands its exit code over; whether it has left nothing
    that is known by its end.  Ends this process where the command is the client's own to run.

    `taken` is the processor time in microseconds that earlier requests have taken here.
    """
    client = _Client(links, taken)
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
    """Says why this process does not run its client's command, and ends it."""
    with contextlib.suppress(OSError):
        messages.send(links.control, kind if kind == RETIRED else EXIT)
    if links.connection is not None:
        with contextlib.suppress(OSError):
            messages.send(links.connection, kind, *fields)
    os._exit(0)


def _come_back() -> None:
    """Leaves the client's folder, streams and files, for those of the service."""
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
    for number in (0, 1, 2):
        if number != null:
            os.dup2(null, number)
    sys.stdin, sys.stdout, sys.stderr = sys.__stdin__, sys.__stdout__, sys.__stderr__ = _ORIGINAL
    isolation.let_go()
    of_a_command.forget()


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


# ---- being it --------------------------------------------------------------------------------------------------------


class _Client:
    """The command that waits for this process, and the zygote and the guard, which look after both."""

    def __init__(self, links: Links, taken: int) -> None:
        """`taken` is processor time that was not for it."""
        self._links = links
        self._taken = taken
        self.has_spoken = False
        """Whether it must not be started again: it writes to a stream, or has read one."""
        self._own = 0
        """Descriptors of the service's own have this number or a higher one, the client's lower ones."""
        self._has_others = False
        """Whether the client has handed over more than standard streams."""

    def take_over_descriptors(self, received: list[int], numbers: list[int]) -> None:
        """The first is the working directory, the others get the `numbers` that they have in the client."""
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
        """Called before anything that cannot be done twice.  Where the client has gone, this process has no business
        left."""
        if not self.has_spoken:
            self.has_spoken = True
            try:
                messages.send(self._client(), COMMIT)
            except OSError:
                os._exit(1)

    def watch_over(self) -> None:
        """Has this process end with the client, with what it runs.  Until it has committed LLVM may end it."""
        isolation.guard_with(guard.Guard(self._links.lifeline, self._links.announcements))
        # Readable once the client has gone: it says nothing more.
        isolation.end_with(self._client().fileno())
        isolation.work_here(lambda: not self.has_spoken)

    def watch_streams(self) -> None:
        """Makes the standard streams as Python makes them, and commits before the first use of what is no file."""
        sys.stdin = sys.__stdin__ = _stream(0, "r", "<stdin>", self.commit)
        sys.stdout = sys.__stdout__ = _stream(1, "w", "<stdout>", self.commit)
        sys.stderr = sys.__stderr__ = _stream(2, "w", "<stderr>", self.commit)
        _watch_files(self)

    def opened(self, event: str, arguments: tuple) -> None:
        """Files can be read and written again.  Pipes and devices cannot, and are not told from files by their names.
        """
        if event != "open" or not isinstance(arguments[0], (str, bytes)):
            return
        if not self.has_spoken and arguments[0] not in (os.devnull, "/dev/urandom"):
            with contextlib.suppress(OSError, ValueError):
                mode = os.stat(arguments[0]).st_mode
                if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                    self.commit()

    def end(self, code: int) -> None:
        """Hands the exit code over.  From here on this process does not end with its client."""
        # Whoever reads a pipe of the client waits until all its writers are gone; LLVM's process, where there is one,
        # has its own streams, and what else the client has inherited.
        if self._has_others:
            isolation.stop()
        # It and the guard would end this process with its client, which has its answer now.
        isolation.kill()
        os.closerange(0, self._own)
        with contextlib.suppress(OSError):
            messages.send(self._links.control, EXIT)
        with contextlib.suppress(OSError):
            taken = (account.microseconds() - self._taken).to_bytes(8, "little")
            messages.send(self._client(), EXIT, code.to_bytes(4, "little", signed=True), taken)
        self._links.hang_up()


_watching: _Client | None = None


def _watch_files(client: _Client) -> None:
    """Has a client know of files that are opened from now on.  What is told of such events is so as long as the process
    is there: it is told once."""
    global _watching
    if _watching is None:
        sys.addaudithook(lambda event, arguments: _watching.opened(event, arguments))
    _watching = client


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
    return _flushed(int(code))


def _ended(code: int) -> int:
    """Does what is to be done when the interpreter ends."""
    atexit._run_exitfuncs()
    return _flushed(code)


def _flushed(code: int) -> int:
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except OSError:
        return _UNFLUSHED
    return code


_UNFLUSHED = 120
"""What the interpreter ends with when it cannot flush its streams (`Py_FinalizeEx`)."""
