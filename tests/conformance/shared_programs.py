"""Random programs whose tiles the CTAs of a tile block share (see `random_programs.py --num-ctas`)."""

from __future__ import annotations

import numpy as np
from random_programs import SCRATCH_PLACES, Program

from tests.kernels.random_tiles import INTEGERS, MAX_ELEMENTS
from tests.kernels.views import tile_type


class Shared(Program):
    """Short programs, most of which can be sliced along some dimension: longer ones usually contain an operation that
    prevents sharing."""

    STEPS = 5

    def shape(self) -> tuple[int, ...]:
        while True:
            shape = tuple(2 ** self.random.randrange(1, 7) for _ in range(self.random.randrange(1, 4)))
            if np.prod(shape) <= MAX_ELEMENTS:
                return shape

    def step(self) -> None:
        kind = self.random.random()
        if kind < 0.1:
            super().step()  # conditions, other loops, memory written and read again
            return
        if kind < 0.45:
            self.random.choice([self.binary, self.scan, self.reduce, self.permute, self.beside])()
            return
        self.random.choice(
            [self.binary, self.unary, self.select, self.convert, self.permute, self.reshape, self.broadcast,
             self.reduce, self.scan, self.scan, self.loop, self.product, self.shift, self.narrow, self.beside,
             self.places_apart, self.updates, self.extract, self.cat]
        )()  # fmt: skip

    def beside(self) -> None:
        """Add a tile loaded from memory of its own, in a loop that creates the view or before one that uses it; the
        tiles of some views overlap."""
        name, shape, element = self.pick()
        if element not in ("i32", "f32"):
            return
        memory, n, t = self.memory(element, 4 * MAX_ELEMENTS), self.count, tile_type(shape, element)
        sizes = [*shape[:-1], 2 * shape[-1]]
        strides = [int(np.prod(sizes[place + 1 :])) for place in range(len(sizes))]
        tensor = f"tensor_view<{'x'.join(map(str, sizes))}x{element}, strides=[{','.join(map(str, strides))}]>"
        steps = [*shape[:-1], min(shape[-1], self.random.choice([MAX_ELEMENTS, shape[-1] // 2 or 1, 1, 3]))]
        view = f"strided_view<tile=({'x'.join(map(str, shape))}), traversal_strides={steps}, {tensor}>"
        make = [
            f"%bt{n} = make_tensor_view %p_{memory}, shape = {sizes}, strides = {strides} : {tensor}",
            f"%bv{n} = make_strided_view %bt{n} : {view}",
        ]
        inside = self.random.randrange(3)
        self.lines += make[:inside]
        add = "addi" if element in INTEGERS else "addf"
        places = ", ".join(["%zero"] * (len(shape) - 1) + [f"%i{n}"])
        body = [
            *make[inside:],
            f"%l{n}, %g{n} = load_view_tko weak %bv{n}[{places}] : {view}, tile<i32> -> {t}, token",
            f"%w{n} = {add} %s{n}, %l{n} : {t}",
            f"continue %w{n} : {t}",
        ]
        self.lines.append(f"%n{n} = constant <i32: {self.random.randrange(1, 3)}> : tile<i32>")
        self.emit(
            f"for %i{n} in (%zero to %n{n}, step %one) : tile<i32> iter_values(%s{n} = %{name}) -> ({t}) {{\n"
            + "\n".join(body) + "\n}",
            shape, element,
        )  # fmt: skip

    def places_apart(self) -> None:
        """Elements of read-only memory, at offsets that depend on data."""
        name, shape, element = self.pick()
        memory = self.memory(element, 2 * SCRATCH_PLACES)
        pointers, n, t = self.places(shape, memory, element), self.count, tile_type(shape, element)
        self.count += 1
        self.lines.append(
            f"%v{n}, %g{n} = load_ptr_tko weak {pointers} : {tile_type(shape, f'ptr<{element}>')} -> {t}, token"
        )
        self.values.append((f"v{n}", shape, element))
