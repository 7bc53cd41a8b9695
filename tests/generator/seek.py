"""Cases for pairs of a decision and a target, kind of tensor maps or strategy that no case has had.

Rows that few kernels reach are found by compilation to TileAS, which takes a hundredth of a case: of the numbers of a
run, only those are judged whose kernel and build reach a missing pair.  A case is the one of its number under the
families of the row and the target of the pair, and `Found.command` repeats it.
"""

from __future__ import annotations

import collections
import itertools
import random
import time
from collections.abc import Iterator
from typing import NamedTuple

from tests.generator import covered
from tests.generator.covered import Counts, Pair
from tests.generator.decisions import Watch
from tests.generator.forms import FORMS
from tests.generator.judge import Case, Verdict, draw, judge
from tests.generator.options import TARGETS, Weights
from tileiras.api import checked_options, compile_with
from tileiras.diagnostics import CompileError

_LIKELY = 1e6
"""The factor of the kind of maps or the strategy of a pair."""
_TURN = 12
"""Numbers that are drawn for a pair before the next pair has its turn."""


class _Kernel(NamedTuple):
    """A number, which draws the kernel before its build, and the families that it draws from."""

    number: int
    forms: tuple[str, ...]


class Found(NamedTuple):
    """A judged case that has missing pairs."""

    verdict: Verdict
    forms: tuple[str, ...]
    targets: tuple[str, ...]
    pairs: tuple[Pair, ...]

    @property
    def command(self) -> str:
        """The kernel of the case, under options of another draw: the build is in the verdict."""
        return f"--only {self.verdict.seed} --forms {','.join(self.forms)!r} --targets {','.join(self.targets)}"


def seek(counts: Counts, seconds: float, seed: int) -> Iterator[Found]:
    """Judge cases that reach missing pairs, until the time is over or no pair is missing; pairs take turns."""
    end, numbers = time.monotonic() + seconds, itertools.count(seed)
    kernels: dict[str, list[_Kernel]] = collections.defaultdict(list)
    """Those that have reached a row."""
    tried: set[tuple[_Kernel, Pair]] = set()
    waiting = counts.missing()
    random.Random(seed).shuffle(waiting)
    while waiting and time.monotonic() < end:
        pair = waiting.pop(0)
        forms = families(counts, pair.decision)
        fresh = [_Kernel(next(numbers), forms) for _ in range(_TURN)]
        # Kernels of other pairs of the row come first.
        known = [each for each in kernels[pair.decision] if (each, pair) not in tried]
        for kernel in (*known[-_TURN:], *fresh):
            tried.add((kernel, pair))
            case = _drawn(kernel, pair)
            reached = _pairs(case) if case is not None else []
            for each in dict.fromkeys(each.decision for each in reached):
                if kernel not in kernels[each]:
                    kernels[each].append(kernel)
            if case is not None and pair in reached:
                verdict = judge(case)
                missing = tuple(each for each in reached if not counts.count(each))
                counts = covered.added(counts, covered.counted([verdict]))
                yield Found(verdict, kernel.forms, _targets(pair), missing)
                break
        left = set(counts.missing())
        waiting = [each for each in (*waiting, pair) if each in left]


def families(counts: Counts, decision: str) -> tuple[str, ...]:
    """The families whose cases have reached a row; all of them if none has."""
    return tuple(name for name in FORMS if counts.family.get(name, {}).get(decision)) or tuple(FORMS)


def _targets(pair: Pair) -> tuple[str, ...]:
    """Those on which the row can change a module."""
    if pair.axis == "target":
        return (pair.value,)
    return tuple(each for each in TARGETS if not covered.reason(Pair(pair.decision, "target", each)))


def _drawn(kernel: _Kernel, pair: Pair) -> Case | None:
    """The case of a number for a pair; None if its build is another one, as for kernels that need a newer target."""
    weights = Weights(maps=_factors(pair, "maps"), strategies=_factors(pair, "strategy"))
    case = draw(kernel.number, kernel.forms, _targets(pair), weights)
    value = {"target": case.build.gpu_name, "maps": case.build.maps, "strategy": case.build.strategy}[pair.axis]
    return case if value == pair.value else None


def _factors(pair: Pair, axis: str) -> dict[str, float]:
    """The value of the pair nearly always; of another axis, none with which the row is impossible."""
    if axis == pair.axis:
        return {pair.value: _LIKELY}
    return {value: 0.0 for value in covered.AXES[axis] if covered.reason(Pair(pair.decision, axis, value))}


def _pairs(case: Case) -> list[Pair]:
    """The pairs that the compilation of a case reaches."""
    watch, options = Watch(), dict(case.build.options)
    source = case.kernel.source(case.build.decorator)
    try:
        checked = checked_options(case.build.gpu_name, options.pop("opt_level", 3), options)
        compile_with(source, checked, "tileas", instrumentation=[watch])
    except CompileError:
        return []
    values = {"target": case.build.gpu_name, "maps": case.build.maps, "strategy": case.build.strategy}
    return [Pair(row, axis, value) for row in watch.decisions for axis, value in values.items()]
