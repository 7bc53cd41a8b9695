"""Integer and float arithmetic, comparisons, selection and conversions: one operation for one."""

from __future__ import annotations

from typing import Any

from tileiras.dialects import arith, math
from tileiras.dialects import cuda_tile as ct
from tileiras.dialects import nv_tileaa as aa
from tileiras.ir import (
    Attribute,
    ConversionRewriter,
    DenseElementsAttr,
    FloatAttr,
    FloatType,
    IntegerAttr,
    Operation,
    UnitAttr,
    VerifyError,
    element_type_of,
)

from .types import convert_type, result_types

_OVERFLOW = {"none": "none", "no_signed_wrap": "nsw", "no_unsigned_wrap": "nuw", "no_wrap": "nsw_nuw"}


def _attributes(op: Any) -> dict[str, Attribute]:
    """The attributes that both levels have, under the prefix of nv_tileaa."""
    found: dict[str, Attribute] = {}
    for name in ("flush_to_zero",):
        if name in op.attributes:
            found[name] = op.attributes[name]
    rounding = getattr(op, "rounding_mode", None)
    if rounding is not None:
        found["rounding_mode"] = aa.RoundingModeAttr(rounding.value)
    overflow = getattr(op, "overflow", None)
    if overflow is not None and overflow.value != "none":
        found["overflowFlags"] = arith.IntegerOverflowFlagsAttr(_OVERFLOW[overflow.value])
    return found


def to(cls: type[Operation]) -> Any:
    """The same operation of another dialect."""

    def convert(op: Any, args: tuple, rewriter: ConversionRewriter) -> Operation:
        return rewriter.insert(cls.create(args, result_types(op), _attributes(op)))

    return convert


def by_signedness(signed: type[Operation], unsigned: type[Operation]) -> Any:
    """An operation whose signedness is an attribute here and a name there."""

    def convert(op: Any, args: tuple, rewriter: ConversionRewriter) -> Operation:
        cls = signed if op.signedness.value == "signed" else unsigned
        return rewriter.insert(cls.create(args, result_types(op), {}))

    return convert


def approximable(cls: type[Operation]) -> Any:
    """A function that may be approximated when its rounding mode says so."""

    def convert(op: Any, args: tuple, rewriter: ConversionRewriter) -> Operation:
        attributes = _attributes(op)
        rounding = attributes.pop("rounding_mode", None)
        if rounding is not None and rounding.value == "approx":  # type: ignore[attr-defined]
            attributes["approx"] = UnitAttr()
        return rewriter.insert(cls.create(args, result_types(op), attributes))

    return convert


# ---- constant --------------------------------------------------------------------------------------------------------


def convert_constant(op: Any, args: tuple, rewriter: ConversionRewriter) -> Operation:
    value = op.value
    type = convert_type(op.result.type)
    if op.result.type.shape:
        return rewriter.insert(arith.ConstantOp(DenseElementsAttr(type, value.data, value.is_splat)))
    return rewriter.insert(arith.ConstantOp(scalar_constant(value, type)))


def scalar_constant(value: DenseElementsAttr, type: Any) -> IntegerAttr | FloatAttr:
    """The only element of a rank-0 constant."""
    (bits,) = value.element_bits()
    return FloatAttr(bits, type) if isinstance(type, FloatType) else IntegerAttr(bits, type)


# ---- negi ------------------------------------------------------------------------------------------------------------


def convert_negi(op: Any, args: tuple, rewriter: ConversionRewriter) -> Operation:
    type = args[0].type
    zero = rewriter.insert(arith.ConstantOp.splat(IntegerAttr(0, element_type_of(type)), type))
    return rewriter.insert(arith.SubIOp.create((zero.result, args[0]), (type,), _attributes(op)))


# ---- divi ------------------------------------------------------------------------------------------------------------

_DIVISIONS = {
    ("signed", "zero"): arith.DivSIOp,
    ("signed", "negative_inf"): arith.FloorDivSIOp,
    ("signed", "positive_inf"): arith.CeilDivSIOp,
    ("unsigned", "zero"): arith.DivUIOp,
    ("unsigned", "positive_inf"): arith.CeilDivUIOp,
}


def convert_divi(op: Any, args: tuple, rewriter: ConversionRewriter) -> Operation:
    cls = _DIVISIONS.get((op.signedness.value, op.rounding.value))
    if cls is None:
        raise VerifyError(f"{op.signedness.value} division does not round to {op.rounding.value}")
    return rewriter.insert(cls.create(args, result_types(op), {}))


# ---- comparisons -----------------------------------------------------------------------------------------------------

_PREDICATES = {
    "equal": "eq",
    "not_equal": "ne",
    "less_than": "lt",
    "less_than_or_equal": "le",
    "greater_than": "gt",
    "greater_than_or_equal": "ge",
}


