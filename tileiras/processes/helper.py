"""Run LLVM in a process whose death is survivable.

This LLVM has assertions on, and many of its errors end the process: an instruction that cannot be selected, an
intrinsic above the target, an unknown assembly constraint.  So a forked helper process does the work.  It is started
once per thread of the parent and answers requests over a pipe until the parent exits.  When it dies, the parent turns
its stderr into a diagnostic and starts another helper for the next request.  When the parent dies, the helper ends the
programs that the parent had running, and itself (`lifetime`).

A helper leaks some of LLVM's memory: llvmlite has no function that deletes the
PassInstrumentationCallbacks of a pass builder (53 KB for each compilation, LLVM 22).  So it is replaced after
`MAX_REQUESTS` requests, or when it has grown by `MAX_GROWTH`; the next compilation starts its successor, which loads
LLVM while that compilation reads and lowers.

A process whose own death is survivable needs no helper: the process that waits for it repeats the work
(`service.request`).  It calls `work_here`, and a guard cleans up its child programs and folders (`guard_with`).

One helper per thread and process: a helper is never shared, so requests cannot interleave, and a process forked from
the parent (a worker of a build) starts its own.

A request is the name of a function of this package and its keyword arguments, as marshalled bytes; both ends are the
same interpreter image, so the marshal format always agrees.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from tileiras.processes import helper_loop, lifetime
from tileiras.processes.helper_pipes import beyond_streams, nameless_file, read_message, send, wait

if TYPE_CHECKING:
    from tileiras.processes.guard import Guard

LIBRARY = "tileiras.codegen.llvm_pipeline"
"""The module with the functions that a helper runs, by name in `REQUESTS`.  It stands above this one, and only a helper
or a process that does without one loads it."""

MAX_REQUESTS = 64
"""Requests that one helper answers: 3.4 MB leaked, against 70 ms of processor time to start its successor."""

MAX_GROWTH = 128 << 20
"""Growth of a helper's resident memory since it was ready, in bytes: the allocator keeps memory of large modules."""


class HelperDied(Exception):
    """The helper ended while it worked on a request; `text` is LLVM's output, `reason` how the process ended.

    `unread`: it had exited before it received the request.
    """

    def __init__(self, reason: str, text: str, unread: bool = False) -> None:
        super().__init__(f"{reason}: {text}" if text else reason)
        self.reason = reason
        self.text = text
        self.unread = unread


