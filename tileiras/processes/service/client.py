"""Entry point of every command: passes it to the service if enabled and running; otherwise loads the compiler's modules
from the user's store (`tileiras.processes.service.code_archive`).

It loads no module of the compiler, and only built-in or small ones of the standard library.  If the service cannot be
used, or dies before output that cannot be repeated, the command silently does the work itself: the service changes the
duration of a command, never its result.

With `auto`, the first use starts the service for later commands.  By default, the second command within ten minutes
does, and states it once; never where `_is_left_out`.
"""

from __future__ import annotations

import os
import sys

from tileiras.processes import sockets
from tileiras.processes.service import protocol
from tileiras.processes.service.protocol import COMMIT, EXIT, GREETING, RETIRED
from tileiras.processes.sockets import ProtocolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Callable


def _command(name: str) -> Callable[[], int]:
    return lambda: run(name)


tileiras_run = _command("tileiras-run")
tileiras_cache = _command("tileiras-cache")
tileiras_watch = _command("tileiras-watch")
tileiras_report = _command("tileiras-report")
tileiras_sweep = _command("tileiras-sweep")
tileirdisasm = _command("tileirdisasm")
tileiras_check = _command("tileiras-check")
"""Entry points of the commands that the service does not answer."""


def run(name: str) -> int:
    """Run a command with the arguments of this process; return its exit code.  The service answers
    `protocol.PROGRAMS`."""
    word = _option_value(name, sys.argv[1:], "server") or os.environ.get("TILEIRAS_SERVER")
    by_default = not word
    if name in protocol.PROGRAMS and sockets.supported() and (not _is_left_out() if by_default else word == "auto"):
        code = _Request(name, by_default).answer()
        if code is not None:
            # No file is open, no data buffered and no function registered: skip the interpreter's finalization.
            os._exit(code)
    _use_compiled_code(name, sys.argv[1:])
    module = __import__(f"tileiras.cli.{name.replace('-', '_')}", fromlist=["program"])
    return module.program()


SECONDS = 600.0
"""By default, a command starts the service if another one has run so many seconds before at most."""

ROOT = 0
"""The user for whom the default starts no service: it would serve builds of packages and containers."""

BATCH = (
    "SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "SOURCE_DATE_EPOCH", "DEB_BUILD_ARCH", "RPM_BUILD_ROOT", "CONDA_BUILD",
    "NIX_BUILD_TOP", "EBUILD_PHASE", "PIP_BUILD_TRACKER",
)  # fmt: skip
"""Variables of batch jobs and of package builds, whose processes must end with them."""


def _is_left_out() -> bool:
    """Whether the default uses no service: for root, in CI, in batch jobs and package builds, and without a runtime
    directory of this user alone."""
    environ = os.environ
    if os.geteuid() == ROOT or environ.get("CI", "").lower() in ("true", "1") or any(name in environ for name in BATCH):
        return True
    try:
        os.close(sockets.open_private_folder(environ.get("XDG_RUNTIME_DIR") or ""))
    except OSError:
        return True
    return False


def _is_second(name: str) -> bool:
    """Whether another command has been here in the last `SECONDS`; records this one otherwise.  Raises OSError."""
    import time

    directory = sockets.open_directory(create=True)
    try:
        first = f"{name}.first"
        try:
            age = time.time() - os.stat(first, dir_fd=directory).st_mtime
            os.unlink(first, dir_fd=directory)
            if 0 <= age <= SECONDS:
                return True
        except FileNotFoundError:
            pass
        os.close(os.open(first, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600, dir_fd=directory))
        return False
    finally:
        os.close(directory)


def _tell_once() -> None:
    """State, once in the life of the runtime directory, that a service was started.  Raises OSError."""
    directory = sockets.open_directory()
    try:
        os.close(os.open("told", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=directory))
    except FileExistsError:
        return
    finally:
        os.close(directory)
    print("tileiras: a service was started for further commands; TILEIRAS_SERVER=off prevents it", file=sys.stderr)


def _option_value(name: str, words: list[str], option: str) -> str | None:
    """Return the value of the last `--OPTION`, for `tileiras` only; other commands do not have these options.

    Response files are not expanded.
    """
    result = None
    before = ""
    for item in words if name == "tileiras" else ():
        if item == "--":
            break
        if item.startswith((f"--{option}=", f"-{option}=")):
            result = item.partition("=")[2]
        elif before in (f"--{option}", f"-{option}"):
            result = item
        before = item
    return result


def _use_compiled_code(name: str, words: list[str]) -> None:
    """Load the compiler's modules from the user's store, unless the store is disabled."""
    if _option_value(name, words, "cache") is not None:
        return  # the command line may select another store, and is not parsed yet
    try:
        from tileiras.processes.service import code_archive

        archive = code_archive.use("tileiras")
    except ImportError:
        return  # a dependency is missing; the compiler reports it
    if archive is not None:
        import atexit

        atexit.register(archive.save)


