"""A store that a team shares: the HTTP cache protocol of Bazel, as bazel-remote, nginx with WebDAV and others serve it.

    TILEIRAS_REMOTE_CACHE=http://cache.example:8080/prefix     the server; without it there is none
    TILEIRAS_REMOTE_MODE=read-only|read-write                  the first unless said otherwise: machines of the team
                                                               read what a trusted one has written
    TILEIRAS_REMOTE_TOKEN=...                                  sent as `Authorization: Bearer`

`/ac/SHA256(key)` holds an ActionResult message of the Remote Execution API with one output file, whose bytes are at
`/cas/SHA256(bytes)`.  Whatever comes is checked against its digest before it is used: what is damaged counts as
absent, with one warning, so that its stage runs, and a build that writes puts what that makes in its place.  A server
that is slow or gone costs one warning, too: the first transport error turns it off for this process, and so does a
server of which nothing but damage comes.
"""

from __future__ import annotations

import atexit
import os
import queue
import threading
from collections.abc import Callable, Mapping
from typing import Any

CONNECT_SECONDS = 3.0
READ_SECONDS = 10.0
DRAIN_SECONDS = 5.0
"""How long the end of a build waits for uploads."""

WAITING = 256
"""Uploads in the queue; what comes beyond is left out."""

READ_ONLY, READ_WRITE = "read-only", "read-write"

OUTPUT_NAME = "record"
"""The path of the one output file of a record's action."""


DAMAGED = 16
"""Damaged replies after which a server that gave nothing else is taken for none: a proxy's page for every path."""


class BadReply(Exception):
    """A server refuses, or does not speak HTTP."""


class Damaged(Exception):
    """What a server has under a name is not what the name stands for."""


# ---- the message -----------------------------------------------------------------------------------------------------
#
# build.bazel.remote.execution.v2 in Protocol Buffers' wire format:
#   message ActionResult { repeated OutputFile output_files = 2; ... }
#   message OutputFile { string path = 1; Digest digest = 2; ... }
#   message Digest { string hash = 1; int64 size_bytes = 2; }


def action_result(digest: str, size: int) -> bytes:
    """An ActionResult whose one output file has this sha256 (hexadecimal) and size."""
    content = _field(1, digest.encode()) + b"\x10" + _varint(size)
    return _field(2, _field(1, OUTPUT_NAME.encode()) + _field(2, content))


def output_digest(message: bytes) -> tuple[str, int]:
    """Digest and size of an ActionResult's first output file; raises Damaged."""
    try:
        file = _fields(message)[2]
        digest = _fields(_bytes(_fields(_bytes(file))[2]))
        name, size = _bytes(digest[1]).decode("ascii"), digest.get(2, 0)
    except (KeyError, IndexError, UnicodeDecodeError) as error:
        raise Damaged(f"no ActionResult with an output file: {error}") from None
    if len(name) != 64 or set(name) - set("0123456789abcdef") or not isinstance(size, int):
        raise Damaged("an output file without a sha256")
    return name, size


