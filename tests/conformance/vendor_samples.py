"""What the vendor's compiler makes of the samples' kernels, run by our emulator and compared with NumPy.

    python tests/conformance/vendor_samples.py SAMPLES [--gym TILEGYM] [--targets sm_90,sm_100] [--match TEXT]
                                               [--seed N] [--figures] [--jobs N]

SAMPLES and TILEGYM are checkouts of cuTile Python and of TileGym.  Needs the vendor's compiler and, for tensor maps
among the parameters, x86-64 Linux.  The code is run with the rules waived that it is known to break
(`tileiras.sim.emulator.rules`).  Prints a table with a row per kernel, and what was wrong; `--figures` adds how long
each took, and how many instructions were issued.  Ends with 1 when a kernel differs whose reason KNOWN does not have.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1]), str(HERE.parent / "examples")]

import numpy as np  # noqa: E402
from example_cases import array_parameters  # noqa: E402
from kernel_cases import _table  # noqa: E402
from sample_kernels import Sample, kernel_of, prepare, samples  # noqa: E402
from vendor_ptx import WAIVED, Refused, vendor_compile  # noqa: E402

import tileiras  # noqa: E402
from tileiras.codegen.cubin_host import HostCodeUnusable  # noqa: E402
from tileiras.diagnostics import CompileError  # noqa: E402
from tileiras.sim import emulate  # noqa: E402
from tileiras.sim.errors import SimulationError  # noqa: E402

#: What rows that begin so gather comes by cp.async without a fence of proxies, which no other may go without.
GATHERED = ("MoE", "scaled")
#: (what the kernel's name begins with, what is said, why that is so)
KNOWN = [
    ("split-K", "race on address", "waits for its store to have read shared memory, not to have written, and unlocks"),
]
#: What the exporter reads, which runs a file.
EXPORTED: dict[str, tuple] = {}


class Row(NamedTuple):
    name: str
    target: str
    outcome: str
    said: str
    seconds: float
    steps: int


def bytecode(sample: Sample) -> bytes:
    """The kernel as the front end exports it."""
    EXPORTED.clear()
    EXPORTED["sample"] = (kernel_of(sample), *sample.signature)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "exported.py")
        path.write_text("from vendor_samples import EXPORTED\n\nTILEIRAS_EXPORT = EXPORTED\n")
        return tileiras.compile(path, gpu_name="sm_100", emit="bytecode").data


def parameters(values: list[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        if isinstance(value, list):
            found += [_table(value), len(value)]
        else:
            found += array_parameters(value) if isinstance(value, np.ndarray) else [value]
    return found


def difference(sample: Sample, values: list[Any], expected: dict[int, Any]) -> str:
    """What is wrong with the outputs; empty when nothing is."""
    for position, wanted in expected.items():
        pairs = zip(values[position], wanted) if isinstance(wanted, list) else [(values[position], wanted)]
        for got, want in pairs:
            error = np.abs(got.astype(np.float64) - want).max()
            limit = sample.tolerance * np.abs(want).max()
            if not error <= limit:
                return f"argument {position} is off by {error:.3g}, {limit:.3g} allowed"
    return ""


def run(sample: Sample, target: str, seed: int | None) -> Row:
    started, steps, said = time.perf_counter(), 0, ""
    try:
        code = vendor_compile(bytecode(sample), target)
        started = time.perf_counter()
        values = sample.values(np.random.default_rng(20251122))
        expected = sample.reference(*values)
        waive = [rule for rule in WAIVED if rule != "async-proxy" or sample.name.startswith(GATHERED)]
        result = emulate(code.ptx, "sample", sample.grid, parameters(values), seed=seed, hidden=code.hidden("sample"),
                         waive=waive)  # fmt: skip
        steps, said = result.steps, difference(sample, values, expected)
        outcome = "different" if said else "equal"
    except (Refused, CompileError) as error:
        outcome, said = "refused", str(error)
    except (SimulationError, HostCodeUnusable) as error:
        said = f"{type(error).__name__}: {error}"
        known = any(sample.name.startswith(name) and part in said for name, part, _ in KNOWN)
        outcome = "known" if known else "different"
    unit = next((name for name in ("tcgen05.mma", "wgmma", "mma.sync") if name in (code.ptx if said == "" else "")), "")
    return Row(sample.name, target, f"equal ({unit})" if unit else outcome, said, time.perf_counter() - started, steps)


def _numbered(job: tuple[int, str, int | None]) -> Row:
    number, target, seed = job
    return run(_samples[number], target, seed)


_samples: list[Sample]


def main() -> int:
    global _samples
    parser = argparse.ArgumentParser(prog="vendor_samples.py")
    parser.add_argument("samples", type=Path, help="a checkout of cuTile Python")
    parser.add_argument("--gym", type=Path, help="a checkout of TileGym")
    parser.add_argument("--targets", default="sm_100")
    parser.add_argument("--match", default="", help="kernels whose name has this in it")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--figures", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    sys.modules["vendor_samples"] = sys.modules["__main__"]
    prepare(given.samples.resolve(), given.gym.resolve() if given.gym else None)
    _samples = [each for each in samples() if given.match in each.name and (given.gym or each.source != "gym")]
    targets = given.targets.split(",")
    jobs = [(number, target, given.seed) for number, each in enumerate(_samples) for target in targets
            if not each.targets or target in each.targets]  # fmt: skip
    print(f"| kernel | {' | '.join(targets)} |\n|{'---|' * (len(targets) + 1)}")
    cells: dict[str, dict[str, str]] = {}
    wrong: list[Row] = []
    with multiprocessing.get_context("fork").Pool(given.jobs) as pool:
        for row in pool.imap(_numbered, jobs):
            figures = f", {row.seconds:.1f} s, {row.steps}" if given.figures else ""
            cells.setdefault(row.name, {})[row.target] = row.outcome + figures
            if row.said:
                wrong.append(row)
            if len(cells[row.name]) == sum(job[0] == _place(row.name) for job in jobs):
                print(f"| {row.name} | {' | '.join(cells[row.name].get(each, '–') for each in targets)} |", flush=True)
    for row in wrong:
        print(f"{row.outcome}: {row.name} on {row.target}: {row.said}"[:700])
    return int(any(row.outcome == "different" for row in wrong))


def _place(name: str) -> int:
    return next(number for number, each in enumerate(_samples) if each.name == name)


if __name__ == "__main__":
    sys.exit(main())
