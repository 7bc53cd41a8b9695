"""Maintenance of an artifact store: statistics, verification, trimming and clearing.

Every function opens the database by itself and closes it; builds may use the store at the same time.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from tileiras.build.store.local import OFF, checked, folder_of
from tileiras.build.store.schema import check_row
from tileiras.build.store.shards import SHARDS, Shards, shard_folder
from tileiras.pipeline import BY_NAME

OTHER = "other"
"""Statistics row of entries that are not records of stages: parts of libdevice, inputs of sources."""


def exists(directory: str) -> bool:
    """Whether the store exists; opening it would create it."""
    return directory != OFF and os.path.isdir(folder_of(directory))


@contextlib.contextmanager
def _shards(directory: str) -> Iterator[list[Any]]:
    if not exists(directory):
        yield []
        return
    cache = Shards(folder_of(directory))
    try:
        yield list(cache)
    finally:
        cache.close()


def _stage(key: str) -> str:
    """The stage in a key: `ptx:0123...` is a record of `ptx`, `compile:0123...` one of a whole compilation."""
    stage, _, rest = key.partition(":")
    return stage if stage in (*BY_NAME, "compile") and ":" not in rest else OTHER


def statistics(directory: str) -> dict[str, Any]:
    """Entries and bytes in all and by stage, and the limit, all in bytes; raises sqlite3.DatabaseError."""
    stages: dict[str, dict[str, int]] = {}
    size = 0
    limit = 0
    with _shards(directory) as shards:
        for shard in shards:
            size += shard.volume()
            limit += shard.size_limit
            query = "SELECT key, size, length(value) FROM Cache"
            for key, file_size, value_size in shard._sql(query).fetchall():
                row = stages.setdefault(_stage(str(key)), {"entries": 0, "bytes": 0})
                row["entries"] += 1
                row["bytes"] += file_size or value_size or 0
    return {
        "directory": directory,
        "entries": sum(row["entries"] for row in stages.values()),
        "bytes": size,
        "limit": limit,
        "stages": dict(sorted(stages.items())),
    }


def verify(directory: str) -> dict[str, Any]:
    """Read every row and remove those that are damaged or violate the schema; raises sqlite3.DatabaseError.

    Also removes files that no row names (left by a killed process) and rows whose file is missing.
    """
    import warnings

    checked_rows, damaged = 0, []
    repaired = 0
    with _shards(directory) as shards:
        for shard in shards:
            for key in list(shard):
                checked_rows += 1
                try:
                    row = shard.get(key)
                    if row is not None:
                        check_row(key, checked(row))
                except (ValueError, OSError):
                    damaged.append(key)
                    shard.delete(key)
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                shard.check(fix=True)
            repaired += len(warned)
    return {"directory": directory, "checked": checked_rows, "damaged": sorted(damaged), "repaired": repaired}


def trim(directory: str, size: int) -> dict[str, Any]:
    """Evict the least recently used rows until the store has at most `size` bytes, or its databases are empty."""
    removed = 0
    with _shards(directory) as shards:
        before = sum(shard.volume() for shard in shards)
        for shard in shards:
            # For this object only: the limit stored in the database is that of builds.
            shard.reset("size_limit", size // SHARDS, update=False)
            removed += shard.cull()
        after = sum(shard.volume() for shard in shards)
    return {"directory": directory, "removed": removed, "before": before, "bytes": after}


def clear(directory: str) -> dict[str, Any]:
    """Remove every row, and databases that were set aside as damaged."""
    import shutil

    removed = 0
    with _shards(directory) as shards:
        for shard in shards:
            removed += shard.clear()
    for number in range(SHARDS):
        shutil.rmtree(shard_folder(folder_of(directory), number) + ".damaged", ignore_errors=True)
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(directory, "imports.json"))
    return {"directory": directory, "removed": removed}
