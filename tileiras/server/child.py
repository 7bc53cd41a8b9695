"""A forked process of the service, as the zygote knows it."""

from __future__ import annotations

import os
import socket

SPARE, WORKING, DONE = "spare", "working", "done"
"""What a child does.  One that is done has given its answer, and is on its way out or will say that it is ready."""


class Child:
    """A forked process, and the zygote's end of what it talks over."""

    __slots__ = (
        "pid", "control", "guarded", "announcements", "client", "process", "since", "state", "is_heard", "is_prepared",
        "taken",
    )  # fmt: skip

    def __init__(
        self, pid: int, control: socket.socket, guarded: socket.socket, announcements: int, state: str
    ) -> None:
        self.pid = pid
        self.control = control
        self.guarded = guarded
        """The guard's end of its connection, for another guard."""
        self.announcements = announcements
        self.client: socket.socket | None = None
        """The connection of the request that it works on."""
        self.process: int | None = None
        """The process of that client, also when it has its answer."""
        self.since = 0.0
        self.state = state
        self.is_heard = True
        """Whether it may still say something."""
        self.is_prepared = False
        self.taken = 0
        """Processor time in microseconds, with what it has started, that it has told of."""

    def leave_client(self) -> None:
        if self.client is not None:
            self.client.close()
            self.client = None

    def close(self) -> None:
        self.control.close()
        self.guarded.close()
        os.close(self.announcements)

    def end(self, number: int) -> None:
        """Sends a signal; until it is reaped the number is this process's."""
        os.kill(self.pid, number)
