"""A store that a team shares: the HTTP cache protocol of Bazel, as bazel-remote, nginx with WebDAV and others serve it.

    TILEIRAS_REMOTE_CACHE=http://cache.example:8080/prefix     the server; without it there is none
    TILEIRAS_REMOTE_MODE=read-only|read-write                  the first unless said otherwise: machines of the team
                                                               read what a trusted one has written
    TILEIRAS_REMOTE_TOKEN=...                                  sent as `Authorization: Bearer`

`/ac/SHA256(key)` holds an ActionResult message of the Remote Execution API with one output file, whose bytes are part
of the message, or at `/cas/SHA256(bytes)` where they are many.  So a look-up takes one round trip, and `get_many` needs
one for all of its keys.  Whatever comes is checked against its digest before it is used: what is damaged counts as
absent, with one warning, so that its stage runs, and a build that writes puts what that makes in its place.  A server
that is slow or gone costs one warning, too: the first transport error turns it off for this process, and so does a
server of which nothing but damage comes.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from tileiras.build.remote_connection import Address, BadReply, Connection, Request
from tileiras.build.remote_messages import Damaged, action_result, output_file
from tileiras.files import read_json_object, write_atomically

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

CONNECT_SECONDS = 1.0
READ_SECONDS = 3.0
"""How long one waits for a connection, and for the next bytes of a reply: what compiling a dozen kernels takes."""

SLOW_SECONDS = 1.0
SLOW_WAVES = 3
"""Waves in a row that took longer to their first reply, after which a server is done without: a wave saves less than
that of a build with a few kernels (`docs/scale.md`)."""

REST_SECONDS = 300.0
"""How long the processes of a machine do without a server that was slow or gone for one of them."""

DRAIN_SECONDS = 5.0
"""How long the end of a build waits for uploads."""

WAITING = 256
"""Uploads in the queue; what comes beyond is left out."""

READ_ONLY, READ_WRITE = "read-only", "read-write"

DAMAGED = 16
"""Damaged replies after which a server that gave nothing else is taken for none: a proxy's page for every path."""


INLINE = 1 << 20
"""The most bytes that are part of their message; more go to /cas.  Nothing is gained by all going there: a record has
the time that its stage took, so that no two are the same bytes."""

CONNECTIONS = 16
"""Connections of a wave of look-ups; each takes a share of the requests, of LEAST_SHARE at least."""

LEAST_SHARE = 8


def from_environment(
    warn: Callable[[str], None], environment: Mapping[str, str] = os.environ, notes: str | None = None
) -> Remote | None:
    """The server that the environment names; raises ValueError for what cannot be one.  `notes` as for Remote."""
    url = environment.get("TILEIRAS_REMOTE_CACHE")
    if not url:
        return None
    mode = environment.get("TILEIRAS_REMOTE_MODE") or READ_ONLY
    if mode not in (READ_ONLY, READ_WRITE):
        raise ValueError(f"TILEIRAS_REMOTE_MODE={mode}: accepted are {READ_ONLY}, {READ_WRITE}")
    return Remote(url, warn, mode == READ_WRITE, environment.get("TILEIRAS_REMOTE_TOKEN"), notes)


