"""A connection of HTTP/1.1 that is kept open, with requests sent ahead of replies: a round trip for many of them.

Servers answer the requests of a connection in order (RFC 9112, 9.3.2), whether or not they have read the next one.
`http.client` sends one at a time; its replies are read here from what all of them share.

A server is no friend: a request has one time in all and its reply one size, and so has a wave of requests (`Wave`).
Both are checked where bytes come from the socket, so that it makes no difference what they pretend to be.
"""

from __future__ import annotations

import contextlib
import io
import threading
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tileiras.named_tuple import NamedTuple

if TYPE_CHECKING:
    import socket

DEPTH = 64
"""Requests without a body that are sent before the first reply is read; they fit into the buffers of a socket, so that
neither side waits for the other to read."""

HEAD_LIMIT = 64 << 10
"""Bytes of a reply besides its body: status, headers, interim replies, sizes of chunks."""

PAGE_LIMIT = 256 << 10
"""Bytes of the body of a reply that is none of the store: a page that says what is wrong."""


class BadReply(Exception):
    """A server refuses, does not speak HTTP, or says more than is due."""


class Request(NamedTuple):
    method: str
    path: str
    body: bytes | None = None
    most: int = PAGE_LIMIT
    """The most bytes that the body of a reply may have."""


class Reply(NamedTuple):
    status: int
    reason: str
    data: bytes


class Address(NamedTuple):
    https: bool
    host: str
    port: int | None


class Times(NamedTuple):
    """Seconds that are waited for a server at most."""

    connect: float
    read: float
    """For the next bytes of a reply."""
    request: float
    """For all of a request and its reply."""


class Wave:
    """What requests on several connections share: when they are to have ended, and how many bytes may come."""

    def __init__(self, count: int, seconds: float, size: int) -> None:
        self.count = count
        self.seconds = seconds
        self.deadline = time.monotonic() + seconds
        """In seconds of the monotonic clock."""
        self._size = self._left = size
        self._lock = threading.Lock()

    def elapsed(self) -> float:
        """Seconds since the wave has begun."""
        return time.monotonic() - (self.deadline - self.seconds)

    def take(self, count: int) -> None:
        """Notes bytes that have come; raises BadReply when they are more than all requests may have."""
        with self._lock:
            self._left -= count
            if self._left < 0:
                raise BadReply(f"replies have more than {self._size >> 20} MiB")


class Connection:
    """A connection to one server, opened by the first exchange and again when the server has closed it."""

    def __init__(self, address: Address, headers: Mapping[str, str], times: Times) -> None:
        self._address = address
        self._headers = dict(headers)
        self._times = times
        self._socket: socket.socket | None = None
        self._stream: _Stream | None = None
        self._replies: Any = None
        self.round_trip = 0.0
        """Seconds from the last exchange's requests to the end of its first reply."""

    def exchange(self, requests: Sequence[Request], wave: Wave) -> list[Reply]:
        """The replies to requests, in order; those with a body are to be alone.

        Raises OSError and BadReply.  Requests may be sent again on another connection: each says the same twice.
        """
        from http.client import HTTPException

        replies: list[Reply] = []
        while len(replies) < len(requests):
            reused, before = self._socket is not None, len(replies)
            try:
                self._receive(requests[before : before + DEPTH], replies, wave)
            except BadReply:
                self.close()
                raise
            # The last is what parsers raise for a number or a header that is none.
            except (HTTPException, OSError, ValueError) as error:
                self.close()
                # A connection that was kept open may have been closed by the server meanwhile, or after some replies.
                if (reused or len(replies) > before) and not isinstance(error, TimeoutError):
                    continue
                raise error if isinstance(error, OSError) else BadReply(f"{type(error).__name__}: {error}") from None
        return replies

    def _receive(self, requests: Sequence[Request], replies: list[Reply], wave: Wave) -> None:
        """Sends requests and adds their replies, as many as come before the server closes."""
        opened = self._socket or self._open()
        assert self._stream is not None
        start = time.perf_counter()
        self._stream.begin(self._times.request, wave, HEAD_LIMIT)
        opened.settimeout(self._stream.seconds_left())
        opened.sendall(b"".join(map(self._text, requests)))
        for number, request in enumerate(requests):
            self._stream.begin(self._times.request, wave, HEAD_LIMIT + max(request.most, PAGE_LIMIT))
            reply = self._reply(request)
            data = _body(reply, request.most if reply.status == 200 else PAGE_LIMIT)
            if number == 0:
                self.round_trip = time.perf_counter() - start
            replies.append(Reply(reply.status, reply.reason, data))
            if reply.will_close:
                self.close()
                return

    def _reply(self, request: Request) -> Any:
        """The reply to a request, its head read."""
        from http.client import HTTPResponse

        reply = HTTPResponse(self._replies, method=request.method)
        reply.begin()
        return reply

    def _open(self) -> socket.socket:
        import http.client

        kind = http.client.HTTPSConnection if self._address.https else http.client.HTTPConnection
        made = kind(self._address.host, self._address.port, timeout=self._times.connect)
        made.connect()
        self._socket = made.sock
        self._stream = _Stream(made.sock, self._times.read)
        self._replies = _Shared(io.BufferedReader(self._stream))
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
            # A connection over TLS may have something to say at its end, to a server that is gone.
            with contextlib.suppress(OSError):
                self._socket.close()
        self._socket = self._stream = self._replies = None


def _body(reply: Any, most: int) -> bytes:
    """The body of a reply; raises BadReply when it has more bytes than that."""
    # Python's reader sets memory aside for as many bytes as the server says that there are.
    if reply.length is not None and reply.length > most:
        raise BadReply(f"a reply has {reply.length} bytes, of at most {most}")
    data = reply.read() if reply.length is not None else reply.read(most + 1)
    if len(data) > most:
        raise BadReply(f"a reply has more than {most} bytes")
    return data


class _Stream(io.RawIOBase):
    """The bytes of a socket, as long as a request has time and its reply may have more of them."""

    def __init__(self, opened: socket.socket, read_seconds: float) -> None:
        self._socket = opened
        self._read_seconds = read_seconds
        self._deadline = 0.0
        self._late = ""
        self._wave: Wave | None = None
        self._most = self._left = 0

    def begin(self, seconds: float, wave: Wave, size: int) -> None:
        """Gives the next request its time, and its reply its size."""
        self._wave = wave
        self._deadline = min(time.monotonic() + seconds, wave.deadline)
        self._late = f"timed out: a request took more than {seconds:g} s"
        if self._deadline == wave.deadline:
            self._late = f"timed out: {wave.count} requests took more than {wave.seconds:g} s"
        # What has been read ahead of the reply before is part of it: a buffer more does no harm.
        self._most = self._left = size + io.DEFAULT_BUFFER_SIZE

    def seconds_left(self) -> float:
        """The time that a request still has; raises TimeoutError when there is none."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError(self._late)
        return left

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        assert self._wave is not None
        self._socket.settimeout(min(self.seconds_left(), self._read_seconds))
        try:
            count = self._socket.recv_into(buffer)
        except TimeoutError:
            self.seconds_left()
            raise
        self._left -= count
        if self._left < 0:
            raise BadReply(f"a reply has more than {self._most} bytes")
        self._wave.take(count)
        return count


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
