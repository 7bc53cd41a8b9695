"""Which file system a folder is on, and whether another one is mounted below it."""

from __future__ import annotations

import os
import re

from tileiras.named_tuple import NamedTuple

LOCAL = ("ext4", "xfs", "btrfs", "tmpfs")
"""File systems all of whose changes are made through this system's kernel, which tells inotify of each.

Network and FUSE file systems change elsewhere; a layer of an overlay may be changed below it, and a file that is
written for the first time becomes another inode.
"""

_ESCAPE = re.compile(rb"\\([0-7]{3})")


class Mount(NamedTuple):
    """A line of /proc/self/mountinfo (proc(5))."""

    identifier: str
    point: str
    kind: str


def mounts() -> list[Mount]:
    """In the order in which they were made; raises OSError."""
    found = []
    with open("/proc/self/mountinfo", "rb") as file:
        for line in file:
            words = line.split()
            point = _ESCAPE.sub(lambda match: bytes([int(match[1], 8)]), words[4])
            kind = words[words.index(b"-", 6) + 1]
            found.append(Mount(words[0].decode(), os.fsdecode(point), os.fsdecode(kind)))
    return found


def around(folder: str, table: list[Mount]) -> tuple[Mount | None, list[Mount]]:
    """The mount that a folder is on, and those below it; the path is a real one."""
    own: Mount | None = None
    below = []
    for mount in table:
        point = mount.point.rstrip("/") + "/"
        if (folder + "/").startswith(point):
            # Of two at one point the later one hides the other.
            if own is None or len(mount.point) >= len(own.point):
                own = mount
        elif point.startswith(folder + "/"):
            below.append(mount)
    return own, below
