"""The database below an artifact store: shards as those of diskcache's FanoutCache, opened on first use.

Loading diskcache and opening a shard take some 10 ms, a tenth of a small compilation.  Therefore rows are read, and
small new ones written, through SQLite alone until a row has to be replaced, evicted or kept in a file.  Rows of a
read-only store always are, since diskcache writes whenever it opens a database.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Sequence
from typing import Any

SHARDS = 8

SIZE_LIMIT = 5 << 30
"""Bytes; the least recently used rows are evicted first."""


class DamagedEntry(ValueError):
    """A row whose content is not as it was written."""


# Modes of diskcache: the value is in the row, or in a file of its own.
_IN_ROW, _IN_FILE = _PLAIN = (1, 2)

_FILE_BYTES = 1 << 15
"""The least size of a value that diskcache stores in a file (its setting `disk_min_file_size`)."""

_INSERT = f"""
INSERT OR IGNORE INTO Cache (key, raw, store_time, access_time, size, mode, value)
SELECT :key, 1, :now, :now, 0, {_IN_ROW}, :row
WHERE :limit > (SELECT page_count * page_size FROM pragma_page_count, pragma_page_size)
             + (SELECT value FROM Settings WHERE key = 'size')
"""


class Shards(Sequence):
    """The shards in a folder, each opened on first use and created if missing; `get` and `set` as FanoutCache has them.
    Raises sqlite3.DatabaseError or OSError."""

    def __init__(self, folder: str, limit: int = SIZE_LIMIT) -> None:
        self._folder = folder
        self._limit = limit
        self._open: dict[int, Any] = {}

    def __len__(self) -> int:
        return SHARDS

    def __getitem__(self, number: Any) -> Any:
        if number not in range(SHARDS):
            raise IndexError(number)
        if number not in self._open:
            import diskcache

            self._open[number] = diskcache.Cache(
                shard_folder(self._folder, number),
                timeout=5.0,
                disk=_disk(),
                size_limit=self._limit // SHARDS,
                eviction_policy="least-recently-used",
                # No fsync: rows damaged by a power failure are detected by their digest, or the shard is set aside.
                sqlite_synchronous=0,
            )
        return self._open[number]

    def get(self, key: str) -> Any:
        """A row; None without the row, or while another process locks the shard."""
        shard = self[shard_number(key)]
        with contextlib.suppress(*timeouts()):
            return shard.get(key)
        return None

    def set(self, key: str, row: bytes) -> None:
        """Write a row, unless another process locks the shard."""
        shard = self[shard_number(key)]
        with contextlib.suppress(*timeouts()):
            shard.set(key, row)

    def close(self) -> None:
        for shard in self._open.values():
            shard.close()


@functools.cache
def _disk() -> Any:
    """The class of diskcache that stores rows; diskcache takes 12 ms to load."""
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

    return BytesDisk


def timeouts() -> tuple[type[Exception], ...]:
    """The exceptions of diskcache for a database locked by another process; empty while diskcache is not loaded."""
    diskcache = sys.modules.get("diskcache")
    return (diskcache.Timeout,) if diskcache is not None else ()


def shard_folder(folder: str, number: int) -> str:
    return os.path.join(folder, f"{number:03d}")


class Rows:
    """`get` and `add` on the rows of `Shards` through SQLite alone: a few rows take less time than loading diskcache
    and opening a shard.

    Without `noting` nothing is written: access times are not updated and no file is created.
    """

    def __init__(self, folder: str, noting: bool) -> None:
        self._folder = folder
        self._noting = noting
        self._shards: dict[int, Any] = {}

    def get(self, key: str) -> Any:
        """Raise sqlite3.Error, OSError or DamagedEntry."""
        import sqlite3

        number = shard_number(key)
        connection = self._connection(number)
        if connection is None:
            return None
        query = "SELECT rowid, mode, filename, value FROM Cache WHERE key = ? AND raw = 1"
        try:
            rows = connection.execute(query, (key,)).fetchall()
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):
                return None  # another process is about to create it
            raise
        for row, mode, filename, value in rows:
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

    def add(self, key: str, row: bytes, limit: int) -> bool:
        """Write a new row to a store of at most `limit` bytes; False if diskcache has to: the row is large or replaces
        another, its shard is full, locked or absent, or SQLite is older than 3.16."""
        import sqlite3
        import time

        connection = self._connection(shard_number(key)) if len(row) < _FILE_BYTES else None
        if connection is None:
            return False
        values = {"key": key, "row": row, "now": time.time(), "limit": limit // SHARDS}
        try:
            return connection.execute(_INSERT, values).rowcount == 1
        except sqlite3.OperationalError:
            return False

    @staticmethod
    def _note_use(connection: Any, row: int) -> None:
        """Update the access time of a row, by which rows are evicted from a full store."""
        import sqlite3
        import time

        try:
            connection.execute("UPDATE Cache SET access_time = ? WHERE rowid = ?", (time.time(), row))
        except sqlite3.OperationalError:
            pass  # the database is locked or read-only; the row is still valid

    def _connection(self, number: int) -> Any:
        import sqlite3

        if number not in self._shards:
            path = os.path.join(shard_folder(self._folder, number), "cache.db")
            connection = None
            if not os.path.isfile(path):
                # It is created by the first process that opens it for writing.
                return None
            if self._noting:
                connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=5.0)
                connection.execute("PRAGMA synchronous = 0")
            else:
                from urllib.parse import quote

                # Readers of a database with a write-ahead log share memory through a file beside it.  If that file
                # cannot be created, there is no writer, except on another machine: then rows may be stale or
                # damaged, and both are misses.
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
    """The shard in which diskcache keeps a row."""
    import zlib

    return (zlib.adler32(key.encode()) & 0xFFFFFFFF) % SHARDS


def set_aside(folder: str, key: str) -> bool:
    """Rename the shards whose database cannot be read; if all can, rename the shard of `key`, whose access failed.

    Returns whether a shard was renamed.
    """
    result = False
    for number in range(SHARDS):
        shard = shard_folder(folder, number)
        if os.path.exists(os.path.join(shard, "cache.db")) and not _sound(os.path.join(shard, "cache.db")):
            result |= _rename_damaged(shard)
    return result or _rename_damaged(shard_folder(folder, shard_number(key)))


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
        # UnicodeDecodeError arises when SQLite quotes undecodable bytes.
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
