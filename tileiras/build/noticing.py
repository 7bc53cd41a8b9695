"""When to look at files that were saved: at once where what lies there is whole, else when nothing happens any more."""

from __future__ import annotations

import queue
import time
from collections.abc import Container

from tileiras.named_tuple import NamedTuple

QUIET = 0.030
"""Seconds without an event after which what was saved is taken to be whole."""

CLOSED_QUIET = 0.005
"""The same once the file has been closed: somebody who writes many, as version control does, goes on with the next."""

AT_MOST = 0.250
"""Seconds after the first event at which a burst that does not end is looked at all the same."""

WRITING, CLOSED, RENAMED = "writing", "closed", "renamed"
"""What an event says of a file: it may be half written; its writer has closed it; it was renamed as a whole."""

_QUIET_OF = {WRITING: QUIET, CLOSED: CLOSED_QUIET, RENAMED: 0.0}


class Seen(NamedTuple):
    """An event of the file system."""

    at: float
    """`time.monotonic`."""
    path: str
    state: str


Events = queue.SimpleQueue[Seen]


def settled(events: Events, sweep: float, known: Container[str]) -> set[str] | None:
    """The paths of what was saved, once that is whole; None when nothing was for `sweep` seconds.

    Files that are not `known` may be the first of many, and are waited for whatever an event says.
    """
    try:
        seen = first = events.get(timeout=sweep)
    except queue.Empty:
        return None
    states: dict[str, float] = {}
    while True:
        states[seen.path] = _QUIET_OF[seen.state] if seen.path in known else QUIET
        quiet = max(states.values())
        try:
            seen = events.get(timeout=quiet) if quiet else events.get_nowait()
        except queue.Empty:
            break
        if time.monotonic() >= first.at + AT_MOST:
            states[seen.path] = QUIET
            break
    return set(states)
