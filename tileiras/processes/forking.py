"""The process that forks workers: it has loaded their modules, and runs no threads.

Its requests come over a pair of sockets.  The fork server of multiprocessing listens on a socket with a name, in a
folder of temporary files that stays if the server and then the build are killed.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, Pipe
from multiprocessing.reduction import recv_handle, send_handle
from multiprocessing.spawn import get_executable
from typing import Any

Serve = Callable[[Any, Any], None]
"""The main loop of a worker, of its connection and one that is at its end when its owner has gone."""

CODE = """\
import sys
sys.path[:] = {path!a}
from tileiras.processes import forking
forking.answer({control}, {owner})
"""


class Forker:
    """The process, and the owner's end of its socket."""

    def __init__(self, serve: Serve, preload: Sequence[str], owner: Any) -> None:
        """`owner`: the connection that workers get besides their own."""
        self._lock = threading.Lock()
        self._control, theirs = Pipe()
        numbers = theirs.fileno(), owner.fileno()
        path = [entry for entry in sys.path if isinstance(entry, str)]  # as imports use it
        code = CODE.format(path=path, control=numbers[0], owner=numbers[1])
        words = [get_executable(), *subprocess._args_from_interpreter_flags(), "-c", code]  # type: ignore[attr-defined]
        self._process = subprocess.Popen(words, stdin=subprocess.DEVNULL, pass_fds=numbers)
        theirs.close()
        self.pid = self._process.pid
        with contextlib.suppress(OSError):  # it was killed: the first request reports that
            self._control.send((serve, list(preload)))

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def fork(self, connection: Any) -> int:
        """Fork a worker that serves a connection; returns its process number.  Raises OSError or EOFError."""
        with self._lock:
            self._control.send(None)
            send_handle(self._control, connection.fileno(), self.pid)
            reply = self._control.recv()
        if isinstance(reply, OSError):
            raise reply
        return reply

    def end(self, worker: int, patience: float) -> int | None:
        """Wait for a worker whose connection is closed, for `patience` seconds, and terminate it then; returns its exit
        code, or None if this process was killed."""
        with self._lock, contextlib.suppress(OSError, EOFError):
            self._control.send((worker, patience))
            return self._control.recv()
        return None

    def close(self) -> None:
        """End the process, which terminates the workers that are left."""
        self._control.close()
        self._process.wait()


def answer(control_number: int, owner_number: int) -> None:
    """Main loop of the process: fork a worker for each connection that arrives, and end workers by their numbers."""
    import importlib
    import signal

    # Ctrl-C reaches the whole foreground process group; the build alone handles it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    control, owner = Connection(control_number), Connection(owner_number, writable=False)
    workers: set[int] = set()
    with contextlib.suppress(EOFError, OSError):
        serve, preload = control.recv()
        for name in preload:
            with contextlib.suppress(ImportError):  # reported by the stage that needs the module
                importlib.import_module(name)
        while True:
            request = control.recv()
            reply: Any
            if request is None:
                try:
                    reply = _fork(control, owner, serve)
                    workers.add(reply)
                except OSError as error:
                    reply = error
            else:
                reply = _end(*request)
                workers.discard(request[0])
            control.send(reply)
    for worker in workers:
        os.kill(worker, signal.SIGTERM)


def _fork(control: Connection, owner: Connection, serve: Serve) -> int:
    """Fork a worker for the connection that arrives; returns its process number."""
    descriptor = recv_handle(control)
    worker = None
    try:
        worker = os.fork()
    finally:
        if worker != 0:
            os.close(descriptor)
    if worker:
        return worker
    code = 1
    try:
        control.close()
        serve(Connection(descriptor), owner)
        code = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)


def _end(worker: int, patience: float) -> int:
    import signal

    limit = time.monotonic() + patience
    while not (result := os.waitpid(worker, os.WNOHANG))[0]:
        if time.monotonic() > limit:
            os.kill(worker, signal.SIGTERM)
            result = os.waitpid(worker, 0)
            break
        time.sleep(0.002)
    return os.waitstatus_to_exitcode(result[1])
