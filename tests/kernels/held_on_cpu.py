"""A launch on the CPU, held against the interpreter within the bounds that the checker derives."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import tileiras
from tileiras.check.checker import on_cpu
from tileiras.check.coverage import Coverage
from tileiras.check.facts import facts
from tileiras.check.fitting import Fitted, Plan
from tileiras.check.judging import Judged, hold, interpreted
from tileiras.stages.units import entries_of, entry_name


def held(source: str | bytes, grid: Sequence[int], arguments: Sequence[Any], target: str = "cpu") -> Judged:
    """The verdict on the first kernel of a source; the arguments stay as they are.

    Raises CompileError for a kernel that the target refuses, InterpreterError for a launch that is wrong itself.
    """
    module = tileiras.parse(source)
    entry = entries_of(module)[0]
    name = entry_name(entry)
    sizes = (*grid, 1, 1, 1)[:3]
    launch = Fitted(sizes, list(arguments), Plan({}, "given"))
    again = functools.partial(interpreted, module, name, launch, Coverage(entry), {})
    return hold(facts(entry), on_cpu(source, name, target, 3, {}), launch, 0, (None,), again(), again)
