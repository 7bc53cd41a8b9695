"""Random kernels: chains of operations over tiles of changing shapes and types.

Every operation is exact or rounds to nearest, so that results are equal to the bit in any layout.
"""

from __future__ import annotations

import random

import numpy as np

from tests.kernels.tiles import Tile
from tests.kernels.views import tile_type

DTYPES = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
          "f16": np.float16, "f32": np.float32, "f64": np.float64}  # fmt: skip
INTEGERS = ("i8", "i16", "i32", "i64")
MAX_ELEMENTS = 2048


class RandomKernel:
    """Grows a list of operations; `values` are (name, shape, element type) of the computed values."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = ["%one = constant <i32: 1> : tile<i32>"]
        self.values: list[tuple[str, tuple[int, ...], str]] = []
        self.inputs: list[Tile] = []
        self.count = 0
        generator = np.random.default_rng(seed)
        for name in "ab":
            shape = self.shape()
            element = self.random.choice(list(DTYPES))
            array = generator.integers(-20, 20, shape).astype(DTYPES[element])
            self.inputs.append(Tile(name, element, array))
            self.values.append((name, shape, element))

    @classmethod
    def of(cls, seed: int, steps: int = 12) -> RandomKernel:
        """The kernel of a seed, grown by `steps`."""
        kernel = cls(seed)
        for _ in range(steps):
            kernel.step()
        return kernel

    def outputs(self) -> list[Tile]:
        """A tile for every value that the kernel computes."""
        computed = [value for value in self.values if value[0].startswith("v")]
        return [Tile(name, element, np.zeros(shape, DTYPES[element])) for name, shape, element in computed]

    def shape(self) -> tuple[int, ...]:
        while True:
            shape = tuple(2 ** self.random.randrange(7) for _ in range(self.random.randrange(1, 4)))
            if np.prod(shape) <= MAX_ELEMENTS:
                return shape

    def emit(self, text: str, shape: tuple[int, ...], element: str) -> str:
        name = f"v{self.count}"
        self.count += 1
        self.lines.append(f"%{name} = {text}")
        self.values.append((name, shape, element))
        return name

    def pick(self):
        # Later values are more likely, so that chains grow.
        return self.random.choice(self.values[-6:])

    def step(self) -> None:
        self.random.choice(
            [self.binary, self.binary, self.binary, self.unary, self.select, self.convert, self.permute, self.reshape,
             self.broadcast, self.reduce, self.extract, self.cat, self.loop, self.product]
        )()  # fmt: skip

    def partner(self, shape, element) -> str:
        """Another value of this type, or the same."""
        same = [name for name, s, e in self.values if (s, e) == (shape, element)]
        return self.random.choice(same)

    def binary(self):
        name, shape, element = self.pick()
        if element in INTEGERS:
            operation = self.random.choice(["addi", "subi", "muli", "andi", "xori", "maxi", "mini"])
            sign = " signed" if operation in ("maxi", "mini") else ""
        else:
            operation, sign = self.random.choice(["addf", "subf", "mulf", "maxf", "minf"]), ""
        other = self.partner(shape, element)
        self.emit(f"{operation} %{name}, %{other}{sign} : {tile_type(shape, element)}", shape, element)

    def unary(self):
        name, shape, element = self.pick()
        choices = ["negi", "absi"] if element in INTEGERS else ["negf", "absf", "floor"]
        self.emit(f"{self.random.choice(choices)} %{name} : {tile_type(shape, element)}", shape, element)

    def select(self):
        name, shape, element = self.pick()
        other = self.partner(shape, element)
        t, truth = tile_type(shape, element), tile_type(shape, "i1")
        order = "cmpi less_than %{}, %{}, signed" if element in INTEGERS else "cmpf less_than ordered %{}, %{}"
        self.lines.append(f"%c{self.count} = {order.format(name, other)} : {t} -> {truth}")
        self.emit(f"select %c{self.count}, %{name}, %{other} : {truth}, {t}", shape, element)

    def convert(self):
        name, shape, element = self.pick()
        target = self.random.choice([e for e in DTYPES if e != element])
        if element in INTEGERS and target in INTEGERS:
            wider = DTYPES[target]().itemsize > DTYPES[element]().itemsize
            text = f"exti %{name} signed" if wider else f"trunci %{name}"
        elif element in INTEGERS:
            text = f"itof %{name} signed"
        elif target in INTEGERS:
            return  # conversions of out-of-range floats are undefined
        else:
            text = f"ftof %{name}"
        self.emit(f"{text} : {tile_type(shape, element)} -> {tile_type(shape, target)}", shape, target)

    def permute(self):
        name, shape, element = self.pick()
        if len(shape) == 1:
            return
        order = list(range(len(shape)))
        self.random.shuffle(order)
        result = tuple(shape[dim] for dim in order)
        types = f"{tile_type(shape, element)} -> {tile_type(result, element)}"
        self.emit(f"permute %{name} {order} : {types}", result, element)

    def reshape(self):
        name, shape, element = self.pick()
        rest, result = int(np.prod(shape)), []
        while rest > 1 and len(result) < 3:
            size = 2 ** self.random.randrange(0, rest.bit_length())
            result.append(size)
            rest //= size
        result = (*result, rest)
        self.emit(f"reshape %{name} : {tile_type(shape, element)} -> {tile_type(result, element)}", result, element)

    def broadcast(self):
        name, shape, element = self.pick()
        room = MAX_ELEMENTS // int(np.prod(shape))
        ones = [dim for dim, size in enumerate(shape) if size == 1]
        if not ones or room < 2:
            return
        dim = self.random.choice(ones)
        size = 2 ** self.random.randrange(1, room.bit_length())
        result = (*shape[:dim], size, *shape[dim + 1 :])
        self.emit(f"broadcast %{name} : {tile_type(shape, element)} -> {tile_type(result, element)}", result, element)

    def reduce(self):
        name, shape, element = self.pick()
        if len(shape) == 1:
            return
        axis = self.random.randrange(len(shape))
        if element in INTEGERS:
            operation, identity = self.random.choice([("addi %x, %y", "0"), ("xori %x, %y", "0")])
        else:
            # The larger of two zeros is defined, their order in a sum is not.
            least = {"f16": "0xFC00", "f32": "0xFF800000", "f64": "0xFFF0000000000000"}
            operation, identity = "maxf %x, %y", least[element]
        result, scalar = shape[:axis] + shape[axis + 1 :], tile_type((), element)
        body = f"(%x: {scalar}, %y: {scalar}) {{\n%z = {operation} : {scalar}\nyield %z : {scalar}\n}}"
        types = f"{tile_type(shape, element)} -> {tile_type(result, element)}"
        self.emit(f"reduce %{name} dim={axis} identities=[{identity} : {element}] : {types} {body}", result, element)

    def extract(self):
        name, shape, element = self.pick()
        axis = self.random.randrange(len(shape))
        if shape[axis] < 2:
            return
        result = (*shape[:axis], shape[axis] // 2, *shape[axis + 1 :])
        indices = ", ".join(self.random.choice(["%zero", "%one"]) if d == axis else "%zero" for d in range(len(shape)))
        types = f"{tile_type(shape, element)} -> {tile_type(result, element)}"
        self.emit(f"extract %{name}[{indices}] : {types}", result, element)

    def cat(self):
        name, shape, element = self.pick()
        if 2 * np.prod(shape) > MAX_ELEMENTS:
            return
        axis = self.random.randrange(len(shape))
        result = (*shape[:axis], 2 * shape[axis], *shape[axis + 1 :])
        other, t = self.partner(shape, element), tile_type(shape, element)
        self.emit(f"cat %{name}, %{other} dim = {axis} : {t}, {t} -> {tile_type(result, element)}", result, element)

    def loop(self):
        name, shape, element = self.pick()
        other, t = self.partner(shape, element), tile_type(shape, element)
        add = "addi" if element in INTEGERS else "addf"
        n = self.count
        self.lines.append(f"%n{n} = constant <i32: {self.random.randrange(0, 4)}> : tile<i32>")
        self.emit(
            f"for %i{n} in (%zero to %n{n}, step %one) : tile<i32> iter_values(%s{n} = %{name}) -> ({t}) {{\n"
            f"%w{n} = {add} %s{n}, %{other} : {t}\ncontinue %w{n} : {t}\n}}",
            shape, element,
        )  # fmt: skip

    def product(self):
        """A times its own transpose, of small integers: exact in f32."""
        name, shape, element = self.pick()
        if len(shape) != 2 or element != "i8" or shape[0] > 32:
            return
        n, (rows, inner) = self.count, shape
        half = [tile_type(s, "f16") for s in ((rows, inner), (inner, rows))]
        square = tile_type((rows, rows), "f32")
        self.lines += [
            f"%h{n} = itof %{name} signed : {tile_type(shape, 'i8')} -> {half[0]}",
            f"%t{n} = permute %h{n} [1, 0] : {half[0]} -> {half[1]}",
            f"%o{n} = constant <f32: 0.0> : {square}",
        ]
        self.emit(f"mmaf %h{n}, %t{n}, %o{n} : {half[0]}, {half[1]}, {square}", (rows, rows), "f32")
