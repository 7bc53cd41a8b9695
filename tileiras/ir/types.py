"""Types, and the builtin ones.  A type is an attribute that can stand after a colon; it is interned like one."""

from __future__ import annotations

from math import prod
from typing import Any, ClassVar, Iterable

from tileiras.support.named_tuple import NamedTuple

from . import registry
from .attributes import Attribute

DYNAMIC = -(2**63)
"""Marks a dimension or stride that is only known at run time; printed `?`."""


class Type(Attribute):
    _registry: ClassVar[dict[str, type[Attribute]]] = registry.TYPES


class NoneType(Type):
    name = "builtin.none"


class IndexType(Type):
    name = "builtin.index"
    width = 64

    def __str__(self) -> str:
        return "index"


class IntegerType(Type):
    """A signless integer; signedness belongs to operations."""

    name = "builtin.integer_type"
    parameters = ("width",)
    width: int

    def __str__(self) -> str:
        # Without the printer, which is loaded for text only.
        return f"i{self.width}"


class FloatSemantics(NamedTuple):
    """A binary floating-point format.

    "FN" formats have no infinity and one NaN pattern (all ones), or none; those with "U" have no sign, and e8m0 has
    neither zero nor subnormal numbers.
    """

    width: int
    exponent_bits: int
    mantissa_bits: int
    bias: int
    has_infinity: bool
    has_nan: bool
    has_sign: bool = True
    has_zero: bool = True

    @property
    def smallest_exponent(self) -> int:
        """The least exponent of normal numbers."""
        return int(self.has_zero) - self.bias

    @property
    def largest_exponent(self) -> int:
        """The largest exponent of finite numbers; without a fraction NaN takes a whole exponent, as infinity does."""
        top_exponents = self.has_infinity or self.has_nan and not self.mantissa_bits
        return (1 << self.exponent_bits) - 1 - self.bias - top_exponents

    def fits(self, wider: "FloatSemantics") -> bool:
        """Whether all normal numbers of this format are normal numbers of the other."""
        return (
            self.mantissa_bits <= wider.mantissa_bits
            and self.largest_exponent <= wider.largest_exponent
            and self.smallest_exponent >= wider.smallest_exponent
        )


FLOAT_SEMANTICS: dict[str, FloatSemantics] = {
    # IEEE 754 and the bfloat16 / OCP 8-bit and microscaling formats, as MLIR names them.
    "f16": FloatSemantics(16, 5, 10, 15, True, True),
    "bf16": FloatSemantics(16, 8, 7, 127, True, True),
    "tf32": FloatSemantics(32, 8, 10, 127, True, True),
    "f32": FloatSemantics(32, 8, 23, 127, True, True),
    "f64": FloatSemantics(64, 11, 52, 1023, True, True),
    "f8E4M3FN": FloatSemantics(8, 4, 3, 7, False, True),
    "f8E5M2": FloatSemantics(8, 5, 2, 15, True, True),
    "f8E8M0FNU": FloatSemantics(8, 8, 0, 127, False, True, False, False),
    "f4E2M1FN": FloatSemantics(4, 2, 1, 1, False, False),
    "fnv8E5M3FNU": FloatSemantics(8, 5, 3, 15, False, True, False),  # not in MLIR; Tile IR since 13.4
}


class FloatType(Type):
    """A floating-point type by its MLIR keyword."""

    name = "builtin.float_type"
    parameters = ("keyword",)
    keyword: str

    @property
    def semantics(self) -> FloatSemantics:
        return FLOAT_SEMANTICS[self.keyword]

    @property
    def width(self) -> int:
        """Bits that a value takes in memory (tf32 is stored in 32)."""
        return FLOAT_SEMANTICS[self.keyword].width

    def __str__(self) -> str:
        return self.keyword


class FunctionType(Type):
    name = "builtin.function"
    parameters = ("inputs", "results")
    inputs: tuple[Type, ...]
    results: tuple[Type, ...]

    def __new__(cls, inputs: Iterable[Type] = (), results: Iterable[Type] = ()) -> "FunctionType":
        return cls.intern((tuple(inputs), tuple(results)))  # type: ignore[return-value]


class ShapedType(Type):
    """A shape and an element type; `DYNAMIC` dimensions where the type allows them."""

    shape: tuple[int, ...]
    element_type: Type

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def num_elements(self) -> int:
        return prod(self.shape)


class VectorType(ShapedType):
    name = "builtin.vector"
    parameters = ("shape", "element_type")

    def __new__(cls, shape: Iterable[int], element_type: Type) -> "VectorType":
        return cls.intern((tuple(shape), element_type))  # type: ignore[return-value]


class TensorType(ShapedType):
    """A ranked tensor; `encoding` is an attribute or None (in nv_tileas: the layout)."""

    name = "builtin.tensor"
    parameters = ("shape", "element_type", "encoding")
    encoding: Attribute | None

    def verify(self) -> None:
        verify_encoding = getattr(self.encoding, "verify_encoding", None)
        if verify_encoding is not None:
            verify_encoding(self.shape)

    def __new__(cls, shape: Iterable[int], element_type: Type, encoding: Attribute | None = None) -> "TensorType":
        return cls.intern((tuple(shape), element_type, encoding))  # type: ignore[return-value]

    def with_element_type(self, element_type: Type) -> "TensorType":
        return TensorType(self.shape, element_type, self.encoding)

    def with_encoding(self, encoding: Attribute | None) -> "TensorType":
        return TensorType(self.shape, self.element_type, encoding)


i1, i4, i8, i16, i32, i64 = (IntegerType(width) for width in (1, 4, 8, 16, 32, 64))
f16, bf16, tf32, f32, f64 = (FloatType(keyword) for keyword in ("f16", "bf16", "tf32", "f32", "f64"))
f8E4M3FN, f8E5M2, f8E8M0FNU, f4E2M1FN, fnv8E5M3FNU = (
    FloatType(keyword) for keyword in ("f8E4M3FN", "f8E5M2", "f8E8M0FNU", "f4E2M1FN", "fnv8E5M3FNU")
)
index = IndexType()
none = NoneType()


def element_type_of(type: Type) -> Any:
    """The element type of a shaped type, the type itself otherwise."""
    return type.element_type if isinstance(type, ShapedType) else type
