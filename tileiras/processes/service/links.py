"""A child's own descriptors, and their renumbering when they collide with those of its client."""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Sequence


class Links:
    """The connections of a child to the service and to the client of its request."""

    def __init__(
        self, listener: socket.socket, control: socket.socket, lifeline: socket.socket, announcements: int,
        directory: int,
    ) -> None:  # fmt: skip
        """`control` connects to the zygote, `lifeline` to its guard, which reads `announcements`; `directory` contains
        the service's socket, on which `listener` listens."""
        self.listener = listener
        self.control = control
        self.lifeline = lifeline
        self.announcements = announcements
        self.directory = directory
        self.connection: socket.socket | None = None

    def numbers(self) -> list[int]:
        sockets = [self.listener, self.control, self.lifeline, *([] if self.connection is None else [self.connection])]
        return [*(each.fileno() for each in sockets), self.announcements, self.directory]

    def make_room(self, first: int, received: Sequence[int]) -> list[int]:
        """Close every descriptor that is neither in `numbers()` nor in `received`, move the rest to numbers from
        `first` on, and return the new numbers of `received`."""
        result = sorted([*self.numbers(), *received])
        for before, number in zip([-1, *result], result):
            os.closerange(before + 1, number)
        self.listener = _move_socket(self.listener, first)
        self.control = _move_socket(self.control, first)
        self.lifeline = _move_socket(self.lifeline, first)
        if self.connection is not None:
            self.connection = _move_socket(self.connection, first)
        self.announcements = _move(self.announcements, first)
        self.directory = _move(self.directory, first)
        return [_move(number, first) for number in received]

    def hang_up(self) -> None:
        """Close the connection to the client."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None


def _move(number: int, first: int) -> int:
    """A descriptor under a number from `first` on."""
    if number >= first:
        return number
    copy = fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, first)
    os.close(number)
    return copy


def _move_socket(connection: socket.socket, first: int) -> socket.socket:
    if connection.fileno() >= first:
        return connection
    timeout = connection.gettimeout()
    copy = socket.socket(fileno=_move(connection.detach(), first))
    copy.settimeout(timeout)
    return copy
