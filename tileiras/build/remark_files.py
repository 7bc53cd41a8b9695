"""NAME.STAGE.remarks.json in a build directory: what stages said of their choices, told again without running them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence

from tileiras.build.step import Step, render
from tileiras.files import read_if_there
from tileiras.remarks import Remark, read_remarks, remarks_of


def remarks_of_steps(steps: Iterable[Step]) -> list[Remark]:
    """The remarks of steps that were asked for some, by function, category and line: the order of the command's."""
    found: list[Remark] = []
    for step in steps:
        if step.stage.says_remarks(step.options):
            content = read_if_there(step.stem + step.stage.remark_suffix)
            # A file that somebody has damaged costs its remarks.
            with contextlib.suppress(ValueError):
                found += read_remarks(content or b"")
    return remarks_of(found)


def remark_text(steps: Sequence[Step]) -> str:
    """The remarks of one kernel file for one target, for a terminal; empty when there are none."""
    remarks = remarks_of_steps(steps)
    if not remarks:
        return ""
    first = steps[0]
    where = f"{first.options['gpu-name']}, O{first.options['opt-level']}"
    return f"remarks on {first.source_name} ({where}):\n{render(remarks, first)}"


def remark_files(steps: Iterable[Step]) -> list[str]:
    """Where the remarks of steps are, asked for or not."""
    return [step.stem + step.stage.remark_suffix for step in steps if "emit-remarks" in step.stage.options]


def remove_remarks(steps: Sequence[Step]) -> None:
    """Removes remarks of an earlier build from one that asks for none: nobody would bring them up to date."""
    for path in remark_files(step for step in steps if not step.stage.says_remarks(step.options)):
        with contextlib.suppress(OSError):
            os.unlink(path)
