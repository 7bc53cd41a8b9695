"""The vendor's code for the operation table and for whole kernels, run by our emulator and compared with the
interpreter: a second opinion on the semantics of both.

    python tests/conformance/vendor_code.py [--families F,...] [--pairwise] [--every N] [--start K] [--whole | --counts]
                                            [--target sm_80] [--jobs N]

Needs the vendor's compiler.  For targets up to sm_90, and in the cases tried for sm_120, its code has few instructions
that the emulator lacks; tensor maps among the parameters come from the cubin's host code, on x86-64 Linux.  `--whole`:
the examples and whole kernels, with NumPy's results, instead of the table.  Prints each kernel that differs for a
reason outside of KNOWN, and a table; exits with 1 if there is one.

`--counts`: the instructions that warps of our code and of the vendor's execute for the examples and whole kernels,
independent of the machine's load: PTX instructions, accesses of shared memory in wavefronts, and how many of these are
due to bank conflicts, barriers, matrix instructions.  Loops that wait for other tile blocks count every iteration that
the emulator executes.
"""

from __future__ import annotations

import argparse
import functools
import json
import multiprocessing
import re
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

import whole_kernels  # noqa: E402
from case_kernels import all_kernels, modules, pairwise_kernels  # noqa: E402
from case_modules import MEETINGS, Kernel, arguments, compare, interpreted, module_text, settle  # noqa: E402
from vendor_ptx import WAIVED, Compiled, Refused, vendor_compile  # noqa: E402

import tileiras  # noqa: E402
from tileiras.codegen.cubin_host import HostCodeUnusable  # noqa: E402
from tileiras.sim import emulate  # noqa: E402
from tileiras.sim.emulator.launch.emulation import EmulationResult  # noqa: E402
from tileiras.sim.errors import SimulationError  # noqa: E402

# (pattern of the kernel's name, message, whose mistake or permitted deviation it is)
KNOWN = [
    (r"(divi|remi) ", "is in no allocation", "padding is 0, division by which has no meaning: all is read"),
    (r"ftoi \w+ saturating i1 ", "differ", "i1 does not saturate, it says whether a number is not zero"),
    (r"ftoi \w+ (saturating )?i1 f[48]", "differ", "i1 of -0.0 is true for f8 and f4"),
    (r"itof halves \w+ bf16 ", "differ", "integers are rounded to f32 and then to bf16"),
    (r"ftof \w* ?halves f8E8M0FNU f64 ", "differ", "f64 is rounded to f32 and then to f8E8M0FNU"),
    (r"padding tf32 ", "differ", "infinities as padding of tf32 are other numbers"),
    (r"mmaf_scaled far ", "differ", "scales at the ends of their range overflow one by one"),
    (r"scatter f4", "differ", "halves of bytes that several threads write are lost"),
    (r"scan ", "outside the block's shared memory", "writes a few bytes behind its shared memory"),
    (r"alloca ", "__cuda_syscall_aligned_malloc", "alloca is a call of the device's malloc, which the emulator lacks"),
    (r"prefix_sum", "some warps are at this barrier", "threads look at the flag for themselves and go separate ways"),
]  # fmt: skip


class Row(NamedTuple):
    family: str
    name: str
    outcome: str
    said: str


def known_reason(name: str, said: str) -> str | None:
    return next((why for pattern, part, why in KNOWN if re.match(pattern, name) and part in said), None)


def _row(family: str, name: str, said: str) -> Row:
    if said and known_reason(name, said) is not None:
        return Row(family, name, "known", said)
    return Row(family, name, "different" if said else "equal", said)


def _refusal(family: str, name: str, error: Refused) -> Row:
    return Row(family, name, "lacks the type" if "unsupported type" in str(error) else "refused", str(error))


def run_group(kernels: Sequence[Kernel], target: str) -> list[Row]:
    """Compile a whole module at once, and its kernels separately only if that fails."""
    try:
        code = vendor_compile(module_text(kernels), target)
    except Refused as error:
        if len(kernels) == 1:
            return [_refusal(kernels[0].family, kernels[0].name, error)]
        return [row for kernel in kernels for row in run_group([kernel], target)]
    seed = 0 if MEETINGS.search(code.ptx) else None
    return [_row(kernel.family, kernel.name, _judge(code, f"k{n}", kernel, seed)) for n, kernel in enumerate(kernels)]


def _judge(code: Compiled, entry: str, kernel: Kernel, seed: int | None) -> str:
    expected, wrong = interpreted(kernel)
    if wrong:
        return wrong
    parameters, compared = arguments(kernel)
    try:
        run = emulate(code.ptx, entry, kernel.grid, parameters, seed=seed, hidden=code.hidden(entry), waive=WAIVED)
    except (SimulationError, HostCodeUnusable) as error:
        return f"{type(error).__name__}: {error}"
    settle(compared, expected.arrays, expected.undefined)
    if kernel.prints and run.output != expected.printed:
        return f"printed {run.output!r}, expected {expected.printed!r}"
    return compare(kernel, "vendor's code", compared, expected.arrays) or ""


