"""Random modules of raw Tile IR: compositions that no front end writes, judged by the interpreter within its bounds.

A module computes with values of every type and rank, reads and writes memory through pointers and views, and carries
tiles and tokens through loops and branches.  It is well defined: every access is inside of memory and ordered by
tokens, and tile blocks share memory only for reads, or for updates in any order.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.generator import module_control, module_memory, module_tiles
from tests.generator.choices import Choices
from tests.generator.kernel import ELEMENTS, Argument
from tests.generator.module_writer import FLOATS, INTEGERS, STORED, WIDTHS, Memory, Value, Writer
from tests.kernels.views import tile_type

_HINTS = {"num_ctas": "num_cta_in_cga", "occupancy": "occupancy", "num_worker_warps": "num_worker_warps_per_cta"}
"""Arguments of the front end's decorator, and their names in the IR."""
_STATEMENTS = {**{each: ("tiles", weight) for each, weight in module_tiles.STATEMENTS.items()},
               **{each: ("memory", weight) for each, weight in module_memory.STATEMENTS.items()},
               **{each: ("control", weight) for each, weight in module_control.STATEMENTS.items()}}  # fmt: skip
DEEPEST = 3
"""Regions around a statement."""


@dataclass(frozen=True)
class Module:
    """The text of a module and one launch, in the place of a `Generated` kernel: the interpreter has the results."""

    form: str
    globals_: tuple[str, ...]
    parameters: str
    body: str
    arguments: tuple[Argument, ...]
    grid: tuple[int, int, int]
    needs: int = 75
    warps: tuple[int, ...] = ()
    constants: tuple[Any, ...] = ()
    options: Mapping[str, Any] = field(default_factory=lambda: {"legalize_types": True})
    """All targets have all types, by conversion where they have no instructions."""

    def text(self, hints: str = "", entries: int = 1) -> str:
        """The module with the entry under several names; `hints` are the arguments of the front end's decorator."""
        names = ["kernel", *(f"kernel_{number}" for number in range(1, entries))]
        clause = _clause(hints)
        texts = [f"  entry @{name}({self.parameters}){clause} {{\n{self.body}\n    return\n  }}\n" for name in names]
        declared = [f"  {each}\n" for each in self.globals_]
        return "".join(["cuda_tile.module @generated {\n", *declared, *texts, "}\n"])

    def source(self, hints: str = "", entries: int = 1) -> str:
        return self.text(hints, entries)

    def memory_slots(self) -> list[Any]:
        """Fresh parameters of the entry in order."""
        return [_fresh(each.value) for each in self.arguments]

    def slots(self) -> tuple[list[Any], dict[str, np.ndarray]]:
        slots = self.memory_slots()
        return slots, {each.name: slot for each, slot in zip(self.arguments, slots, strict=True)
                       if isinstance(slot, np.ndarray)}  # fmt: skip

    def check(self, outputs: dict[str, np.ndarray]) -> str:
        """Nothing: no other implementation has the results."""
        return ""


