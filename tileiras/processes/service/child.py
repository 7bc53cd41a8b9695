"""The zygote's record of a forked process of the service."""

from __future__ import annotations

import os
import socket

SPARE, WORKING, DONE = "spare", "working", "done"
"""States of a child.  A child that is DONE has sent its answer; it exits, or reports READY."""


class Child:
    """A forked process, and the zygote's ends of its connections."""

    __slots__ = (
        "pid", "control", "guarded", "announcements", "client", "process", "since", "state", "is_heard",
        "cpu_us",
    )  # fmt: skip

    def __init__(
        self, pid: int, control: socket.socket, guarded: socket.socket, announcements: int, state: str
    ) -> None:
        self.pid = pid
        self.control = control
        self.guarded = guarded
        """The guard's end of the child's connection, kept to be passed to a new guard."""
        self.announcements = announcements
        self.client: socket.socket | None = None
        """The connection of the request in progress."""
        self.process: int | None = None
        """The process number of that client, kept after the answer is sent."""
        self.since = 0.0
        self.state = state
        self.is_heard = True
        """Whether the child may still send messages."""
        self.cpu_us = 0
        """The processor time in microseconds that the child has reported, with that of its subprocesses."""

    def leave_client(self) -> None:
        if self.client is not None:
            self.client.close()
            self.client = None

    def close(self) -> None:
        self.control.close()
        self.guarded.close()
        os.close(self.announcements)

    def end(self, number: int) -> None:
        """Send a signal; the process number cannot be reused before the child is reaped."""
        os.kill(self.pid, number)
