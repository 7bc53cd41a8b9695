"""A store that a team shares: the HTTP cache protocol of Bazel, as bazel-remote, nginx with WebDAV and others serve it.

    TILEIRAS_REMOTE_CACHE=http://cache.example:8080/prefix     the server; without it there is none
    TILEIRAS_REMOTE_MODE=read-only|read-write                  the first unless said otherwise: machines of the team
                                                               read what a trusted one has written
    TILEIRAS_REMOTE_TOKEN=...                                  sent as `Authorization: Bearer`
    TILEIRAS_REMOTE_SECONDS=10                                 what a request may take in all

`/ac/SHA256(key)` holds an ActionResult message of the Remote Execution API with one output file, whose bytes are part
of the message, or at `/cas/SHA256(bytes)` where they are many.  So a look-up takes one round trip, and `get_many` needs
one for all of its keys.  Whatever comes is checked against its digest before it is used: what is damaged counts as
absent, with one warning, so that its stage runs, and a build that writes puts what that makes in its place; so does a
row that is none of its key's kind (`record_schema`), or that no accepted key has signed (`signing`).  A server that is
slow or gone costs one warning, too: the first transport error turns it off for this process, and so does a server of
which nothing but damage comes, or one that says more than is due.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from tileiras.build.remote_connection import Address, BadReply, Connection, Request, Times, Wave
from tileiras.build.remote_messages import Damaged, OutputFile, action_result, output_file
from tileiras.files import read_json_object, write_atomically

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from tileiras.build.signing import Signing

CONNECT_SECONDS = 1.0
READ_SECONDS = 3.0
"""How long one waits for a connection, and for the next bytes of a reply: what compiling a dozen kernels takes."""

REQUEST_SECONDS = 10.0
"""What a request and its reply may take in all, where TILEIRAS_REMOTE_SECONDS does not say."""

SHARE_SECONDS = 0.1
"""What a wave of requests may take longer for each of them: half of what the least stage takes."""

SLOW_SECONDS = 1.0
SLOW_WAVES = 3
"""Waves in a row that took longer to their first reply, after which a server is done without: a wave saves less than
that of a build with a few kernels (`docs/scale.md`)."""

PATIENCE = 2
"""How many times the time of a request a process waits for a server beyond SLOW_SECONDS and SHARE_SECONDS, in all."""

REST_SECONDS = 300.0
"""How long the processes of a machine do without a server that was slow or gone for one of them."""

DRAIN_SECONDS, DRAIN_LIMIT = 5.0, 20.0
"""How long the end of a build waits for the next upload to end, and for all of them: one that is left out is a miss for
the team, and where it was to replace a damaged row that stays."""

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

MESSAGE_LIMIT = 4 << 20
"""Bytes of a message, which has INLINE bytes of a row at most and what other clients put beside: gRPC's own limit."""

BLOB_LIMIT = 256 << 20
"""Bytes of a row; one that says that it has more is not asked for."""

WAVE_LIMIT = 1 << 30
"""Bytes of all the replies of a wave, which are held in memory together."""

TOLD = 200
"""Characters of a server's own words that a warning has."""


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
    made = Remote(url, warn, mode == READ_WRITE, environment.get("TILEIRAS_REMOTE_TOKEN"), notes)
    made.request_seconds = _seconds(environment.get("TILEIRAS_REMOTE_SECONDS"))
    from tileiras.build import signing

    made.signing = signing.from_environment(environment, made.writes)
    return made


def _seconds(text: str | None) -> float | None:
    if not text:
        return None
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found <= 3600:
        raise ValueError(f"TILEIRAS_REMOTE_SECONDS={text}: accepted are seconds, up to an hour")
    return found


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
        self.writes = writes
        self.request_seconds: float | None = None
        """What a request may take in all; None for REQUEST_SECONDS."""
        self.signing: Signing | None = None
        """The keys that rows are signed with, and those that are believed."""
        self.check: Callable[[str, bytes], object] = lambda key, value: None
        """Raises ValueError for bytes that are no row of a key's kind."""
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
        self._lost, self._lost_since = 0.0, 0.0
        """Seconds that waves have taken beyond what any may, and since when; forgotten after REST_SECONDS."""
        self.round_trip = 0.0
        """Seconds that the last look-up took to the end of its first reply; 0 before one."""

    def get(self, key: str) -> bytes | None:
        """The bytes that somebody put under `key`, their sha256 checked; None for a miss and for what is damaged."""
        return self.get_many([key]).get(key)

    def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        """The same of many keys, at the cost of one round trip, or two where bytes are too many for their message."""
        found: dict[str, bytes] = {}
        if not keys or self._is_off():
            return found
        wave = self._wave(len(keys))
        try:
            names = [_name(key) for key in keys]
            elsewhere: dict[str, OutputFile] = {}
            messages = self._fetched([Request("GET", f"/ac/{name}", most=MESSAGE_LIMIT) for name in names], wave)
            for key, name, message in zip(keys, names, messages):
                if message is not None:
                    self._take(key, name, message, found, elsewhere)
            blobs = [Request("GET", f"/cas/{file.digest}", most=file.size) for file in elsewhere.values()]
            for (key, file), value in zip(elsewhere.items(), self._fetched(blobs, wave)):
                if value is not None:  # it has gone since: a miss
                    self._check(key, f"/cas/{file.digest}", value, file, found)
            self._sound |= len(found) > 0
            self._slow = self._slow + 1 if self.round_trip > SLOW_SECONDS else 0
            if self._slow == SLOW_WAVES:
                self.turn_off(f"the last {SLOW_WAVES} replies took more than {SLOW_SECONDS:g} s each", noting=True)
            self._note_loss(wave.elapsed() - SLOW_SECONDS - SHARE_SECONDS * len(keys))
        except (OSError, BadReply) as error:
            self.turn_off(str(error) or type(error).__name__, noting=isinstance(error, OSError))
        return found

    def _note_loss(self, seconds: float) -> None:
        """Notes what a wave took longer than it may; a server that only just answers each is done without."""
        if seconds <= 0:
            return
        import time

        now = time.monotonic()
        if now - self._lost_since > REST_SECONDS:
            self._lost, self._lost_since = 0.0, now
        self._lost += seconds
        if self._lost > PATIENCE * self._request_seconds():
            self.turn_off(f"look-ups took {self._lost:.0f} s longer than they may", noting=True)

    def _request_seconds(self) -> float:
        return REQUEST_SECONDS if self.request_seconds is None else self.request_seconds

    def _wave(self, count: int) -> Wave:
        return Wave(count, self._request_seconds() + SHARE_SECONDS * count, WAVE_LIMIT)

    def _take(
        self, key: str, name: str, message: bytes, found: dict[str, bytes], elsewhere: dict[str, OutputFile]
    ) -> None:
        """Notes what a message has for a key, or where that is."""
        try:
            file = output_file(message)
        except Damaged as error:
            self._note_damage(f"/ac/{name} is damaged ({error})")
            return
        if file.contents is not None:
            self._check(key, f"/ac/{name}", file.contents, file, found)
        elif file.size > BLOB_LIMIT:
            self._note_damage(f"/ac/{name} is damaged (a row of {file.size} bytes)")
        else:
            elsewhere[key] = file

    def _check(self, key: str, path: str, value: bytes, file: OutputFile, found: dict[str, bytes]) -> None:
        """Takes bytes that are what their message says, and a row of the key, signed where that is called for."""
        import hashlib

        if len(value) != file.size or hashlib.sha256(value).hexdigest() != file.digest:
            self._note_damage(f"{path} is damaged")
            return
        try:
            if self.signing is not None:
                self.signing.check(_name(key), file.digest, file.size, file.signature)
            self.check(key, value)
        except ValueError as error:
            self._note_damage(f"{path} is not believed ({error})")
            return
        found[key] = value

    def _fetched(self, requests: Sequence[Request], wave: Wave) -> list[bytes | None]:
        """The bodies of replies, None for 404; raises BadReply and OSError."""
        share = max(LEAST_SHARE, -(-len(requests) // CONNECTIONS))
        shares = [requests[n : n + share] for n in range(0, len(requests), share)]
        if len(shares) < 2:
            return [body for part in shares for body in self._asked(part, wave)]
        from concurrent.futures import ThreadPoolExecutor

        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(CONNECTIONS, "tileiras-look-ups")
        return [body for part in self._threads.map(self._asked, shares, [wave] * len(shares)) for body in part]

    def _note_damage(self, what: str) -> None:
        with self._lock:
            self._damaged += 1
            first, useless = self._damaged == 1, self._damaged >= DAMAGED and not self._sound
        if useless:
            self.turn_off(f"nothing sound has come in {DAMAGED} replies")
        elif first:
            then = "rebuilt and replaced" if self.writes else "rebuilt"
            self.tell_damage(f"remote cache {self.name}: {_told(what)}; what it cannot give is {then}")

    def put(self, key: str, value: bytes) -> None:
        """Has bytes uploaded, sooner or later; left out when too many wait."""
        if not self.writes or self._is_off():
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
        """Waits for what is being uploaded, as long as uploads end, for at most DRAIN_LIMIT."""
        import time

        uploads = self._uploads
        if uploads is None:
            return
        start = since = time.monotonic()
        left = uploads.unfinished_tasks
        with uploads.all_tasks_done:
            while uploads.unfinished_tasks and self.failure is None:
                now = time.monotonic()
                if uploads.unfinished_tasks < left:
                    left, since = uploads.unfinished_tasks, now
                if now - since > DRAIN_SECONDS or now - start > DRAIN_LIMIT:
                    return
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
                        self._asked([Request("PUT", "/cas/" + digest, value)], self._wave(1))
                    name = _name(key)
                    signature = self.signing.sign(name, digest, len(value)) if self.signing is not None else None
                    message = action_result(digest, len(value), value if inline else None, signature)
                    self._asked([Request("PUT", "/ac/" + name, message)], self._wave(1))
            except (OSError, BadReply) as error:
                self.turn_off(str(error) or type(error).__name__)
            finally:
                uploads.task_done()

    def _asked(self, requests: Sequence[Request], wave: Wave) -> list[bytes | None]:
        """The bodies of the replies to this thread's requests, None for 404; raises OSError or BadReply."""
        connection = getattr(self._local, "connection", None)
        if connection is None:
            seconds = self._request_seconds()
            times = Times(min(CONNECT_SECONDS, seconds), min(READ_SECONDS, seconds), seconds)
            connection = self._local.connection = Connection(self._address, self._headers, times)
        whole = [request._replace(path=self._prefix + request.path) for request in requests]
        bodies: list[bytes | None] = []
        for request, reply in zip(requests, connection.exchange(whole, wave)):
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
        failure = _told(failure)
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


def _told(text: str) -> str:
    """What a warning has of words that may be a server's: a line of signs that do nothing to a terminal."""
    shown = "".join(sign if sign.isprintable() else "?" for sign in text[: TOLD + 1])
    return shown if len(shown) <= TOLD else shown[:TOLD] + "..."


def _name(key: str) -> str:
    import hashlib

    return hashlib.sha256(f"tileiras {key}".encode()).hexdigest()
