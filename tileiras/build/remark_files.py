"""NAME.STAGE.remarks.json in a build directory: remarks of stages, printed again without running them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence

from tileiras.build.step import Step, render
from tileiras.diagnostics.remarks import Remark, read_remarks, remarks_of
from tileiras.support.files import read_if_there


def remarks_of_steps(steps: Iterable[Step]) -> list[Remark]:
    """Return the remarks of steps that emit them, sorted by function, category and line, as the command does."""
    remarks: list[Remark] = []
    for step in steps:
        if step.stage.says_remarks(step.options):
            content = read_if_there(step.stem + step.stage.remark_suffix)
            # The remarks of a damaged file are omitted.
            with contextlib.suppress(ValueError):
                remarks += read_remarks(content or b"")
    return remarks_of(remarks)


def remark_text(steps: Sequence[Step]) -> str:
    """Format the remarks of one kernel file for one target, for a terminal; empty without remarks."""
    remarks = remarks_of_steps(steps)
    if not remarks:
        return ""
    first = steps[0]
    where = f"{first.options['gpu-name']}, O{first.options['opt-level']}"
    return f"remarks on {first.source_name} ({where}):\n{render(remarks, first)}"


def remark_files(steps: Iterable[Step]) -> list[str]:
    """Return the paths of the remarks of steps, whether requested or not."""
    return [step.stem + step.stage.remark_suffix for step in steps if "emit-remarks" in step.stage.options]


def remove_remarks(steps: Sequence[Step]) -> None:
    """Remove the remarks of an earlier build if none are requested: they would become outdated."""
    for path in remark_files(step for step in steps if not step.stage.says_remarks(step.options)):
        with contextlib.suppress(OSError):
            os.unlink(path)