class Helper:
    """A forked process that runs functions for its parent."""

    __slots__ = (
        "_announced", "_answered", "_growth", "_lifeline", "_owner", "_pid", "_read_to", "_replies", "_requests",
        "_stderr",
    )  # fmt: skip

    def __init__(self, ahead: bool = True) -> None:
        """With `ahead`, the helper loads LLVM before its first request."""
        _prepare_fork()
        # A file, not a pipe: it never fills up, and its content outlives the helper.
        self._stderr = nameless_file()
        self._read_to = 0
        self._answered = 0
        self._growth = 0
        # Programs that the helper ends and folders that it removes if this process is killed.
        self._announced: set[str | int] = set()
        self._owner = os.getpid()
        lock = _llvm_lock()
        with _creation:
            if lock is not None:
                # No other thread may be inside LLVM at the fork: its locks would stay locked in the child.
                lock.acquire()
            try:
                request_read, self._requests = beyond_streams(os.pipe())
                self._replies, reply_write = beyond_streams(os.pipe())
                lifeline_read, self._lifeline = beyond_streams(os.pipe())
                inner = (request_read, reply_write, lifeline_read)
                _pipe_ends.update((*inner, *self._ends()))
                _inherited[threading.get_ident()] = inner
                self._pid = _fork()
            finally:
                if lock is not None:
                    lock.release()
            if self._pid == 0:
                self._become_helper(inner, ahead)
            del _inherited[threading.get_ident()]
            for descriptor in inner:
                _pipe_ends.discard(descriptor)
                os.close(descriptor)

    def _ends(self) -> tuple[int, ...]:
        """The parent's ends of the pipes."""
        return self._requests, self._replies, self._lifeline

    def _become_helper(self, inner: tuple[int, int, int], ahead: bool) -> NoReturn:
        code = 1
        try:
            # Not the parent's streams: the reader of a pipe of the parent waits until all writers have closed it.
            os.dup2(self._stderr.fileno(), 1)
            os.dup2(self._stderr.fileno(), 2)
            helper_loop.serve(*inner, self._owner, _sentinel, _functions, llvm_is_loaded, ahead)
            code = 0
        finally:
            os._exit(code)

    def call(
        self, function: str, arguments: dict[str, Any], meanwhile: Callable[[], None] | None = None,
        timeout: float | None = None,
    ) -> tuple[Any, str]:  # fmt: skip
        """Return the function's result and its output on stderr; raise HelperDied, TimedOut after `timeout` seconds, or
        RuntimeError."""
        payload = marshal.dumps((function, arguments))
        unread = False
        try:
            try:
                send(self._requests, payload)
            except BrokenPipeError:
                unread, reply = True, None
            else:
                if meanwhile is not None:
                    meanwhile()
                if timeout is not None:
                    wait(self._replies, timeout)
                reply = read_message(self._replies)
        except BaseException:
            # Interrupted half-way: the next reply would answer this request, so this helper must not be used again.
            self.close()
            raise
        text = self._drain()
        if reply is None:
            raise HelperDied(self._reap(), text, unread)
        ok, value, self._growth = marshal.loads(reply)
        self._answered += 1
        if not ok:
            raise RuntimeError(value)
        return value, text

    def worn_out(self) -> bool:
        """Whether another helper must take the next request; never while this one watches a program or a folder."""
        return (self._answered >= MAX_REQUESTS or self._growth > MAX_GROWTH) and not self._announced

    def announce(self, owned: str | int, *, is_there: bool) -> None:
        """Register (`is_there`) or unregister a folder that this process is about to create or a program that it has
        started.  If this process is killed, the helper removes the registered folders and ends the programs."""
        if os.getpid() == self._owner and not self._stderr.closed:
            if is_there:
                self._announced.add(owned)
            else:
                self._announced.discard(owned)
            with contextlib.suppress(BrokenPipeError):  # the helper has died and cannot do it
                send(self._lifeline, lifetime.announcement(owned, is_there=is_there))

    def _drain(self) -> str:
        size = os.fstat(self._stderr.fileno()).st_size
        data = os.pread(self._stderr.fileno(), size - self._read_to, self._read_to)
        self._read_to = size
        return data.decode(errors="replace").strip()

    def _reap(self) -> str:
        _, status = os.waitpid(self._pid, 0)
        self._close_files()
        if os.WIFSIGNALED(status):
            import signal

            number = os.WTERMSIG(status)
            try:
                return signal.Signals(number).name
            except ValueError:
                return f"signal {number}"
        return f"exit status {os.WEXITSTATUS(status)}"

    def _close_files(self) -> None:
        for descriptor in self._ends():
            if descriptor in _pipe_ends:
                _pipe_ends.discard(descriptor)
                os.close(descriptor)
        self._stderr.close()

    def kill(self) -> bool:
        """Kill the helper without waiting for it; False if it is closed or belongs to another process."""
        # A process forked from the owner has a copy of this object but does not own the helper.
        if self._stderr.closed or os.getpid() != self._owner:
            return False
        import signal

        # It keeps no state between requests, so no state is lost.
        os.kill(self._pid, signal.SIGKILL)
        return True

    def close(self) -> None:
        """End the helper; it also ends by itself when the parent's end of its pipe is closed."""
        if not self.kill():
            return
        self._close_files()
        try:
            os.waitpid(self._pid, 0)
        except ChildProcessError:
            pass

    def __del__(self) -> None:
        # The helper of a thread that has ended.
        if hasattr(self, "_pid") and not sys.is_finalizing():
            self.close()


