"""The database below an artifact store: diskcache's FanoutCache, each of its shards opened when a row of it is wanted.

Opening one takes some 5 ms, eight of them longer than many compilations.  Until something is written, and always where
nothing may be, rows are read through SQLite alone: diskcache writes whenever it opens a database.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Sequence
from typing import Any

SHARDS = 8

SIZE_LIMIT = 5 << 30
"""Bytes; what was used longest ago goes first."""


class DamagedEntry(ValueError):
    """A row that is not what was written."""


def open_cache(folder: str, limit: int = SIZE_LIMIT) -> Any:
    """The FanoutCache in a folder, made when it is not there; its shards raise sqlite3.DatabaseError or OSError."""
    _, fanout = _classes()
    return fanout(folder, limit)


# How diskcache says that a value is in its row, or in a file of its own.
_IN_ROW, _IN_FILE = _PLAIN = (1, 2)


@functools.cache
def _classes() -> tuple[Any, Any]:
    """The Disk and the FanoutCache; diskcache takes 12 ms to load."""
    import diskcache

    class BytesDisk(diskcache.Disk):
        """Keys are str and values bytes; a row of any other kind is damaged: diskcache's pickles could run code."""

        def put(self, key: str) -> tuple[str, bool]:
            return key, True

        def get(self, key: Any, raw: bool) -> Any:
            if not raw:
                raise DamagedEntry("an entry's key is a pickle")
            return key

        def fetch(self, mode: int, filename: Any, value: Any, read: bool) -> Any:
            if mode not in _PLAIN:
                raise DamagedEntry("an entry is not plain bytes")
            return super().fetch(mode, filename, value, read)

    class Shards(Sequence):
        """What FanoutCache has as a tuple."""

        def __init__(self, folder: str, limit: int) -> None:
            self._folder = folder
            self._limit = limit
            self._open: dict[int, Any] = {}

        def __len__(self) -> int:
            return SHARDS

        def __getitem__(self, number: int) -> Any:
            if number not in range(SHARDS):
                raise IndexError(number)
            shard = self._open.get(number)
            if shard is None:
                shard = self._open[number] = diskcache.Cache(
                    shard_folder(self._folder, number),
                    timeout=5.0,
                    disk=BytesDisk,
                    size_limit=self._limit // SHARDS,
                    eviction_policy="least-recently-used",
                    # Nothing waits for the disk: what a power failure damages is found by its digest, or set aside.
                    sqlite_synchronous=0,
                )
            return shard

        def opened(self) -> list[Any]:
            return list(self._open.values())

    class LazyFanoutCache(diskcache.FanoutCache):
        def __init__(self, folder: str, limit: int) -> None:
            # As the constructor of diskcache 5.6 does, without opening anything.
            self._count = SHARDS
            self._directory = folder
            self._disk = BytesDisk
            self._shards = Shards(folder, limit)
            self._hash = BytesDisk(folder).hash
            self._caches, self._deques, self._indexes = {}, {}, {}

        def close(self) -> None:
            for shard in self._shards.opened():
                shard.close()

    return BytesDisk, LazyFanoutCache


def timeouts() -> tuple[type[Exception], ...]:
    """What diskcache raises for a database that another process holds; nothing while it is not loaded."""
    diskcache = sys.modules.get("diskcache")
    return (diskcache.Timeout,) if diskcache is not None else ()


def shard_folder(folder: str, number: int) -> str:
    return os.path.join(folder, f"{number:03d}")


