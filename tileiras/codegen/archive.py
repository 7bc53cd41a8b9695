"""Archives of object files (`ar`, GNU variant), without a symbol table: linkers make one, as `ranlib` does."""

from __future__ import annotations

from collections.abc import Sequence


def archive(members: Sequence[bytes]) -> bytes:
    """The members, numbered; no dates, owners or modes of this machine."""
    parts = [b"!<arch>\n"]
    for number, data in enumerate(members):
        head = f"{number}.o/".ljust(16) + "0".ljust(12) + "0".ljust(6) + "0".ljust(6) + "644".ljust(8)
        parts.append(f"{head}{len(data)}".ljust(58).encode() + b"`\n" + data + b"\n" * (len(data) % 2))
    return b"".join(parts)
