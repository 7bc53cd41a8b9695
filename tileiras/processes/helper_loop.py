"""The main loop of a helper process: answer requests until the owner exits."""

from __future__ import annotations

import marshal
import os
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

from tileiras.processes import lifetime
from tileiras.processes.helper_pipes import read_message, send


def serve(
    requests: int, replies: int, lifeline: int, owner: int, sentinel: int | None,
    functions: Callable[[], Mapping[str, Callable[..., Any]]], warm: bool, ahead: bool,
) -> None:  # fmt: skip
    """Answer the requests that arrive over `requests` with the functions that `functions()` loads; exit with the owner,
    even in the middle of a request.

    `warm`: LLVM is loaded already; `ahead`: load it before the first request.  `sentinel` as for
    `lifetime.follow`.
    """
    import signal

    # LLVM runs without the GIL, so this thread runs meanwhile.
    follower = threading.Thread(
        target=lifetime.follow, args=(lambda: read_message(lifeline), owner, sentinel), daemon=True
    )
    follower.start()

    faulthandler = sys.modules.get("faulthandler")
    if faulthandler is not None:
        # An abort of LLVM is expected; the parent reports it.
        faulthandler.disable()
    # Ctrl-C and similar signals reach the whole foreground group; the parent handles them.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    import gc

    # Objects from before the fork belong to the parent: a collection that visits them would copy all of its pages.
    gc.freeze()
    gc.set_threshold(50_000, 50, 50)
    # The parent forks during a compilation, for which it disables the collector.
    gc.enable()
    first = None if ahead else read_message(requests)
    if first is None and not ahead:
        return follower.join()
    table = functions()
    warm_up = table.get("warm_up")
    if warm_up is not None and not warm:
        warm_up()
    ready = _resident_bytes()
    while (message := first or read_message(requests)) is not None:
        first = None
        function, arguments = marshal.loads(message)
        try:
            ok, value = True, table[function](**arguments)
        except Exception as error:  # noqa: BLE001  The parent must get an answer in any case; it raises it again.
            ok, value = False, str(error) or type(error).__name__
        try:
            send(replies, marshal.dumps((ok, value, _resident_bytes() - ready)))
        except BrokenPipeError:  # the parent has exited; this process ends after it has cleaned up
            break
    follower.join()


def _resident_bytes() -> int:
    """Resident memory of this process; its peak if the system does not report the current value."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        import resource

        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
