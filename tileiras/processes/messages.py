"""Sends and receives complete messages of `sockets` with file descriptors, in the processes of the service."""

from __future__ import annotations

import array
import os
import select
import socket

from tileiras.processes import sockets
from tileiras.processes.sockets import HEADER, ProtocolError


def receive(connection: socket.socket) -> tuple[bytes, list[bytes], list[int]]:
    """Receive the kind, fields and descriptors of one message.

    Raises ProtocolError if it is malformed, EOFError if the connection ends before it, and OSError (TimeoutError) as
    the connection does.
    """
    descriptors: list[int] = []
    try:
        head = b""
        while len(head) < HEADER:
            more, beside, flags, _ = connection.recvmsg(
                HEADER - len(head), socket.CMSG_SPACE(4 * sockets.MOST_DESCRIPTORS), socket.MSG_CMSG_CLOEXEC
            )
            for level, content, data in beside:
                if level == socket.SOL_SOCKET and content == socket.SCM_RIGHTS:
                    numbers = array.array("i")
                    numbers.frombytes(data[: len(data) - len(data) % numbers.itemsize])
                    descriptors += numbers
            if flags & socket.MSG_CTRUNC:
                raise ProtocolError("too many descriptors beside a message")
            if not more:
                raise EOFError
            head += more
        kind, size = sockets.unpack_header(head)
        body = bytearray(size)
        view = memoryview(body)
        while view:
            count = connection.recv_into(view)
            if not count:
                raise ProtocolError("the connection ends within a message")
            view = view[count:]
        return kind, sockets.unpack(bytes(body)), descriptors
    except BaseException:
        for number in descriptors:
            os.close(number)
        raise


def send(connection: socket.socket, kind: bytes, *fields: bytes, descriptors: tuple[int, ...] = ()) -> None:
    """Send one message; raises OSError."""
    data = sockets.pack(kind, *fields)
    count = socket.send_fds(connection, [data], list(descriptors)) if descriptors else connection.send(data)
    if count < len(data):
        connection.sendall(data[count:])


def is_pending(connection: socket.socket) -> bool:
    """Whether a message, or the end of the connection, can be read without waiting."""
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(0))
