"""Random typed tile programs with control flow, interpreted and emulated: results are equal to the bit.

    python tests/conformance/random_programs.py COUNT [--seed FIRST] [--steps STEPS]

Program N is the same on every machine; targets go round with N.  Prints every program that differs or does not
compile, as its number, and figures.  Ends with 1 when there was one.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parent / "differential")]

import numpy as np  # noqa: E402
from test_random_kernels import DTYPES, INTEGERS, Kernel  # noqa: E402
from tile_kernels import Tile, assert_same, run_both, tile_type  # noqa: E402

from tileiras.diagnostics import CompileError  # noqa: E402
from tileiras.sim.errors import SimulationError  # noqa: E402

TARGETS = ("sm_80", "sm_90", "sm_100", "sm_120")


class Program(Kernel):
    """The random kernels' operations, and control flow that depends on data."""

    def step(self) -> None:
        if self.random.random() < 0.25:
            self.random.choice([self.conditional, self.until, self.nested])()
        else:
            super().step()

    def truth(self, name: str, shape: tuple[int, ...], element: str) -> str:
        """The name of a scalar that says whether the first element of a tile is negative."""
        n, scalar, one = self.count, tile_type((), element), tile_type([1] * len(shape), element)
        integer = element in INTEGERS
        less = f"cmpi less_than %f{n}, %z{n}, signed" if integer else f"cmpf less_than ordered %f{n}, %z{n}"
        zeros = ", ".join(["%zero"] * len(shape))
        self.lines += [
            f"%e{n} = extract %{name}[{zeros}] : {tile_type(shape, element)} -> {one}",
            f"%f{n} = reshape %e{n} : {one} -> {scalar}",
            f"%z{n} = constant <{element}: {0 if integer else 0.0}> : {scalar}",
            f"%p{n} = {less} : {scalar} -> tile<i1>",
        ]
        return f"%p{n}"

    def operation(self, element: str) -> str:
        return self.random.choice(["addi", "subi", "muli", "xori"] if element in INTEGERS else ["addf", "subf", "mulf"])

    def conditional(self) -> None:
        name, shape, element = self.pick()
        other, t = self.partner(shape, element), tile_type(shape, element)
        condition, n = self.truth(*self.pick()), self.count
        self.emit(
            f"if {condition} -> ({t}) {{\n"
            f"%t{n} = {self.operation(element)} %{name}, %{other} : {t}\nyield %t{n} : {t}\n}} else {{\n"
            f"%u{n} = {self.operation(element)} %{other}, %{name} : {t}\nyield %u{n} : {t}\n}}",
            shape, element,
        )  # fmt: skip

    def until(self) -> None:
        """A `loop` left by a `break` in an `if`, after a number of rounds that depends on data."""
        name, shape, element = self.pick()
        other, t = self.partner(shape, element), tile_type(shape, element)
        condition, n = self.truth(*self.pick()), self.count
        few, many = self.random.randrange(3), self.random.randrange(5)
        self.lines += [
            f"%few{n} = constant <i32: {few}> : tile<i32>",
            f"%many{n} = constant <i32: {many}> : tile<i32>",
            f"%rounds{n} = select {condition}, %few{n}, %many{n} : tile<i1>, tile<i32>",
        ]
        self.emit(
            f"loop iter_values(%s{n} = %{name}, %i{n} = %zero) : {t}, tile<i32> -> {t} {{\n"
            f"%done{n} = cmpi greater_than_or_equal %i{n}, %rounds{n}, signed : tile<i32> -> tile<i1>\n"
            f"if %done{n} {{\nbreak %s{n} : {t}\n}}\n"
            f"%w{n} = {self.operation(element)} %s{n}, %{other} : {t}\n"
            f"%j{n} = addi %i{n}, %one : tile<i32>\n"
            f"continue %w{n}, %j{n} : {t}, tile<i32>\n}}",
            shape, element,
        )  # fmt: skip

    def nested(self) -> None:
        """An `if` on the counter, in a `for` that carries a tile from one round to the next."""
        name, shape, element = self.pick()
        other, t, n = self.partner(shape, element), tile_type(shape, element), self.count
        start, upper, step = self.random.randrange(-3, 3), self.random.randrange(6), self.random.randrange(1, 4)
        self.lines += [
            f"%l{n} = constant <i32: {start}> : tile<i32>",
            f"%n{n} = constant <i32: {upper}> : tile<i32>",
            f"%d{n} = constant <i32: {step}> : tile<i32>",
        ]
        self.emit(
            f"for %i{n} in (%l{n} to %n{n}, step %d{n}) : tile<i32> iter_values(%s{n} = %{name}) -> ({t}) {{\n"
            f"%b{n} = andi %i{n}, %one : tile<i32>\n"
            f"%o{n} = cmpi equal %b{n}, %one, signed : tile<i32> -> tile<i1>\n"
            f"%w{n} = if %o{n} -> ({t}) {{\n"
            f"%t{n} = {self.operation(element)} %s{n}, %{other} : {t}\nyield %t{n} : {t}\n}} else {{\n"
            f"%u{n} = {self.operation(element)} %{other}, %s{n} : {t}\nyield %u{n} : {t}\n}}\n"
            f"continue %w{n} : {t}\n}}",
            shape, element,
        )  # fmt: skip


def run(number: int, steps: int) -> int:
    """Run program `number` both ways; the number of its operations. Raises what went wrong."""
    program = Program(number)
    for _ in range(steps):
        program.step()
    outputs = [Tile(n, e, np.zeros(shape, DTYPES[e])) for n, shape, e in program.values if n[0] == "v"]
    # Later values depend on earlier ones; storing all of them would take longer than computing them.
    outputs = outputs[-6:]
    target = TARGETS[number % len(TARGETS)]
    expected, actual = run_both(program.inputs, "\n".join(program.lines), outputs, gpu_name=target)
    for tile, want, got in zip(outputs, expected, actual):
        assert_same(f"program {number}, {target}, %{tile.name}", got, want, [])
    return len(program.lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="random_programs.py")
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0, help="the first program's number")
    parser.add_argument("--steps", type=int, default=12)
    options = parser.parse_args()
    begin, figures = time.monotonic(), Counter()
    for number in range(options.seed, options.seed + options.count):
        try:
            figures["operations"] += run(number, options.steps)
            figures["programs"] += 1
        except (AssertionError, CompileError, SimulationError) as error:
            figures["failed"] += 1
            print(f"program {number}: {type(error).__name__}: {error}"[:600], flush=True)
        if (number + 1 - options.seed) % 500 == 0:
            print(f"{number + 1 - options.seed} programs, {time.monotonic() - begin:.0f} s", flush=True)
    print(
        f"{options.count} programs from {options.seed}: {figures['programs']} equal, {figures['failed']} failed,"
        f" {figures['operations']} operations, {time.monotonic() - begin:.0f} s"
    )
    return bool(figures["failed"])


if __name__ == "__main__":
    sys.exit(main())
