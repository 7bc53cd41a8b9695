"""Processor time of benches, which does not depend on the load of the machine as wall time does."""

import os
import resource
import time

from tileiras.processes import helper


def of_children() -> float:
    """Seconds of the processes that this one has waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def of_helper() -> float:
    """Seconds of the process that runs LLVM, which lives on; zero where the system has no `/proc`."""
    try:
        with open(f"/proc/{helper.helper_pid()}/stat", encoding="ascii") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def spent() -> float:
    """Seconds of this process, of those that it has waited for, and of that which runs LLVM."""
    return time.process_time() + of_children() + of_helper()
