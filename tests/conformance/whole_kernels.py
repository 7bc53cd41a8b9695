"""The examples and whole kernels on every target: compiled, assembled, emulated and compared with NumPy.

    python tests/conformance/whole_kernels.py [--targets T,...] [--kernels NAME,...]

The cases are those of `tests/examples`, which run on the usual targets among the tests.  Each kernel is interpreted
once; code that is the same for two targets is emulated once.  A target that lacks a kernel's types refuses it.  Prints
a table with a row per kernel, and the mistakes; exits with 1 if there is one.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "examples"), str(HERE.parents[1])]

from example_cases import CASES as EXAMPLES  # noqa: E402
from example_cases import check  # noqa: E402
from kernel_cases import CASES as KERNELS  # noqa: E402
from kernel_runs import body, bytecode, run_and_check  # noqa: E402

import tileiras  # noqa: E402
from tileiras.codegen import ptxas, toolkit  # noqa: E402
from tileiras.diagnostics import CompileError  # noqa: E402
from tileiras.options import GPU_NAMES  # noqa: E402
from tileiras.sim import emulate, interpret  # noqa: E402


class Case(NamedTuple):
    """``run(launch)`` raises AssertionError unless the results of ``launch(arguments)`` are the expected ones."""

    name: str
    source: str
    data: bytes
    entry: str
    grid: Any
    run: Callable[[Callable[[list[Any]], None]], None]


def cases(wanted: Sequence[str] = ()) -> list[Case]:
    """The selected cases; all if no name is given."""
    result = []
    for case in EXAMPLES:
        if wanted and case.source not in wanted:
            continue
        exported = tileiras.compile(case.path, gpu_name="sm_100", emit="bytecode").data
        result.append(Case(case.source, case.source, exported, case.entry, case.grid, _example(case)))
    for case in KERNELS:
        if wanted and case.id not in wanted:
            continue
        exported = bytecode(case.source, case.targets[-1])
        result.append(Case(case.id, case.source, exported, case.entry, case.grid, _kernel(case)))
    return result


def _kernel(case: Any) -> Callable:
    return lambda launch: run_and_check(case, launch)


def _example(case: Any) -> Callable:
    def run(launch: Callable[[list[Any]], None]) -> None:
        arguments = case.make_arguments()
        expected = case.reference(copy.deepcopy(arguments))
        launch(arguments)
        for position, values in expected.items():
            check(arguments[position], values, case.ulps)

    return run


def attempt(action: Callable[[], Any]) -> str:
    try:
        action()
    except Exception as error:  # any exception is this row's result
        return f"{type(error).__name__}: {error}".strip()[:300].replace("\n", " | ")
    return ""


def on_target(case: Case, target: str, emulated: dict[str, str], assemble: bool) -> tuple[str, str]:
    """(cell of the table, mistake)."""
    try:
        artifact = tileiras.compile(case.data, gpu_name=target, source_name=case.source)
    except CompileError as error:
        result = error.diagnostics[0].message
        return ("–", "") if "unsupported type" in result else ("refused", result)
    kernel = next(kernel for kernel in artifact.kernels if kernel.name == case.entry)
    text, metadata = kernel.artifacts[".ptx"].decode(), json.loads(kernel.artifacts[".json"])
    if assemble and (result := attempt(lambda: ptxas.assemble(text, target))):
        return "not assembled", result
    if body(text) in emulated:
        return ("ok", "") if not emulated[body(text)] else ("differs", "")
    result = attempt(lambda: case.run(lambda given: emulate(text, case.entry, case.grid, given, metadata=metadata)))
    emulated[body(text)] = result
    return ("differs", result) if result else ("ok", "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", default=",".join(GPU_NAMES))
    parser.add_argument("--kernels", default="")
    options = parser.parse_args()
    targets, wanted = options.targets.split(","), [name for name in options.kernels.split(",") if name]
    assemble = toolkit.find_program("ptxas") is not None
    mistakes, runs, different = [], 0, 0
    print(f"| kernel | interpreted | different codes | {' | '.join(targets)} |\n|{'---|' * (len(targets) + 3)}")
    for case in cases(wanted):
        result = attempt(lambda case=case: case.run(lambda args: interpret(case.data, case.entry, case.grid, args)))
        mistakes += [f"{case.name} interpreted: {result}"] if result else []
        emulated: dict[str, str] = {}
        cells = []
        for target in targets:
            cell, mistake = on_target(case, target, emulated, assemble)
            mistakes += [f"{case.name} {target}: {mistake}"] if mistake else []
            cells.append(cell)
        runs += cells.count("ok")
        different += len(emulated)
        row = [case.name, "differs" if result else "ok", str(len(emulated)), *cells]
        print(f"| {' | '.join(row)} |", flush=True)
    print(f"\n{runs} kernels on targets, {different} different codes emulated, {len(mistakes)} mistakes")
    print(*mistakes, sep="\n")
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main())
