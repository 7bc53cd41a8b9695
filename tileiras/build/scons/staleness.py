"""Callbacks of the Taskmaster: whether the artifacts of a stage may be kept, and which stages may run under `-n`."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import SCons.Script

from tileiras.build.run.execute import Session
from tileiras.build.scons.display import Display
from tileiras.build.step import Step
from tileiras.support.named_tuple import NamedTuple

MAY_RUN = "(may run)"
"""Marks a line of `-n` whose stage runs only if the previous stage produces a new result."""


class DeclaredStep(NamedTuple):
    """The step that a task of this package performs, and its session."""

    session: Session
    step: Step
    is_clean: bool
    """Whether the manifest has shown that all of the kernel's artifacts are unchanged."""


class TaskCallbacks:
    """The callbacks of one run of SCons; `step_of` returns the declared step of a task's targets."""

    def __init__(self, step_of: Callable[[Sequence[Any]], DeclaredStep | None], display: Display) -> None:
        self._step_of = step_of
        self._display = display
        self._may_run: set[Any] = set()

    def is_stale(self, targets: Sequence[Any]) -> bool:
        """Whether artifacts differ from those that their current step makes of its current input."""
        task = self._step_of(targets)
        if task is None or task.is_clean:
            return False
        staleness = task.session.staleness(task.step)
        if staleness.digests is not None:
            task.session.know(task.step, staleness.digests)
            return False
        if staleness.damaged is not None and not SCons.Script.GetOption("question"):
            self._display.silent = bool(SCons.Script.GetOption("silent"))
            path = os.path.relpath(staleness.damaged)
            self._display.note(f"tileiras: {path} differs from its stage's output: rebuilding it")
        return True

    def may_run(self, targets: Sequence[Any], current: bool) -> None:
        """Under `-n`: record targets with a source that would be built; they are rebuilt if the source changes.

        Targets that are not `current` are certainly rebuilt, except that SCons takes a damaged source, which the run
        would repair, for a new one.
        """
        task = self._step_of(targets)
        if task is not None:
            if current or task.session.may_be_kept(task.step):
                self._may_run.update(targets)
        elif current and not SCons.Script.GetOption("silent"):
            # The next line is the command, as SCons prints it.
            print(f"{MAY_RUN} {targets[0]}:")

    def mark(self, target: Any) -> str:
        """Return the suffix of a stage's line under `-n`."""
        return f" {MAY_RUN}" if target in self._may_run else ""
