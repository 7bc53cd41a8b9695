"""Whether a child of the service that has answered a request is what it was before, so that it can answer another.

Each request brings its own descriptors, folder, environment and umask, and takes the limits, priority and processors of
its client.  Whatever else a command may have left is looked for here, and any of it is reason enough for the child to
end: the next request has another one.
"""

from __future__ import annotations

import _signal
import atexit
import os
import resource
import sys
import warnings
from collections.abc import Iterable

from tileiras.codegen import isolation
from tileiras.server import process_state

_STATUS = (
    "Uid", "Gid", "Groups", "NoNewPrivs", "Seccomp", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "SigBlk",
    "SigIgn", "SigCgt", "Cpus_allowed",
)  # fmt: skip
"""Lines of /proc/PID/status (proc(5)) that stay as they are."""

_CONSUMED = (resource.RLIMIT_CPU, resource.RLIMIT_AS, resource.RLIMIT_DATA, resource.RLIMIT_RSS)
"""Limits of what a process takes in all its life: where there is one, a request has a process of its own."""

MOST_GROWTH = 96 << 10
"""KiB of memory that a child may have more than after its first request: what cycles of objects hold, which nobody
collects, and what large modules leave in LLVM's allocator.  A small kernel leaves 0.1 MB."""

_OURS = ("tileiras",)


class State:
    """Of this process, before its first request."""

    def __init__(self) -> None:
        self._status = self._lines()
        self._resident = 0
        self._limits = process_state.limits()
        self._priority = os.getpriority(os.PRIO_PROCESS, 0)
        self._modules = set(sys.modules)
        self._interpreter = self._of_interpreter()
        self.lasts = all(self._limits[kind][0] == resource.RLIM_INFINITY for kind in _CONSUMED)
        """Whether this process may answer more than one request at all."""

    def _lines(self) -> dict[str, str]:
        return process_state.status(os.getpid())

    @staticmethod
    def _of_interpreter() -> tuple[object, ...]:
        """What a program sets for all that runs in its process."""
        return (
            atexit._ncallbacks(), sys.getrecursionlimit(), sys.excepthook, sys.path[1:], tuple(sys.meta_path),
            tuple(sys.path_hooks), len(warnings.filters), tuple(map(_signal.getsignal, (1, 2, 13, 15, 17))),
        )  # fmt: skip

    def has_exit_functions(self) -> bool:
        """Whether something is to be called when the process ends that was not before."""
        return atexit._ncallbacks() != self._interpreter[0]

    def is_kept(self, descriptors: Iterable[int]) -> bool:
        """Asked when a request has been answered: these `descriptors` are the service's, besides the standard streams.
        """
        if _has_others_open({0, 1, 2, *descriptors}):
            return False
        if isolation.helper_pid() is not None or self._interpreter != self._of_interpreter() or _has_children():
            return False
        found = self._lines()
        if found["Threads"] != "1" or any(found.get(name) != self._status.get(name) for name in _STATUS):
            return False
        if self._limits != process_state.limits() or self._priority != os.getpriority(os.PRIO_PROCESS, 0):
            return False
        return self._has_own_modules() and self._has_room(int(found["VmRSS"].split()[0]))

    def _has_own_modules(self) -> bool:
        """Whether all modules that have been loaded since are the compiler's or Python's own: not a user's."""
        if len(sys.modules) == len(self._modules):
            return True
        names = {name.partition(".")[0] for name in sys.modules.keys() - self._modules}
        return names <= sys.stdlib_module_names.union(_OURS)

    def _has_room(self, resident: int) -> bool:
        if not self._resident:
            self._resident = resident
        return resident - self._resident <= MOST_GROWTH


def _has_others_open(known: set[int]) -> bool:
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in known:
            try:
                os.fstat(int(name))
            except OSError:
                continue  # that of the listing
            return True
    return False


def _has_children() -> bool:
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return False
    return True