def _fresh(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value


def _clause(hints: str) -> str:
    """The decorator's arguments as an attribute of the entry."""
    given: dict[str, dict[str, str]] = {}
    for name, value in re.findall(r"(\w+)=(ct\.ByTarget\([^)]*\)|\d+)", hints):
        for target, number in re.findall(r"(\w+)=(\d+)", value) or [("default", value)]:
            given.setdefault(target, {})[_HINTS[name]] = number
    rows = [f"{target} = {{{', '.join(f'{key} = {number}' for key, number in row.items())}}}"
            for target, row in sorted(given.items())]  # fmt: skip
    return f" optimization_hints=<{', '.join(rows)}>" if rows else ""


# -- the draws ---------------------------------------------------------------------------------------------------------


class _Builder:
    def __init__(self, pick: Choices) -> None:
        self.pick = pick
        self.w = Writer(pick, pick.choice((256, 1024, 1024, 2048, 4096, 4096, 8192, 16384)))
        self.grid = (pick.choice((1, 1, 2, 3)), pick.choice((1, 1, 1, 2)), 1)
        self.blocks = self.grid[0] * self.grid[1]
        self.arguments: list[Argument] = []
        self.parameters: list[str] = []
        self.globals: list[str] = []
        self.tallies: list[tuple[Memory, str]] = []
        self.left = 0
        """Statements that are still to be written."""
        self.has_scales = pick.chance(0.1)
        self.scalar("one", 1, "i32")
        self.scalar("one64", 1, "i64")

    def scalar(self, name: str, value: int, element: str) -> None:
        self.parameters.append(f"%{name}: {tile_type((), element)}")
        self.arguments.append(Argument(name, ELEMENTS[element](value), element))

    def array(self, element: str, size: int, numbers: np.ndarray) -> str:
        """A pointer parameter."""
        name = f"m{len(self.parameters)}"
        self.parameters.append(f"%{name}: {tile_type((), f'ptr<{element}>')}")
        self.arguments.append(Argument(name, numbers, f"{element}[{size}]"))
        if self.pick.chance(0.8):
            divisor, type_ = self.pick.choice((16, 16, 8)), tile_type((), f"ptr<{element}>")
            return self.w.make(f"assume div_by<{divisor}>, %{name} : {type_}", (), f"ptr<{element}>").name
        return f"%{name}"

    def of_block(self, pointer: str, element: str, size: int) -> str:
        """The part of a tile block."""
        if self.blocks == 1:
            return pointer
        w, type_ = self.w, tile_type((), f"ptr<{element}>")
        distance = w.make(f"muli %block, {w.index(size)} : tile<i32>", (), "i32")
        return w.make(f"offset {pointer}, {distance.name} : {type_}, tile<i32> -> {type_}", (), f"ptr<{element}>").name

    # -- memory -------------------------------------------------------------------------------------------------------

    def prologue(self) -> None:
        w = self.w
        w.line("%zero = constant <i32: 0> : tile<i32>")
        w.line("%block_x, %block_y, %block_z = get_tile_block_id : tile<i32>")
        w.line("%grid_x, %grid_y, %grid_z = get_num_tile_blocks : tile<i32>")
        w.line("%row = muli %block_y, %grid_x : tile<i32>")
        w.line("%block = addi %row, %block_x : tile<i32>")
        for name in ("%one", "%block", "%grid_x"):
            w.add(Value(name, (), "i32"))
        w.add(Value("%one64", (), "i64"))
        for _ in range(self.pick.choice((1, 2, 3))):
            self.input()
        if self.pick.chance(0.3):
            self.global_()
        for _ in range(self.pick.choice((0, 1, 1, 2, 3))):
            self.scratch()
        for _ in range(self.pick.choice((0, 0, 1))):
            element = self.pick.choice(("i32", "i64", "f32", "f64", "f16", "bf16"))
            mode = self.pick.choice([each for each in module_memory.MODES[element] if each != "xchg"])
            size = 1 << self.pick.randrange(8)
            pointer = self.array(element, size, np.zeros(size, ELEMENTS[element]))
            self.tallies.append((Memory("tally", element, size, pointer), mode))
        for _ in range(2):
            module_memory.load_view(w)
            module_memory.load_pointers(w)
        module_tiles.ramp(w)

    def input(self) -> None:
        element, size = self.pick.choice((*STORED, "i32", "f32", "f16")), 1 << self.pick.choice((6, 8, 10, 11, 12, 15))
        is_own = self.pick.chance(0.5)
        count = size * (self.blocks if is_own else 1)
        pointer = self.array(element, count, numbers(self.pick, element, count))
        if is_own:
            pointer = self.of_block(pointer, element, size)
        self.w.inputs.append(Memory("input", element, size, pointer))

    def global_(self) -> None:
        element, size = self.pick.choice((*INTEGERS, *FLOATS, "i1")), 1 << self.pick.randrange(8)
        rows = [self.pick.randrange(-9, 10) for _ in range(size)]
        shown = {"i": str, "f": lambda each: str(each / 2), "b": lambda each: str(each / 2)}[element[0]]
        values = [str(each > 0).lower() if element == "i1" else shown(each) for each in rows]
        flag = self.pick.choice(("", "private "))
        self.globals.append(f"global {flag}@table <{element}: [{', '.join(values)}]> : {tile_type((size,), element)}")
        pointer = self.w.make(f"get_global @table : {tile_type((), f'ptr<{element}>')}", (), f"ptr<{element}>").name
        self.w.inputs.append(Memory("global", element, size, pointer))

    def scratch(self) -> None:
        """Memory of a tile block: an array that the launch gives, or an allocation, which is filled first."""
        w, pick = self.w, self.pick
        element, size = pick.choice((*STORED, "i32", "i64", "f32")), 1 << pick.choice((0, 4, 7, 9, 11, 12))
        if pick.chance(0.75) or WIDTHS[element] < 8:
            pointer = self.array(element, size * self.blocks, numbers(pick, element, size * self.blocks))
            memory = Memory("scratch", element, size, self.of_block(pointer, element, size), True, "%start")
            if "%start = make_token : token" not in w.lines:
                w.line("%start = make_token : token")
            w.scratches.append(memory)
            return
        alignment = pick.choice((16, 64, 256))
        pointer = w.make(f"alloca num_elem = {size}, alignment = {alignment}{pick.choice(('', ' global'))}"
                         f" : {tile_type((), f'ptr<{element}>')}", (), f"ptr<{element}>").name  # fmt: skip
        row, token = w.iota((size,)), w.name()
        base, p = w.spread(pointer, f"ptr<{element}>", (size,)), tile_type((size,), f"ptr<{element}>")
        places = w.make(f"offset {base.name}, {row.name} : {p}, {row.type} -> {p}", (size,), f"ptr<{element}>")
        initial = w.fitted(row, (size,), element)
        w.line(f"{token} = store_ptr_tko weak {places.name}, {initial.name} : {p}, {initial.type} -> token")
        w.scratches.append(Memory("scratch", element, size, pointer, True, token))

    # -- statements ---------------------------------------------------------------------------------------------------

    def statements(self, w: Writer, count: int) -> None:
        for _ in range(count):
            if self.left <= 0:
                return
            self.left -= 1
            allowed = {each: weight for each, (kind, weight) in _STATEMENTS.items()
                       if kind != "control" or w.depth < DEEPEST}  # fmt: skip
            chosen = w.pick.choices(list(allowed), list(allowed.values()))[0]
            if _STATEMENTS[chosen][0] == "control":
                chosen(w, self.statements, self.left)
            else:
                chosen(w)
            if self.tallies and w.pick.chance(0.08):
                module_memory.tally(w, *w.pick.choice(self.tallies))
            if self.has_scales and w.pick.chance(0.15):
                module_tiles.scaled_dot(w)

    def results(self) -> None:
        """Store several of the last values, each to a separate array."""
        w = self.w
        count = self.pick.choice((1, 2, 3, 4, 5))
        chosen = list(dict.fromkeys([w.scope.values[-1], *(w.any() for _ in range(count))]))
        for value in chosen:
            if value.element not in STORED:
                value = w.converted(value, "f32")
            self.result(value)

    def result(self, value: Value) -> None:
        w, element = self.w, value.element
        pointer = self.array(element, value.size * self.blocks, np.zeros(value.size * self.blocks, ELEMENTS[element]))
        if not 1 <= len(value.shape) <= 4 or self.pick.chance(0.3):
            memory = self.of_block(pointer, element, value.size)
            base, p = w.spread(memory, f"ptr<{element}>", value.shape), tile_type(value.shape, f"ptr<{element}>")
            row = w.iota(value.shape)
            text = f"offset {base.name}, {row.name} : {p}, {row.type} -> {p}"
            at = w.make(text, value.shape, f"ptr<{element}>").name
            w.line(f"{w.name()} = store_ptr_tko weak {at}, {value.name} : {p}, {value.type} -> token")
            return
        shape = (value.shape[0] * self.blocks, *value.shape[1:])
        strides = [int(np.prod(shape[dim + 1 :])) for dim in range(len(shape))]
        tensor = f"tensor_view<{'x'.join(map(str, shape))}x{element}, strides=[{','.join(map(str, strides))}]>"
        view = f"partition_view<tile=({'x'.join(map(str, value.shape))}), {tensor}>"
        name, whole, zero = w.name(), w.name(), w.index(0)
        w.line(f"{whole} = make_tensor_view {pointer}, shape = {list(shape)}, strides = {strides} : {tensor}")
        w.line(f"{name} = make_partition_view {whole} : {view}")
        places = ", ".join(["%block", *[zero] * (len(shape) - 1)])
        types = f"{value.type}, {view}, tile<i32>"
        w.line(f"{w.name()} = store_view_tko weak {value.name}, {name}[{places}] : {types} -> token")


def numbers(pick: Choices, element: str, count: int) -> np.ndarray:
    """Any bits of integers; of floats whole numbers, numbers around zero, or any bits."""
    generator = np.random.default_rng(pick.randrange(1 << 32))
    dtype = np.dtype(ELEMENTS[element])
    if element == "i1":
        return generator.integers(0, 2, count).astype(np.bool_)
    kind = pick.choice(("whole", "normal", "bits"))
    if kind == "bits":
        return np.frombuffer(generator.bytes(count * dtype.itemsize), dtype).copy()
    if kind == "whole" or element[0] == "i":
        return generator.integers(-20, 21, count).astype(dtype)
    return generator.standard_normal(count).astype(dtype)


def module(pick: Choices) -> Module:
    builder = _Builder(pick)
    builder.left = pick.choice((6, 12, 12, 20, 20, 30, 45))
    builder.prologue()
    builder.statements(builder.w, builder.left)
    builder.results()
    body = "\n".join(f"    {line}" for text in builder.w.lines for line in text.split("\n"))
    return Module("module", tuple(builder.globals), ", ".join(builder.parameters), body, tuple(builder.arguments),
                  builder.grid)  # fmt: skip