def vendor_launch(code: Compiled, case: whole_kernels.Case, given: list, **options) -> EmulationResult:
    hidden = code.hidden(case.entry)
    return emulate(code.ptx, case.entry, case.grid, given, hidden=hidden, waive=WAIVED, **options)


def run_whole(target: str) -> Iterator[Row]:
    for case in whole_kernels.cases():
        try:
            code = vendor_compile(case.data, target)
        except Refused as error:
            yield _refusal("whole", case.name, error)
            continue
        yield _row("whole", case.name, whole_kernels.attempt(
            lambda code=code, case=case: case.run(lambda given: vendor_launch(code, case, given))
        ))  # fmt: skip


class Executed(NamedTuple):
    """Counts over all warps of a launch; the fields are columns of a table."""

    instructions: int
    wavefronts: int
    conflicts: int
    barriers: int
    products: int


def executed(case: whole_kernels.Case, launch: Callable[..., EmulationResult]) -> Executed:
    """The counts of a launch with the expected results; raises AssertionError or SimulationError otherwise."""
    runs = []

    case.run(lambda given: runs.append(launch(given, count_bank_conflicts=True)))
    counts = sum((Counter(run.instruction_counts) for run in runs), Counter())
    banks = [pair for run in runs for pair in run.bank_wavefronts.values()]

    def count(prefix: str) -> int:
        return sum(times for name, times in counts.items() if name.startswith(prefix))

    total, least = (sum(pair[side] for pair in banks) for side in (0, 1))
    return Executed(counts.total(), total, total - least, count("bar."), count("mma."))


def print_counts(target: str) -> None:
    print(f"{'kernel':28}" + "".join(f"{name:>13}{'vendor':>9}" for name in Executed._fields) + f"{'ratio':>7}")
    ratios = []
    for case in whole_kernels.cases():
        try:
            code = vendor_compile(case.data, target)
            theirs = executed(case, functools.partial(vendor_launch, code, case))
        except (Refused, HostCodeUnusable, SimulationError):
            continue
        artifact = tileiras.compile(case.data, gpu_name=target, source_name=case.source)
        kernel = next(kernel for kernel in artifact.kernels if kernel.name == case.entry)
        text, metadata = kernel.artifacts[".ptx"].decode(), json.loads(kernel.artifacts[".json"])
        mine = executed(case, functools.partial(emulate, text, case.entry, case.grid, metadata=metadata))
        ratios.append(mine.instructions / theirs.instructions)
        cells = "".join(f"{own:13}{other:9}" for own, other in zip(mine, theirs))
        print(f"{case.name[:27]:28}{cells}{ratios[-1]:7.2f}", flush=True)
    print(f"{len(ratios)} kernels, instructions against the vendor's: median {statistics.median(ratios):.2f}")


def _numbered(number: int) -> list[Row]:
    return run_group(_groups[number], _target)


_groups: list[list[Kernel]]
_target: str


def main() -> int:
    global _groups, _target
    parser = argparse.ArgumentParser(prog="vendor_code.py")
    parser.add_argument("--families", help="only these, separated by commas")
    parser.add_argument("--target", default="sm_80")
    parser.add_argument("--pairwise", action="store_true", help="the kernels that the tests run")
    parser.add_argument("--every", type=int, default=1, help="one kernel in so many")
    parser.add_argument("--start", type=int, default=0, help="the first of them")
    parser.add_argument("--whole", action="store_true", help="the examples and whole kernels")
    parser.add_argument("--counts", action="store_true", help="what they execute, beside the vendor's")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    if options.counts:
        print_counts(options.target)
        return 0
    _target = options.target
    kernels = [] if options.whole else list(pairwise_kernels() if options.pairwise else all_kernels())
    if options.families:
        kernels = [kernel for kernel in kernels if kernel.family in options.families.split(",")]
    _groups = modules(kernels[options.start :: options.every])
    counts: dict[str, Counter[str]] = {}
    begin = time.monotonic()
    with multiprocessing.get_context("fork").Pool(options.jobs) as pool:
        result = (row for rows in pool.imap(_numbered, range(len(_groups))) for row in rows)
        for row in run_whole(options.target) if options.whole else result:
            counts.setdefault(row.family, Counter())[row.outcome] += 1
            if row.outcome in ("different", "refused"):
                print(f"{row.outcome}: {row.name}: {row.said}"[:500].replace("\n", " | "), flush=True)
    outcomes = ("equal", "known", "lacks the type", "refused", "different")
    counts["all"] = sum(counts.values(), Counter())
    print(f"{'family':12}" + "".join(f"{name:>16}" for name in outcomes))
    for family, counter in counts.items():
        print(f"{family:12}" + "".join(f"{counter[name]:16}" for name in outcomes))
    print(f"{time.monotonic() - begin:.0f} s")
    return bool(counts["all"]["different"])


if __name__ == "__main__":
    sys.exit(main())