class Rows:
    """`get` on the rows of a FanoutCache through SQLite alone, which a process that reads few of them is done with
    before diskcache is loaded and has opened a shard.

    Without `noting` nothing is written: no use is noted, no file is made.
    """

    def __init__(self, folder: str, noting: bool) -> None:
        self._folder = folder
        self._noting = noting
        self._shards: dict[int, Any] = {}

    def get(self, key: str) -> Any:
        """Raises sqlite3.Error, OSError or DamagedEntry."""
        import sqlite3

        number = shard_number(key)
        connection = self._connection(number)
        if connection is None:
            return None
        query = "SELECT rowid, mode, filename, value FROM Cache WHERE key = ? AND raw = 1"
        try:
            found = connection.execute(query, (key,)).fetchall()
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):
                return None  # another process is about to make it
            raise
        for row, mode, filename, value in found:
            if mode not in _PLAIN:
                raise DamagedEntry("an entry is not plain bytes")
            if mode == _IN_FILE:
                try:
                    with open(os.path.join(shard_folder(self._folder, number), filename), "rb") as file:
                        value = file.read()
                except FileNotFoundError:
                    return None  # removed since
            if self._noting:
                self._note_use(connection, row)
            return value
        return None

    @staticmethod
    def _note_use(connection: Any, row: int) -> None:
        """What decides about the rows to go when the store is full."""
        import sqlite3
        import time

        try:
            connection.execute("UPDATE Cache SET access_time = ? WHERE rowid = ?", (time.time(), row))
        except sqlite3.OperationalError:
            pass  # a database that is held or cannot be written; the row is as good

    def _connection(self, number: int) -> Any:
        import sqlite3

        if number not in self._shards:
            path = os.path.join(shard_folder(self._folder, number), "cache.db")
            connection = None
            if not os.path.isfile(path):
                # Whoever opens it for writing makes it.
                return None
            if self._noting:
                connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=5.0)
                connection.execute("PRAGMA synchronous = 0")
            else:
                from urllib.parse import quote

                # Readers of a database with a write-ahead log share memory through a file beside it.  Where that cannot
                # be made nobody writes either, unless on another machine: then rows are stale or damaged, both misses.
                for mode in ("mode=ro", "immutable=1"):
                    connection = sqlite3.connect(
                        f"file:{quote(path)}?{mode}", uri=True, check_same_thread=False, timeout=5.0
                    )
                    try:
                        connection.execute("SELECT COUNT(*) FROM Settings").fetchone()
                        break
                    except sqlite3.OperationalError:
                        connection.close()
                        connection = None
            self._shards[number] = connection
        return self._shards[number]

    def close(self) -> None:
        for connection in self._shards.values():
            if connection is not None:
                connection.close()
        self._shards.clear()


def shard_number(key: str) -> int:
    """Where diskcache keeps a row."""
    import zlib

    return (zlib.adler32(key.encode()) & 0xFFFFFFFF) % SHARDS


def set_aside(folder: str, key: str) -> bool:
    """Renames the shards whose database cannot be read, or else the one with `key`, which something is wrong with.

    True when one was renamed.
    """
    found = False
    for number in range(SHARDS):
        shard = shard_folder(folder, number)
        if os.path.exists(os.path.join(shard, "cache.db")) and not _sound(os.path.join(shard, "cache.db")):
            found |= _rename_damaged(shard)
    return found or _rename_damaged(shard_folder(folder, shard_number(key)))


def _sound(path: str) -> bool:
    import sqlite3

    try:
        connection = sqlite3.connect(path)
        try:
            connection.execute("SELECT COUNT(*) FROM Settings").fetchone()
            connection.execute("SELECT COUNT(*) FROM Cache").fetchone()
            return connection.execute("PRAGMA quick_check(1)").fetchone() == ("ok",)
        finally:
            connection.close()
    except sqlite3.OperationalError as error:
        # A database that another process holds is sound, and so is one whose disk is full or read-only.
        return any(word in str(error) for word in ("locked", "full", "readonly"))
    except (sqlite3.DatabaseError, UnicodeDecodeError):
        # The latter when SQLite quotes what it cannot read.
        return False


def _rename_damaged(shard: str) -> bool:
    import shutil

    aside = shard + ".damaged"
    shutil.rmtree(aside, ignore_errors=True)
    try:
        os.rename(shard, aside)
    except OSError:
        return False
    return True