def convert_cmpi(op: Any, args: tuple, rewriter: ConversionRewriter) -> Operation:
    predicate = _PREDICATES[op.comparison_predicate.value]
    if predicate not in ("eq", "ne"):
        predicate = ("s" if op.signedness.value == "signed" else "u") + predicate
    return rewriter.insert(arith.CmpIOp(*args, predicate=predicate))


def convert_cmpf(op: Any, args: tuple, rewriter: ConversionRewriter) -> Operation:
    ordering = "o" if op.comparison_ordering.value == "ordered" else "u"
    return rewriter.insert(arith.CmpFOp(*args, predicate=ordering + _PREDICATES[op.comparison_predicate.value]))


# ---- minf, maxf ------------------------------------------------------------------------------------------------------


def by_nan(propagating: type[Operation], ignoring: type[Operation]) -> Any:
    def convert(op: Any, args: tuple, rewriter: ConversionRewriter) -> Operation:
        cls = propagating if op.propagate_nan is not None else ignoring
        return rewriter.insert(cls.create(args, result_types(op), _attributes(op)))

    return convert


# ---- conversions -----------------------------------------------------------------------------------------------------


def convert_ftoi(op: Any, args: tuple, rewriter: ConversionRewriter) -> Operation:
    if op.rounding_mode is not None and op.rounding_mode.value != "nearest_int_to_zero":
        raise VerifyError(f"rounding to integers by '{op.rounding_mode.value}' is not supported")
    cls = arith.FPToSIOp if op.signedness.value == "signed" else arith.FPToUIOp
    return rewriter.insert(cls.create(args, result_types(op), {}))


def convert_itof(op: Any, args: tuple, rewriter: ConversionRewriter) -> Operation:
    cls = arith.SIToFPOp if op.signedness.value == "signed" else arith.UIToFPOp
    return rewriter.insert(cls.create(args, result_types(op), _attributes(op)))


PATTERNS: dict[type[Operation], Any] = {
    ct.ConstantOp: convert_constant,
    # integers
    ct.AddIOp: to(arith.AddIOp),
    ct.SubIOp: to(arith.SubIOp),
    ct.MulIOp: to(arith.MulIOp),
    ct.MulhiIOp: to(aa.MulhUIOp),
    ct.NegIOp: convert_negi,
    ct.AbsIOp: to(math.AbsIOp),
    ct.DivIOp: convert_divi,
    ct.RemIOp: by_signedness(arith.RemSIOp, arith.RemUIOp),
    ct.MaxIOp: by_signedness(arith.MaxSIOp, arith.MaxUIOp),
    ct.MinIOp: by_signedness(arith.MinSIOp, arith.MinUIOp),
    ct.AndIOp: to(arith.AndIOp),
    ct.OrIOp: to(arith.OrIOp),
    ct.XOrIOp: to(arith.XOrIOp),
    ct.ShLIOp: to(arith.ShLIOp),
    ct.ShRIOp: by_signedness(arith.ShRSIOp, arith.ShRUIOp),
    ct.CmpIOp: convert_cmpi,
    ct.SelectOp: to(arith.SelectOp),
    # floats
    ct.AddFOp: to(aa.AddFOp),
    ct.SubFOp: to(aa.SubFOp),
    ct.MulFOp: to(aa.MulFOp),
    ct.DivFOp: to(aa.DivFOp),
    ct.FmaOp: to(aa.FmaOp),
    ct.SqrtOp: to(aa.SqrtOp),
    ct.RemFOp: to(arith.RemFOp),
    ct.NegFOp: to(arith.NegFOp),
    ct.AbsFOp: to(math.AbsFOp),
    ct.CeilOp: to(math.CeilOp),
    ct.FloorOp: to(math.FloorOp),
    ct.MaxFOp: by_nan(arith.MaximumFOp, arith.MaxNumFOp),
    ct.MinFOp: by_nan(arith.MinimumFOp, arith.MinNumFOp),
    ct.CmpFOp: convert_cmpf,
    # functions
    ct.ExpOp: approximable(math.ExpOp),
    ct.Exp2Op: to(math.Exp2Op),
    ct.LogOp: to(math.LogOp),
    ct.Log2Op: to(math.Log2Op),
    ct.RsqrtOp: to(math.RsqrtOp),
    ct.SinOp: to(math.SinOp),
    ct.CosOp: to(math.CosOp),
    ct.TanOp: to(math.TanOp),
    ct.SinHOp: to(math.SinhOp),
    ct.CosHOp: to(math.CoshOp),
    ct.TanHOp: approximable(math.TanhOp),
    ct.PowOp: to(math.PowFOp),
    ct.Atan2Op: to(math.Atan2Op),
    # conversions
    ct.ExtIOp: by_signedness(arith.ExtSIOp, arith.ExtUIOp),
    ct.TruncIOp: to(arith.TruncIOp),
    ct.FToFOp: to(aa.FpToFpOp),
    ct.FToIOp: convert_ftoi,
    ct.IToFOp: convert_itof,
    ct.BitcastOp: to(arith.BitcastOp),
}
