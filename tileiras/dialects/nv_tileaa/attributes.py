"""Attributes of nv_tileaa."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Iterable

from tileiras.ir import Attribute, EnumAttr, FloatAttr, FloatType, IntegerAttr, VerifyError

if TYPE_CHECKING:
    from tileiras.ir import Parser, Printer


class RoundingModeAttr(EnumAttr, name="nv_tileaa.rounding_mode"):
    """`approx` and `full` exist for division, square root and tanh of f32 only, `nearest_away` for conversions."""

    cases = {
        "nearest_even": 0,
        "zero": 1,
        "negative_inf": 2,
        "positive_inf": 3,
        "approx": 4,
        "full": 5,
        "nearest_away": 7,
    }


class SignednessAttr(EnumAttr, name="nv_tileaa.signedness", cases={"unsigned": 0, "signed": 1}): ...


# Discardable attributes: hints and promises of the source about an operation.

IN_BOUNDS = "nv_tileaa.inbounds"
"""Of accesses through a tiling: per dimension, whether the source promises that the tile is inside."""

LATENCY = "nv_tileaa.latency"
"""Of a load: how far ahead it should start, 1 to 10 (cuTile's hint)."""

NO_TMA = "nv_tileaa.no_tma"
"""Of an access: no TMA for it (cuTile's hint)."""

FLUSH_TO_ZERO = "nv_tileaa.flush_to_zero"
"""Of an operation that does not declare flushing, for the instructions that can do it."""

FAST_ACCUMULATION = "nv_tileaa.fast_acc"
"""Of an f8 dot: sums with fewer bits than the accumulator's type are permitted (`mmaf`'s `fast_acc`)."""


class PaddingValueAttr(EnumAttr, name="nv_tileaa.padding_value"):
    """The value of reads outside of a memref."""

    cases = {"zero": 0, "neg_zero": 1, "nan": 2, "pos_inf": 3, "neg_inf": 4}

    def of(self, type: FloatType) -> FloatAttr | IntegerAttr:
        """The attribute of a padding element of an integer or float type; integers are padded with zero."""
        if not isinstance(type, FloatType):
            return IntegerAttr(0, type)
        return FloatAttr.from_float(_PADDING[self.value], type)


_PADDING = {"zero": 0.0, "neg_zero": -0.0, "nan": math.nan, "pos_inf": math.inf, "neg_inf": -math.inf}


class MemSemanticAttr(EnumAttr, name="nv_tileaa.mem_semantic"):
    cases = {"weak": 0, "relaxed": 1, "acquire": 2, "release": 3, "acq_rel": 4}


class MemScopeAttr(EnumAttr, name="nv_tileaa.mem_scope", cases={"tl_blk": 0, "cluster": 1, "gpu": 2, "sys": 3}): ...


class AtomicRMWModeAttr(EnumAttr, name="nv_tileaa.rmw_mode"):
    cases = {"and": 0, "or": 1, "xor": 2, "add": 3, "addf": 4, "max": 5, "min": 6, "umax": 7, "umin": 8, "xchg": 9}


class AxisAttr(EnumAttr, name="nv_tileaa.axis", cases={"x": 0, "y": 1, "z": 2}):
    """A grid axis."""


class DivByAttr(Attribute, name="nv_tileaa.div_by", parameters=("divisor", "every", "along")):
    """The value (a pointer: its address in bytes) is a multiple of `divisor`, a power of two.

    With `every` and `along`, only the first of each `every` elements along that dimension is, and the others follow it
    by ones.
    """

    def verify(self) -> None:
        if self.divisor < 1 or self.divisor & self.divisor - 1:
            raise VerifyError("divisor must be a power of 2", prefix=False)
        if (self.every is None) != (self.along is None):
            raise VerifyError("'every'/'along' must be used in combination", prefix=False)
        if self.every is not None and (self.every < 1 or self.along < 0):
            raise VerifyError(f"expected a run along a dimension, got every {self.every} along {self.along}",
                              prefix=False)  # fmt: skip

    def print_parameters(self, printer: Printer) -> None:
        rest = f", every {self.every} along {self.along}" if self.every is not None else ""
        printer.write(f"<{self.divisor}{rest}>")

    @classmethod
    def parse_parameters(cls, parser: Parser) -> "DivByAttr":
        parser.parse_punctuation("<")
        divisor = parser.parse_integer()
        every = along = None
        if parser.parse_optional_punctuation(","):
            parser.parse_keyword("every")
            every = parser.parse_integer()
            parser.parse_keyword("along")
            along = parser.parse_integer()
        parser.parse_punctuation(">")
        return cls(divisor, every, along)


class BoundedAttr(Attribute, name="nv_tileaa.bounded", parameters=("lower", "upper")):
    """`lower <= value <= upper` as a signed integer; None leaves a side open."""

    def print_parameters(self, printer: Printer) -> None:
        printer.write(f"<{'?' if self.lower is None else self.lower}, {'?' if self.upper is None else self.upper}>")

    @classmethod
    def parse_parameters(cls, parser: Parser) -> "BoundedAttr":
        parser.parse_punctuation("<")
        lower = None if parser.parse_optional_punctuation("?") else parser.parse_integer()
        parser.parse_punctuation(",")
        upper = None if parser.parse_optional_punctuation("?") else parser.parse_integer()
        parser.parse_punctuation(">")
        return cls(lower, upper)


class SameElementsAttr(Attribute, name="nv_tileaa.same_elements", parameters=("elements",)):
    """Groups of `values[d]` elements along dimension d are equal."""

    def __new__(cls, elements: Iterable[int]) -> "SameElementsAttr":
        return cls.intern((tuple(elements),))  # type: ignore[return-value]

    def print_parameters(self, printer: Printer) -> None:
        printer.write(f"<[{', '.join(map(str, self.elements))}]>")

    @classmethod
    def parse_parameters(cls, parser: Parser) -> "SameElementsAttr":
        parser.parse_punctuation("<")
        values = parser.parse_comma_separated(parser.parse_integer, "[", "]")
        parser.parse_punctuation(">")
        return cls(values)


class KernelSpecAttr(Attribute, name="nv_tileaa.kernel_spec", parameters=("num_warps", "num_ctas", "occupancy")):
    """The launch requirements of the kernel: warps per CTA (None until chosen), CTAs per tile block, occupancy hint.

    The CTAs of a tile block lie along x: `clusterDim = [n, 1, 1]` is another way to write `numCtas = n`.
    """

    def verify(self) -> None:
        # 1024 threads of a CTA; 16 CTAs of a cluster that is not portable (CUDA C++ Programming Guide).
        for name, value, limit in (("numWarps", self.num_warps, 32), ("numCtas", self.num_ctas, 16)):
            if value is not None and (not 1 <= value <= limit or value & value - 1):
                raise VerifyError(f"{name} must be a power of two of at most {limit}, got {value}", prefix=False)
        if self.occupancy is not None and not 1 <= self.occupancy <= 32:
            raise VerifyError(f"occupancy must be between 1 and 32, got {self.occupancy}", prefix=False)

    def with_num_warps(self, num_warps: int) -> "KernelSpecAttr":
        return KernelSpecAttr(num_warps, self.num_ctas, self.occupancy)

    def with_occupancy(self, occupancy: int) -> "KernelSpecAttr":
        return KernelSpecAttr(self.num_warps, self.num_ctas, occupancy)

    def print_parameters(self, printer: Printer) -> None:
        parts = [] if self.num_warps is None else [f"numWarps = {self.num_warps}"]
        parts.append(f"numCtas = {self.num_ctas or 1}")
        if self.occupancy is not None:
            parts.append(f"occupancy = {self.occupancy}")
        printer.write(f"<{', '.join(parts)}>")

    @classmethod
    def parse_parameters(cls, parser: Parser) -> "KernelSpecAttr":
        start = parser.offset
        fields: dict[str, Any] = dict.fromkeys(("numWarps", "numCtas", "occupancy"), parser.parse_integer)
        fields["clusterDim"] = lambda: parser.parse_comma_separated(parser.parse_integer, "[", "]")
        result = parser.parse_struct("#nv_tileaa.kernel_spec", fields)
        num_ctas = result.get("numCtas", 1)
        if "clusterDim" in result:
            sizes = result["clusterDim"]
            num_ctas = result.get("numCtas", sizes[0] if sizes else 0)
            if sizes != [num_ctas, 1, 1]:
                parser.fail(start, f"clusterDim must be [numCtas, 1, 1], got {sizes}")
        return cls(result.get("numWarps"), num_ctas, result.get("occupancy"))
