"""Checks that a request has left a child of the service unchanged, so that it can answer another.

Each request sets its own descriptors, folder, environment and umask, and takes over the limits, priority and CPU
affinity of its client.  This module checks for every other state that a command may leave; if any is found, the child
exits and the next request goes to another child.
"""

from __future__ import annotations

import _signal
import atexit
import os
import resource
import sys
import warnings
from collections.abc import Iterable

from tileiras.processes import helper
from tileiras.processes.service import process_state

_STATUS = (
    "Uid", "Gid", "Groups", "NoNewPrivs", "Seccomp", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "SigBlk",
    "SigIgn", "SigCgt", "Cpus_allowed",
)  # fmt: skip
"""Fields of /proc/PID/status (proc(5)) that a request must not change."""

_CONSUMED = (resource.RLIMIT_CPU, resource.RLIMIT_AS, resource.RLIMIT_DATA, resource.RLIMIT_RSS)
"""Limits of the total consumption of a process: if one is set, each request gets its own process."""

MOST_GROWTH = 96 << 10
"""KiB by which a child's memory may exceed that after its first request.  It grows by reference cycles, which are never
collected, and by memory that large modules leave in LLVM's allocator.  A small kernel leaves 0.1 MB."""

_OURS = ("tileiras",)


class State:
    """The state of this process before its first request."""

    def __init__(self) -> None:
        self._status = self._lines()
        self._resident = 0
        self._limits = process_state.limits()
        self._priority = os.getpriority(os.PRIO_PROCESS, 0)
        self._modules = set(sys.modules)
        self._interpreter = self._of_interpreter()
        self.lasts = all(self._limits[kind][0] == resource.RLIM_INFINITY for kind in _CONSUMED)
        """Whether this process may answer more than one request: no limit of `_CONSUMED` is set."""

    def _lines(self) -> dict[str, str]:
        return process_state.status(os.getpid())

    @staticmethod
    def _of_interpreter() -> tuple[object, ...]:
        """Return the process-wide settings of the interpreter."""
        return (
            atexit._ncallbacks(), sys.getrecursionlimit(), sys.excepthook, sys.path[1:], tuple(sys.meta_path),
            tuple(sys.path_hooks), len(warnings.filters), tuple(map(_signal.getsignal, (1, 2, 13, 15, 17))),
        )  # fmt: skip

    def has_exit_functions(self) -> bool:
        """Whether the number of functions registered with `atexit` has changed."""
        return atexit._ncallbacks() != self._interpreter[0]

    def is_kept(self, descriptors: Iterable[int]) -> bool:
        """Whether the process is unchanged after a request; `descriptors` are the service's, besides the standard
        streams."""
        if _has_others_open({0, 1, 2, *descriptors}):
            return False
        if helper.helper_pid() is not None or self._interpreter != self._of_interpreter() or _has_children():
            return False
        lines = self._lines()
        if lines["Threads"] != "1" or any(lines.get(name) != self._status.get(name) for name in _STATUS):
            return False
        if self._limits != process_state.limits() or self._priority != os.getpriority(os.PRIO_PROCESS, 0):
            return False
        return self._has_own_modules() and self._has_room(int(lines["VmRSS"].split()[0]))

    def _has_own_modules(self) -> bool:
        """Whether all modules loaded since belong to the compiler or the standard library, not to a user."""
        if len(sys.modules) == len(self._modules):
            return True
        names = {name.partition(".")[0] for name in sys.modules.keys() - self._modules}
        return names <= sys.stdlib_module_names.union(_OURS)

    def _has_room(self, resident: int) -> bool:
        if not self._resident:
            self._resident = resident
        return resident - self._resident <= MOST_GROWTH


def _has_others_open(descriptors: set[int]) -> bool:
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in descriptors:
            try:
                os.fstat(int(name))
            except OSError:
                continue  # the descriptor of the listing itself
            return True
    return False


def _has_children() -> bool:
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return False
    return True
