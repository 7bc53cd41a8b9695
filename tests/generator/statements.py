"""Statements on tiles of any type and rank, drawn with their meaning: arithmetic, shapes, reductions, scans, dots.

A statement is a line of text and its effect on the same values in NumPy.  Integers wrap; floats are whole numbers that
their types hold, which each statement clips.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from tests.generator.choices import Choices
from tests.generator.kernel import CUTILE, ELEMENTS

INTEGERS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
FLOATS = ("f16", "bf16", "f32", "f64")
NARROW = ("f8E4M3FN", "f8E5M2")
MOST = 8
"""Floats are clipped to it: products of two of them are whole numbers in all types."""
MOST_ELEMENTS = 16384
MOST_DOT = 4096
"""Elements of an operand or a result of a dot."""
EXACT_SUMS = {"f16": 128, "bf16": 16}
"""The longest sums of clipped values that are exact; wider types hold those of all tiles."""

Values = dict[str, np.ndarray]
Meaning = Callable[[Values], None]


class Tile(NamedTuple):
    """A variable that holds a tile."""

    name: str
    shape: tuple[int, ...]
    element: str

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def is_float(self) -> bool:
        return self.element in FLOATS


class Statements:
    """The lines of a kernel and their meanings; `scope` holds the tiles that a statement may read."""

    def __init__(self, pick: Choices) -> None:
        self.pick = pick
        self.lines: list[str] = []
        self.scope: list[Tile] = []
        self.meanings: list[Meaning] = []
        """Those of the block that is being drawn."""
        self.depth = 1
        self.count = 0
        self.needs = 75

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def emit(
        self, text: str, shape: Sequence[int], element: str, meaning: Callable[[Values], np.ndarray], name: str = ""
    ) -> Tile:
        """Assign a tile to a name, by default to a new one."""
        self.count += not name
        tile = Tile(name or f"t{self.count}", tuple(shape), element)
        self.line(f"{tile.name} = {text}")

        def run(values: Values) -> None:
            result = np.asarray(meaning(values))
            assert result.shape == tile.shape, f"{text}: {result.shape} is not {tile.shape}"
            values[tile.name] = result.astype(ELEMENTS[element])

        self.meanings.append(run)
        if not name:
            self.scope.append(tile)
        return tile

    def any(self, *elements: str) -> Tile:
        """A tile in scope, of late ones more likely, converted to one of the elements if there are any."""
        late = self.scope[-4:] if self.pick.chance(0.7) else self.scope
        tile = self.pick.choice(late)
        if elements and tile.element not in elements:
            tile = self.cast(tile, self.pick.choice(elements))
        return tile

    # -- conversions ---------------------------------------------------------------------------------------------------

    def cast(self, tile: Tile, element: str) -> Tile:
        """Integers wrap, floats and integers that become floats are clipped."""
        name, text = tile.name, tile.name
        if tile.element == element:
            return tile
        if element == "i1":
            return self.emit(f"{name} != 0", tile.shape, "i1", lambda values: values[name] != 0)
        to_float, from_float = element in FLOATS, tile.is_float
        if to_float and not from_float and tile.element != "i1":
            text = f"ct.minimum({name}, {MOST})"
            if tile.element.startswith("i"):
                text = f"ct.maximum({text}, -{MOST})"
        elif from_float and element.startswith("u"):
            text = f"ct.maximum({name}, 0)"

        def meaning(values: Values) -> np.ndarray:
            value = values[name]
            if text != name and not from_float:
                value = np.clip(value, -MOST if tile.element.startswith("i") else 0, MOST)
            elif text != name:
                value = np.maximum(value, value.dtype.type(0))
            return value.astype(np.int64) if from_float and not to_float else value

        return self.emit(f"ct.astype({text}, ct.{CUTILE[element]})", tile.shape, element, meaning)

    def shaped(self, tile: Tile, shape: Sequence[int]) -> Tile:
        """A tile of this shape: reshaped, repeated, or the least of parts."""
        name, shape, size = tile.name, tuple(shape), math.prod(shape)
        if tile.shape == shape:
            return tile
        if tile.size == size:
            return self.emit(f"ct.reshape({name}, {shape})", shape, tile.element,
                             lambda values: values[name].reshape(shape))  # fmt: skip
        if tile.size < size:
            parts = size // tile.size
            text = f"ct.broadcast_to(ct.reshape({name}, (1, {tile.size})), ({parts}, {tile.size}))"
            copies = lambda values: np.broadcast_to(values[name].reshape(1, -1), (parts, tile.size))  # noqa: E731
            wide = self.emit(text, (parts, tile.size), tile.element, copies)
            return self.shaped(wide, shape)
        if tile.element == "i1":
            return self.cast(self.shaped(self.cast(tile, "i32"), shape), "i1")
        parts = tile.size // size
        least = self.emit(f"ct.min(ct.reshape({name}, ({parts}, {size})), axis=0)", (size,), tile.element,
                          lambda values: values[name].reshape(parts, size).min(axis=0))  # fmt: skip
        return self.shaped(least, shape)

    def fitted(self, tile: Tile, like: Tile) -> Tile:
        return self.shaped(self.cast(tile, like.element), like.shape)

    # -- arithmetic ----------------------------------------------------------------------------------------------------

    def binary(self) -> None:
        """Of two tiles, of one with itself, or of one with a row, column or plane of it."""
        tile = self.any()
        if tile.element == "i1":
            kinds = {"&": np.logical_and, "|": np.logical_or, "^": np.logical_xor}
            text, meaning = self.pick.choice(list(kinds.items()))
            self._pair(tile, self._partner(tile), f"{{x}} {text} {{y}}", meaning)
        elif tile.is_float:
            kinds = {"{x} + {y}": np.add, "{x} - {y}": np.subtract, "{x} * {y}": np.multiply,
                     "ct.maximum({x}, {y})": np.maximum, "ct.minimum({x}, {y})": np.minimum}  # fmt: skip
            text, meaning = self.pick.choice(list(kinds.items()))
            self._pair(tile, self._partner(tile), f"ct.maximum(ct.minimum({text}, {MOST}), -{MOST})", _clipped(meaning))
        else:
            text, meaning = self.pick.choice(_integer_kinds(tile.element))
            self._pair(tile, self._partner(tile), text, meaning)

    def _partner(self, tile: Tile) -> Tile:
        """Another tile of its type, whose dimensions may be one."""
        if self.pick.chance(0.3) and tile.shape:
            shape = tuple(self.pick.choice((1, size)) for size in tile.shape)
        else:
            shape = tile.shape
        return self.shaped(self.cast(self.any(), tile.element), shape)

    def _pair(self, x: Tile, y: Tile, text: str, meaning: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Tile:
        def run(values: Values) -> np.ndarray:
            with np.errstate(all="ignore"):
                return meaning(values[x.name], values[y.name])

        return self.emit(text.format(x=x.name, y=y.name), x.shape, x.element, run)

    def compared(self) -> None:
        tile = self.any(*INTEGERS, *FLOATS)
        other = self._partner(tile)
        kinds = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal,
                 "!=": np.not_equal}  # fmt: skip
        kind, meaning = self.pick.choice(list(kinds.items()))
        is_ = self.emit(f"{tile.name} {kind} {other.name}", tile.shape, "i1",
                        lambda values: meaning(values[tile.name], values[other.name]))  # fmt: skip
        if self.pick.chance(0.7):
            self._selected(is_, tile)

    def selected(self) -> None:
        tile = self.any(*INTEGERS, *FLOATS)
        self._selected(self.fitted(self.any(), Tile("", tile.shape, "i1")), tile)

    def _selected(self, is_: Tile, x: Tile) -> None:
        y = self.fitted(self.any(), x)
        self.emit(f"ct.where({is_.name}, {x.name}, {y.name})", x.shape, x.element,
                  lambda values: np.where(values[is_.name], values[x.name], values[y.name]))  # fmt: skip

    def unary(self) -> None:
        tile = self.any(*INTEGERS, *FLOATS)
        name, cutile = tile.name, f"ct.{CUTILE[tile.element]}"
        if tile.is_float:
            kinds = {f"ct.floor({name} * 0.5)": lambda x: np.floor(x / 2),
                     f"ct.ceil({name} * 0.5)": lambda x: np.ceil(x / 2),
                     f"ct.abs({name})": np.abs, f"-{name}": np.negative,
                     f"ct.where(ct.isnan({name}), {name}, {name} * 1)": lambda x: x}  # fmt: skip
            if tile.element in ("f32", "f64"):
                kinds[f"ct.sqrt({name} * {name})"] = np.abs
                kinds[f"ct.sqrt({name} * {name}, rounding_mode=ct.RoundingMode.RZ)"] = np.abs
        else:
            kinds = {f"ct.abs({name} >> 1)": lambda x: np.abs(x >> x.dtype.type(1)), f"-{name}": np.negative,
                     f"~{name}": np.invert}  # fmt: skip
            other = ("u" if tile.element[0] == "i" else "i") + tile.element[1:]
            turned = f"ct.bitcast(ct.bitcast({name}, ct.{CUTILE[other]}) >> 1, {cutile})"
            kinds[turned] = lambda x: (x.view(ELEMENTS[other]) >> 1).view(x.dtype)
        text, meaning = self.pick.choice(list(kinds.items()))
        self.emit(text, tile.shape, tile.element, lambda values: meaning(np.ascontiguousarray(values[name])))

    def asserted(self) -> None:
        """A condition that holds."""
        tile = self.any(*INTEGERS)
        self.line(f"ct.assert_({tile.name} == {tile.name})")

    def converted(self) -> None:
        """To another type, or through a narrower one and back."""
        tile = self.any()
        if tile.is_float and self.pick.chance(0.15):
            narrow = self.pick.choice(NARROW)
            self.needs = max(self.needs, 89)
            text = f"ct.astype(ct.astype({tile.name}, ct.{CUTILE[narrow]}), ct.{CUTILE[tile.element]})"
            self.emit(text, tile.shape, tile.element, lambda values: values[tile.name])
            return
        self.cast(tile, self.pick.choice([each for each in (*INTEGERS, *FLOATS) if each != tile.element]))

    # -- shapes --------------------------------------------------------------------------------------------------------

    def reshaped(self) -> None:
        tile = self.any()
        self.shaped(tile, factors(self.pick, tile.size))

    def permuted(self) -> None:
        tile = self.any()
        if len(tile.shape) < 2:
            tile = self.shaped(tile, factors(self.pick, tile.size, 2))
        axes = tuple(range(len(tile.shape)))
        while axes == tuple(sorted(axes)):
            axes = shuffled(self.pick, axes)
        text = f"ct.permute({tile.name}, {axes})" if len(axes) > 2 else f"ct.transpose({tile.name})"
        self.emit(text, [tile.shape[axis] for axis in axes], tile.element,
                  lambda values: values[tile.name].transpose(axes))  # fmt: skip

    def extracted(self) -> None:
        """A part of a tile, which other parts may join."""
        tile = self.any()
        if tile.size == 1:
            return
        shape = tuple(max(1, size // self.pick.choice((1, 2, 2, 4))) for size in tile.shape)
        index = tuple(self.pick.randrange(whole // part) for whole, part in zip(tile.shape, shape, strict=True))
        at = tuple(slice(i * part, (i + 1) * part) for i, part in zip(index, shape, strict=True))
        part = self.emit(f"ct.extract({tile.name}, {index}, {shape})", shape, tile.element,
                         lambda values: values[tile.name][at])  # fmt: skip
        if self.pick.chance(0.4):
            other = self.fitted(self.any(), part)

            def inserted(values: Values) -> np.ndarray:
                result = values[tile.name].copy()
                result[at] = values[other.name]
                return result

            self.emit(f"ct.insert({tile.name}, {index}, {other.name})", tile.shape, tile.element, inserted)

    def joined(self) -> None:
        x = self.any()
        if 2 * x.size > MOST_ELEMENTS:
            return
        y, axis = self.fitted(self.any(), x), self.pick.randrange(len(x.shape))
        shape = tuple(2 * size if dim == axis else size for dim, size in enumerate(x.shape))
        self.emit(f"ct.cat(({x.name}, {y.name}), {axis})", shape, x.element,
                  lambda values: np.concatenate((values[x.name], values[y.name]), axis))  # fmt: skip

    # -- along a dimension ---------------------------------------------------------------------------------------------

    def reduced(self) -> None:
        tile = self.any(*INTEGERS, "f32", "f64", "f16", "bf16")
        axis = self.pick.randrange(len(tile.shape))
        kinds = {"max": np.max, "min": np.min}
        if tile.shape[axis] <= EXACT_SUMS.get(tile.element, MOST_ELEMENTS):
            kinds["sum"] = np.sum
        if not tile.is_float:
            kinds["prod"] = np.prod
        kind = self.pick.choice(sorted(kinds))
        keep = self.pick.chance(0.5) or len(tile.shape) == 1
        shape = tuple(1 if dim == axis else size for dim, size in enumerate(tile.shape) if keep or dim != axis)
        text = f"ct.{kind}({tile.name}, axis={axis}, keepdims={keep})"
        wide = np.float64 if tile.is_float else ELEMENTS[tile.element]
        more = {"dtype": wide} if kind in ("sum", "prod") else {}
        meaning = lambda values: kinds[kind](values[tile.name], axis=axis, keepdims=keep, **more)  # noqa: E731
        if kind == "sum" and tile.is_float:
            text, plain = f"ct.maximum(ct.minimum({text}, {MOST}), -{MOST})", meaning
            meaning = lambda values: np.clip(plain(values), -MOST, MOST)  # noqa: E731
        self.emit(text, shape, tile.element, meaning)

    def scanned(self) -> None:
        tile = self.any(*INTEGERS)
        axis, back = self.pick.randrange(len(tile.shape)), self.pick.chance(0.4)
        kind, meaning = self.pick.choice((("cumsum", np.cumsum), ("cumsum", np.cumsum), ("cumprod", np.cumprod)))

        def run(values: Values) -> np.ndarray:
            value = np.flip(values[tile.name], axis) if back else values[tile.name]
            with np.errstate(all="ignore"):
                result = meaning(value, axis=axis, dtype=value.dtype)
            return np.flip(result, axis) if back else result

        self.emit(f"ct.{kind}({tile.name}, axis={axis}, reverse={back})", tile.shape, tile.element, run)

    # -- dots ----------------------------------------------------------------------------------------------------------

    def dot(self) -> None:
        """Of two tiles in scope, as matrices or as batches of them."""
        element, total = self.pick.choice((("f16", "f32"), ("f16", "f16"), ("bf16", "f32"), ("f32", "f32"),
                                           ("i8", "i32"), ("u8", "i32"), ("f64", "f64")))  # fmt: skip
        x = self.any()
        batch = self.pick.choice((0, 0, 0, 1, 2))
        m, n, k = (self.pick.choice((8, 16, 16, 32, 64)) for _ in range(3))
        while max(1, batch) * max(m * n, m * k, n * k) > MOST_DOT or total == "f16" and k > 16:
            m, n, k = max(8, m // 2), max(8, n // 2), max(8, k // 2)
        lead = (batch,) if batch else ()
        x = self.fitted(x, Tile("", (*lead, m, k), element))
        y = self.fitted(self.any(), Tile("", (*lead, k, n), element))
        zeros = f"ct.zeros({(*lead, m, n)}, ct.{CUTILE[total]})"
        text, wide = f"ct.mma({x.name}, {y.name}, {zeros})", np.float64 if total in FLOATS else np.int64
        meaning = lambda values: values[x.name].astype(wide) @ values[y.name].astype(wide)  # noqa: E731
        if total in FLOATS:
            text, plain = f"ct.maximum(ct.minimum({text}, {MOST}), -{MOST})", meaning
            meaning = lambda values: np.clip(plain(values), -MOST, MOST)  # noqa: E731
        self.emit(text, (*lead, m, n), total, meaning)


def _clipped(meaning: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    return lambda x, y: np.clip(meaning(x.astype(np.float64), y.astype(np.float64)), -MOST, MOST)


def _integer_kinds(element: str) -> list[tuple[str, Callable[[np.ndarray, np.ndarray], np.ndarray]]]:
    """Those with a result for all operands: divisors and shifts are small."""
    bits = 8 * np.dtype(ELEMENTS[element]).itemsize - 1
    # The front end rounds quotients of unsigned numbers down, which Tile IR refuses.
    quotient = ("{x} // (({y} & 7) + 1)", lambda x, y: x // ((y & x.dtype.type(7)) + x.dtype.type(1)))
    return [
        *([quotient] if element.startswith("i") else []),
        ("{x} + {y}", np.add), ("{x} - {y}", np.subtract), ("{x} * {y}", np.multiply),
        ("{x} & {y}", np.bitwise_and), ("{x} | {y}", np.bitwise_or), ("{x} ^ {y}", np.bitwise_xor),
        ("ct.maximum({x}, {y})", np.maximum), ("ct.minimum({x}, {y})", np.minimum),
        (f"{{x}} << ({{y}} & {bits})", lambda x, y: x << (y & x.dtype.type(bits))),
        (f"{{x}} >> ({{y}} & {bits})", lambda x, y: x >> (y & x.dtype.type(bits))),
        ("{x} % (({y} & 15) + 1)", lambda x, y: x % ((y & x.dtype.type(15)) + x.dtype.type(1))),
        ("~{x} - {y}", lambda x, y: ~x - y),
        ("ct.where({x} == {y}, {y} + 1, {x})", lambda x, y: np.where(x == y, y + x.dtype.type(1), x)),
    ]  # fmt: skip


def factors(pick: Choices, size: int, least: int = 1) -> tuple[int, ...]:
    """A shape with this number of elements and at most four dimensions."""
    rank = max(least, pick.choice((1, 2, 2, 3, 4)))
    shape = [1] * rank
    while size > 1:
        shape[pick.randrange(rank)] *= 2
        size //= 2
    return tuple(shape)


def shuffled(pick: Choices, items: Sequence[int]) -> tuple[int, ...]:
    left, result = list(items), []
    while left:
        result.append(left.pop(pick.randrange(len(left))))
    return tuple(result)
