"""Memory of LLVM's process over many compilations.

    python -m bench llvm_memory [COMPILATIONS]

Distinct kernels are compiled to PTX, none of them from the store.  After each, the anonymous resident memory of LLVM's
process is read, most of it LLVM's heap.  The figure is how far it rises above its level after the first
100; the bar is 5 MB.  The levels of the process that asks are given as well.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from bench.null_build import numbers
from bench.parallel import kernels
from tileiras import api
from tileiras.processes import helper

COMPILATIONS = 2000
SETTLED = 100
BAR = 5.0
"""Megabytes above the level after `SETTLED` compilations."""


class Growth(NamedTuple):
    """Megabytes of resident memory, and how many processes LLVM ran in."""

    settled: float
    most: float
    last: float
    own_settled: float
    own_last: float
    processes: int

    @property
    def above(self) -> float:
        return self.most - self.settled


def megabytes(pid: int) -> float:
    """Anonymous resident memory of a process, without the mapped files of libraries."""
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("RssAnon")) / 1024


def growth(compilations: Iterable[Callable[[], object]], settled: int = SETTLED) -> Growth:
    """Growth of this thread's helper and this process over the compilations, more than `settled`."""
    levels, own = [], []
    processes = set()
    for run in compilations:
        run()
        processes.add(helper.helper_pid())
        levels.append(megabytes(helper.helper_pid()))
        own.append(megabytes(os.getpid()))
    later = levels[settled:]
    return Growth(levels[settled - 1], max(later), later[-1], own[settled - 1], own[-1], len(processes))


def main(arguments: Sequence[str] = ()) -> None:
    (count,) = numbers("llvm_memory", arguments, compilations=COMPILATIONS)
    texts = kernels(count).values()
    start = time.perf_counter()
    result = growth((lambda text=text: api.compile(text, gpu_name="sm_90")) for text in texts)
    seconds = time.perf_counter() - start
    print(f"{count} compilations to PTX in {seconds:.0f} s, LLVM in {result.processes} processes one after the other")
    print(
        f"  LLVM's process: {result.settled:.1f} MB after {SETTLED}, at most {result.most:.1f} MB from there on, "
        f"{result.last:.1f} MB at the end: {result.above:+.1f} MB (bar {BAR:.0f})"
    )
    print(f"  this process: {result.own_settled:.1f} MB after {SETTLED}, {result.own_last:.1f} MB at the end")


if __name__ == "__main__":
    main(sys.argv[1:])
