"""Sends and receives complete messages with file descriptors, in the processes of the service."""

from __future__ import annotations

import array
import os
import socket

from tileiras.processes.service import protocol
from tileiras.processes.service.protocol import HEADER, ProtocolError


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
                HEADER - len(head), socket.CMSG_SPACE(4 * protocol.MOST_DESCRIPTORS), socket.MSG_CMSG_CLOEXEC
            )
            for level, kind, data in beside:
                if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                    numbers = array.array("i")
                    numbers.frombytes(data[: len(data) - len(data) % numbers.itemsize])
                    descriptors += numbers
            if flags & socket.MSG_CTRUNC:
                raise ProtocolError("too many descriptors beside a message")
            if not more:
                raise EOFError
            head += more
        kind, size = protocol.unpack_header(head)
        body = bytearray(size)
        view = memoryview(body)
        while view:
            taken = connection.recv_into(view)
            if not taken:
                raise ProtocolError("the connection ends within a message")
            view = view[taken:]
        return kind, protocol.unpack(bytes(body)), descriptors
    except BaseException:
        for number in descriptors:
            os.close(number)
        raise


def send(connection: socket.socket, kind: bytes, *fields: bytes, descriptors: tuple[int, ...] = ()) -> None:
    """Send one message; raises OSError."""
    data = protocol.pack(kind, *fields)
    sent = socket.send_fds(connection, [data], list(descriptors)) if descriptors else connection.send(data)
    if sent < len(data):
        connection.sendall(data[sent:])


def peer(connection: socket.socket) -> tuple[int, int, int]:
    """Return the peer's process, user and group, as recorded by the kernel when it connected."""
    numbers = array.array("i")
    numbers.frombytes(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 3 * numbers.itemsize))
    return numbers[0], numbers[1], numbers[2]