_local = threading.local()
_creation = threading.Lock()
# The ends of all pipes to helpers that this process has open. A process forked later, by any thread, closes them: while
# another process holds a pipe open, the helper outlives its parent, and the death of a helper goes unnoticed.
_pipe_ends: set[int] = set()
# Thread -> pipe ends that stay open in the helper that it is starting.
_inherited: dict[int, tuple[int, ...]] = {}


_sentinel: int | None = None


def end_with(sentinel: int) -> None:
    """End this process and the programs that it runs once the descriptor is readable; its guard does so, or helpers
    that start later."""
    global _sentinel
    _sentinel = sentinel
    if _guard is not None:
        _guard.end_with(sentinel)


_may_die: Callable[[], bool] | None = None


def work_here(may_die: Callable[[], bool]) -> None:
    """Run LLVM in this process while `may_die()` returns True, as in children of the service: an abort of LLVM then
    ends this process, which the server survives.  Requests with a timeout still go to a helper."""
    global _may_die
    _may_die = may_die


def _works_here() -> bool:
    return _may_die is not None and _may_die()


_guard: Guard | None = None


def guard_with(guard: Guard) -> None:
    """Use a guard instead of a helper for `watching`."""
    global _guard
    _guard = guard
    keep_alone(guard.fileno())


def let_go() -> None:
    """Undo `end_with`, `work_here` and `guard_with`, for a process that continues with other work."""
    global _guard, _may_die, _sentinel
    if _guard is not None:
        _pipe_ends.discard(_guard.fileno())
    _guard = _may_die = _sentinel = None


def _forget_helpers() -> None:
    global _creation, _guard, _local, _may_die
    _guard = _may_die = None
    _creation = threading.Lock()
    _local = threading.local()
    entry = _inherited.get(threading.get_ident(), ())
    for descriptor in _pipe_ends:
        if descriptor not in entry:
            os.close(descriptor)
    _pipe_ends.clear()
    _inherited.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_helpers)


def keep_alone(descriptor: int) -> None:
    """Close the end of a pipe in all processes that are forked later: its reader waits until all writers close it."""
    _pipe_ends.add(descriptor)


def close_alone(descriptor: int) -> None:
    """Close a descriptor that was passed to `keep_alone`."""
    _pipe_ends.discard(descriptor)
    os.close(descriptor)


def available() -> bool:
    """Whether this platform can fork; without fork, LLVM runs in this process, and its abort ends it."""
    return hasattr(os, "fork")


def start() -> None:
    """Start this thread's helper, or the successor of one that is worn out, ahead of its first request: loading LLVM
    overlaps with other work."""
    if not available() or _works_here():
        return
    _current()


def _current() -> Helper:
    """This thread's helper."""
    helper = getattr(_local, "helper", None)
    if helper is not None and helper.worn_out():
        stop()
        helper = None
    if helper is None:
        helper = _local.helper = Helper()
    return helper


llvm_is_loaded = False
"""Whether LLVM is loaded and initialised in this process, and so in all helpers forked from it: see `load_llvm`."""


def load_llvm() -> None:
    """Load and initialise LLVM in this process, which compiles only through helpers and forked children."""
    global llvm_is_loaded
    _functions()["warm_up"]()
    llvm_is_loaded = True


def helper_pid() -> int | None:
    """Process number of this thread's helper; None before the first request."""
    helper = getattr(_local, "helper", None)
    return None if helper is None else helper._pid


