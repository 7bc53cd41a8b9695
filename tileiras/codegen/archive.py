"""Archives of object files (`ar`, GNU variant), without a symbol table: linkers make one, as `ranlib` does."""

from __future__ import annotations

from collections.abc import Sequence

START = b"!<arch>\n"
HEAD = 60
"""Bytes of a member's header, the last ones but two the size."""


def archive(members: Sequence[bytes]) -> bytes:
    """The members, numbered; no dates, owners or modes of this machine."""
    parts = [START]
    for number, data in enumerate(members):
        head = f"{number}.o/".ljust(16) + "0".ljust(12) + "0".ljust(6) + "0".ljust(6) + "644".ljust(8)
        parts.append(f"{head}{len(data)}".ljust(58).encode() + b"`\n" + data + b"\n" * (len(data) % 2))
    return b"".join(parts)


def members(data: bytes) -> list[bytes]:
    """The members of an archive that `archive` has written; other bytes are one member."""
    if not data.startswith(START):
        return [data]
    result, place = [], len(START)
    while place < len(data):
        size = int(data[place + 48 : place + 58])
        result.append(data[place + HEAD : place + HEAD + size])
        place += HEAD + size + size % 2
    return result
