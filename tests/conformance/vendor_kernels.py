"""The vendor's code for kernels with common tile sizes, run by our emulator and compared with NumPy.

    python tests/conformance/vendor_kernels.py [--samples CUTILE] [--gym TILEGYM] [--targets sm_90,sm_120]
                                               [--match TEXT] [--seed N] [--figures] [--jobs N]

The kernels are those of `examples/kernels` with larger tiles (`tiled_kernels.py`), and with a checkout of cuTile
Python, and one of TileGym, those of `sample_kernels.py`.  Needs the vendor's compiler and, for tensor maps among the
parameters, x86-64 Linux.  Rules that the vendor's code is known to break are waived (`tileiras.sim.emulator.rules`).
Prints a table with a row per kernel, and the mistakes; `--figures` adds the time of each on one core, including race
detection, and the number of issued instructions.  Exits with 1 if a kernel differs for a reason outside of KNOWN.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

from sample_kernels import prepare, samples  # noqa: E402
from tiled_kernels import tiled  # noqa: E402
from vendor_ptx import WAIVED, Compiled, Refused, vendor_compile  # noqa: E402

from tileiras.codegen.cubin_host import HostCodeUnusable  # noqa: E402
from tileiras.diagnostics import CompileError  # noqa: E402
from tileiras.sim import emulate  # noqa: E402
from tileiras.sim.errors import SimulationError  # noqa: E402

#: Prefix of rows that gather by cp.async without a proxy fence; the rule is waived for no others.
GATHERED = ("MoE", "moe", "scaled")
#: (prefix of the kernel's name, message, reason)
KNOWN = [
    ("split-K", "race on address", "waits for its store to have read shared memory, not to have written, and unlocks"),
]


class Kernel(Protocol):
    """``source``: the checkout that contains it; ``targets``: the ones that it runs on (empty: all)."""

    name: str
    source: str
    entry: str
    grid: tuple[int, ...]
    targets: tuple[str, ...]

    def bytecode(self) -> bytes: ...

    def run(self, launch: Callable[[list[Any]], None]) -> None:
        """Raise AssertionError unless the results of ``launch(arguments)`` are NumPy's."""


class Row(NamedTuple):
    name: str
    target: str
    outcome: str
    said: str
    seconds: float
    steps: int


_compiled: dict[tuple[str, str, str], Compiled] = {}


def compiled(kernel: Kernel, target: str) -> Compiled:
    """The vendor's code.  Raises Refused."""
    key = (kernel.source, kernel.name, target)
    if key not in _compiled:
        _compiled[key] = vendor_compile(kernel.bytecode(), target)
    return _compiled[key]


def attempt(kernel: Kernel, target: str, **options: Any) -> tuple[str, int]:
    """(the mistake, "" if the result is right; instructions issued).  Raises Refused."""
    code = compiled(kernel, target)
    waive = [rule for rule in WAIVED if rule != "async-proxy" or kernel.name.startswith(GATHERED)]
    steps = 0

    def launch(given: list[Any]) -> None:
        nonlocal steps
        hidden = code.hidden(kernel.entry)
        result = emulate(code.ptx, kernel.entry, kernel.grid, given, hidden=hidden, **{"waive": waive, **options})
        steps = result.steps

    try:
        kernel.run(launch)
    except (AssertionError, SimulationError, HostCodeUnusable) as error:
        return f"{type(error).__name__}: {error}", steps
    return "", steps


def run(kernel: Kernel, target: str, seed: int | None) -> Row:
    started = time.process_time()
    try:
        code = compiled(kernel, target)
        started = time.process_time()
        result, steps = attempt(kernel, target, seed=seed)
    except (Refused, CompileError) as error:
        return Row(kernel.name, target, "refused", str(error), 0, 0)
    taken = time.process_time() - started
    if result:
        known = any(kernel.name.startswith(name) and part in result for name, part, _ in KNOWN)
        return Row(kernel.name, target, "known" if known else "different", result, taken, steps)
    unit = next((name for name in ("tcgen05.mma", "wgmma", "mma.sync") if name in code.ptx), "")
    return Row(kernel.name, target, f"equal ({unit})" if unit else "equal", "", taken, steps)


def _numbered(job: tuple[int, str, int | None]) -> Row:
    number, target, seed = job
    return run(_kernels[number], target, seed)


_kernels: list[Kernel]


def main() -> int:
    global _kernels
    parser = argparse.ArgumentParser(prog="vendor_kernels.py")
    parser.add_argument("--samples", type=Path, help="a checkout of cuTile Python")
    parser.add_argument("--gym", type=Path, help="a checkout of TileGym, besides")
    parser.add_argument("--targets", default="sm_90,sm_100,sm_120")
    parser.add_argument("--match", default="", help="kernels whose name has this in it")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--figures", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    _kernels = list(tiled())
    if options.samples:
        prepare(options.samples.resolve(), options.gym.resolve() if options.gym else None)
        _kernels += [each for each in samples() if options.gym or each.source != "gym"]
    _kernels = [each for each in _kernels if options.match in each.name]
    targets = options.targets.split(",")
    jobs = [(number, target, options.seed) for number, each in enumerate(_kernels) for target in targets
            if not each.targets or target in each.targets]  # fmt: skip
    print(f"| kernel | {' | '.join(targets)} |\n|{'---|' * (len(targets) + 1)}")
    cells: dict[str, str] = {}
    wrong: list[Row] = []
    right = dict.fromkeys(targets, 0)
    with multiprocessing.get_context("fork").Pool(options.jobs) as pool:
        for place, ((number, target, _), row) in enumerate(zip(jobs, pool.imap(_numbered, jobs))):
            figures = f", {row.seconds:.1f} s, {row.steps:,}" if options.figures else ""
            cells[target] = row.outcome + figures
            right[target] += row.outcome.startswith("equal")
            wrong += [row] if row.said else []
            if place + 1 == len(jobs) or jobs[place + 1][0] != number:
                print(f"| {row.name} | {' | '.join(cells.get(each, '–') for each in targets)} |", flush=True)
                cells = {}
    print("equal: " + ", ".join(f"{count} for {target}" for target, count in right.items()))
    for row in wrong:
        print(f"{row.outcome}: {row.name} on {row.target}: {row.said}"[:700])
    return int(any(row.outcome == "different" for row in wrong))


if __name__ == "__main__":
    sys.exit(main())
