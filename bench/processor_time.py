"""Processor time of benches, which does not depend on the load of the machine as wall time does."""

import resource
import time


def of_children() -> float:
    """Seconds of the processes that this one has waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def spent() -> float:
    """Seconds of this process and of those that it has waited for."""
    return time.process_time() + of_children()
