"""What SCons asks before a task: whether the artifacts of a stage may be kept, and what `-n` can only suppose."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import SCons.Script

from tileiras.build.display import Display
from tileiras.build.execute import Session
from tileiras.build.step import Step
from tileiras.named_tuple import NamedTuple

MAY_RUN = "(may run)"
"""What `-n` adds to a line whose stage runs only if the one before it makes something new."""


class Own(NamedTuple):
    """A task of ours: the step that it performs, and where."""

    session: Session
    step: Step
    settled: bool
    """Whether the manifest has shown all of the kernel's artifacts to be as they were made."""


class Asked:
    """The answers for one run of SCons; `own` finds the step of a task's targets."""

    def __init__(self, own: Callable[[Sequence[Any]], Own | None], display: Display) -> None:
        self._own = own
        self._display = display
        self._may_run: set[Any] = set()

    def is_stale(self, targets: Sequence[Any]) -> bool:
        """Whether artifacts are not what their step, as it is now, makes of its input as it is now."""
        own = self._own(targets)
        if own is None or own.settled:
            return False
        standing = own.session.standing(own.step)
        if standing.made is not None:
            own.session.know(own.step, standing.made)
            return False
        if standing.damaged is not None and not SCons.Script.GetOption("question"):
            self._display.silent = bool(SCons.Script.GetOption("silent"))
            path = os.path.relpath(standing.damaged)
            self._display.note(f"tileiras: {path} is not what its stage wrote: rebuilding it")
        return True

    def may_run(self, targets: Sequence[Any], current: bool) -> None:
        """Under `-n`: a source of the targets would be made; if it comes out different, they are, too.

        They are certain to be made when they are not `current` as it is, except that SCons takes a damaged source,
        which the run would repair, for a new one.
        """
        own = self._own(targets)
        if own is not None:
            if current or own.session.may_be_kept(own.step):
                self._may_run.update(targets)
        elif current and not SCons.Script.GetOption("silent"):
            # The next line is the command, as SCons prints it.
            print(f"{MAY_RUN} {targets[0]}:")

    def mark(self, target: Any) -> str:
        """What `-n` says after the line of a stage."""
        return f" {MAY_RUN}" if target in self._may_run else ""
