"""Attributes that a process inherits besides descriptors and environment, copied from one process to another."""

from __future__ import annotations

import os
import resource

_LIMITS = sorted({value for name, value in vars(resource).items() if name.startswith("RLIMIT_")})


def status(process: int) -> dict[str, str]:
    """Return the fields of /proc/PID/status (proc(5)) by name; raises OSError."""
    with open(f"/proc/{process}/status", "rb") as file:
        lines = file.read().decode("ascii", "replace").split("\n")
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def limits() -> dict[int, tuple[int, int]]:
    """Return the soft and hard resource limits of this process by kind."""
    return {kind: resource.getrlimit(kind) for kind in _LIMITS}


def take_over(process: int, status: dict[str, str]) -> None:
    """Give this process the umask, limits, priority and CPU affinity of another process of this user, whose status is
    `status`; raises OSError or ValueError if that is not permitted."""
    for kind in _LIMITS:
        limits = resource.prlimit(process, kind)
        if limits != resource.getrlimit(kind):
            resource.setrlimit(kind, limits)
    priority = os.getpriority(os.PRIO_PROCESS, process)
    if priority != os.getpriority(os.PRIO_PROCESS, 0):
        os.setpriority(os.PRIO_PROCESS, 0, priority)
    processors = os.sched_getaffinity(process)
    if processors != os.sched_getaffinity(0):
        os.sched_setaffinity(0, processors)
    os.umask(int(status["Umask"], 8))


def take_over_environment(environment: dict[bytes, bytes]) -> None:
    """Replace the environment of this process by `environment`."""
    for name in [name for name in os.environb if name not in environment]:
        del os.environb[name]
    for name, value in environment.items():
        if os.environb.get(name) != value:
            os.environb[name] = value
