"""Changes of files, as the operating system tells of them: folders that are observed, and what stands in for that."""

from __future__ import annotations

import contextlib
import os
import queue
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

POLL = 0.5
"""The same where there are no events at all."""


def folders_in(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.path for entry in entries if entry.name[0] != "." and entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def outermost(folders: Sequence[str]) -> list[str]:
    """The folders without those inside another; a folder that is not there is left out."""
    kept: list[str] = []
    for folder in sorted({os.path.realpath(folder or os.curdir) for folder in folders}):
        if os.path.isdir(folder) and not any(folder.startswith(outer + os.sep) for outer in kept):
            kept.append(folder)
    return kept


@contextlib.contextmanager
def observed(
    trees: Sequence[str],
    folders: Sequence[str],
    events: queue.SimpleQueue[float],
    error: Callable[[str], None],
    poll: bool,
) -> Iterator[bool]:
    """Has every change below `trees` and in `folders` put the time into `events`; False where that is not to be had.

    Folders, never files: what an editor renames over a file is another one.
    """
    if poll:
        yield False
        return
    import logging

    from watchdog.events import FileSystemEventHandler
    from watchdog.observers import Observer

    # It complains of its own threads that are stopped soon after their start.
    logging.getLogger("watchdog").addHandler(logging.NullHandler())

    class Handler(FileSystemEventHandler):
        def on_any_event(self, event: Any) -> None:
            if event.event_type not in ("opened", "closed_no_write"):
                events.put(time.monotonic())

    observer = Observer()
    try:
        for tree in trees:
            observer.schedule(Handler(), tree, recursive=True)
        for folder in folders:
            if folder not in trees:
                observer.schedule(Handler(), folder, recursive=False)
        observer.start()
        # Of folders further down, watchdog keeps to itself that there was no watch left for them.
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
