"""Processor time and memory of the service's processes: in total, and for each of the last requests."""

from __future__ import annotations

import collections
import resource
from collections.abc import Iterable

LAST = 64
"""Number of requests that are reported individually."""


class Account:
    """The zygote's account: children report their time when they have answered; the system reports that of children
    that exited."""

    def __init__(self) -> None:
        self._last: collections.deque[dict[str, float]] = collections.deque(maxlen=LAST)
        self._mark = own_seconds()

    def add(self, client: int, seconds: float, cpu_seconds: float) -> None:
        """Add a request of the process `client`, answered in `seconds` by a child that used `cpu_seconds` for it,
        including those of subprocesses which the child waited for.

        The time of this process since the previous request is charged to this one: a child was forked meanwhile.
        """
        own = own_seconds()
        self._last.append({
            "client": client, "seconds": seconds, "processor_seconds": cpu_seconds,
            "service_seconds": own - self._mark,
        })  # fmt: skip
        self._mark = own

    def facts(self, running: Iterable[tuple[int, int]]) -> dict[str, object]:
        """Return the totals, including those of `running` processes, and the last requests; times in seconds, memory in
        KiB.  A running process is given as its number and the microseconds that it has reported, 0 if none."""
        own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
        times = [own.ru_utime, own.ru_stime, children.ru_utime, children.ru_stime]
        times += [cpu_us / 1e6 or _seconds_of(number) for number, cpu_us in running]
        return {"processor_seconds": sum(times), "memory": own.ru_maxrss, "last_requests": list(self._last)}

    def set_aside(self, before: float) -> None:
        """Charge the processor time of this process since `before` (a value of `own_seconds`) to no request."""
        self._mark += own_seconds() - before


def microseconds() -> int:
    """Return the processor time of this process and of the children that it has waited for."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return round(sum(1e6 * (one.ru_utime + one.ru_stime) for one in usages))


def own_seconds() -> float:
    """Return the processor time of this process, without its children."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    return own.ru_utime + own.ru_stime


def _seconds_of(number: int) -> float:
    """Return the processor time of a running process (proc(5), /proc/PID/schedstat)."""
    try:
        with open(f"/proc/{number}/schedstat", encoding="ascii") as file:
            return int(file.read().split()[0]) / 1e9
    except (OSError, ValueError):
        return 0.0
