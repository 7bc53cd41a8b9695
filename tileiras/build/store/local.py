"""The artifact store: the artifacts of stages, keyed by their inputs.

Each stage run is one row, written atomically.  A row is a digest and a payload; the digest is checked whenever the row
is read.  A damaged row or database counts as absent, with one warning per process: a broken store may cost time but
never fails a build.  Rows are bytes; diskcache's pickles are refused, because a store that others can write to must not
be able to run code here.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from tileiras import build, inputs
from tileiras.build.store import schema
from tileiras.build.store.shards import SIZE_LIMIT, DamagedEntry, Rows, Shards, set_aside, timeouts
from tileiras.inputs import Input
from tileiras.support.files import store_directory
from tileiras.support.named_tuple import NamedTuple

if TYPE_CHECKING:
    from tileiras.build.store.remote import Remote

FORMAT = 1
_MAGIC = b"tileira\x01"
_DIGEST_SIZE = 16

OFF = "off"

MEMO = "imports.json"
"""Name of the file in a store's directory with facts about the compiler's own source files."""

READ_WRITE, READ_ONLY, REFRESH, VERIFY = "read-write", "read-only", "refresh", "verify"
MODES = (READ_WRITE, READ_ONLY, OFF, REFRESH, VERIFY)
"""Modes of using the store: `refresh` writes without look-ups, `verify` runs every stage and compares."""

MOST_ABSENT = 100_000
"""Maximum number of keys remembered as absent from the server; a watch runs for days."""


class Record(NamedTuple):
    """The results of one stage run.

    `artifacts` by suffix; `diagnostics` as encoded by `tileiras.stages.locations.encode_diagnostics`, to be reported
    again on a hit; `inputs` are the inputs that the stage read besides its input file.
    """

    artifacts: Mapping[str, bytes]
    diagnostics: Mapping[str, Any]
    inputs: tuple[Input, ...] = ()
    seconds: float = 0.0
    """Duration of the run."""

    @property
    def has_errors(self) -> bool:
        """Whether the diagnostics of the stage include errors."""
        return any(row[0] == "error" for row in self.diagnostics["diagnostics"])

    def to_bytes(self) -> bytes:
        head = {
            "artifacts": [[suffix, len(data)] for suffix, data in self.artifacts.items()],
            "diagnostics": self.diagnostics,
            **({"inputs": inputs.to_json(self.inputs)} if self.inputs else {}),
            "seconds": self.seconds,
        }
        text = json.dumps(head, sort_keys=True).encode()
        return struct.pack("<I", len(text)) + text + b"".join(self.artifacts.values())

    @classmethod
    def from_bytes(cls, data: bytes) -> Record:
        """Parse a record; raises ValueError if it is malformed."""
        try:
            (length,) = struct.unpack_from("<I", data)
            head = schema.head_of(data[4 : 4 + length])
            position = 4 + length
            artifacts = {}
            for suffix, size in head["artifacts"]:
                artifacts[suffix] = data[position : position + size]
                position += size
            if position != len(data):
                raise ValueError("record has the wrong length")
            rows = inputs.from_json(head["inputs"]) if "inputs" in head else ()
            return cls(artifacts, head["diagnostics"], rows, float(head.get("seconds", 0)))
        except (struct.error, KeyError, TypeError) as error:
            raise ValueError(f"not a record: {error}") from None


def default_directory(checkout: str | None) -> str:
    """`TILEIRAS_CACHE_DIR`, else the checkout's `cache/` when it is marked as one, else the user's cache directory."""
    path = os.environ.get("TILEIRAS_CACHE_DIR")
    if path:
        return path
    if checkout is not None:
        own = os.path.join(checkout, "cache")
        if os.path.isfile(os.path.join(own, "CACHEDIR.TAG")):
            return own
    return store_directory() or OFF


def default_mode() -> str:
    """`TILEIRAS_CACHE_MODE`, else read-write; raises ValueError for an unknown mode."""
    mode = os.environ.get("TILEIRAS_CACHE_MODE") or READ_WRITE
    if mode not in MODES:
        raise ValueError(f"TILEIRAS_CACHE_MODE={mode}: accepted are {', '.join(MODES)}")
    return mode


def size_limit() -> int:
    """`TILEIRAS_CACHE_SIZE` in bytes (`500M`, `20G`), else SIZE_LIMIT; raises ValueError if it is malformed."""
    text = os.environ.get("TILEIRAS_CACHE_SIZE")
    return SIZE_LIMIT if not text else parse_size(text)


def parse_size(text: str) -> int:
    """Bytes of `1000`, `64K`, `500M`, `20G` or `1T` (powers of 1024); raises ValueError."""
    scale = {"K": 10, "M": 20, "G": 30, "T": 40}.get(text[-1:].upper())
    digits = text[:-1] if scale is not None else text
    if not digits.isascii() or not digits.isdigit():
        raise ValueError(f"'{text}' is no size: accepted are bytes, or a number with K, M, G or T")
    return int(digits) << (scale or 0)


def directory_for(folder: str) -> str:
    """The store for work in `folder`: `default_directory` of the nearest enclosing checkout."""
    current = os.path.abspath(folder)
    while True:
        if os.path.isfile(os.path.join(current, "cache", "CACHEDIR.TAG")):
            return default_directory(current)
        above = os.path.dirname(current)
        if above == current:
            return default_directory(None)
        current = above


def folder_of(directory: str) -> str:
    """The database's folder in a store's directory."""
    return os.path.join(directory, f"v{FORMAT}")


_Result = TypeVar("_Result")


class ArtifactStore:
    """The rows of a folder, opened at the first use, backed by the server that the environment names.

    If `directory` is `off`, only the server is used; in mode `off`, neither.  Raises ValueError for an invalid address
    of the server.
    """

    def __init__(
        self, directory: str, warn: Callable[[str], None], mode: str = READ_WRITE, limit: int = SIZE_LIMIT
    ) -> None:
        self.directory = directory
        self.limit = limit
        self._warn = warn
        self._warned = False
        self._rows: Rows | None = None
        self._cache: Shards | None = None
        self._usable = directory != OFF and mode != OFF
        self._later: list[tuple[str, bytes]] | None = None
        self._ahead: dict[str, bytes] = {}
        """Rows from the server, by key, if the local store is not written."""
        self._absent: set[str] = set()
        """Keys that the server does not have."""
        self.remote: Remote | None = None
        if mode != OFF and os.environ.get("TILEIRAS_REMOTE_CACHE"):
            writable = self._usable and mode != READ_ONLY
            notes = os.path.join(directory, "server.json") if writable else None
            self.remote = build.store.remote.from_environment(warn, notes=notes)
            if self.remote is not None:
                self.remote.tell_damage = self.warn_once
                self.remote.check = schema.check_row
        self.mode = mode if self._usable or self.remote is not None else OFF
        for key in self.remote.take_unfinished() if self.remote is not None else ():
            value = self.get(key)
            if value is not None:  # else evicted: a miss for the team
                self.remote.put(key, value)

    def get(self, key: str) -> bytes | None:
        """Return the bytes stored under `key`; None if they are absent or damaged."""

        def read(cache: Rows) -> bytes | None:
            row = cache.get(key)
            return None if row is None else checked(row)

        return self._try(key, read, self._readable)

    @contextlib.contextmanager
    def writing_later(self) -> Iterator[None]:
        """Defer the writes of a block to its end, off the critical path; the block must not look up these rows."""
        self._later = []
        try:
            yield
        finally:
            rows, self._later = self._later, None
            for key, value in rows:
                self.put(key, value)

    def put(self, key: str, value: bytes) -> None:
        import xxhash

        if self._later is not None:
            self._later.append((key, value))
            return
        if self.mode != READ_ONLY:
            row = _MAGIC + xxhash.xxh3_128_digest(value) + value
            if self._cache is None and self._try(key, lambda rows: rows.add(key, row, self.limit), self._readable):
                return
            self._try(key, lambda cache: cache.set(key, row), self._writable)

    def get_record(self, key: str, ask: bool = True) -> Record | None:
        """Return the record of `key`; None in mode `refresh`.  `ask` as for `fetch`."""
        value = self.fetch(key, ask) if self.mode != REFRESH else None
        if value is None:
            return None
        try:
            record = Record.from_bytes(value)
            schema.check_names(key, record.artifacts)
            return record
        except ValueError as error:
            self._complain(error)
            return None

    def put_record(self, key: str, record: Record) -> None:
        self.publish(key, record.to_bytes())

    def fetch(self, key: str, ask: bool = True) -> bytes | None:
        """Like `get`; on a miss, query the team's server if `ask`, and store its row here."""
        value = self.get(key)
        return self._fetch([key], ask).get(key) if value is None and self.remote is not None else value

    def fetch_ahead(self, keys: Sequence[str]) -> dict[str, bytes]:
        """Return the rows of many keys with a single look-up on the server; `fetch` does not query these keys again."""
        result: dict[str, bytes] = {}
        for key in keys:
            value = self.get(key)
            if value is not None:
                result[key] = value
        return result | self._fetch([key for key in keys if key not in result], True)

    def _fetch(self, keys: Sequence[str], ask: bool) -> dict[str, bytes]:
        """Return the server's rows, fetched now or earlier, for keys that are not stored here."""
        if self.remote is None:
            return {}
        result = {key: self._ahead[key] for key in keys if key in self._ahead}
        missing = [key for key in keys if key not in result and key not in self._absent] if ask else []
        if len(self._absent) > MOST_ABSENT:
            self._absent.clear()
        for key, value in self.remote.get_many(missing).items():
            result[key] = value
            self.put(key, value)
            if not self._usable or self.mode == READ_ONLY:
                self._ahead[key] = value
        self._absent.update(key for key in missing if key not in result)
        return result

    def publish(self, key: str, value: bytes) -> None:
        """As `put`, and to the team's server."""
        self.put(key, value)
        if self.remote is not None and self.mode != READ_ONLY:
            self.remote.put(key, value)

    def close(self) -> None:
        if self.remote is not None:
            self.remote.close()
        self._close()

    @property
    def memo_path(self) -> str | None:
        """A file beside the rows for facts about the compiler's own source files."""
        writable = self._usable and self.mode != READ_ONLY
        return os.path.join(self.directory, MEMO) if writable else None

    @property
    def fingerprints_path(self) -> str | None:
        """A file for the fingerprints of this installation's code; see `CodeBase`."""
        import xxhash

        here = xxhash.xxh3_64_hexdigest(os.path.abspath(__file__).encode())
        return os.path.join(self.directory, f"code-{here}.json") if self.memo_path is not None else None

    def _try(self, key: str, use: Callable[[Any], _Result], opened: Callable[[], Any]) -> _Result | None:
        """Return the result of `use` on the database; None if it is disabled or fails.  A damaged database is set aside
        and replaced once."""
        if not self._usable:
            return None
        import sqlite3

        for again in (True, False):
            try:
                return use(opened())
            except (OSError, DamagedEntry, sqlite3.OperationalError, *timeouts()) as error:
                self._complain(error)
                return None
            # For a damaged database SQLite reports an error, or returns values on which diskcache fails in any way.
            except Exception as error:
                self._complain(error)
                if not again or self.mode == READ_ONLY or not set_aside(self.folder, key):
                    return None
                self._close()
        return None

    @property
    def folder(self) -> str:
        """The folder of the database, one per format."""
        return folder_of(self.directory)

    def _readable(self) -> Any:
        if self._cache is not None:
            return self._cache
        if self._rows is None:
            self._rows = Rows(self.folder, noting=self.mode != READ_ONLY)
        return self._rows

    def _writable(self) -> Any:
        if self._cache is None:
            self._cache = Shards(self.folder, self.limit)
        return self._cache

    def _close(self) -> None:
        for opened in (self._rows, self._cache):
            if opened is not None:
                opened.close()
        self._rows = self._cache = None

    def _complain(self, error: BaseException) -> None:
        self.warn_once(f"artifact store {self.directory}: {error}; artifacts that it cannot provide are rebuilt")

    def warn_once(self, message: str) -> None:
        """Warn, unless this store has warned before."""
        if not self._warned:
            self._warned = True
            self._warn(message)


def checked(row: bytes) -> bytes:
    """The value of a row; raises DamagedEntry."""
    import xxhash

    start = len(_MAGIC) + _DIGEST_SIZE
    if not isinstance(row, bytes) or not row.startswith(_MAGIC) or len(row) < start:
        raise DamagedEntry("damaged entry")
    value = row[start:]
    if xxhash.xxh3_128_digest(value) != row[len(_MAGIC) : start]:
        raise DamagedEntry("damaged entry")
    return value
