"""How elements of each type are computed with and stored, and vectors of them.

Floats narrower than f32 are computed with as f32 numbers that their format has, and stored as bits; an i1 is stored in
a byte, as is a 4-bit element in the memory of a tile; pointers are integers.  A vector converts between both forms when
one is asked for, so that copies keep their bits.
"""

from __future__ import annotations

from typing import Any

from tileiras.ir import FLOAT_SEMANTICS, FloatType, IntegerType
from tileiras.support.named_tuple import NamedTuple

from .code import Code, vector
from .formats import decode, encode


class Kind(NamedTuple):
    """LLVM types of an element."""

    number: str
    stored: str
    size: int
    """Bytes in the memory of a tile."""
    format: str = ""
    """The keyword of a float format whose numbers are f32 numbers."""
    width: int = 64

    @property
    def is_float(self) -> bool:
        return self.number in ("float", "double")


_KINDS: dict[Any, Kind] = {}


def kind_of(element: Any) -> Kind:
    """The kind of an element type: integers, floats, and pointers."""
    kind = _KINDS.get(element)
    if kind is None:
        kind = _KINDS[element] = _kind(element)
    return kind


def _kind(element: Any) -> Kind:
    if isinstance(element, IntegerType):
        width = element.width
        memory_bits = max(8, width)
        return Kind(f"i{width}", f"i{memory_bits}", memory_bits // 8, width=width)
    if not isinstance(element, FloatType):
        return Kind("i64", "i64", 8)
    keyword = element.keyword
    if keyword in ("f32", "f64"):
        number = "float" if keyword == "f32" else "double"
        return Kind(number, number, element.width // 8, width=element.width)
    if keyword == "tf32":
        return Kind("float", "float", 4, keyword, 32)
    return Kind("float", f"i{max(8, element.width)}", max(8, element.width) // 8, keyword, element.width)


def is_known(element: Any) -> bool:
    """Whether the type is one of those that kernels compute with here."""
    return not isinstance(element, FloatType) or (
        element.keyword in FLOAT_SEMANTICS and element.keyword != "fnv8E5M3FNU"
    )


EQUAL, EVEN = 2, 1
"""Of the elements of a vector: they are equal; or neighbours differ by the same number, modulo a power of two."""


class Lanes:
    """`count` elements as a value of LLVM: numbers, stored bits, or both."""

    __slots__ = ("kind", "count", "_number", "_stored", "steps")

    def __init__(
        self, kind: Kind, count: int, number: str | None = None, bits: str | None = None, steps: int = 0
    ) -> None:
        self.kind = kind
        self.count = count
        self._number = number
        self._stored = bits
        self.steps = steps
        """`EQUAL` or `EVEN` if that is known."""

    @property
    def type(self) -> str:
        return vector(self.kind.number, self.count)

    @property
    def stored_type(self) -> str:
        return vector(self.kind.stored, self.count)

    def number(self, code: Code) -> str:
        """The elements as numbers to compute with."""
        if self._number is None:
            self._number = self._decode(code)
        return self._number

    def stored(self, code: Code) -> str:
        """The elements as they are stored."""
        if self._stored is None:
            self._stored = self._encode(code)
        return self._stored

    def _decode(self, code: Code) -> str:
        kind, bits = self.kind, self._stored
        assert bits is not None
        if kind.number == kind.stored:
            return bits
        if kind.format:
            return decode(code, kind.format, self.count, bits)
        if kind.number == "i1":
            zero = "0" if self.count == 1 else "zeroinitializer"
            return code.value(f"icmp ne {self.stored_type} {bits}, {zero}")
        return code.value(f"trunc {self.stored_type} {bits} to {self.type}")

    def _encode(self, code: Code) -> str:
        kind, number = self.kind, self._number
        assert number is not None
        if kind.number == kind.stored:
            return number
        if kind.format:
            return encode(code, kind.format, self.count, number, exact=True)
        return code.value(f"zext {self.type} {number} to {self.stored_type}")

    def splat(self, code: Code, count: int) -> Lanes:
        """One element, repeated."""
        if count == self.count:
            return self
        if self._stored is not None and self._number is None:
            return Lanes(self.kind, count, bits=code.splat(self.kind.stored, count, self._stored), steps=EQUAL)
        return Lanes(self.kind, count, code.splat(self.kind.number, count, self.number(code)), steps=EQUAL)

    def shuffle(self, code: Code, lanes: list[int]) -> Lanes:
        kind = self.kind
        if self._number is None:
            return Lanes(kind, len(lanes), bits=code.shuffle(kind.stored, self.count, self.stored(code), lanes))
        return Lanes(kind, len(lanes), code.shuffle(kind.number, self.count, self._number, lanes))
