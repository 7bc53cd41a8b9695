"""The random typed programs of `random_programs.py` on the CPU: results are equal to the interpreter's to the bit.

    python tests/conformance/cpu_programs.py COUNT [--seed FIRST] [--steps STEPS] [--formats] [--target cpu]

Prints every program that differs or does not compile, and figures.  Ends with 1 when there was one.  What the target
does not support is counted by its message.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parents[1]))

import numpy as np  # noqa: E402
from random_programs import Formats, Meaningless, Program  # noqa: E402

import tileiras  # noqa: E402
from tests.kernels.random_tiles import DTYPES  # noqa: E402
from tests.kernels.tiles import Tile, assert_same, kernel_text  # noqa: E402
from tileiras import runtime  # noqa: E402
from tileiras.diagnostics import CompileError  # noqa: E402
from tileiras.sim import InterpreterError, interpret  # noqa: E402

UNSUPPORTED = "is not supported on target cpu"


def launched(source: Any, entry: str, grid: Any, arguments: list, target: str = "cpu", **more: Any) -> None:
    """Compile and run a kernel on the arrays."""
    artifact = tileiras.compile(source, gpu_name=target, entry=entry, source_name="kernel.mlir", **more)
    runtime.launch(artifact, entry, grid, arguments, threads=1)


def program_of(number: int, kind: type[Program] = Program, steps: int = 0) -> tuple[str, list[Tile], list[Tile]]:
    """The text of a program, its inputs and its outputs."""
    program = kind(number)
    for _ in range(steps or kind.STEPS):
        program.step()
    outputs = [Tile(n, e, np.zeros(shape, DTYPES[e])) for n, shape, e in program.values if n[0] == "v"][-6:]
    return kernel_text(program.inputs, "\n".join(program.lines), outputs), program.inputs, outputs


def run(number: int, kind: type[Program] = Program, steps: int = 0, target: str = "cpu") -> None:
    """Run a program both ways.  Raises what went wrong, or Meaningless."""
    text, inputs, outputs = program_of(number, kind, steps)
    actual = [tile.array.copy() for tile in outputs]
    launched(text, "k", 1, [*(tile.array.copy() for tile in inputs), *actual], target)
    for random_runs in (1, 60):
        expected = [tile.array.copy() for tile in outputs]
        try:
            undefined = interpret(
                text, "k", 1, [*(tile.array.copy() for tile in inputs), *expected], random_runs=random_runs
            )
        except InterpreterError as error:
            if "uses an undefined value" in error.diagnostic.message:
                raise Meaningless(error.diagnostic.message) from None
            raise
        try:
            for position, (tile, want, got) in enumerate(zip(outputs, expected, actual)):
                where = undefined.get(len(inputs) + position)
                given = got if where is None else np.where(where, want, got)
                assert_same(f"program {number}, %{tile.name}", given, want, [])
            return
        except AssertionError:
            if random_runs > 1:
                raise


def main() -> int:
    parser = argparse.ArgumentParser(prog="cpu_programs.py")
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0, help="the first program's number")
    parser.add_argument("--steps", type=int, default=0, help="operations of a program, about")
    parser.add_argument("--formats", action="store_true", help="more of narrow formats, and every rounding mode")
    parser.add_argument("--target", default="cpu")
    options = parser.parse_args()
    begin, figures, unsupported = time.monotonic(), Counter(), Counter()
    for number in range(options.seed, options.seed + options.count):
        try:
            run(number, Formats if options.formats else Program, options.steps, options.target)
            figures["equal"] += 1
        except Meaningless:
            figures["meaningless"] += 1
        except CompileError as error:
            message = error.diagnostics[0].message
            if UNSUPPORTED in message:
                unsupported[message] += 1
                continue
            figures["failed"] += 1
            print(f"program {number}: {message}"[:600], flush=True)
        except Exception as error:
            figures["failed"] += 1
            print(f"program {number}: {type(error).__name__}: {error}"[:600], flush=True)
    for message, count in unsupported.most_common():
        print(f"{count} times: {message}")
    print(
        f"{options.count} programs from {options.seed}: {figures['equal']} equal, {figures['failed']} failed, "
        f"{figures['meaningless']} without a meaning, {unsupported.total()} unsupported, "
        f"{time.monotonic() - begin:.0f} s"
    )
    return bool(figures["failed"])


if __name__ == "__main__":
    sys.exit(main())
