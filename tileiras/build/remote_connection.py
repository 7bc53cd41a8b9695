"""A connection of HTTP/1.1 that is kept open, with requests sent ahead of replies: a round trip for many of them.

Servers answer the requests of a connection in order (RFC 9112, 9.3.2), whether or not they have read the next one.
`http.client` sends one at a time; its replies are read here from what all of them share.
"""

from __future__ import annotations

import io
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tileiras.named_tuple import NamedTuple

if TYPE_CHECKING:
    import socket

DEPTH = 64
"""Requests without a body that are sent before the first reply is read; they fit into the buffers of a socket, so that
neither side waits for the other to read."""


class BadReply(Exception):
    """A server refuses, or does not speak HTTP."""


class Request(NamedTuple):
    method: str
    path: str
    body: bytes | None = None


class Reply(NamedTuple):
    status: int
    reason: str
    data: bytes


class Address(NamedTuple):
    https: bool
    host: str
    port: int | None


class Connection:
    """A connection to one server, opened by the first exchange and again when the server has closed it."""

    def __init__(
        self, address: Address, headers: Mapping[str, str], connect_seconds: float, read_seconds: float
    ) -> None:
        self._address = address
        self._headers = dict(headers)
        self._connect_seconds = connect_seconds
        self._read_seconds = read_seconds
        self._socket: socket.socket | None = None
        self._replies: Any = None
        self.round_trip = 0.0
        """Seconds from the last exchange's requests to its first reply."""

    def exchange(self, requests: Sequence[Request]) -> list[Reply]:
        """The replies to requests, in order; those with a body are to be alone.

        Raises OSError and BadReply.  Requests may be sent again on another connection: each says the same twice.
        """
        from http.client import HTTPException

        replies: list[Reply] = []
        while len(replies) < len(requests):
            reused, before = self._socket is not None, len(replies)
            try:
                self._receive(requests[before : before + DEPTH], replies)
            except (HTTPException, OSError) as error:
                self.close()
                # A connection that was kept open may have been closed by the server meanwhile, or after some replies.
                if (reused or len(replies) > before) and not isinstance(error, TimeoutError):
                    continue
                raise error if isinstance(error, OSError) else BadReply(f"{type(error).__name__}: {error}") from None
        return replies

    def _receive(self, requests: Sequence[Request], replies: list[Reply]) -> None:
        """Sends requests and adds their replies, as many as come before the server closes."""
        from http.client import HTTPResponse

        opened = self._socket or self._open()
        start = time.perf_counter()
        opened.sendall(b"".join(map(self._text, requests)))
        for number, request in enumerate(requests):
            reply = HTTPResponse(self._replies, method=request.method)
            reply.begin()
            if number == 0:
                self.round_trip = time.perf_counter() - start
            replies.append(Reply(reply.status, reply.reason, reply.read()))
            if reply.will_close:
                self.close()
                return

    def _open(self) -> socket.socket:
        import http.client

        kind = http.client.HTTPSConnection if self._address.https else http.client.HTTPConnection
        made = kind(self._address.host, self._address.port, timeout=self._connect_seconds)
        made.connect()
        made.sock.settimeout(self._read_seconds)
        self._socket = made.sock
        self._replies = _Shared(made.sock.makefile("rb"))
        return made.sock

    def _text(self, request: Request) -> bytes:
        host, port = self._address.host, self._address.port
        shown = f"[{host}]" if ":" in host else host
        lines = [
            f"{request.method} {request.path} HTTP/1.1",
            f"Host: {shown}{f':{port}' if port is not None else ''}",
            "Accept-Encoding: identity",
            *(f"{name}: {value}" for name, value in self._headers.items()),
        ]
        if request.body is not None:
            lines.append(f"Content-Length: {len(request.body)}")
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + (request.body or b"")

    def close(self) -> None:
        if self._socket is not None:
            self._replies.file.close()
            self._socket.close()
        self._socket = self._replies = None


class _Shared:
    """What HTTPResponse takes for a socket: gives each reply the one buffered stream of a connection."""

    def __init__(self, file: io.BufferedReader) -> None:
        self.file = file

    def makefile(self, mode: str) -> _Unclosed:
        return _Unclosed(self.file)


class _Unclosed:
    """A stream that a reply reads its part of; the next reply goes on there."""

    def __init__(self, file: io.BufferedReader) -> None:
        self.read, self.read1 = file.read, file.read1
        self.readline, self.readinto, self.peek = file.readline, file.readinto, file.peek

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass
