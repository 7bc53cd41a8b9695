"""A store shared by a team: Bazel's HTTP cache protocol, as served by bazel-remote, nginx with WebDAV and others.

    TILEIRAS_REMOTE_CACHE=http://cache.example:8080/prefix     the server; if unset, no server is used
    TILEIRAS_REMOTE_MODE=read-only|read-write                  by default read-only: the team's machines read rows that
                                                               a trusted machine has written
    TILEIRAS_REMOTE_TOKEN=...                                  sent as `Authorization: Bearer`
    TILEIRAS_REMOTE_SECONDS=10                                 time limit of a request in total

`/ac/SHA256(key)` holds an ActionResult message of the Remote Execution API with one output file, whose bytes are inline
in the message, or at `/cas/SHA256(bytes)` if they are large.  A look-up thus takes one round trip, and `get_many` takes
one for all of its keys.  Each reply is checked against its digest before use.  A damaged row counts as absent, with one
warning: its stage runs, and a build in mode read-write replaces the row.  The same holds for a row of another kind than
its key's (`schema`) and for a row without a signature by an accepted key (`signing`).  The first transport error
turns the server off for this process, with one warning; so do a server that is too slow, one whose replies are all
damaged, and one that sends more data than requested.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from tileiras import build
from tileiras.build.store.connection import Address, BadReply, Connection, Request, Times, Wave
from tileiras.build.store.messages import Damaged, OutputFile, action_result, output_file
from tileiras.diagnostics import plural
from tileiras.support.files import read_json_object, write_atomically

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from tileiras.build.store.signing import Signing

CONNECT_SECONDS = 1.0
READ_SECONDS = 3.0
"""Time limits of a connection and of the next bytes of a reply: about the time to compile a dozen kernels."""

REQUEST_SECONDS = 10.0
"""Default of TILEIRAS_REMOTE_SECONDS, the time limit of a request and its reply in total."""

SHARE_SECONDS = 0.1
"""Additional time of a wave of requests for each of them: half of the time of the shortest stage."""

SLOW_SECONDS = 1.0
SLOW_WAVES = 3
"""The server is turned off after SLOW_WAVES consecutive waves with more than SLOW_SECONDS to the first reply: a wave
saves less than that in a build of a few kernels (`docs/reports/scale.md`)."""

PATIENCE = 2
"""Total time for which a process waits for a server beyond SLOW_SECONDS and SHARE_SECONDS, in multiples of the time
limit of a request."""

REST_SECONDS = 300.0
"""Time for which all processes of a machine avoid a server that was slow or unreachable for one of them."""

DRAIN_SECONDS, DRAIN_LIMIT = 5.0, 20.0
"""Time limits, at the end of a build, for the next upload to finish and for all uploads.  The keys of the others are
noted beside the store, and the next build that writes to the same server resumes them."""

WAITING = 256
"""Maximum number of queued uploads; further uploads are left to the next build."""

READ_ONLY, READ_WRITE = "read-only", "read-write"

DAMAGED = 16
"""Damaged replies, without a sound one, after which a server is turned off: a proxy may return a page for each path."""


INLINE = 1 << 20
"""Maximum size of inline bytes; larger rows are stored in /cas.  Storing all rows there would not deduplicate them: a
record contains the duration of its stage, so no two are equal."""

CONNECTIONS = 16
"""Connections of a wave of look-ups; each takes a share of the requests, at least LEAST_SHARE."""

LEAST_SHARE = 8

MESSAGE_LIMIT = 4 << 20
"""Maximum size of a message: at most INLINE bytes of a row, and additions of other clients; gRPC's own limit."""

BLOB_LIMIT = 256 << 20
"""Maximum size of a row; a row whose message states a larger size is not requested."""

WAVE_LIMIT = 1 << 30
"""Maximum total size of the replies of a wave, which are held in memory together."""

TOLD = 200
"""Characters of a server's text that a warning quotes."""


def from_environment(
    warn: Callable[[str], None], environment: Mapping[str, str] = os.environ, notes: str | None = None
) -> Remote | None:
    """Create the server that the environment names; raises ValueError for invalid values.  `notes` as for Remote."""
    url = environment.get("TILEIRAS_REMOTE_CACHE")
    if not url:
        return None
    mode = environment.get("TILEIRAS_REMOTE_MODE") or READ_ONLY
    if mode not in (READ_ONLY, READ_WRITE):
        raise ValueError(f"TILEIRAS_REMOTE_MODE={mode}: accepted are {READ_ONLY}, {READ_WRITE}")
    remote = Remote(url, warn, mode == READ_WRITE, environment.get("TILEIRAS_REMOTE_TOKEN"), notes)
    remote.request_seconds = _seconds(environment.get("TILEIRAS_REMOTE_SECONDS"))
    remote.signing = build.store.signing.from_environment(environment, remote.writes)
    return remote


def _seconds(text: str | None) -> float | None:
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 3600:
        raise ValueError(f"TILEIRAS_REMOTE_SECONDS={text}: accepted are seconds, up to an hour")
    return seconds


class Remote:
    """`get` and `put` of bytes by key; neither raises for failures of the server or the network."""

    def __init__(
        self, url: str, warn: Callable[[str], None], writes: bool = False, token: str | None = None,
        notes: str | None = None,
    ) -> None:  # fmt: skip
        """`notes` is a file through which the processes of this machine report to each other a slow or unreachable
        server.

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
        # Credentials in the address are dropped: they would be printed with it.
        self.name = f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}{self._prefix}"
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.warn = warn
        self.tell_damage = warn
        """Called once, for the first damage; like `warn`, replaceable by a function that merges several processes."""
        self._damaged = 0
        self._sound = False
        """Whether any undamaged reply has been received."""
        self.writes = writes
        self.request_seconds: float | None = None
        """Time limit of a request in total; None for REQUEST_SECONDS."""
        self.signing: Signing | None = None
        """The key that signs rows, and the accepted keys."""
        self.check: Callable[[str, bytes], object] = lambda key, value: None
        """Function that raises ValueError for bytes that are not a row of the key's kind."""
        self._notes = notes
        self.failure: str | None = self._failure_of_others()
        """The reason for which the server is off; None while it is on."""
        self._told = False
        """Whether the warning that it is off has been given."""
        self._lock = threading.Lock()
        self._local = threading.local()
        self._uploads: queue.Queue[tuple[str, bytes]] | None = None
        self._unfinished: dict[str, None] = {}
        """Keys of uploads that have not ended."""
        self._threads: ThreadPoolExecutor | None = None
        self._slow = 0
        """Number of consecutive slow waves."""
        self._lost, self._lost_since = 0.0, 0.0
        """Seconds by which waves have exceeded their allowance, and the start of counting; reset after REST_SECONDS."""
        self.round_trip = 0.0
        """Seconds from the start of the last look-up to the end of its first reply; 0 before the first look-up."""

    def get(self, key: str) -> bytes | None:
        """Return the bytes under `key`, after checking their sha256; None for a miss and for damaged bytes."""
        return self.get_many([key]).get(key)

    def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        """Return the bytes of many keys, in one round trip, or two if some are too large for their message."""
        result: dict[str, bytes] = {}
        if not keys or self._is_off():
            return result
        wave = self._wave(len(keys))
        try:
            names = [_name(key) for key in keys]
            elsewhere: dict[str, OutputFile] = {}
            messages = self._fetched([Request("GET", f"/ac/{name}", most=MESSAGE_LIMIT) for name in names], wave)
            for key, name, message in zip(keys, names, messages):
                if message is not None:
                    self._take(key, name, message, result, elsewhere)
            blobs = [Request("GET", f"/cas/{file.digest}", most=file.size) for file in elsewhere.values()]
            for (key, file), value in zip(elsewhere.items(), self._fetched(blobs, wave)):
                if value is not None:  # else removed in the meantime: a miss
                    self._check(key, f"/cas/{file.digest}", value, file, result)
            self._sound |= len(result) > 0
            self._slow = self._slow + 1 if self.round_trip > SLOW_SECONDS else 0
            if self._slow == SLOW_WAVES:
                self.turn_off(f"the last {SLOW_WAVES} replies took more than {SLOW_SECONDS:g} s each", noting=True)
            self._note_loss(wave.elapsed() - SLOW_SECONDS - SHARE_SECONDS * len(keys))
        except (OSError, BadReply) as error:
            self.turn_off(str(error) or type(error).__name__, noting=isinstance(error, OSError))
        return result

    def _note_loss(self, seconds: float) -> None:
        """Add the time by which a wave exceeded its allowance; turn off a server that is slow throughout."""
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
        self, key: str, name: str, message: bytes, values: dict[str, bytes], elsewhere: dict[str, OutputFile]
    ) -> None:
        """Record the inline bytes of a message for a key, or their address in /cas."""
        try:
            file = output_file(message)
        except Damaged as error:
            self._note_damage(f"/ac/{name} is damaged ({error})")
            return
        if file.contents is not None:
            self._check(key, f"/ac/{name}", file.contents, file, values)
        elif file.size > BLOB_LIMIT:
            self._note_damage(f"/ac/{name} is damaged (a row of {file.size} bytes)")
        else:
            elsewhere[key] = file

    def _check(self, key: str, path: str, value: bytes, file: OutputFile, values: dict[str, bytes]) -> None:
        """Accept bytes that match the digest and size in their message, are a row of the key's kind, and are signed if
        required."""
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
        values[key] = value

    def _fetched(self, requests: Sequence[Request], wave: Wave) -> list[bytes | None]:
        """Return the bodies of replies, None for 404; raises BadReply and OSError."""
        share = max(LEAST_SHARE, -(-len(requests) // CONNECTIONS))
        shares = [requests[n : n + share] for n in range(0, len(requests), share)]
        if len(shares) < 2:
            return [body for part in shares for body in self._exchange(part, wave)]
        from concurrent.futures import ThreadPoolExecutor

        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(CONNECTIONS, "tileiras-look-ups")
        return [body for part in self._threads.map(self._exchange, shares, [wave] * len(shares)) for body in part]

    def _note_damage(self, damage: str) -> None:
        with self._lock:
            self._damaged += 1
            first, useless = self._damaged == 1, self._damaged >= DAMAGED and not self._sound
        if useless:
            self.turn_off(f"nothing sound has come in {DAMAGED} replies")
        elif first:
            then = "rebuilt and replaced" if self.writes else "rebuilt"
            text = f"{_one_line(damage)}; artifacts that it cannot provide are {then}"
            self.tell_damage(f"remote cache {self.name}: {text}")

    def put(self, key: str, value: bytes) -> None:
        """Queue bytes for upload; left to the next build if the queue is full."""
        if not self.writes or self._is_off():
            return
        with self._lock:
            self._unfinished[key] = None
            if self._uploads is None:
                self._uploads = queue.Queue(WAITING)
                atexit.register(self.close)
                threading.Thread(target=self._upload, name="tileiras-uploads", daemon=True).start()
        try:
            self._uploads.put_nowait((key, value))
        except queue.Full:
            return

    def close(self) -> None:
        """Wait for the uploads while one finishes every DRAIN_SECONDS, for at most DRAIN_LIMIT; note the others."""
        uploads = self._uploads
        if uploads is None:
            return
        self._wait_for(uploads)
        self._note_unfinished()

    def _wait_for(self, uploads: queue.Queue[tuple[str, bytes]]) -> None:
        import time

        start = since = time.monotonic()
        count = uploads.unfinished_tasks
        with uploads.all_tasks_done:
            while uploads.unfinished_tasks and self.failure is None:
                now = time.monotonic()
                if uploads.unfinished_tasks < count:
                    count, since = uploads.unfinished_tasks, now
                if now - since > DRAIN_SECONDS or now - start > DRAIN_LIMIT:
                    return
                uploads.all_tasks_done.wait(0.05)

    # ---- uploads that have not ended: `notes` has a file of keys beside it -------------------------------------------

    def _unfinished_path(self) -> str:
        import hashlib

        assert self._notes is not None
        name = hashlib.sha256(self.name.encode()).hexdigest()[:16]
        return os.path.join(os.path.dirname(self._notes), f"uploads-{name}")

    def _note_unfinished(self) -> None:
        """Note the keys of uploads that have not ended, and state their number unless the server is off."""
        with self._lock:
            keys, self._unfinished = list(self._unfinished), {}
        if not keys or self._notes is None:
            return
        try:
            # Several workers may end at a time: each appends in one piece.
            descriptor = os.open(self._unfinished_path(), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.write(descriptor, "".join(f"{key}\n" for key in keys).encode())
            finally:
                os.close(descriptor)
        except OSError:
            return  # misses for the team
        if self.failure is None:
            count = plural(len(keys), "upload")
            self.warn(f"remote cache {self.name}: {count} did not end in time; the next build that writes resumes them")

    def take_unfinished(self) -> list[str]:
        """Take over the keys that earlier builds have noted; empty if another process has taken them."""
        if self._notes is None or not self.writes:
            return []
        path = f"{self._unfinished_path()}.{os.getpid()}"
        try:
            os.rename(self._unfinished_path(), path)
            with open(path, encoding="utf-8") as file:
                keys = file.read().split("\n")
            os.unlink(path)
        except (OSError, UnicodeDecodeError):
            return []
        return list(dict.fromkeys(filter(None, keys)))

    def _upload(self) -> None:
        import hashlib

        uploads = self._uploads
        assert uploads is not None
        while True:
            key, value = uploads.get()
            try:
                if self.failure is None:
                    digest = hashlib.sha256(value).hexdigest()
                    # The bytes must precede the message: it must not name a blob that does not exist yet.
                    inline = len(value) <= INLINE
                    if not inline:
                        self._exchange([Request("PUT", "/cas/" + digest, value)], self._wave(1))
                    name = _name(key)
                    signature = self.signing.sign(name, digest, len(value)) if self.signing is not None else None
                    message = action_result(digest, len(value), value if inline else None, signature)
                    self._exchange([Request("PUT", "/ac/" + name, message)], self._wave(1))
                    with self._lock:
                        self._unfinished.pop(key, None)
            except (OSError, BadReply) as error:
                self.turn_off(str(error) or type(error).__name__)
            finally:
                uploads.task_done()

    def _exchange(self, requests: Sequence[Request], wave: Wave) -> list[bytes | None]:
        """Return the bodies of the replies to this thread's requests, None for 404; raises OSError or BadReply."""
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
        """Stop using the server, with a warning that states the reason; with `noting`, other processes stop for
        REST_SECONDS too."""
        failure = _one_line(failure)
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

    def _failure_of_others(self) -> str | None:
        """Return the reason for which another process turned the server off, if less than REST_SECONDS ago."""
        if self._notes is None:
            return None
        import time

        row = read_json_object(self._notes)
        failure, since = row.get("failure"), row.get("time")
        if row.get("server") != self.name or not isinstance(failure, str) or not isinstance(since, (int, float)):
            return None
        age = time.time() - since
        if not 0 <= age < REST_SECONDS:
            return None
        return f"{failure}, {age:.0f} s ago, and it is asked again in {REST_SECONDS - age:.0f} s"

    def _is_off(self) -> bool:
        """Whether the server is off; warn if another process turned it off and the warning has not been given."""
        if self.failure is not None and not self._told:
            self._told = True
            self.warn(f"remote cache {self.name}: {self.failure}; done without for this build")
        return self.failure is not None


def _one_line(text: str) -> str:
    """Shorten and sanitize text that may come from a server: one line of printable characters."""
    line = "".join(sign if sign.isprintable() else "?" for sign in text[: TOLD + 1])
    return line if len(line) <= TOLD else line[:TOLD] + "..."


def _name(key: str) -> str:
    import hashlib

    return hashlib.sha256(f"tileiras {key}".encode()).hexdigest()