def _bytes(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise KeyError("a number where bytes are due")
    return value


def _field(number: int, value: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _fields(message: bytes) -> dict[int, bytes | int]:
    """The first value of every field: bytes, or the number of a varint; raises IndexError for a message that is cut."""
    found: dict[int, bytes | int] = {}
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        tag = varint()
        kind = tag & 7
        value: bytes | int
        if kind == 0:
            value = varint()
        else:
            size = {1: 8, 5: 4}[kind] if kind != 2 else varint()
            if at + size > len(message):
                raise IndexError("cut off")
            value = message[at : at + size]
            at += size
        found.setdefault(tag >> 3, value)
    return found


# ---- the server ------------------------------------------------------------------------------------------------------


def from_environment(warn: Callable[[str], None], environment: Mapping[str, str] = os.environ) -> Remote | None:
    """The server that the environment names; raises ValueError for what cannot be one."""
    url = environment.get("TILEIRAS_REMOTE_CACHE")
    if not url:
        return None
    mode = environment.get("TILEIRAS_REMOTE_MODE") or READ_ONLY
    if mode not in (READ_ONLY, READ_WRITE):
        raise ValueError(f"TILEIRAS_REMOTE_MODE={mode}: accepted are {READ_ONLY}, {READ_WRITE}")
    return Remote(url, warn, mode == READ_WRITE, environment.get("TILEIRAS_REMOTE_TOKEN"))


class Remote:
    """`get` and `put` of bytes by key; neither raises for what the server or the network does."""

    def __init__(
        self, url: str, warn: Callable[[str], None], writes: bool = False, token: str | None = None
    ) -> None:
        """Raises ValueError for a URL that is not http or https."""
        from urllib.parse import urlsplit

        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"TILEIRAS_REMOTE_CACHE={url}: accepted is http://HOST[:PORT][/PREFIX], or https")
        self._https = parts.scheme == "https"
        self._address = (parts.hostname, parts.port)
        self._prefix = parts.path.rstrip("/")
        # The environment's token only: one in the address would be printed with it.
        self.name = f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}{self._prefix}"
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.warn = warn
        self.tell_damage = warn
        """Is told once of damage; like `warn`, to be replaced by somebody who hears of several processes."""
        self._damaged = 0
        self._sound = False
        """Whether anything has come that was not damaged."""
        self._writes = writes
        self.failure: str | None = None
        """Why it is off, once it is."""
        self._lock = threading.Lock()
        self._local = threading.local()
        self._uploads: queue.Queue[tuple[str, bytes]] | None = None

    def get(self, key: str) -> bytes | None:
        """The bytes that somebody put under `key`, their sha256 checked; None for a miss and for what is damaged."""
        if self.failure is not None:
            return None
        try:
            value = self._checked(_name(key))
        except Damaged as error:
            self._note_damage(str(error))
            return None
        except (OSError, BadReply) as error:
            self.turn_off(str(error) or type(error).__name__)
            return None
        self._sound = True
        return value

    def _checked(self, name: str) -> bytes | None:
        """Raises Damaged, BadReply and OSError."""
        import hashlib

        message = self._ask("GET", "/ac/" + name)
        if message is None:
            return None
        try:
            digest, size = output_digest(message)
        except Damaged as error:
            raise Damaged(f"/ac/{name} is damaged ({error})") from None
        value = self._ask("GET", "/cas/" + digest)
        if value is None:
            return None  # it has gone since: a miss
        if len(value) != size or hashlib.sha256(value).hexdigest() != digest:
            raise Damaged(f"/cas/{digest} is damaged")
        return value

    def _note_damage(self, what: str) -> None:
        with self._lock:
            self._damaged += 1
            first, useless = self._damaged == 1, self._damaged >= DAMAGED and not self._sound
        if useless:
            self.turn_off(f"nothing sound has come in {DAMAGED} replies")
        elif first:
            then = "rebuilt and replaced" if self._writes else "rebuilt"
            self.tell_damage(f"remote cache {self.name}: {what}; what it cannot give is {then}")

    def put(self, key: str, value: bytes) -> None:
        """Has bytes uploaded, sooner or later; left out when too many wait."""
        if self.failure is not None or not self._writes:
            return
        with self._lock:
            if self._uploads is None:
                self._uploads = queue.Queue(WAITING)
                atexit.register(self.close)
                threading.Thread(target=self._upload, name="tileiras-uploads", daemon=True).start()
        try:
            self._uploads.put_nowait((key, value))
        except queue.Full:
            return

    def close(self) -> None:
        """Waits for what is being uploaded, for at most DRAIN_SECONDS."""
        import time

        uploads = self._uploads
        if uploads is None:
            return
        deadline = time.monotonic() + DRAIN_SECONDS
        with uploads.all_tasks_done:
            while uploads.unfinished_tasks and self.failure is None and time.monotonic() < deadline:
                uploads.all_tasks_done.wait(0.05)

    def _upload(self) -> None:
        import hashlib

        uploads = self._uploads
        assert uploads is not None
        while True:
            key, value = uploads.get()
            try:
                if self.failure is None:
                    digest = hashlib.sha256(value).hexdigest()
                    # The bytes first: a record must not name what is not there yet.
                    self._ask("PUT", "/cas/" + digest, value)
                    self._ask("PUT", "/ac/" + _name(key), action_result(digest, len(value)))
            except (OSError, BadReply) as error:
                self.turn_off(str(error) or type(error).__name__)
            finally:
                uploads.task_done()

    def _ask(self, method: str, path: str, body: bytes | None = None) -> bytes | None:
        """The body of a reply, None for 404; raises OSError or BadReply."""
        import http.client

        connection = getattr(self._local, "connection", None)
        for again in (connection is not None, False):
            if connection is None:
                kind = http.client.HTTPSConnection if self._https else http.client.HTTPConnection
                connection = self._local.connection = kind(*self._address, timeout=CONNECT_SECONDS)
                connection.connect()
                connection.sock.settimeout(READ_SECONDS)
            try:
                connection.request(method, self._prefix + path, body, self._headers)
                reply = connection.getresponse()
                data = reply.read()
            except (http.client.HTTPException, OSError) as error:
                connection.close()
                connection = self._local.connection = None
                # A connection that was kept open may have been closed by the server meanwhile.
                if again and not isinstance(error, TimeoutError):
                    continue
                raise error if isinstance(error, OSError) else BadReply(f"{type(error).__name__}: {error}") from None
            if reply.status == 404 and method == "GET":
                return None
            if reply.status not in (200, 201, 204):
                raise BadReply(f"{method} {path.split('/')[1]}: {reply.status} {reply.reason}")
            return data
        raise BadReply("no reply")

    def turn_off(self, failure: str) -> None:
        """Does without it from now on, with a warning that says why."""
        with self._lock:
            if self.failure is not None:
                return
            self.failure = failure
        self.warn(f"remote cache {self.name}: {failure}; done without for this build")


def _name(key: str) -> str:
    import hashlib

    return hashlib.sha256(f"tileiras {key}".encode()).hexdigest()
