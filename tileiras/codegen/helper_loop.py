"""What a helper process does: answers requests until its owner is gone."""

from __future__ import annotations

import marshal
import os
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

from tileiras.codegen.helper_pipes import read_message, send


def serve(
    requests: int, replies: int, lifeline: int, owner: int, sentinel: int | None,
    functions: Callable[[], Mapping[str, Callable[..., Any]]], warm: bool, ahead: bool,
) -> None:  # fmt: skip
    """Answers what comes over `requests`, with what `functions` loads; ends with the owner, in the middle of a request
    as well.

    `warm` says that LLVM is loaded, `ahead` that it is to be before the first request.  `sentinel` as for
    `lifeline.follow`.
    """
    import signal

    from tileiras.codegen.lifeline import follow

    # LLVM runs without the interpreter's lock, so this thread is awake meanwhile.
    follower = threading.Thread(target=follow, args=(lambda: read_message(lifeline), owner, sentinel), daemon=True)
    follower.start()

    faulthandler = sys.modules.get("faulthandler")
    if faulthandler is not None:
        # An abort of LLVM is expected; it is the parent that reports it.
        faulthandler.disable()
    # Ctrl-C and its like reach the whole foreground group; the parent decides what happens then.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    import gc

    # What came with the fork is the parent's: looking through it for garbage would copy all of its pages.
    gc.freeze()
    gc.set_threshold(50_000, 50, 50)
    # The parent forks during a compilation, when it collects nothing.
    gc.enable()
    first = None if ahead else read_message(requests)
    if first is None and not ahead:
        return follower.join()
    if not warm:
        from tileiras.codegen import llvmlite_import

        llvmlite_import.load()
    known = functions()
    warm_up = known.get("warm_up")
    if warm_up is not None and not warm:
        warm_up()
    ready = _resident_bytes()
    while (message := first or read_message(requests)) is not None:
        first = None
        function, arguments = marshal.loads(message)
        try:
            ok, value = True, known[function](**arguments)
        except Exception as error:  # noqa: BLE001  Whatever it is, the parent must get an answer; it raises it again.
            ok, value = False, str(error) or type(error).__name__
        try:
            send(replies, marshal.dumps((ok, value, _resident_bytes() - ready)))
        except BrokenPipeError:  # the parent has gone, and this process ends when what it has left is cleared away
            break
    follower.join()


def _resident_bytes() -> int:
    """Resident memory of this process; the most that it has had where the system does not tell what it has now."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        import resource

        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
