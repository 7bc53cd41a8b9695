"""Debouncing of events: a saved file is checked at once if it is known to be complete, else after a quiet period."""

from __future__ import annotations

import queue
import time
from collections.abc import Container

from tileiras.support.named_tuple import NamedTuple

QUIET = 0.030
"""Seconds without an event after which a saved file counts as complete."""

CLOSED_QUIET = 0.005
"""QUIET for a file that was closed: a program that writes many files, as version control, continues with the next."""

AT_MOST = 0.250
"""Seconds after the first event at which the files of a continuing burst are checked anyway."""

WRITING, CLOSED, RENAMED = "writing", "closed", "renamed"
"""State of a file according to an event: possibly incomplete; closed by its writer; renamed when complete."""

_QUIET_OF = {WRITING: QUIET, CLOSED: CLOSED_QUIET, RENAMED: 0.0}


class Seen(NamedTuple):
    """An event of the file system."""

    at: float
    """`time.monotonic`."""
    path: str
    state: str


Events = queue.SimpleQueue[Seen]


def saved_files(events: Events, sweep: float, listing: Container[str]) -> set[str] | None:
    """Return the paths of the saved files once they are complete; None after `sweep` seconds without an event.

    A file outside `listing` may be the first of many: QUIET applies to it independent of its state.
    """
    try:
        seen = first = events.get(timeout=sweep)
    except queue.Empty:
        return None
    states: dict[str, float] = {}
    while True:
        states[seen.path] = _QUIET_OF[seen.state] if seen.path in listing else QUIET
        quiet = max(states.values())
        try:
            seen = events.get(timeout=quiet) if quiet else events.get_nowait()
        except queue.Empty:
            break
        if time.monotonic() >= first.at + AT_MOST:
            states[seen.path] = QUIET
            break
    return set(states)
