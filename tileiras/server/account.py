"""What the service's processes take: in all, and for each of the last requests."""

from __future__ import annotations

import collections
import resource
from collections.abc import Iterable

LAST = 64
"""Requests that are told of one by one."""


class Account:
    """The zygote's: children that have answered say what they took, and of those that have ended the system does."""

    def __init__(self) -> None:
        self._last: collections.deque[dict[str, float]] = collections.deque(maxlen=LAST)
        self._mark = own_seconds()

    def add(self, client: int, seconds: float, taken: float) -> None:
        """A request of the process `client`, answered in `seconds` by a child that has `taken` processor time for it,
        with what it had started and waited for.

        What this process itself has taken since the request before is this one's: a child was forked meanwhile.
        """
        own = own_seconds()
        self._last.append({
            "client": client, "seconds": seconds, "processor_seconds": taken,
            "service_seconds": own - self._mark,
        })  # fmt: skip
        self._mark = own

    def facts(self, running: Iterable[tuple[int, int]]) -> dict[str, object]:
        """The totals, with those of processes that are `running`, and the last requests; times in seconds, memory in
        KiB.  Of a process its number, and the microseconds that it has told of, 0 for none."""
        own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
        times = [own.ru_utime, own.ru_stime, children.ru_utime, children.ru_stime]
        times += [taken / 1e6 or _seconds_of(number) for number, taken in running]
        return {"processor_seconds": sum(times), "memory": own.ru_maxrss, "last_requests": list(self._last)}

    def set_aside(self, before: float) -> None:
        """What this process has taken since `own_seconds` was `before` is for nobody's request."""
        self._mark += own_seconds() - before


def microseconds() -> int:
    """Processor time of this process and of those that it has waited for."""
    taken = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return round(sum(1e6 * (one.ru_utime + one.ru_stime) for one in taken))


def own_seconds() -> float:
    """Processor time of this process, without its children."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    return own.ru_utime + own.ru_stime


def _seconds_of(number: int) -> float:
    """Of a process that runs (proc(5), /proc/PID/schedstat)."""
    try:
        with open(f"/proc/{number}/schedstat", encoding="ascii") as file:
            return int(file.read().split()[0]) / 1e9
    except (OSError, ValueError):
        return 0.0
