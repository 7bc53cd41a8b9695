"""Registers of a thread that the model expects of kernels (`tileiras/resources/expected_registers.py`), and those that
ptxas took.

    python -m bench registers [--targets sm_90,...] [--all] [--terms] [FILE-OR-FOLDER ...]

Without files: the kernels of `examples/`, and those that the tests write with the front end, where that is installed.
Rows outside of the bars are listed, or with `--all` all rows; `--terms` prints the terms of the estimate of a row.
At the end the distribution of expected by taken, by target.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from bench.kernels import Kernel, collect
from bench.whole_process import TARGETS
from tileiras import api
from tileiras.analysis.function_pass import functions_of
from tileiras.codegen import bitcode_library, ptx, ptxas, toolkit
from tileiras.diagnostics import CompileError
from tileiras.dialects import nv_tileaa as aa
from tileiras.ir import parse_module
from tileiras.options import CompileOptions
from tileiras.resources.expected_registers import WEIGHTS, expected_registers, places
from tileiras.stages import units

NEAR = 0.15
"""Allowed error of an estimate, as a share of the registers of ptxas; never more below."""

SHARE_NEAR = 0.9
"""Of the kernels, those that are to be that near."""

ABOVE, LARGE = 0.4, 64
"""An estimate of more than `LARGE` registers is at most `ABOVE` too high."""

TESTS = os.path.join(os.path.dirname(__file__), os.pardir, "tests")


class Row(NamedTuple):
    kernel: str
    entry: str
    target: str
    expected: int
    taken: int
    terms: str = ""

    @property
    def ratio(self) -> float:
        return self.expected / self.taken

    @property
    def is_near(self) -> bool:
        return abs(self.ratio - 1) <= NEAR

    @property
    def is_too_low(self) -> bool:
        return self.ratio < 1 - NEAR

    @property
    def is_too_high(self) -> bool:
        return self.taken > LARGE and self.ratio > 1 + ABOVE


def compared(kernel: Kernel, target: str, store: bitcode_library.MemoryStore) -> Iterator[Row]:
    """A row for each entry of a file.  Raises CompileError."""
    options = CompileOptions({"gpu-name": target})
    source = units.Source.read(kernel.path)
    text = api.compile_with(source, options, "tileas", store=store).text
    reports = api.compile_with(source, options, "ptx", store=store).kernels
    taken = {report.name: taken_alone(report.artifacts[".ptx"].decode(), report.name, target) for report in reports}
    for part in text.split("// -----"):
        for func in functions_of(parse_module(part, kernel.name)):
            name = func.sym_name.value
            yield Row(kernel.name, name, target, expected_registers(func), taken[name], _terms(func))


def taken_alone(text: str, name: str, target: str) -> int:
    """Registers that ptxas takes of its own, without a number of CTAs that allows it more than it needs.  Those that
    must have all registers keep it: it says that one is enough."""
    module = ptx.parse(text)
    directives = module.entry(name).directives
    if int(directives.get("minnctapersm", 1)) > 1 and "setmaxnreg" not in text:
        del directives["minnctapersm"]
    return ptxas.assemble(f"{module}", target).resources[name].registers


def _terms(func: aa.FuncOp) -> str:
    """The terms of an estimate, largest first."""
    place = max(places(func), key=lambda place: place.registers)
    parts = {name: WEIGHTS.get(name, 0) * amount for name, amount in place.terms.items()}
    shown = (f"{name} {part:.0f}" for name, part in sorted(parts.items(), key=lambda item: -item[1]) if part >= 0.5)
    return f"at {place.op.name}: " + ", ".join(shown)


def front_end_kernels(folder: str) -> list[Kernel]:
    """The kernels that the tests write with the front end, as bytecode files in `folder`; none where it is missing."""
    sys.path[:0] = [os.path.join(TESTS, part) for part in ("bytecode", "conformance")]
    try:
        import kernels
        from front_end_kernels import LAUNCHES
    except ImportError:
        return []
    result = []
    for name in LAUNCHES:
        path = os.path.join(folder, f"front_end_{name}.tileirbc")
        exported = kernels.export(name, "13.4")
        with open(path, "wb") as file:
            file.write(exported[0] if isinstance(exported, tuple) else exported)
        result.append(Kernel(f"front_end_{name}", path, 0))
    return result


def summary(rows: Sequence[Row]) -> str:
    """How many rows are near, too low and too high, and the quantiles of the ratio."""
    ratios = sorted(row.ratio for row in rows)
    near, low, high = (sum(map(test, rows)) for test in (lambda r: r.is_near, lambda r: r.is_too_low, _is_far_above))
    quantiles = " ".join(
        f"{ratios[int(share * (len(ratios) - 1))]:.2f}" for share in (0, 0.05, 0.25, 0.5, 0.75, 0.95, 1)
    )
    return f"{len(rows):4} rows: {near / len(rows):.1%} near, {low} too low, {high} too high; ratio {quantiles}"


def _is_far_above(row: Row) -> bool:
    return row.is_too_high


def rows_of(kernels: Iterable[Kernel], targets: Sequence[str]) -> Iterator[Row]:
    store = bitcode_library.MemoryStore()
    for kernel in kernels:
        for target in targets:
            if int(target[3:]) < kernel.lowest:
                continue
            try:
                yield from compared(kernel, target, store)
            except CompileError as error:
                print(f"{kernel.name} {target}: {error.diagnostics[0]}")


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="registers")
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--terms", action="store_true")
    parser.add_argument("files", nargs="*")
    options = parser.parse_args(arguments)
    if toolkit.find_program("ptxas") is None:
        print("registers: needs ptxas")
        return
    targets = options.targets.split(",")
    rows: list[Row] = []
    print(f"{'kernel':<34}{'entry':<24}{'target':>8}{'expected':>9}{'taken':>7}{'ratio':>7}")
    with tempfile.TemporaryDirectory() as folder:
        kernels = collect(folder, options.files)
        for row in rows_of(kernels if options.files else [*kernels, *front_end_kernels(folder)], targets):
            rows.append(row)
            if options.all or not row.is_near:
                print(f"{row.kernel[:33]:<34}{row.entry[:23]:<24}{row.target:>8}{row.expected:9}{row.taken:7}"
                      f"{row.ratio:7.2f}" + (f"  {row.terms}" if options.terms else ""))  # fmt: skip
    for target in targets:
        of_target = [row for row in rows if row.target == target]
        if of_target:
            print(f"{target:>8} {summary(of_target)}")
    if rows:
        print(f"{'all':>8} {summary(rows)}")


if __name__ == "__main__":
    main(sys.argv[1:])
