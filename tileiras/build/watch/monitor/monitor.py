"""Tracks the files below given folders that may have changed since a given point.

Every folder has a watch, for names, and every file has a watch, for content: the watch of a folder does not report
writes to one of its files through another name (a hard link) that is made later.

inotify does not report writes to a mapping (mmap(2)).  It reports that a file is opened and, once the last mapping is
gone, that a descriptor open for writing is closed.  An opened file therefore counts as possibly changing until the
system grants a read lease on it, which requires that no process has it open for writing or mapped writable (fcntl(2),
F_SETLEASE).

A monitor becomes `lost`, and restarts at the next request, if the event queue overflows, if folders are created,
removed or renamed, if file systems are mounted or unmounted, or if a hard link or a symbolic link appears.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
from collections.abc import Iterator, Mapping, Sequence

from tileiras.build.watch.monitor import inotify, mounts
from tileiras.build.watch.monitor.endpoint import COOKIE
from tileiras.support.named_tuple import NamedTuple

FOLDER_MASK = (
    inotify.CREATE | inotify.DELETE | inotify.MOVED_FROM | inotify.MOVED_TO | inotify.DELETE_SELF | inotify.MOVE_SELF
    | inotify.ATTRIB | inotify.ONLYDIR | inotify.DONT_FOLLOW
)  # fmt: skip
CHANGES = inotify.MODIFY | inotify.ATTRIB | inotify.CLOSE_WRITE | inotify.DELETE_SELF | inotify.MOVE_SELF
COOKIE_MASK = inotify.CREATE | inotify.ONLYDIR | inotify.DONT_FOLLOW

MOST_CHANGES = 4096
"""Maximum number of changed files that are remembered; beyond it, every file counts as changed."""

ROUNDS = 4
"""Maximum number of checks, for one answer, of files that are opened repeatedly."""


class Root(NamedTuple):
    """A watched folder."""

    path: str
    """Its real path."""
    identity: tuple[int, int]
    """Device and inode that the client sees at this path."""
    suffixes: tuple[str, ...]
    """Suffixes of the files whose content is watched (empty: all files).  Of other files only the names are watched."""


class Token(NamedTuple):
    """A point in the life of one monitor."""

    epoch: str
    """Unique identifier of the monitor, assigned once all its watches exist."""
    number: int


class Unwatchable(Exception):
    """The folders cannot be watched reliably; the message gives the reason."""


def is_hidden(name: str) -> bool:
    """Whether files and folders of this name are excluded from the watched tree."""
    return name.startswith(".") or name == "__pycache__"


class Monitor:
    """Watches `roots`, and `notes`, the folder in which clients create cookie files to synchronize with the queue."""

    def __init__(self, roots: Sequence[Root], notes: str) -> None:
        """Raise Unwatchable, and OSError if the system's limit of queues is reached."""
        self.roots = list(roots)
        self.lost = ""
        """The reason for which the monitor can no longer answer; empty while it can."""
        self.epoch: str | None = None
        """None until every folder and file has a watch."""
        self.files = 0
        self._mounts = self._around()
        self._queue = inotify.Inotify()
        self._number = 0
        self._floor = 0
        """Changes with lower numbers are no longer remembered completely."""
        self._changes: dict[str, int] = {}
        self._folders: dict[int, str] = {}
        self._files: dict[int, str] = {}
        self._watches: dict[str, int] = {}
        self._opened: set[str] = set()
        """Files that may be open for writing."""
        self._busy: set[str] = set()
        """Files found to be open for writing."""
        self._cookies: set[str] = set()
        try:
            self._notes = self._queue.add(notes, COOKIE_MASK)
        except OSError:
            self._queue.close()
            raise
        self._work = self._establish()

    def fileno(self) -> int:
        return self._queue.fileno()

    def close(self) -> None:
        self._work.close()
        self._queue.close()

    # ---- beginning ---------------------------------------------------------------------------------------------------

    def advance(self) -> None:
        """Add the watches of one more folder; set `epoch` once every folder and file has one."""
        if self.epoch is None and not self.lost:
            try:
                next(self._work)
            except StopIteration:
                self.drain()
                self.epoch = secrets.token_hex(16)
            except (Unwatchable, OSError) as reason:
                self.lost = _text(reason)

    def _establish(self) -> Iterator[None]:
        for root in self.roots:
            state = os.lstat(root.path)
            if (state.st_dev, state.st_ino) != root.identity or not stat.S_ISDIR(state.st_mode):
                raise Unwatchable(f"{root.path} is not the folder of the request")
            stack = [root.path]
            while stack:
                folder = stack.pop()
                # The watch must precede the scan: an entry created meanwhile causes an event or is listed.
                self._folders[self._queue.add(folder, FOLDER_MASK)] = folder
                names = []
                with os.scandir(folder) as entries:
                    for entry in entries:
                        if is_hidden(entry.name):
                            continue
                        if entry.is_symlink():
                            raise Unwatchable(f"{entry.path} is a symbolic link")
                        if entry.is_dir(follow_symlinks=False):
                            stack.append(entry.path)
                        elif self._matters(entry.path):
                            names.append(entry.path)
                for name in names:
                    self._settle(name)
                self.drain()
                yield

    def _around(self) -> list[tuple[str, str]]:
        """Return the mounts that contain the roots; raises Unwatchable and OSError."""
        table = mounts.mounts()
        result = []
        for root in self.roots:
            own, below = mounts.around(root.path, table)
            if below:
                raise Unwatchable(f"something is mounted at {below[0].point}")
            if own is None or own.kind not in mounts.LOCAL:
                raise Unwatchable(f"{root.path} is on a file system of kind {own.kind if own else 'unknown'}")
            result.append((own.identifier, own.point))
        return result

    def _matters(self, path: str) -> bool:
        """Whether the content of a file is watched: one of the roots that contain it includes its suffix."""
        inside = [root for root in self.roots if path.startswith(root.path + os.sep)]
        return any(not root.suffixes or path.endswith(root.suffixes) for root in inside)

    # ---- events ------------------------------------------------------------------------------------------------------

    def drain(self) -> None:
        """Process all queued events."""
        while not self.lost:
            events = self._queue.read()
            if not events:
                return
            for event in events:
                self._take_in(event)

    def _take_in(self, event: inotify.Event) -> None:
        mask = event.mask
        if mask & (inotify.Q_OVERFLOW | inotify.UNMOUNT):
            self._lose("events were lost" if mask & inotify.Q_OVERFLOW else "a file system was unmounted")
        elif event.watch == self._notes:
            if event.name.startswith(COOKIE):
                self._cookies.add(event.name)
            elif mask & inotify.IGNORED:
                self._lose("the folder of a build's notes is gone")
        elif event.watch in self._folders:
            self._of_folder(event, self._folders[event.watch])
        elif event.watch in self._files:
            self._of_file(event, self._files[event.watch])

    def _of_folder(self, event: inotify.Event, folder: str) -> None:
        if event.name == "__pycache__" or (is_hidden(event.name) and not event.mask & inotify.ISDIR):
            return
        path = os.path.join(folder, event.name) if event.name else folder
        if event.mask & inotify.ISDIR or not event.name:
            self._lose(f"{path} was made, removed, renamed, or its rights were changed")
            return
        self._note(path)
        if event.mask & (inotify.CREATE | inotify.MOVED_TO):
            self._watches.pop(path, None)
            self._opened.add(path)

    def _of_file(self, event: inotify.Event, path: str) -> None:
        if event.mask & inotify.IGNORED:
            del self._files[event.watch]
            if self._watches.get(path) == event.watch:
                del self._watches[path]
            return
        if event.mask & CHANGES:
            self._note(path)
        if event.mask & (inotify.OPEN | inotify.ATTRIB):  # a new hard link is reported as IN_ATTRIB
            self._opened.add(path)

    def _note(self, path: str) -> None:
        self._number += 1
        self._changes[path] = self._number
        if len(self._changes) > MOST_CHANGES:
            self._changes.clear()
            self._floor = self._number

    def _lose(self, reason: str) -> None:
        self.lost = self.lost or reason

    # ---- files that may be open for writing --------------------------------------------------------------------------

    def settle(self, most: int | None = None) -> None:
        """Check whether opened files may still be written to; at most `most` files."""
        for path in sorted(self._opened - self._busy)[:most]:
            self._settle(path)

    def _settle(self, path: str) -> None:
        self._opened.discard(path)
        try:
            self._arm(path)
        except FileNotFoundError:
            self._busy.discard(path)
        except (Unwatchable, OSError) as reason:
            self._lose(_text(reason))

    def _arm(self, path: str) -> None:
        """Add a watch to a file and record whether it is open for writing; raises Unwatchable and OSError."""
        if not self._matters(path):
            if os.path.islink(path):
                raise Unwatchable(f"{path} is a symbolic link")
            return
        watch = self._watches.get(path)
        if watch is not None:
            # Without OPEN in the mask, the open below causes no event.  Another process that opens the file meanwhile
            # still has it open when the lease is requested, or has closed it, which is an event.
            self._queue.add(path, CHANGES | inotify.DONT_FOLLOW)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as reason:
            if reason.errno == errno.ELOOP:
                raise Unwatchable(f"{path} is a symbolic link") from None
            raise
        try:
            # Through the descriptor: the path may name another file by now.
            watch = self._queue.add(f"/proc/self/fd/{descriptor}", CHANGES | inotify.OPEN)
            self._watches[path] = watch
            self._files[watch] = path
            self.files = len(self._files)
            state = os.fstat(descriptor)
            if not stat.S_ISREG(state.st_mode):
                raise Unwatchable(f"{path} is no regular file")
            if state.st_nlink > 1:
                raise Unwatchable(f"{path} has another name, too (a hard link)")
            if _is_open_for_writing(descriptor):
                self._busy.add(path)
            elif path in self._busy:
                self._busy.discard(path)
                self._note(path)  # writes to a mapping since the last answer
        finally:
            os.close(descriptor)

    # ---- answers -----------------------------------------------------------------------------------------------------

    def saw(self, cookie: str) -> bool:
        """Whether the event of a client's cookie file has been processed, and with it all earlier events."""
        if cookie in self._cookies:
            self._cookies.clear()
            return True
        return False

    def check(self, roots: Sequence[Root]) -> None:
        """Lose the monitor unless its mounts are unchanged and its roots and the client's are the same folders."""
        try:
            if self._around() != self._mounts:
                self._lose("a file system was mounted")
            for root in {*self.roots, *roots}:
                state = os.lstat(root.path)
                if (state.st_dev, state.st_ino) != root.identity:
                    self._lose(f"{root.path} is another folder now")
        except (Unwatchable, OSError) as reason:
            self._lose(_text(reason))

    def now(self) -> Token | None:
        """Return the token after all queued events, once every opened file has been checked; None if lost."""
        for path in sorted(self._busy):
            self._settle(path)
        for _ in range(ROUNDS):
            self.drain()
            if not self._opened - self._busy:
                break
            self.settle()
        self.drain()
        return Token(self.epoch, self._number) if self.epoch is not None and not self.lost else None

    def since(self, tokens: Mapping[str, int]) -> dict[str, int] | None:
        """Return the files that may have changed since the token of this epoch, with the number of their last change;
        None for all files.

        Files open for writing are included until a check finds them closed.
        """
        number = tokens.get(self.epoch or "")
        if number is None or number < self._floor:
            return None
        result = {path: changed for path, changed in self._changes.items() if changed > number}
        for path in self._busy | self._opened:
            result[path] = self._number + 1
        return result


def _is_open_for_writing(descriptor: int) -> bool:
    """Whether any process has a file open for writing or mapped writable; raises OSError if the system refuses the
    lease for another reason (files of other users, and some file systems)."""
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except BlockingIOError:
        return True
    fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return False


def _text(reason: BaseException) -> str:
    if isinstance(reason, OSError) and reason.errno == errno.ENOSPC:
        return "the system gives no more watches: raise fs.inotify.max_user_watches"
    return str(reason)
