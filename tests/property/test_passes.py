"""A pass does not change the meaning of a program: random kernels, interpreted before and after.

The kernels compute with scalars and small tiles, branch and loop inside one another, leave branches and loops early,
and expose their execution by stores and by counters in memory of the places that they pass.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

from tileiras.ir import PassManager, parse_module, print_op
from tileiras.ir.pass_manager import parse_pipeline
from tileiras.passes import lookup_pass
from tileiras.sim import interpret

PIPELINES = (
    "canonicalize",
    "cse",
    "dce",
    "loop-split",
    "fuse-fma",
    "loop-split{split-threshold=3},canonicalize,cse,dce",
    "canonicalize,cse,loop-split,canonicalize,cse,dce",
)
SEEDS = (*range(25), 111)
"""The last has a loop whose counter would pass the largest number where it is split."""

SLOTS = 64
RELATIONS = ("equal", "not_equal", "less_than", "less_than_or_equal", "greater_than", "greater_than_or_equal")
BINARY = ("addi", "subi", "muli", "andi", "ori", "xori", "maxi", "mini")
FLOATS = ("addf", "subf", "mulf", "mulf")
I32, I8, I1, F32 = "i32", "i8", "i1", "f32"
TILE, MASK = "4xi32", "4xi1"


class Kernel:
    """Writes a kernel; `values` are the names in scope by type, `exits` the terminators that may end the branch early.

    Sums and products of floats stay small whole numbers for a while, so that fusing them is exact.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.names = 0
        self.slots = 0
        self.budget = 28
        self.values: dict[str, list[str]] = {I32: ["a", "b"], I8: ["l", "n", "m"], I1: ["c"], F32: ["x"]}
        self.values |= {TILE: [], MASK: []}
        for value in (0, 1, -1, 7, 2**31 - 1, -(2**31)):
            self.emit(f"constant <i32: {value}> : tile<i32>", I32)
        for value in (0, 1, 2, 3, 127, -128):
            self.emit(f"constant <i8: {value}> : tile<i8>", I8)
        self.steps = self.values[I8][4:7]
        for value in ("true", "false"):
            self.emit(f"constant <i1: {value}> : tile<i1>", I1)
        self.true = self.values[I1][-2]
        self.emit("constant <i1: [true, false, false, true]> : tile<4xi1>", MASK)
        self.emit("constant <i1: true> : tile<4xi1>", MASK)
        self.emit("iota : tile<4xi32>", TILE)
        self.emit("constant <i32: 1> : tile<4xi32>", TILE)
        self.emit("constant <i32: 0> : tile<4xi32>", TILE)
        self.emit("constant <f32: 3.0> : tile<f32>", F32)

    def text(self) -> str:
        self.block(8, [])
        for type in (I32, F32):
            for name in self.values[type][-2:]:
                self.store(name, type)
        body = "\n".join(self.lines)
        parameters = "%p: tile<ptr<i32>>, %q: tile<ptr<f32>>, %a: tile<i32>, %b: tile<i32>, %l: tile<i8>, %n: tile<i8>,"
        parameters += " %m: tile<i8>, %c: tile<i1>, %x: tile<f32>"
        return f"cuda_tile.module @m {{\nentry @k({parameters}) {{\n{body}\nreturn\n}}\n}}\n"

    # ---- pieces ----

    def emit(self, text: str, *types: str) -> list[str]:
        names = [f"v{self.names + number}" for number in range(len(types))]
        self.names += len(types)
        self.lines.append(f"{', '.join(f'%{name}' for name in names)} = {text}" if types else text)
        for name, type in zip(names, types):
            self.values[type].append(name)
        return names

    def pick(self, type: str) -> str:
        # Recent values are chosen more often, so that results are used.
        names = self.values[type]
        return "%" + self.random.choice(names[-5:] if self.random.random() < 0.6 else names)

    def block(self, size: int, exits: list[str]) -> bool:
        """Statements of a body; True when the body has ended with one of `exits`."""
        for _ in range(self.random.randrange(1, size)):
            self.budget -= 1
            simple = (self.integer, self.boolean, self.select, self.tile, self.floating, self.memory, self.memory)
            nested = (self.branch, self.branch, self.loop, self.count) if self.budget > 0 else ()
            step = self.random.choice((*simple, *nested))
            step(exits) if step in nested else step()
        if exits and self.random.random() < 0.3:
            self.lines.append(self.random.choice(exits))
            return True
        return False

    def scoped(self, size: int, exits: list[str]) -> bool:
        """A body of its own: names defined in it are gone after it.  Leaves `inner` for the terminator."""
        saved = {type: list(names) for type, names in self.values.items()}
        ended = self.block(size, exits)
        self.inner, self.values = self.values, saved
        return ended

    # ---- statements ----

    def integer(self) -> None:
        type = self.random.choice((I32, I32, I8))
        name = self.random.choice((*BINARY, "divi"))
        sign = self.random.choice((" signed", " unsigned")) if name in ("maxi", "mini", "divi") else ""
        self.emit(f"{name} {self.pick(type)}, {self.pick(type)}{sign} : tile<{type}>", type)

    def boolean(self) -> None:
        kind = self.random.randrange(4)
        if kind == 0:
            self.emit(f"xori {self.pick(I1)}, %{self.true} : tile<i1>", I1)
        elif kind == 1:
            self.emit(f"{self.random.choice(('andi', 'ori', 'xori'))} {self.pick(I1)}, {self.pick(I1)} : tile<i1>", I1)
        else:
            self.compare(self.pick(I32), self.pick(I32), I32, self.random.choice(("signed", "unsigned")))

    def compare(self, left: str, right: str, type: str, sign: str) -> str:
        relation = self.random.choice(RELATIONS)
        return self.emit(f"cmpi {relation} {left}, {right}, {sign} : tile<{type}> -> tile<i1>", I1)[0]

    def select(self) -> None:
        type = self.random.choice((I32, I1, I1, F32, TILE, MASK))
        cond = MASK if type in (TILE, MASK) else I1
        operands = f"{self.pick(cond)}, {self.pick(type)}, {self.pick(type)}"
        self.emit(f"select {operands} : tile<{cond}>, tile<{type}>", type)

    def tile(self) -> None:
        kind = self.random.randrange(3)
        if kind == 0:
            type = self.random.choice((I32, I1))
            flat = f"v{self.names}"
            self.names += 1
            self.lines.append(f"%{flat} = reshape {self.pick(type)} : tile<{type}> -> tile<1x{type}>")
            self.emit(f"broadcast %{flat} : tile<1x{type}> -> tile<4x{type}>", f"4x{type}")
        elif kind == 1:
            self.emit(f"{self.random.choice(BINARY[:6])} {self.pick(TILE)}, {self.pick(TILE)} : tile<4xi32>", TILE)
        else:
            self.emit(f"cmpi less_than {self.pick(TILE)}, {self.pick(TILE)}, signed : tile<4xi32> -> tile<4xi1>", MASK)

    def floating(self) -> None:
        self.emit(f"{self.random.choice(FLOATS)} {self.pick(F32)}, {self.pick(F32)} : tile<f32>", F32)

    def address(self, type: str) -> tuple[str, str]:
        """A pointer to a slot that is this place's own."""
        pointer = "%p" if type == I32 else "%q"
        self.slots = (self.slots + 1) % SLOTS
        slot, place = f"v{self.names}", f"v{self.names + 1}"
        self.names += 2
        self.lines.append(f"%{slot} = constant <i32: {self.slots}> : tile<i32>")
        self.lines.append(
            f"%{place} = offset {pointer}, %{slot} : tile<ptr<{type}>>, tile<i32> -> tile<ptr<{type}>>"
        )
        return place, f"tile<ptr<{type}>>"

    def store(self, name: str, type: str) -> None:
        place, pointer = self.address(type)
        self.lines.append(f"%t{self.names} = store_ptr_tko weak %{place}, %{name} : {pointer}, tile<{type}> -> token")
        self.names += 1

    def memory(self) -> None:
        kind = self.random.randrange(3)
        type = self.random.choice((I32, F32))
        if kind == 0:
            self.store(self.pick(type)[1:], type)
            return
        place, pointer = self.address(I32)
        name = f"v{self.names}"
        self.names += 1
        operation = f"atomic_rmw_tko relaxed device %{place}, add, %{self.values[I32][3]} : {pointer}, tile<i32>"
        if kind == 1:
            operation = f"load_ptr_tko weak %{place} : {pointer}"
        self.lines.append(f"%{name}, %t{self.names} = {operation} -> tile<i32>, token")
        self.names += 1
        self.values[I32].append(name)

    def results(self) -> list[str]:
        return self.random.choices((I32, I32, I1, F32, TILE), k=self.random.randrange(3))

    def ends(self, word: str, types: list[str]) -> str:
        """A terminator with values of these types from the body that was written last."""
        outer, self.values = self.values, self.inner
        names = [self.pick(type) for type in types]
        self.values = outer
        return f"{word} {', '.join(names)} : {', '.join(f'tile<{type}>' for type in types)}" if types else word

    def branch(self, exits: list[str], cond: str | None = None) -> None:
        types = self.results()
        names = [f"v{self.names + number}" for number in range(len(types))]
        self.names += len(types)
        head = f"if {'%' + cond if cond else self.pick(I1)}"
        if types:
            head = f"{', '.join('%' + name for name in names)} = {head} -> ({', '.join(f'tile<{t}>' for t in types)})"
        self.lines.append(head + " {")
        if not self.scoped(4, exits):
            self.lines.append(self.ends("yield", types))
        if types or self.random.random() < 0.5:
            self.lines.append("} else {")
            if not self.scoped(4, exits):
                self.lines.append(self.ends("yield", types))
        self.lines.append("}")
        for name, type in zip(names, types):
            self.values[type].append(name)

    def count(self, exits: list[str]) -> None:
        """A counted loop over 8-bit numbers that compares its counter with all sorts of bounds."""
        del exits
        types = self.results()
        counter, first = f"i{self.names}", self.names + 1
        self.names += 1 + 2 * len(types)
        carried = [f"v{first + number}" for number in range(len(types))]
        results = [f"v{first + len(types) + number}" for number in range(len(types))]
        unsigned = self.random.random() < 0.4
        bounds = f"{self.pick(I8)} to {self.pick(I8)}, step %{self.random.choice(self.steps)}"
        head = f"for {'unsigned ' if unsigned else ''}%{counter} in ({bounds}) : tile<i8>"
        if types:
            values = ", ".join(f"%{name} = {self.pick(type)}" for name, type in zip(carried, types))
            head += f" iter_values({values}) -> ({', '.join(f'tile<{type}>' for type in types)})"
            head = f"{', '.join('%' + name for name in results)} = {head}"
        self.lines.append(head + " {")
        saved = {type: list(names) for type, names in self.values.items()}
        for name, type in zip(carried, types):
            self.values[type].append(name)
        leave = [self.inner_exit("continue", types)]
        right = self.pick(I8)
        sides = [f"%{counter}", right] if self.random.random() < 0.7 else [right, f"%{counter}"]
        sign = "unsigned" if unsigned is not (self.random.random() < 0.1) else "signed"
        cond = self.compare(*sides, I8, sign)
        self.values[I8].append(counter)
        for _ in range(self.random.randrange(1, 3)):
            self.branch(leave, cond)
        self.block(3, [])
        self.inner = self.values
        self.lines.append(self.ends("continue", types))
        self.lines.append("}")
        self.values = saved
        for name, type in zip(results, types):
            self.values[type].append(name)

    def inner_exit(self, word: str, types: list[str]) -> str:
        self.inner = self.values
        return self.ends(word, types)

    def loop(self, exits: list[str]) -> None:
        """A loop that is left after seven rounds at the latest."""
        del exits
        types = self.results()
        counter, first = f"i{self.names}", self.names + 1
        self.names += 1 + len(types)
        results = [f"v{first + number}" for number in range(len(types))]
        zero, one, seven = (f"%{self.values[I32][number]}" for number in (2, 3, 5))
        tail = f" -> {', '.join(f'tile<{type}>' for type in types)}" if types else ""
        head = f"loop iter_values(%{counter} = {zero}) : tile<i32>{tail}"
        self.lines.append((f"{', '.join('%' + name for name in results)} = " if types else "") + head + " {")
        saved = {type: list(names) for type, names in self.values.items()}
        self.values[I32].append(counter)
        leave = self.inner_exit("break", types)
        again = self.emit(f"addi %{counter}, {one} : tile<i32>", I32)[0]
        done = self.emit(f"cmpi greater_than_or_equal %{again}, {seven}, signed : tile<i32> -> tile<i1>", I1)[0]
        self.lines.append(f"if %{done} {{\n{leave}\n}}")
        self.block(4, [])
        self.branch([leave, f"continue %{again} : tile<i32>"])
        self.lines.append(f"continue %{again} : tile<i32>")
        self.lines.append("}")
        self.values = saved
        for name, type in zip(results, types):
            self.values[type].append(name)


def run(module: object, seed: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    integers = generator.integers(-9, 9, SLOTS + 1).astype(np.int32)
    floats = np.zeros(SLOTS + 1, np.float32)
    a, b = (int(value) for value in generator.integers(-5, 5, 2))
    low, high, middle = (int(value) for value in generator.integers(-128, 128, 3))
    interpret(module, "k", 1, [integers, floats, a, b, low, high, middle, bool(seed % 2), np.float32(2)])
    return integers, floats


@pytest.mark.parametrize("seed", SEEDS)
def test_passes_keep_the_meaning_of_random_kernels(seed: int) -> None:
    text = Kernel(seed).text()
    expected = run(parse_module(text, "before.mlir"), seed)
    for pipeline in PIPELINES:
        module = parse_module(text, "before.mlir")
        PassManager(parse_pipeline(pipeline, lookup_pass)).run(module)
        for before, after in zip(expected, run(module, seed)):
            assert before.tobytes() == after.tobytes(), f"{pipeline}\n{text}\n{print_op(module)}"
