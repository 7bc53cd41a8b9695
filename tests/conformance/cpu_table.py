"""The conformance kernels (`case_kernels.py`) on the CPU.

    python tests/conformance/cpu_table.py [--pairwise] [--every N] [--families F,...] [--target cpu] [--part K/N]

Prints every kernel that differs and exits with 1 if there is one.  The target's refusals are counted by message.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

import numpy as np  # noqa: E402
from case_kernels import all_kernels, modules, pairwise_kernels  # noqa: E402
from case_modules import (  # noqa: E402
    Expected,
    Kernel,
    arguments,
    compare,
    interpreted,
    module_text,
    settle,
)

import tileiras  # noqa: E402
from tests.kernels.held_on_cpu import held  # noqa: E402
from tileiras import runtime  # noqa: E402
from tileiras.check.verdict import RIGHT, WRONG  # noqa: E402
from tileiras.diagnostics import CompileError  # noqa: E402
from tileiras.sim.errors import SimulationError  # noqa: E402

UNSUPPORTED = "is not supported on target cpu"


def failures(kernels: Sequence[Kernel], target: str = "cpu") -> Iterator[tuple[Kernel, str]]:
    """Run the kernels of a module; the failing ones, each with the reason."""
    for kernel in kernels:
        try:
            expected, wrong = interpreted(kernel)
        except (CompileError, SimulationError):
            continue
        if wrong:
            continue
        if reason := failure(kernel, expected, target):
            yield kernel, reason


def failure(kernel: Kernel, expected: Expected, target: str) -> str:
    """How a kernel goes wrong, or nothing.  Elements without a bound have the table's tolerance."""
    text = module_text([kernel])
    parameters, compared = arguments(kernel)
    try:
        judged = held(text, kernel.grid, parameters, target)
        if judged.status == RIGHT and not judged.unbounded:
            return ""
        if judged.status == WRONG:
            return judged.findings[-1].message
        artifact = tileiras.compile(text, gpu_name=target, source_name="kernel.mlir")
    except CompileError as error:
        return error.diagnostics[0].message
    runtime.launch(artifact, "k0", kernel.grid, parameters, threads=1)
    settle(compared, expected.arrays, expected.undefined)
    with np.errstate(all="ignore"):
        return compare(kernel, target, compared, expected.arrays) or ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="cpu_table.py")
    parser.add_argument("--pairwise", action="store_true")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="one kernel in N")
    parser.add_argument("--families", default="")
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--part", default="1/1", metavar="K/N")
    options = parser.parse_args()
    part, parts = map(int, options.part.split("/"))
    kernels = list(pairwise_kernels() if options.pairwise else all_kernels())[:: options.every]
    if options.families:
        kernels = [kernel for kernel in kernels if kernel.family in options.families.split(",")]
    chosen = modules(kernels)[part - 1 :: parts]
    failed, unsupported = 0, Counter()
    for module in chosen:
        for kernel, reason in failures(module, options.target):
            if UNSUPPORTED in reason:
                unsupported[reason] += 1
                continue
            failed += 1
            print(f"{kernel.family} {kernel.name}: {reason}"[:500], flush=True)
    for message, count in unsupported.most_common():
        print(f"{count} times: {message}")
    count = sum(map(len, chosen))
    print(f"{count} kernels: {failed} failed, {unsupported.total()} unsupported")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
