"""The text of a generated Tile IR module while it grows: values in scope, constants, and conversions between types."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from typing import NamedTuple

from tests.generator.choices import Choices
from tests.kernels.views import tile_type

INTEGERS = ("i8", "i16", "i32", "i64")
FLOATS = ("f16", "bf16", "f32", "f64")
NARROW = ("f8E4M3FN", "f8E5M2", "tf32")
"""Floats without arithmetic of their own."""
STORED = ("i1", *INTEGERS, *FLOATS, "f8E4M3FN", "f8E5M2")
"""Element types of memory."""
WIDTHS = {"i1": 1, "i4": 4, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "f4E2M1FN": 4, "f8E8M0FNU": 8, "f8E4M3FN": 8,
          "f8E5M2": 8, "f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "f64": 64}  # fmt: skip
RECENT = 9
"""Values of a scope that most operands come from."""
Shape = tuple[int, ...]


class Value(NamedTuple):
    """A tile in scope.

    `is_exact`: each correct execution computes the same bits, but for those of NaNs.  Conditions, addresses and
    integers come from exact values alone.
    """

    name: str
    shape: Shape
    element: str
    is_exact: bool = True

    @property
    def type(self) -> str:
        return tile_type(self.shape, self.element)

    @property
    def size(self) -> int:
        return prod(self.shape)


@dataclass(eq=False)
class Memory:
    """Memory of one tile block: `pointer` is its first element, of `size`.

    A `scratch` is written and read again in the order of its tokens: `written` of the last store, `read` of the loads
    after it.
    """

    name: str
    element: str
    size: int
    pointer: str
    is_scratch: bool = False
    written: str = ""
    read: list[str] = field(default_factory=list)

    @property
    def pointer_type(self) -> str:
        return tile_type((), f"ptr<{self.element}>")


@dataclass
class Scope:
    """Values that a region adds; those of outer regions stay in sight."""

    values: list[Value] = field(default_factory=list)
    outer: Scope | None = None

    def chain(self) -> Iterator[Value]:
        """From the last value to the first."""
        yield from reversed(self.values)
        if self.outer is not None:
            yield from self.outer.chain()


class Writer:
    """`most` is the number of elements that tiles have at most."""

    def __init__(self, pick: Choices, most: int) -> None:
        self.pick, self.most = pick, most
        self.lines: list[str] = []
        self.scope = Scope()
        self.inputs: list[Memory] = []
        self.scratches: list[Memory] = []
        self.names = 0
        self.depth = 0
        self.rounds = 1
        """Executions of the current region by a tile block, at most."""

    # -- text ---------------------------------------------------------------------------------------------------------

    def name(self) -> str:
        self.names += 1
        return f"%v{self.names}"

    def line(self, text: str) -> None:
        self.lines.append(text)

    def make(self, text: str, shape: Shape, element: str, is_exact: bool = True) -> Value:
        """A value out of sight of later statements."""
        value = Value(self.name(), tuple(shape), element, is_exact)
        self.line(f"{value.name} = {text}")
        return value

    def emit(self, text: str, shape: Shape, element: str, is_exact: bool = True) -> Value:
        return self.add(self.make(text, shape, element, is_exact))

    def add(self, value: Value) -> Value:
        self.scope.values.append(value)
        return value

    @contextmanager
    def region(self, rounds: int = 1) -> Iterator[None]:
        outer, times = self.scope, self.rounds
        self.scope, self.rounds, self.depth = Scope(outer=outer), times * rounds, self.depth + 1
        yield
        self.scope, self.rounds, self.depth = outer, times, self.depth - 1

    # -- operands -----------------------------------------------------------------------------------------------------

    def values(self, allowed: Callable[[Value], bool]) -> list[Value]:
        return [value for value in self.scope.chain() if allowed(value)]

    def any(self, elements: Iterable[str] = (), is_exact: bool = False, most: int | None = None) -> Value:
        """A value of one of these types, preferably a recent one; otherwise a converted value."""
        wanted = tuple(elements)
        limit = self.most if most is None else most

        def suits(value: Value) -> bool:
            return value.size <= limit and (value.is_exact or not is_exact)

        found = self.values(lambda value: suits(value) and (not wanted or value.element in wanted))
        if found and self.pick.chance(0.85):
            return self.pick.choice(found[:RECENT] if self.pick.chance(0.8) else found)
        source = self.values(suits)
        if not source:
            return self.constant(1, (), wanted[0] if wanted else "i32")
        value = self.pick.choice(source[:RECENT])
        return value if not wanted or value.element in wanted else self.converted(value, self.pick.choice(wanted))

    def partner(self, value: Value, is_exact: bool = False) -> Value:
        """Another value of the same type, or any one that is converted to it, or itself."""
        same = self.values(lambda other: other.type == value.type and (other.is_exact or not is_exact))
        if same and self.pick.chance(0.7):
            return self.pick.choice(same[:RECENT])
        return self.fitted(self.any(is_exact=is_exact or value.element[0] == "i"), value.shape, value.element)

    def shape(self, most: int = 0, ranks: Sequence[int] = (0, 1, 1, 1, 2, 2, 2, 2, 3, 3, 4, 5)) -> Shape:
        """Powers of two with many extents of one."""
        limit = min(most or self.most, self.most).bit_length() - 1
        room, extents = min(limit, self.pick.choice((limit, limit, limit - 1, limit // 2, 3))), []
        for _ in range(self.pick.choice(ranks)):
            bits = self.pick.choice((0, 1, 2, 3, 4, 5, 6, 7, 8))
            bits = min(bits, max(room, 0))
            room -= bits
            extents.append(1 << bits)
        start = self.pick.randrange(len(extents)) if extents else 0
        return (*extents[start:], *extents[:start])

    # -- constants ----------------------------------------------------------------------------------------------------

    def constant(self, value: int | float, shape: Shape, element: str) -> Value:
        text = str(int(value)) if element[0] == "i" else str(float(value))
        if element == "i1":
            text = str(bool(value)).lower()
        return self.make(f"constant <{element}: {text}> : {tile_type(shape, element)}", shape, element)

    def index(self, value: int, element: str = "i32") -> str:
        return self.constant(value, (), element).name

    def iota(self, shape: Shape, element: str = "i32") -> Value:
        """0, 1, ... in row-major order; those of narrow types wrap, which `iota` itself must not."""
        count = prod(shape)
        wide = element if WIDTHS[element] > 31 or count <= 1 << WIDTHS[element] - 1 else "i32"
        flat = self.make(f"iota : {tile_type((count,), wide)}", (count,), wide)
        return self.fitted(flat, shape, element)

    # -- conversions --------------------------------------------------------------------------------------------------

    def spread(self, name: str, element: str, shape: Shape) -> Value:
        """A scalar of any element type, also a pointer, in each element."""
        ones = self.make(f"reshape {name} : {tile_type((), element)} -> {tile_type((1,) * len(shape), element)}",
                         (1,) * len(shape), element)  # fmt: skip
        if ones.shape == shape:
            return ones
        return self.make(f"broadcast {ones.name} : {ones.type} -> {tile_type(shape, element)}", shape, element)

    def reshaped(self, value: Value, shape: Shape) -> Value:
        if value.shape == shape:
            return value
        text = f"reshape {value.name} : {value.type} -> {tile_type(shape, value.element)}"
        return self.make(text, shape, value.element, value.is_exact)

    def fitted(self, value: Value, shape: Shape, element: str) -> Value:
        """The value with another shape and type of elements: parts are cut off, or it is repeated."""
        shape, count = tuple(shape), prod(shape)
        if value.size > count:
            flat = self.reshaped(value, (value.size,))
            part = self.index(self.pick.randrange(value.size // count))
            text = f"extract {flat.name}[{part}] : {flat.type} -> {tile_type((count,), value.element)}"
            value = self.make(text, (count,), value.element, value.is_exact)
        elif value.size < count:
            ones = (1, value.size) if self.pick.chance(0.5) else (value.size, 1)
            whole = tuple(count // value.size if extent == 1 else extent for extent in ones)
            if value.size == 1:
                ones, whole = (1,), (count,)
            column = self.reshaped(value, ones)
            text = f"broadcast {column.name} : {column.type} -> {tile_type(whole, value.element)}"
            value = self.make(text, whole, value.element, value.is_exact)
        return self.converted(self.reshaped(value, shape), element)

    def converted(self, value: Value, element: str) -> Value:
        """The value in another type: conversions that are defined for all numbers."""
        source = value.element
        if source == element:
            return value
        if source == "i4" and element not in INTEGERS or element == "i4" and source not in INTEGERS:
            return self.converted(self.converted(value, "i8"), element)
        is_integer = source[0] == "i"
        if is_integer and element[0] == "i":
            sign = self.pick.choice(("signed", "unsigned"))
            text = f"exti {value.name} {sign}" if WIDTHS[element] > WIDTHS[source] else f"trunci {value.name}"
        elif is_integer and element == "f8E8M0FNU":
            return self.converted(self.converted(value, "f32"), element)
        elif is_integer:
            text = f"itof {value.name} {self.pick.choice(('signed', 'unsigned'))}"
        elif element[0] == "i":
            text = f"ftoi {value.name} {self.pick.choice(('signed', 'unsigned'))} saturating"
        else:
            mode = self.pick.choice(rounding_modes(source, element))
            text = f"ftof {value.name}" + ("" if mode == "nearest_even" else f" rounding<{mode}>")
        return self.make(f"{text} : {value.type} -> {tile_type(value.shape, element)}", value.shape, element,
                         value.is_exact)  # fmt: skip

    def below(self, value: Value, limit: int) -> Value:
        """The value of an integer type, from 0 to a power of two."""
        most = self.constant(limit - 1, value.shape, value.element)
        text = f"andi {value.name}, {most.name} : {value.type}"
        result = self.make(text, value.shape, value.element, value.is_exact)
        if self.pick.chance(0.2):
            text = f"assume bounded<0, {limit - 1}>, {result.name} : {result.type}"
            result = self.make(text, result.shape, result.element, value.is_exact)
        return result

    def integer(self, shape: Shape, element: str = "i32") -> Value:
        """Some exact integers of this type."""
        return self.fitted(self.any(INTEGERS, is_exact=True), shape, element)

    def truth(self, shape: Shape) -> Value:
        """Some exact tile of bits."""
        known = self.values(lambda value: value.shape == shape and value.element == "i1" and value.is_exact)
        if known and self.pick.chance(0.4):
            return self.pick.choice(known)
        left = self.integer(shape, self.pick.choice(INTEGERS))
        right = self.fitted(self.any(INTEGERS, is_exact=True), shape, left.element)
        predicate = self.pick.choice(("less_than", "greater_than", "less_than_or_equal", "not_equal", "equal"))
        text = f"cmpi {predicate} {left.name}, {right.name}, {self.pick.choice(('signed', 'unsigned'))}"
        return self.make(f"{text} : {left.type} -> {tile_type(shape, 'i1')}", shape, "i1")

    def whole(self, shape: Shape, element: str, bits: int = 2) -> Value:
        """Small whole numbers in any type: sums of their products are exact."""
        source = self.below(self.integer(shape, "i8"), 1 << bits)
        lowest = self.constant(1 << bits - 1, shape, "i8")
        text = f"subi {source.name}, {lowest.name} overflow<no_signed_wrap> : {source.type}"
        source = self.make(text, shape, "i8")
        if element in ("i8", "i1"):
            return self.converted(source, element)
        word = "exti" if element[0] == "i" else "itof"
        return self.make(f"{word} {source.name} signed : {source.type} -> {tile_type(shape, element)}", shape, element)


_IEEE = ("nearest_even", "zero", "negative_inf", "positive_inf")
_SIGNIFICANDS = {"f16": (11, 5), "bf16": (8, 8), "tf32": (11, 8), "f32": (24, 8), "f64": (53, 11), "f8E4M3FN": (4, 4),
                 "f8E5M2": (3, 5), "f4E2M1FN": (2, 2)}  # fmt: skip
"""Bits of the significand and of the exponent."""


def rounding_modes(source: str, target: str) -> tuple[str, ...]:
    """Those that the specification has for a conversion between formats."""
    if target == "f8E8M0FNU":
        return ("zero", "positive_inf")
    if target in ("f8E4M3FN", "f8E5M2", "f4E2M1FN"):
        return ("nearest_even",)
    if source == "f8E8M0FNU":
        return ("nearest_even", "zero")
    if (source, target) == ("f32", "tf32"):
        return ("nearest_even", "zero", "nearest_away")
    if (source, target) == ("f64", "f32"):
        return _IEEE
    is_wider = all(one <= other for one, other in zip(_SIGNIFICANDS[source], _SIGNIFICANDS[target], strict=True))
    return (*_IEEE, "nearest_away") if is_wider else ("nearest_even", "zero")
