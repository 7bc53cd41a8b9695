"""A small tree under a monitor."""

from __future__ import annotations

import os

from tileiras.build.watch.monitor.monitor import Monitor, Root

SEEN = (".mlir", ".py")


def root(path, suffixes=()) -> Root:
    state = os.stat(path)
    return Root(os.path.realpath(path), (state.st_dev, state.st_ino), tuple(suffixes))


def complete(monitor: Monitor) -> Monitor:
    while monitor.epoch is None and not monitor.lost:
        monitor.advance()
    return monitor


class Watched:
    """A tree under a monitor, and the files that have changed in it since the last query."""

    def __init__(self, path) -> None:
        self.path = path
        for name in ("a.mlir", "b.mlir", "sub/c.mlir", "sub/notes.txt"):
            (path / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
            (path / "tree" / name).write_text(name)
        (path / "notes").mkdir()
        self.monitor = complete(Monitor([root(path / "tree", SEEN)], str(path / "notes")))
        assert self.monitor.epoch is not None, self.monitor.lost
        self.token = self.monitor.now()

    def __truediv__(self, name: str):
        return self.path / "tree" / name

    def changed(self) -> set[str] | None:
        """The names of files that have changed since the last call; None if the monitor has given up."""
        self.monitor.check(self.monitor.roots)
        now = self.monitor.now()
        if now is None:
            return None
        since = self.monitor.since({self.token.epoch: self.token.number})
        self.token = now
        return None if since is None else {os.path.relpath(path, self.path / "tree") for path in since}
