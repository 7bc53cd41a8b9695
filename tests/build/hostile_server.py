"""A server of the HTTP cache protocol that stores uploads and then answers as a test specifies."""

from __future__ import annotations

import itertools
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator

Part = bytes | float
"""Bytes to send, or seconds to wait."""


class HostileServer:
    """Answers `GET` with the parts that `wire` gives, if it is set; else with the result of `change` for a file.

    A connection is closed at the end of `wire`, unless `keeps` is set.
    """

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.wire: Callable[[], Iterable[Part]] | None = None
        self.change: Callable[[str, bytes], bytes] | None = None
        self.keeps = False
        self.requests = 0
        self._open: set[socket.socket] = set()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        for opened in (self._listening, *self._open):
            try:
                opened.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            opened.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self._open.add(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        stream = connection.makefile("rb")
        try:
            while line := stream.readline():
                method, path, _ = line.decode().split(" ")
                length = 0
                while (header := stream.readline()) not in (b"\r\n", b""):
                    if header.lower().startswith(b"content-length:"):
                        length = int(header[15:])
                body = stream.read(length)
                self.requests += 1
                if method == "GET" and self.wire is not None:
                    for part in self.wire():
                        if isinstance(part, bytes):
                            connection.sendall(part)
                        else:
                            time.sleep(part)
                    if self.keeps:
                        continue
                    return
                connection.sendall(self._answer(method, path, body))
        except (OSError, ValueError):
            pass
        finally:
            self._open.discard(connection)
            connection.close()

    def _answer(self, method: str, path: str, body: bytes) -> bytes:
        if method == "PUT":
            self.files[path] = body
            return reply(b"", b"201 Created")
        if path not in self.files:
            return reply(b"", b"404 Not Found")
        file = self.files[path]
        return reply(self.change(path, file) if self.change is not None else file)


def reply(body: bytes, status: bytes = b"200 OK", *headers: bytes) -> bytes:
    head = [b"HTTP/1.1 " + status, b"Content-Length: %d" % len(body), *headers]
    return b"\r\n".join([*head, b"", body])


def head(*headers: bytes, status: bytes = b"200 OK") -> bytes:
    return b"\r\n".join([b"HTTP/1.1 " + status, *headers, b"", b""])


def trickle(part: bytes, seconds: float = 0.02) -> Iterator[Part]:
    """The same part, repeated before the reader's time limit for the next byte."""
    return itertools.chain.from_iterable(itertools.repeat((part, seconds)))


def endless(part: bytes) -> Iterator[Part]:
    return itertools.repeat(part)


def parts(*given: Part | Iterable[Part]) -> Callable[[], Iterable[Part]]:
    return lambda: itertools.chain.from_iterable([each] if isinstance(each, (bytes, float)) else each for each in given)


MEGABYTE = b"\0" * (1 << 20)

WIRE: dict[str, Callable[[], Iterable[Part]]] = {
    "a body that trickles": lambda: parts(head(b"Content-Length: 100000"), trickle(b"x"))(),
    "a head that trickles": lambda: parts(b"HTTP/1.1 200 OK\r\n", trickle(b"X: y\r\n"))(),
    "a status that trickles": lambda: parts(b"HTTP/1.1 ", trickle(b" "))(),
    "chunks that trickle": lambda: parts(head(b"Transfer-Encoding: chunked"), trickle(b"1\r\nx\r\n"))(),
    "interim replies that trickle": lambda: trickle(head(status=b"100 Continue")),
    "interim replies without end": lambda: endless(head(status=b"100 Continue") * 1000),
    "nothing": parts(600.0),
    "a head and nothing": parts(head(b"Content-Length: 5"), 600.0),
    "a body without end": lambda: parts(head(b"Content-Length: 60000000000"), endless(MEGABYTE))(),
    "a body of no length without end": lambda: parts(head(), endless(MEGABYTE))(),
    "chunks without end": lambda: parts(
        head(b"Transfer-Encoding: chunked"), endless(b"100000\r\n" + MEGABYTE + b"\r\n")
    )(),
    "small chunks without end": lambda: parts(head(b"Transfer-Encoding: chunked"), endless(b"1\r\nx\r\n" * 10000))(),
    "trailers without end": lambda: parts(head(b"Transfer-Encoding: chunked"), b"0\r\n", endless(b"X: y\r\n" * 1000))(),
    "a length beyond memory": parts(head(b"Content-Length: 9223372036854775807"), 600.0),
    "a length beyond numbers": parts(head(b"Content-Length: " + b"9" * 5000), b"x" * 10),
    "a negative length": parts(head(b"Content-Length: -5"), b"abc"),
    "a length that is a word": parts(head(b"Content-Length: many"), b"abc"),
    "two lengths": parts(head(b"Content-Length: 3", b"Content-Length: 70000000000"), b"abc"),
    "a chunk beyond memory": parts(head(b"Transfer-Encoding: chunked"), b"7fffffffffffffff\r\n", 600.0),
    "a negative chunk": parts(head(b"Transfer-Encoding: chunked"), b"-5\r\nabc\r\n0\r\n\r\n"),
    "a chunk that is a word": parts(head(b"Transfer-Encoding: chunked"), b"zz\r\nabc\r\n0\r\n\r\n"),
    "an early close": parts(head(b"Content-Length: 5000"), b"abc"),
    "a close in the head": parts(b"HTTP/1.1 200 OK\r\nContent-Le"),
    "a close without a word": parts(),
    "a header of a megabyte": parts(b"HTTP/1.1 200 OK\r\nX: ", b"a" * (1 << 20), b"\r\n\r\n"),
    "headers of ten megabytes": parts(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n" * (10 << 17), b"\r\n"),
    "a status of a megabyte": parts(b"HTTP/1.1 200 ", b"a" * (1 << 20), b"\r\n\r\n"),
    "another protocol": parts(b"SSH-2.0-x\r\n" * 50),
    "another version": parts(b"HTTP/9.9 200 OK\r\n\r\n"),
    "a status that is a word": parts(b"HTTP/1.1 fine OK\r\n\r\n"),
    "a status beyond numbers": parts(b"HTTP/1.1 " + b"9" * 5000 + b" OK\r\n\r\n"),
    "a reason with escapes": parts(head(b"Content-Length: 0", status=b"500 \x1b[2J\x07\r")),
    "NUL in headers": parts(b"HTTP/1.1 200 OK\r\nContent-Length\0: 5\r\n\0\0: \0\r\n\r\nabcde"),
    "a redirection to a file": parts(head(b"Location: file:///etc/passwd", b"Content-Length: 0", status=b"302 Found")),
    "a redirection to itself": parts(head(b"Location: /ac/0", b"Content-Length: 0", status=b"307 Temporary")),
    "a refusal": parts(head(b"Content-Length: 0", status=b"401 Unauthorized")),
    "an error": parts(head(b"Content-Length: 0", status=b"500 Internal")),
    "an error without end": lambda: parts(head(status=b"500 Internal"), endless(MEGABYTE))(),
    "a miss without end": lambda: parts(head(status=b"404 Not Found"), endless(MEGABYTE))(),
    "another protocol from here on": parts(head(status=b"101 Switching Protocols"), b"\0" * 1000),
    "no content": parts(head(status=b"204 No Content")),
    "a part": parts(head(b"Content-Length: 3", b"Content-Range: bytes 0-2/9", status=b"206 Partial"), b"abc"),
    "not modified": parts(head(status=b"304 Not Modified")),
    "a page": parts(reply(b"<html>" + b" " * 70_000)),
    "nothing in it": parts(reply(b"")),
}
"""Error -> the reply that has it."""
