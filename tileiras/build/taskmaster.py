"""What SCons' task master is told besides: which artifacts are not as they were made, and what ends a cycle.

SCons compares the sources and the action of a target with what it noted, and takes the target's own content for
granted.  `install` has every task ask first, when what it is made from is up to date: a target whose content is not
what a build made of it is rebuilt.

Building on after an error (`scons -k`), SCons 4.11 may end with "Found dependency cycle(s)".  A node that is looked at
after one of its children has failed is marked as failed, but what waits for it is not told, and stays in the list in
which SCons looks for cycles at the end.  Which nodes come late depends on the order of the targets: the default, the
whole folder, is enough for a chain of three.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import SCons.Node
import SCons.Script
import SCons.Taskmaster

_is_stale: Callable[[Sequence[Any]], bool] | None = None
_may_run: Callable[[Sequence[Any], bool], None] | None = None
_asked_for: Callable[[Sequence[Any]], None] | None = None


class Taskmaster(SCons.Taskmaster.Taskmaster):
    def __init__(self, targets: Any = (), tasker: Any = None, *further: Any, **keywords: Any) -> None:
        if tasker is not None and tasker.make_ready is not SCons.Taskmaster.Task.make_ready_all:  # as -c has it
            tasker = _asking(tasker)
        if _asked_for is not None:
            _asked_for(targets)
        super().__init__(list(targets), tasker, *further, **keywords)

    def cleanup(self) -> None:
        if SCons.Script.GetOption("keep_going"):
            waiting = self.pending_children
            self.pending_children = {node for node in waiting if SCons.Taskmaster.find_cycle([node], set())}
        super().cleanup()


@functools.cache
def _asking(tasker: type) -> type:
    """A task class that makes stale targets again and, under -n, those of which a source may change."""

    def make_ready(self: Any) -> None:
        stale = _is_stale is not None and _is_stale(self.targets)
        # Nothing runs under -n, so that sources have the content of the last build.
        if _may_run is not None and SCons.Script.GetOption("no_exec") and _is_source_made(self.targets):
            current = not stale and _is_current(self.targets)
            _may_run(self.targets, current)
            stale |= current
        kept = [node.always_build for node in self.targets]
        for node in self.targets if stale else ():
            node.always_build = True
        try:
            tasker.make_ready(self)  # type: ignore[attr-defined]
        finally:
            for node, value in zip(self.targets, kept, strict=True):
                node.always_build = value

    return type(tasker.__name__, (tasker,), {"make_ready": make_ready})


def _is_source_made(targets: Sequence[Any]) -> bool:
    """Whether targets of an action have a source that the run would make."""
    executor = targets[0].get_executor()
    if executor is None or not executor.get_action_list():
        return False  # a source, an alias or a folder
    return any(child.get_state() == SCons.Node.executed for node in targets for child in node.children())


def _is_current(targets: Sequence[Any]) -> bool:
    """Whether targets are up to date as far as SCons can tell."""
    for node in targets:
        node.disambiguate().make_ready()
        if node.always_build or not node.is_up_to_date():
            return False
    return True


def install(
    asked_for: Callable[[Sequence[Any]], None],
    is_stale: Callable[[Sequence[Any]], bool],
    may_run: Callable[[Sequence[Any], bool], None],
) -> None:
    """SCons makes its task master when it has read all files.

    `asked_for` is told what the run is to build.  `is_stale` is asked for the targets of every task, which are to be
    rebuilt when it says so.  `may_run` is told, under `-n`, of those that have a source which would be made, and
    whether they are up to date but for that.
    """
    global _asked_for, _is_stale, _may_run
    _asked_for, _is_stale, _may_run = asked_for, is_stale, may_run
    SCons.Taskmaster.Taskmaster = Taskmaster
