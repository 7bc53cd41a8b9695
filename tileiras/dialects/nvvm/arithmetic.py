"""Float arithmetic with a rounding mode or approximation, and conversions that LLVM IR has no operation for.

All of them take vectors as well and are then issued per element.  `ftz` flushes subnormal inputs and results of f32 to
zero (PTX ISA, "Floating Point Instructions").
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from tileiras.dialects.llvm.base import float_like, llvm_type
from tileiras.dialects.llvm.types import element_count, element_type
from tileiras.ir import (
    Attribute,
    FloatType,
    IntegerType,
    Pure,
    StringAttr,
    UnitAttr,
    VectorType,
    VerifyError,
    attribute,
    bf16,
    f16,
    f32,
    f64,
    i16,
    operand,
    result,
)

from .attributes import FPRoundingModeAttr
from .base import Assembly, NVVMOp, intrinsic
from .intrinsics import PTX60, PTX70, PTX78, Intrinsic

_SUFFIX = {f32: ".f", f64: ".d"}


class _ElementwiseOp(NVVMOp):
    __slots__ = ()
    elementwise = True
    mnemonic: ClassVar[str] = ""
    typed_as = 0

    def check_types(self) -> Any:
        """The one element type of all operands and the result."""
        types = {value.type for value in (*self.operands, *self.results)}
        if len(types) != 1:
            raise VerifyError("requires the same type for all operands and results")
        return element_type(self.operands[0].type)


class _RoundedOp(_ElementwiseOp):
    """`rounding` defaults to rn."""

    __slots__ = ()

    def target(self) -> Intrinsic:
        element = self.check_types()
        suffix = _SUFFIX.get(element)
        if suffix is None:
            raise VerifyError(f"has no instruction with a rounding mode for '{element}'")
        rounding = self.rounding.value if self.rounding is not None else "rn"
        flush = ".ftz" if self.ftz is not None else ""
        if rounding == "full":
            suffix = ""
        return intrinsic(f"{self.mnemonic}.{rounding}{flush}{suffix}")


class _RoundedBinaryOp(_RoundedOp):
    traits = (Pure,)
    lhs = operand(float_like)
    rhs = operand(float_like)
    rounding = attribute(FPRoundingModeAttr, optional=True)
    ftz = attribute(UnitAttr, "flush subnormals to zero", optional=True)
    res = result(float_like)
    assembly_format = "$lhs `,` $rhs attr-dict `:` type($res)"


class AddFOp(_RoundedBinaryOp, name="nvvm.addf", mnemonic="add"):
    """PTX has no `sub` with a rounding mode here: negate the right operand."""


class MulFOp(_RoundedBinaryOp, name="nvvm.mulf", mnemonic="mul"): ...


class DivFOp(_RoundedBinaryOp, name="nvvm.divf", mnemonic="div"):
    """`approx` and `full` (2 ulp over the full range) are for f32."""


class FmaOp(_RoundedOp, name="nvvm.fma", traits=(Pure,)):
    mnemonic = "fma"
    a = operand(float_like)
    b = operand(float_like)
    c = operand(float_like)
    rounding = attribute(FPRoundingModeAttr, optional=True)
    ftz = attribute(UnitAttr, optional=True)
    res = result(float_like)
    assembly_format = "$a `,` $b `,` $c attr-dict `:` type($res)"


class _RoundedUnaryOp(_RoundedOp):
    traits = (Pure,)
    arg = operand(float_like)
    rounding = attribute(FPRoundingModeAttr, optional=True)
    ftz = attribute(UnitAttr, optional=True)
    res = result(float_like)
    assembly_format = "$arg attr-dict `:` type($res)"


class SqrtOp(_RoundedUnaryOp, name="nvvm.sqrt", mnemonic="sqrt"): ...


class RcpOp(_RoundedUnaryOp, name="nvvm.rcp", mnemonic="rcp"):
    """The reciprocal; `approx` exists with `ftz` only."""


class RsqrtOp(_ElementwiseOp, name="nvvm.rsqrt.approx", traits=(Pure,)):
    """`rsqrt.approx`."""

    arg = operand(float_like)
    ftz = attribute(UnitAttr, optional=True)
    res = result(float_like)
    assembly_format = "$arg attr-dict `:` type($res)"

    def target(self) -> Intrinsic:
        element = self.check_types()
        if element is f64 and self.ftz is None:
            return intrinsic("rsqrt.approx.d")
        if element is not f32:
            raise VerifyError(f"has no instruction for '{element}'")
        return intrinsic("rsqrt.approx.ftz.f" if self.ftz is not None else "rsqrt.approx.f")


class _ApproximateOp(_ElementwiseOp):
    """An approximation on f32, with a flushing form."""

    traits = (Pure,)
    arg = operand(float_like)
    ftz = attribute(UnitAttr, optional=True)
    res = result(float_like)
    assembly_format = "$arg attr-dict `:` type($res)"
    suffix: ClassVar[str] = ".f"

    def target(self) -> Intrinsic | Assembly:
        element = self.check_types()
        if element is not f32:
            raise VerifyError(f"has no instruction for '{element}'")
        return intrinsic(f"{self.mnemonic}{'.ftz' if self.ftz is not None else ''}{self.suffix}")


class Lg2Op(_ApproximateOp, name="nvvm.lg2.approx", mnemonic="lg2.approx"):
    """`lg2.approx`: base-2 logarithm."""


class SinOp(_ApproximateOp, name="nvvm.sin.approx", mnemonic="sin.approx"): ...
class CosOp(_ApproximateOp, name="nvvm.cos.approx", mnemonic="cos.approx"): ...


class Ex2Op(_ApproximateOp, name="nvvm.ex2.approx"):
    """`ex2.approx`: base-2 exponential, on f32 and f16."""

    mnemonic = "ex2.approx"
    suffix = ".f32"

    def target(self) -> Intrinsic | Assembly:
        if element_type(self.arg.type) is f16 and self.ftz is None:
            self.check_types()
            return intrinsic("ex2.approx.f16")
        return super().target()


class TanhOp(_ApproximateOp, name="nvvm.tanh.approx"):
    """`tanh.approx`, on f32, f16 and bf16."""

    forms: ClassVar[dict[FloatType, Assembly]] = {
        f32: Assembly("tanh.approx.f32 $0, $1;", "=f,f", "75", PTX70),
        f16: Assembly("tanh.approx.f16 $0, $1;", "=h,h", "75", PTX70),
        bf16: Assembly("tanh.approx.bf16 $0, $1;", "=h,h", "90", PTX78),
    }

    def target(self) -> Assembly:
        form = self.forms.get(self.check_types())
        if form is None or self.ftz is not None:
            raise VerifyError(f"has no instruction for '{self.arg.type}'")
        return form


class FMinOp(_ElementwiseOp, name="nvvm.fmin", traits=(Pure,)):
    """`min` of f32 or f64; `nan` gives NaN when either operand is NaN."""

    mnemonic = "fmin"
    lhs = operand(float_like)
    rhs = operand(float_like)
    nan = attribute(UnitAttr, optional=True)
    ftz = attribute(UnitAttr, optional=True)
    res = result(float_like)
    assembly_format = "$lhs `,` $rhs attr-dict `:` type($res)"

    def target(self) -> Intrinsic:
        if self.check_types() is not f32:
            raise VerifyError(f"has no instruction for '{self.lhs.type}'")
        flush = ".ftz" if self.ftz is not None else ""
        return intrinsic(f"{self.mnemonic}{flush}{'.nan' if self.nan is not None else ''}.f")


class FMaxOp(FMinOp, name="nvvm.fmax", mnemonic="fmax"): ...


# Intrinsic names of conversions with a rounding mode: (source, target) -> the part before the mode.
_CONVERSIONS = {
    ("f64", "f32"): "d2f",
    **{
        (source, f"{sign}{bits}"): f"{letter}2{name}"
        for source, letter in (("f32", "f"), ("f64", "d"))
        for sign, bits, name in (("s", 32, "i"), ("u", 32, "ui"), ("s", 64, "ll"), ("u", 64, "ull"))
    },
    **{
        (f"{sign}{bits}", target): f"{name}2{letter}"
        for target, letter in (("f32", "f"), ("f64", "d"))
        for sign, bits, name in (("s", 32, "i"), ("u", 32, "ui"), ("s", 64, "ll"), ("u", 64, "ull"))
    },
    ("f32", "bf16"): "f2bf16",
}


class CvtOp(NVVMOp, name="nvvm.cvt", traits=(Pure,)):
    """A conversion with a rounding mode, between floats or between a float and an integer.

    `is_unsigned` is the signedness of the integer side.  Rounding to nearest even between floats, and toward zero to
    integers, are LLVM's own casts.
    """

    elementwise = True
    arg = operand(llvm_type)
    rounding = attribute(FPRoundingModeAttr)
    is_unsigned = attribute(UnitAttr, optional=True)
    ftz = attribute(UnitAttr, optional=True)
    res = result(llvm_type)
    assembly_format = "$arg attr-dict `:` type($arg) `->` type($res)"

    def target(self) -> Intrinsic | Assembly:
        source, target = self.arg.type, self.res.type
        if element_count(source) != element_count(target):
            raise VerifyError("operand and result must have as many elements")
        names = [self._spell(element_type(t)) for t in (source, target)]
        if names == ["f32", "f16"] and self.ftz is None:
            # LLVM has the pair of halves only, and not in every direction.
            return Assembly(f"cvt.{self.rounding.value}.f16.f32 $0, $1;", "=h,f", "75", PTX60)
        stem = _CONVERSIONS.get((names[0], names[1]))
        if stem is None:
            raise VerifyError(f"has no instruction from '{source}' to '{target}'")
        return intrinsic(f"{stem}.{self.rounding.value}{'.ftz' if self.ftz is not None else ''}")

    def _spell(self, type: FloatType | IntegerType) -> str:
        if isinstance(type, FloatType):
            return type.keyword
        return ("u" if self.is_unsigned is not None else "s") + str(getattr(type, "width", 0))


class CvtToTF32Op(NVVMOp, name="nvvm.cvt.float.to.tf32", traits=(Pure,)):
    """`cvt.tf32.f32`: an f32 rounded to tf32, in 32 bits of an integer register; ties away from zero unless `rounding`
    is rn."""

    elementwise = True
    src = operand(llvm_type)
    rounding = attribute(FPRoundingModeAttr, optional=True)
    res = result(llvm_type)
    assembly_format = "$src attr-dict `:` type($src) `->` type($res)"

    def target(self) -> Intrinsic:
        if element_type(self.src.type) is not f32 or str(element_type(self.res.type)) != "i32":
            raise VerifyError("converts f32 to i32")
        if element_count(self.src.type) != element_count(self.res.type):
            raise VerifyError("operand and result must have as many elements")
        return intrinsic(f"f2tf32.{self.rounding.value if self.rounding is not None else 'rna'}")


# PTX's names of formats that convert in pairs: (kind, rounding) -> the intrinsic's name.
_PACKS = {
    ("e4m3", "rn"): "ff.to.e4m3x2.rn",
    ("e5m2", "rn"): "ff.to.e5m2x2.rn",
    ("ue8m0", "rz"): "ff.to.ue8m0x2.rz.satfinite",
    ("ue8m0", "rp"): "ff.to.ue8m0x2.rp.satfinite",
    ("e2m1", "rn"): "ff.to.e2m1x2.rn.satfinite",
}
# kind -> the intrinsic's name, the type of both numbers.
_UNPACKS = {
    "e4m3": ("e4m3x2.to.f16x2.rn", f16),
    "e5m2": ("e5m2x2.to.f16x2.rn", f16),
    "ue8m0": ("ue8m0x2.to.bf16x2", bf16),
    "e2m1": ("e2m1x2.to.f16x2.rn", f16),
}


class _PackOp(NVVMOp):
    """Two f32 to two narrow floats; saturates to the finite range."""

    traits = (Pure,)
    hi = operand(f32)
    lo = operand(f32)
    kind = attribute(StringAttr)
    rounding = attribute(FPRoundingModeAttr, optional=True)
    res = result(i16)
    assembly_format = "$hi `,` $lo attr-dict `:` type($res)"
    kinds: ClassVar[tuple[str, ...]] = ()

    def target(self) -> Intrinsic:
        rounding = self.rounding.value if self.rounding is not None else "rn"
        name = _PACKS.get((self.kind.value, rounding)) if self.kind.value in self.kinds else None
        if name is None:
            raise VerifyError(f"has no instruction to '{self.kind.value}' with rounding mode '{rounding}'")
        return intrinsic(name)


class CvtPackF8Op(_PackOp, name="nvvm.cvt.f32x2.to.f8x2", kinds=("e4m3", "e5m2", "ue8m0")):
    """Two f32 to two 8-bit floats in an i16: `hi` in the upper byte; saturates to the finite range.

    `rounding` is rn for `e4m3` and `e5m2`, rz or rp for `ue8m0`.
    """


class CvtPackF4Op(_PackOp, name="nvvm.cvt.f32x2.to.f4x2", kinds=("e2m1",)):
    """Two f32 to two `e2m1` in the lower byte of an i16: `hi` in its upper half; saturates to the finite range."""


class _UnpackOp(NVVMOp):
    """Two narrow floats in an i16 to two wider ones, exactly."""

    traits = (Pure,)
    src = operand(i16)
    kind = attribute(StringAttr)
    res = result()
    assembly_format = "$src attr-dict `:` type($res)"
    kinds: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def infer_result_types(cls, operands: Sequence[Any], attributes: dict[str, Attribute]) -> list[Any]:
        _, element = cls._row(attributes.get("kind"))
        return [VectorType((2,), element)]

    @classmethod
    def _row(cls, kind: StringAttr) -> tuple[str, FloatType]:
        word = getattr(kind, "value", None)
        row = _UNPACKS.get(word) if word in cls.kinds else None
        if row is None:
            raise VerifyError(f"has no instruction from '{word}'")
        return row

    def target(self) -> Intrinsic:
        name, element = self._row(self.kind)
        if self.res.type is not VectorType((2,), element):
            raise VerifyError(f"result must be {VectorType((2,), element)} for '{self.kind.value}'")
        return intrinsic(name)


class CvtUnpackF8Op(_UnpackOp, name="nvvm.cvt.f8x2.to.f16x2", kinds=("e4m3", "e5m2", "ue8m0")):
    """Two 8-bit floats in an i16 to `vector<2xf16>`, or two `ue8m0` to `vector<2xbf16>`, exactly."""


class CvtUnpackF4Op(_UnpackOp, name="nvvm.cvt.f4x2.to.f16x2", kinds=("e2m1",)):
    """Two `e2m1` in the lower byte of an i16 to `vector<2xf16>`, exactly."""