def call(
    function: str, *, meanwhile: Callable[[], None] | None = None, timeout: float | None = None,
    **arguments: bytes | int | str | tuple[str, ...],
) -> tuple[Any, str]:  # fmt: skip
    """Run a registered function in this thread's helper: its result and LLVM's stderr.

    `meanwhile` is called while the helper works.  After `timeout` seconds the call raises TimedOut.
    Arguments and result are of marshal's types: None, numbers, str, bytes, tuples, lists, dicts.  Raises HelperDied
    when the process ended and RuntimeError, with the message of the original, when the function raised.
    """
    if meanwhile is not None and (not available() or _works_here()):
        meanwhile()
        meanwhile = None
    if not available():
        return _functions()[function](**arguments), ""
    if timeout is None and _works_here():
        return _call_here(function, arguments)
    again = True
    while True:
        helper = _current()
        try:
            return helper.call(function, arguments, meanwhile, timeout)
        except HelperDied as death:
            _local.helper = None
            # A helper that never received the request was killed between two requests: by the OOM killer or a user.
            if not (death.unread and again):
                raise
            again = False
        except BaseException:
            if helper._stderr.closed:
                _local.helper = None
            raise


def _call_here(function: str, arguments: dict[str, Any]) -> tuple[Any, str]:
    """As `Helper.call`, in this process."""
    with nameless_file() as context:
        try:
            with _streams_to(context.fileno()):
                value = _functions()[function](**arguments)
        except Exception as error:
            raise RuntimeError(str(error) or type(error).__name__) from None
        context.seek(0)
        return value, context.read().decode(errors="replace").strip()


@contextlib.contextmanager
def _streams_to(descriptor: int) -> Iterator[None]:
    """Redirect the process's standard output and error, to which libraries write, to a file."""
    import fcntl

    result: dict[int, int | None] = {}
    try:
        for number in (1, 2):
            try:
                result[number] = fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 3)
            except OSError:  # the user has closed it
                result[number] = None
            os.dup2(descriptor, number)
        yield
    finally:
        for number, copy in result.items():
            if copy is None:
                os.close(number)
            else:
                os.dup2(copy, number)
                os.close(copy)


@contextlib.contextmanager
def watching(owned: str | int) -> Iterator[None]:
    """If this process is killed inside the block, remove the folder `owned`, which need not exist yet, and end the
    programs that work in it; or end the program with the process number `owned`.

    The guard of this process does so or, without a guard, this thread's helper.  A helper that is started for this does
    not load LLVM before its first request.
    """
    watcher = _watcher()
    if watcher is None:
        yield
        return
    watcher.announce(owned, is_there=True)
    try:
        yield
    finally:
        watcher.announce(owned, is_there=False)


def _watcher() -> Guard | Helper | None:
    global _guard
    if _guard is not None:
        if _guard.is_there():
            return _guard
        # The guard was killed.
        announced, _guard = _guard.announced, None
        for owned in announced:
            _watching_helper().announce(owned, is_there=True)
    return _watching_helper() if available() else None


def _watching_helper() -> Helper:
    helper = getattr(_local, "helper", None)
    if helper is None:
        helper = _local.helper = Helper(ahead=False)
    return helper


def kill() -> None:
    """Kill this thread's helper, if any; `stop` waits for it.  From now on no sentinel ends this process."""
    if _guard is not None:
        _guard.let_be()
    helper = getattr(_local, "helper", None)
    if helper is not None:
        helper.kill()


def stop() -> None:
    """End this thread's helper, if it has one."""
    helper = getattr(_local, "helper", None)
    if helper is not None:
        _local.helper = None
        helper.close()


def _functions() -> dict[str, Any]:
    import importlib

    return importlib.import_module(LIBRARY).REQUESTS


def _alone() -> bool:
    """Whether no other thread runs Python.  `threading` does not know threads that C code created."""
    return len(sys._current_frames()) == 1


def _prepare_fork() -> None:
    if not _alone():
        # Another thread may hold an import lock at the fork: load the helper's modules before it.
        import llvmlite.binding  # noqa: F401

        _functions()


def _llvm_lock() -> Any:
    module = sys.modules.get("llvmlite.binding.ffi")
    lock = getattr(getattr(module, "lib", None), "_lock", None)
    return getattr(lock, "_lock", None)


def _fork() -> int:
    if _alone():
        return os.fork()
    import warnings

    with warnings.catch_warnings():
        # Python 3.12 warns of forking with threads; the hazards it means (held locks) are dealt with above.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()