class Remote:
    """`get` and `put` of bytes by key; neither raises for what the server or the network does."""

    def __init__(
        self, url: str, warn: Callable[[str], None], writes: bool = False, token: str | None = None,
        notes: str | None = None,
    ) -> None:  # fmt: skip
        """`notes` is a file of this machine in which processes tell each other of a server that is slow or gone.

        Raises ValueError for a URL that is not http or https.
        """
        from urllib.parse import quote, urlsplit

        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"TILEIRAS_REMOTE_CACHE={url}: accepted is http://HOST[:PORT][/PREFIX], or https")
        if token is not None and any(character in token for character in "\r\n"):
            raise ValueError("TILEIRAS_REMOTE_TOKEN has a line break")
        self._address = Address(parts.scheme == "https", parts.hostname, parts.port)
        self._prefix = quote(parts.path.rstrip("/"), safe="/%!$&'()*+,;=:@~")
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
        self._notes = notes
        self.failure: str | None = self._noted()
        """Why it is off, once it is."""
        self._told = False
        """Whether somebody knows that it is."""
        self._lock = threading.Lock()
        self._local = threading.local()
        self._uploads: queue.Queue[tuple[str, bytes]] | None = None
        self._threads: ThreadPoolExecutor | None = None
        self._slow = 0
        """Waves in a row that were slow."""
        self.round_trip = 0.0
        """Seconds that the last look-up took to its first reply; 0 before one."""

    def get(self, key: str) -> bytes | None:
        """The bytes that somebody put under `key`, their sha256 checked; None for a miss and for what is damaged."""
        return self.get_many([key]).get(key)

    def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        """The same of many keys, at the cost of one round trip, or two where bytes are too many for their message."""
        found: dict[str, bytes] = {}
        if not keys or self._is_off():
            return found
        try:
            names = [_name(key) for key in keys]
            elsewhere: dict[str, tuple[str, int]] = {}
            for key, name, message in zip(keys, names, self._fetched([f"/ac/{name}" for name in names])):
                if message is not None:
                    self._take(key, name, message, found, elsewhere)
            messages = self._fetched([f"/cas/{digest}" for digest, _ in elsewhere.values()])
            for (key, (digest, size)), value in zip(elsewhere.items(), messages):
                if value is not None:  # it has gone since: a miss
                    self._check(key, f"/cas/{digest}", value, digest, size, found)
            self._sound |= len(found) > 0
            self._slow = self._slow + 1 if self.round_trip > SLOW_SECONDS else 0
            if self._slow == SLOW_WAVES:
                self.turn_off(f"the last {SLOW_WAVES} replies took more than {SLOW_SECONDS:g} s each", noting=True)
        except (OSError, BadReply) as error:
            self.turn_off(str(error) or type(error).__name__, noting=isinstance(error, OSError))
        return found

    def _take(
        self, key: str, name: str, message: bytes, found: dict[str, bytes], elsewhere: dict[str, tuple[str, int]]
    ) -> None:
        """Notes what a message has for a key, or where that is."""
        try:
            file = output_file(message)
        except Damaged as error:
            self._note_damage(f"/ac/{name} is damaged ({error})")
            return
        if file.contents is None:
            elsewhere[key] = file.digest, file.size
        else:
            self._check(key, f"/ac/{name}", file.contents, file.digest, file.size, found)

    def _check(self, key: str, path: str, value: bytes, digest: str, size: int, found: dict[str, bytes]) -> None:
        import hashlib

        if len(value) != size or hashlib.sha256(value).hexdigest() != digest:
            self._note_damage(f"{path} is damaged")
        else:
            found[key] = value

    def _fetched(self, paths: Sequence[str]) -> list[bytes | None]:
        """The bodies of replies, None for 404; raises BadReply and OSError."""
        share = max(LEAST_SHARE, -(-len(paths) // CONNECTIONS))
        shares = [paths[n : n + share] for n in range(0, len(paths), share)]
        if len(shares) < 2:
            return [body for part in shares for body in self._asked([Request("GET", path) for path in part])]
        from concurrent.futures import ThreadPoolExecutor

        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(CONNECTIONS, "tileiras-look-ups")
        asked = [[Request("GET", path) for path in part] for part in shares]
        return [body for part in self._threads.map(self._asked, asked) for body in part]

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
        if not self._writes or self._is_off():
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
                    inline = len(value) <= INLINE
                    if not inline:
                        self._asked([Request("PUT", "/cas/" + digest, value)])
                    message = action_result(digest, len(value), value if inline else None)
                    self._asked([Request("PUT", "/ac/" + _name(key), message)])
            except (OSError, BadReply) as error:
                self.turn_off(str(error) or type(error).__name__)
            finally:
                uploads.task_done()

    def _asked(self, requests: Sequence[Request]) -> list[bytes | None]:
        """The bodies of the replies to this thread's requests, None for 404; raises OSError or BadReply."""
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = Connection(
                self._address, self._headers, CONNECT_SECONDS, READ_SECONDS
            )
        whole = [request._replace(path=self._prefix + request.path) for request in requests]
        bodies: list[bytes | None] = []
        for request, reply in zip(requests, connection.exchange(whole)):
            missing = reply.status == 404 and request.method == "GET"
            if not missing and reply.status not in (200, 201, 204):
                raise BadReply(f"{request.method} {request.path.split('/')[1]}: {reply.status} {reply.reason}")
            self._sound |= missing
            bodies.append(None if missing else reply.data)
        if requests[0].method == "GET":
            self.round_trip = connection.round_trip
        return bodies

    def turn_off(self, failure: str, noting: bool = False) -> None:
        """Does without it from now on, with a warning that says why; `noting` has other processes do so for a while."""
        with self._lock:
            if self.failure is not None:
                return
            self.failure, self._told = failure, True
        self.warn(f"remote cache {self.name}: {failure}; done without for this build")
        if noting and self._notes is not None:
            import json
            import time

            row = {"server": self.name, "failure": failure, "time": time.time()}
            with contextlib.suppress(OSError):
                write_atomically(self._notes, json.dumps(row).encode(), checked=True)

    def _noted(self) -> str | None:
        """Why another process does without the server, if that was a moment ago."""
        if self._notes is None:
            return None
        import time

        row = read_json_object(self._notes)
        failure, noted = row.get("failure"), row.get("time")
        if row.get("server") != self.name or not isinstance(failure, str) or not isinstance(noted, (int, float)):
            return None
        age = time.time() - noted
        if not 0 <= age < REST_SECONDS:
            return None
        return f"{failure}, {age:.0f} s ago, and it is asked again in {REST_SECONDS - age:.0f} s"

    def _is_off(self) -> bool:
        """Whether it is done without; says so where that is another process's finding and nobody has yet."""
        if self.failure is not None and not self._told:
            self._told = True
            self.warn(f"remote cache {self.name}: {self.failure}; done without for this build")
        return self.failure is not None


def _name(key: str) -> str:
    import hashlib

    return hashlib.sha256(f"tileiras {key}".encode()).hexdigest()
