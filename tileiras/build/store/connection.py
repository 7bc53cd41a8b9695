"""A persistent HTTP/1.1 connection with pipelining: many requests per round trip.

Servers answer the requests of a connection in order (RFC 9112, 9.3.2), whether or not they have read the next one.
`http.client` sends one request at a time; here its `HTTPResponse` objects all read from one shared stream.

The server is not trusted: each request has a total time limit and its reply a size limit, and so has a wave of requests
(`Wave`).  Both limits are checked on the bytes received from the socket, so headers cannot circumvent them.
"""

from __future__ import annotations

import contextlib
import io
import threading
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tileiras.support.named_tuple import NamedTuple

if TYPE_CHECKING:
    import socket

DEPTH = 64
"""Maximum requests without a body sent before the first reply is read; they fit into the buffers of a socket, so that
client and server cannot deadlock on full buffers."""

HEAD_LIMIT = 64 << 10
"""Maximum bytes of a reply besides its body: status, headers, interim replies, sizes of chunks."""

PAGE_LIMIT = 256 << 10
"""Maximum bytes of the body of a reply without a row: an error page."""


class BadReply(Exception):
    """The server refuses, violates HTTP, or sends more than the limit."""


class Request(NamedTuple):
    method: str
    path: str
    body: bytes | None = None
    most: int = PAGE_LIMIT
    """Maximum bytes of the body of a successful reply."""


class Reply(NamedTuple):
    status: int
    reason: str
    data: bytes


class Address(NamedTuple):
    https: bool
    host: str
    port: int | None


class Times(NamedTuple):
    """Timeouts in seconds."""

    connect: float
    next_bytes: float
    """For the next bytes of a reply."""
    request: float
    """For a request and its complete reply."""


class Wave:
    """Deadline and byte budget shared by requests on several connections."""

    def __init__(self, count: int, seconds: float, size: int) -> None:
        self.count = count
        self.seconds = seconds
        self.deadline = time.monotonic() + seconds
        """In seconds of the monotonic clock."""
        self._size = self._left = size
        self._lock = threading.Lock()

    def elapsed(self) -> float:
        """Seconds since the wave began."""
        return time.monotonic() - (self.deadline - self.seconds)

    def take(self, count: int) -> None:
        """Charge received bytes to the budget; raises BadReply when it is exceeded."""
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
        """The replies to requests, in order; a request with a body must be passed alone.

        Raises OSError and BadReply.  Requests may be sent again on another connection, so they must be idempotent.
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
            # ValueError comes from the parsers of malformed numbers and headers.
            except (HTTPException, OSError, ValueError) as error:
                self.close()
                # The server may have closed a persistent connection while it was idle, or after some replies: retry.
                if (reused or len(replies) > before) and not isinstance(error, TimeoutError):
                    continue
                raise error if isinstance(error, OSError) else BadReply(f"{type(error).__name__}: {error}") from None
        return replies

    def _receive(self, requests: Sequence[Request], replies: list[Reply], wave: Wave) -> None:
        """Send requests and append their replies, until the server closes the connection."""
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
        result = kind(self._address.host, self._address.port, timeout=self._times.connect)
        result.connect()
        self._socket = result.sock
        self._stream = _Stream(result.sock, self._times.next_bytes)
        self._replies = _Shared(io.BufferedReader(self._stream))
        return result.sock

    def _text(self, request: Request) -> bytes:
        host, port = self._address.host, self._address.port
        host_name = f"[{host}]" if ":" in host else host
        lines = [
            f"{request.method} {request.path} HTTP/1.1",
            f"Host: {host_name}{f':{port}' if port is not None else ''}",
            "Accept-Encoding: identity",
            *(f"{name}: {value}" for name, value in self._headers.items()),
        ]
        if request.body is not None:
            lines.append(f"Content-Length: {len(request.body)}")
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + (request.body or b"")

    def close(self) -> None:
        if self._socket is not None:
            # Closing TLS sends a message, which fails if the server is gone.
            with contextlib.suppress(OSError):
                self._socket.close()
        self._socket = self._stream = self._replies = None


def _body(reply: Any, most: int) -> bytes:
    """The body of a reply; raises BadReply when it has more than `most` bytes."""
    # Python's reader allocates as many bytes as Content-Length states.
    if reply.length is not None and reply.length > most:
        raise BadReply(f"a reply has {reply.length} bytes, of at most {most}")
    data = reply.read() if reply.length is not None else reply.read(most + 1)
    if len(data) > most:
        raise BadReply(f"a reply has more than {most} bytes")
    return data


class _Stream(io.RawIOBase):
    """The bytes of a socket, within the time limit of the request and the size limit of the reply."""

    def __init__(self, opened: socket.socket, read_seconds: float) -> None:
        self._socket = opened
        self._read_seconds = read_seconds
        self._deadline = 0.0
        self._late = ""
        self._wave: Wave | None = None
        self._most = self._left = 0

    def begin(self, seconds: float, wave: Wave, size: int) -> None:
        """Set the time limit of the next request and the size limit of its reply."""
        self._wave = wave
        self._deadline = min(time.monotonic() + seconds, wave.deadline)
        self._late = f"timed out: a request took more than {seconds:g} s"
        if self._deadline == wave.deadline:
            self._late = f"timed out: {wave.count} requests took more than {wave.seconds:g} s"
        # Reading runs ahead into the next reply by up to one buffer, which is added to the limit.
        self._most = self._left = size + io.DEFAULT_BUFFER_SIZE

    def seconds_left(self) -> float:
        """The time left to the request; raises TimeoutError when it is used up."""
        seconds = self._deadline - time.monotonic()
        if seconds <= 0:
            raise TimeoutError(self._late)
        return seconds

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
    """Stands in for a socket in HTTPResponse: gives each reply the connection's one buffered stream."""

    def __init__(self, file: io.BufferedReader) -> None:
        self.file = file

    def makefile(self, mode: str) -> _Unclosed:
        return _Unclosed(self.file)


class _Unclosed:
    """The shared stream with a `close` that does nothing: the next reply reads on from it."""

    def __init__(self, file: io.BufferedReader) -> None:
        self.read, self.read1 = file.read, file.read1
        self.readline, self.readinto, self.peek = file.readline, file.readinto, file.peek

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass
