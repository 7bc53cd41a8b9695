"""File-system events of the operating system for watched folders, with polling as the fallback."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Container, Iterator, Sequence
from typing import Any

from tileiras.build.watch.debounce import CLOSED, RENAMED, WRITING, Events, Seen
from tileiras.stages.units import SUFFIXES

POLL = 0.5
"""Seconds between two checks without events."""


def folders_in(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.path for entry in entries if entry.name[0] != "." and entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def outermost(folders: Sequence[str]) -> list[str]:
    """Return the folders without nested and absent ones."""
    result: list[str] = []
    for folder in sorted({os.path.realpath(folder or os.curdir) for folder in folders}):
        if os.path.isdir(folder) and not any(folder.startswith(outer + os.sep) for outer in result):
            result.append(folder)
    return result


@contextlib.contextmanager
def observed(
    trees: Sequence[str],
    folders: Sequence[str],
    events: Events,
    error: Callable[[str], None],
    poll: bool,
    scripts: Container[str] = (),
) -> Iterator[bool]:
    """Put every change below `trees` and in `folders` into `events`; yield False if events are unavailable.

    Files that are neither sources by name nor in `scripts`, which may grow, are ignored, as editors' backup files.

    Only folders are watched, not files: a file that an editor renames over another has another inode.
    """
    if poll:
        yield False
        return
    import logging

    from watchdog.events import FileSystemEventHandler
    from watchdog.observers import Observer

    # watchdog logs errors for observers stopped soon after their start.
    logging.getLogger("watchdog").addHandler(logging.NullHandler())

    class Handler(FileSystemEventHandler):
        def on_any_event(self, event: Any) -> None:
            kind = event.event_type
            # A modified folder is redundant: its changed entry has an event.
            if kind in ("opened", "closed_no_write") or (event.is_directory and kind == "modified"):
                return
            state = CLOSED if kind == "closed" else RENAMED if kind == "moved" else WRITING
            for path in filter(None, (event.src_path, getattr(event, "dest_path", ""))):
                path = os.fsdecode(path)
                if event.is_directory or path in scripts or _matters(path):
                    events.put(Seen(time.monotonic(), path, state))

    observer = _observer(Observer)
    try:
        for tree in trees:
            observer.schedule(Handler(), tree, recursive=True)
        for folder in folders:
            if folder not in trees:
                observer.schedule(Handler(), folder, recursive=False)
        observer.start()
        # watchdog does not report that no watch was left for a subfolder; adding one more watch detects that.
        with tempfile.TemporaryDirectory() as folder:
            observer.unschedule(observer.schedule(FileSystemEventHandler(), folder))
    except OSError as failure:
        observer.unschedule_all()
        observer.stop()
        error(
            f"warning: the system gives no more watches ({failure.strerror}); looking every {POLL} s instead. "
            "On Linux, raise fs.inotify.max_user_watches and fs.inotify.max_user_instances"
        )
        yield False
        return
    try:
        yield True
    finally:
        observer.stop()
        observer.join()


def _matters(path: str) -> bool:
    """Whether a file is a source by its name, or may be an SConscript."""
    suffix = os.path.splitext(path)[1].lower()
    return not suffix or suffix in SUFFIXES


def _observer(usual: Callable[[], Any]) -> Any:
    """Create an observer; on Linux, one that distinguishes a file renamed from elsewhere from one being written."""
    if sys.platform != "linux":
        return usual()
    from watchdog.observers.inotify import InotifyObserver

    return InotifyObserver(generate_full_events=True)