class _Unusable(Exception):
    """The service cannot be used; `start` states whether to start one for the next command, `again` whether one has
    run."""

    def __init__(self, start: bool = False, again: bool = False) -> None:
        self.start = start
        self.again = again


class _Request:
    """One command line, passed to the service."""

    def __init__(self, name: str, by_default: bool) -> None:
        self._name = name
        self._by_default = by_default
        self._committed = False
        self._identity = protocol.identity()

    def answer(self) -> int | None:
        """Return the exit code; None if this process has to do the work.

        If the service's child was killed by a signal after COMMIT, this process ends by the same signal.
        """
        try:
            import _socket

            connection = self._connect()
            position = _position_of_input()
            try:
                self._send(connection, _socket)
                code = self._wait(connection)
            finally:
                connection.close()
        except _Unusable as reason:
            if reason.start:
                self._start_service(reason.again)
            return None
        except (ImportError, OSError, ProtocolError):
            return None
        if code >= 0:
            return code
        if not self._committed:
            if position is not None:
                os.lseek(0, position, os.SEEK_SET)
            return None
        _end_by(-code)
        return None

    def _connect(self) -> socket:
        """Connect to a process of this user and receive its GREETING."""
        try:
            connection = sockets.connected(sockets.name_of(self._identity), protocol.PATIENCE)
        except FileNotFoundError:
            raise _Unusable(start=True) from None
        try:
            if connection.recv(1) == GREETING:
                return connection
        except OSError:
            pass
        connection.close()
        raise _Unusable()

    def _send(self, connection: socket, _socket) -> None:
        here = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            inherited = _inherited()
            if len(inherited) >= sockets.MOST_DESCRIPTORS:
                raise _Unusable()
            message = sockets.pack(
                protocol.RUN,
                self._identity,
                self._name.encode(),
                sockets.pack_words([os.fsencode(word) for word in sys.argv]),
                os.fsencode(sys.path[0]) if sys.path else b"",
                sockets.pack_words([str(number).encode() for number in inherited]),
                sockets.pack_words([name + b"=" + value for name, value in os.environb.items()]),
            )
            numbers = b"".join(number.to_bytes(4, sys.byteorder) for number in (here, *inherited))
            count = connection.sendmsg([message], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, numbers)])
            if count < len(message):
                connection.sendall(message[count:])
        finally:
            os.close(here)

    def _wait(self, connection: socket) -> int:
        """Wait for the command without a limit; return the exit code, or the negated number of a signal."""
        connection.settimeout(None)
        _die_of_interrupts()
        while True:
            try:
                kind, body = sockets.received(connection.recv)
            except (OSError, ProtocolError):
                return -9
            if kind == COMMIT:
                self._committed = True
            elif kind == EXIT:
                return int.from_bytes(sockets.unpack(body)[0], "little", signed=True)
            else:
                raise _Unusable(start=kind == RETIRED, again=True)

    def _start_service(self, again: bool) -> None:
        """Start the service in the background without waiting for it; failures are ignored silently."""
        name = sockets.name_of(self._identity)
        try:
            if again or not self._by_default:
                spawn(name)
            elif _is_second(name):
                spawn(name)
                _tell_once()
        except OSError:
            pass


def spawn(name: str, idle: float = protocol.IDLE, stderr: int | None = None) -> int:
    """Start a service in its own session, without this process's streams and descriptors; return its process number.

    It exits immediately if its identity does not have this `name`.  `stderr` is a descriptor for its messages until it
    is ready.  Raises OSError.
    """
    code = (
        f"import sys; sys.path[:] = {sys.path!r}\nfrom tileiras.processes.service.zygote import main\n"
        f"sys.exit(main({name!r}, {idle!r}))"
    )
    return sockets.start(code, _interpreter_options(), stderr, _inherited())


def _interpreter_options() -> list[str]:
    """Return the interpreter's options: the words between it and the script or module."""
    options = sys.orig_argv[1 : len(sys.orig_argv) - len(sys.argv)]
    if options and options[-1][:1] == "-" and options[-1][-1:] in ("m", "c"):  # also as the last letter of `-Im`
        options[-1] = options[-1][:-1]
    return [word for word in options if word != "-"]


def _inherited() -> list[int]:
    """List the descriptors inherited from the parent process, in order."""
    result = []
    for word in os.listdir("/proc/self/fd"):
        try:
            if os.get_inheritable(int(word)):
                result.append(int(word))
        except OSError:
            pass  # the descriptor of the listing itself
    return sorted(result)


def _position_of_input() -> int | None:
    """Return the position of standard input; None if it is not seekable."""
    try:
        return os.lseek(0, 0, os.SEEK_CUR)
    except OSError:
        return None


def _die_of_interrupts() -> None:
    """Restore the default action of SIGINT, so that Ctrl-C kills this process immediately, unless it is ignored."""
    import _signal

    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)


def _end_by(number: int) -> None:
    """End this process by the signal that ended the service's child."""
    import _signal

    if number not in (_signal.SIGKILL, _signal.SIGSTOP):
        _signal.signal(number, _signal.SIG_DFL)
    os.kill(os.getpid(), number)
