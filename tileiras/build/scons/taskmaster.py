"""Patches SCons' Taskmaster: rebuilds damaged targets, and suppresses false dependency cycles under -k.

SCons compares the sources and the action of a target with its records, but not the target's own content.  `install`
adds a check to every task once its sources are up to date: a target whose content is not that of its last build is
rebuilt.

When SCons 4.11 continues after an error (`scons -k`), it may end with "Found dependency cycle(s)".  A node that is
visited after one of its children has failed is marked as failed, but its waiting parents are not notified and stay in
the list in which SCons searches for cycles at the end.  The order of the targets determines which nodes are visited
late: the default, the whole folder, is sufficient for a chain of three.
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
    """Derive a task class that rebuilds stale targets and, under -n, targets with a source that may change."""

    def make_ready(self: Any) -> None:
        stale = _is_stale is not None and _is_stale(self.targets)
        # No action runs under -n, so sources have the content of the last build.
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
    """Replace SCons' Taskmaster; must be called before SCons creates it, after reading all SConscripts.

    `asked_for` is called with the targets of the run.  `is_stale` is called with the targets of every task and returns
    whether to rebuild them.  `may_run` is called under `-n` with targets that have a source which would be built, and
    with whether they are otherwise up to date.
    """
    global _asked_for, _is_stale, _may_run
    _asked_for, _is_stale, _may_run = asked_for, is_stale, may_run
    SCons.Taskmaster.Taskmaster = Taskmaster
