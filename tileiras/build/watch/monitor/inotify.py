"""The subset of inotify(7) that the monitor uses.

watchdog, which watch mode uses, drops IN_Q_OVERFLOW and IN_UNMOUNT and reads with a delay in its own threads: a monitor
must see both events and must know when the queue is empty.
"""

from __future__ import annotations

import ctypes
import os
import struct
from typing import Any

from tileiras.support.named_tuple import NamedTuple

# sys/inotify.h
MODIFY, ATTRIB, CLOSE_WRITE, OPEN = 0x2, 0x4, 0x8, 0x20
MOVED_FROM, MOVED_TO, CREATE, DELETE, DELETE_SELF, MOVE_SELF = 0x40, 0x80, 0x100, 0x200, 0x400, 0x800
UNMOUNT, Q_OVERFLOW, IGNORED = 0x2000, 0x4000, 0x8000
ONLYDIR, DONT_FOLLOW, ISDIR = 0x1000000, 0x2000000, 0x40000000

_HEADER = struct.Struct("iIII")
"""Watch, mask, cookie, length of the name (struct inotify_event)."""

_READ = 1 << 16


class Event(NamedTuple):
    watch: int
    mask: int
    name: str
    """The name in the watched folder; empty for an event of the watched file or folder itself."""


class Inotify:
    """One queue of events; raises OSError if the system's limit of queues is reached."""

    def __init__(self) -> None:
        self._libc: Any = ctypes.CDLL(None, use_errno=True)
        self._descriptor = self._check(self._libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK))

    def fileno(self) -> int:
        return self._descriptor

    def add(self, path: str, mask: int) -> int:
        """Add a watch to an inode, or replace its mask; raises OSError (ENOSPC: no more watches)."""
        return self._check(self._libc.inotify_add_watch(self._descriptor, os.fsencode(path), ctypes.c_uint32(mask)))

    def _check(self, result: int) -> int:
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result

    def read(self) -> list[Event]:
        """Read some of the events in the queue; an empty list if the queue is empty."""
        try:
            data = os.read(self._descriptor, _READ)
        except BlockingIOError:
            return []
        events = []
        position = 0
        while position < len(data):
            watch, mask, _, length = _HEADER.unpack_from(data, position)
            position += _HEADER.size
            name = data[position : position + length].rstrip(b"\0")
            events.append(Event(watch, mask, os.fsdecode(name)))
            position += length
        return events

    def close(self) -> None:
        os.close(self._descriptor)
