"""Integer and floating-point arithmetic, comparisons, selection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tileiras.dialects import arith, math, nv_tileaa
from tileiras.ir import Operation

from .rules import Rule, Table, by_signedness, flag, integer, same

if TYPE_CHECKING:
    from tileiras.dialects import cuda_tile
    from tileiras.ir import ConversionRewriter

OVERFLOW = {"none": "none", "no_signed_wrap": "nsw", "no_unsigned_wrap": "nuw", "no_wrap": "nsw_nuw"}

# (signedness, rounding) -> operation.  Unsigned quotients are never negative: rounding down is rounding to zero.
DIVISIONS: dict[tuple[str, str], type[Operation]] = {
    ("signed", "zero"): arith.DivSIOp,
    ("signed", "negative_inf"): arith.FloorDivSIOp,
    ("signed", "positive_inf"): arith.CeilDivSIOp,
    ("unsigned", "zero"): arith.DivUIOp,
    ("unsigned", "negative_inf"): arith.DivUIOp,
    ("unsigned", "positive_inf"): arith.CeilDivUIOp,
}

# Predicate -> (signed or equality, unsigned) of arith.cmpi, and (ordered, unordered) of arith.cmpf.  "Not equal" is the
# one whose unordered form MLIR calls une.
INTEGER_PREDICATES = {
    "equal": ("eq", "eq"),
    "not_equal": ("ne", "ne"),
    "less_than": ("slt", "ult"),
    "less_than_or_equal": ("sle", "ule"),
    "greater_than": ("sgt", "ugt"),
    "greater_than_or_equal": ("sge", "uge"),
}
FLOAT_PREDICATES = {
    "equal": ("oeq", "ueq"),
    "not_equal": ("one", "une"),
    "less_than": ("olt", "ult"),
    "less_than_or_equal": ("ole", "ule"),
    "greater_than": ("ogt", "ugt"),
    "greater_than_or_equal": ("oge", "uge"),
}


def _with_overflow(target: type[Operation]) -> Rule:
    def rule(
        op: cuda_tile.AddIOp | cuda_tile.MulIOp | cuda_tile.SubIOp, args: tuple, rewriter: ConversionRewriter
    ) -> Any:
        return rewriter.insert(target(*args, overflowFlags=OVERFLOW[op.overflow.value]))

    return rule


def _negate(op: cuda_tile.NegIOp, args: tuple, rewriter: ConversionRewriter) -> Any:
    zero = integer(rewriter, 0, args[0].type)
    return rewriter.insert(arith.SubIOp(zero, args[0], overflowFlags=OVERFLOW[op.overflow.value]))


def _divide(op: cuda_tile.DivIOp, args: tuple, rewriter: ConversionRewriter) -> Any:
    return rewriter.insert(DIVISIONS[op.signedness.value, op.rounding.value](*args))


def _compare_integers(op: cuda_tile.CmpIOp, args: tuple, rewriter: ConversionRewriter) -> Any:
    predicate = INTEGER_PREDICATES[op.comparison_predicate.value][op.signedness.value == "unsigned"]
    return rewriter.insert(arith.CmpIOp(*args, predicate=predicate))


def _compare_floats(op: cuda_tile.CmpFOp, args: tuple, rewriter: ConversionRewriter) -> Any:
    predicate = FLOAT_PREDICATES[op.comparison_predicate.value][op.comparison_ordering.value == "unordered"]
    return rewriter.insert(arith.CmpFOp(*args, predicate=predicate))


def rounded(target: type[Operation]) -> Rule:
    """Carry the rounding mode and flushing over."""

    def rule(op: cuda_tile.TileOp, args: tuple, rewriter: ConversionRewriter) -> Any:
        attributes = {"rounding_mode": op.rounding_mode.value, "flush_to_zero": flag(op, "flush_to_zero")}
        return rewriter.insert(target(*args, **{key: value for key, value in attributes.items() if value is not None}))

    return rule


def _extremum(number: type[Operation], propagating: type[Operation]) -> Rule:
    """A NaN operand is ignored unless `propagate_nan` is set."""

    def rule(op: cuda_tile.MaxFOp | cuda_tile.MinFOp, args: tuple, rewriter: ConversionRewriter) -> Any:
        new = rewriter.insert((propagating if flag(op, "propagate_nan") is not None else number)(*args))
        flush = flag(op, "flush_to_zero")
        if flush is not None:
            new.attributes[nv_tileaa.FLUSH_TO_ZERO] = flush
        return new

    return rule


def patterns() -> Table:
    return {
        # integers
        "absi": same(math.AbsIOp),
        "addi": _with_overflow(arith.AddIOp),
        "andi": same(arith.AndIOp),
        "cmpi": _compare_integers,
        "divi": _divide,
        "maxi": by_signedness(arith.MaxSIOp, arith.MaxUIOp),
        "mini": by_signedness(arith.MinSIOp, arith.MinUIOp),
        "mulhii": same(nv_tileaa.MulhUIOp),
        "muli": _with_overflow(arith.MulIOp),
        "negi": _negate,
        "ori": same(arith.OrIOp),
        "remi": by_signedness(arith.RemSIOp, arith.RemUIOp),
        "shli": _with_overflow(arith.ShLIOp),
        "shri": by_signedness(arith.ShRSIOp, arith.ShRUIOp),
        "subi": _with_overflow(arith.SubIOp),
        "xori": same(arith.XOrIOp),
        # floats
        "absf": same(math.AbsFOp),
        "addf": rounded(nv_tileaa.AddFOp),
        "cmpf": _compare_floats,
        "divf": rounded(nv_tileaa.DivFOp),
        "fma": rounded(nv_tileaa.FmaOp),
        "maxf": _extremum(arith.MaxNumFOp, arith.MaximumFOp),
        "minf": _extremum(arith.MinNumFOp, arith.MinimumFOp),
        "mulf": rounded(nv_tileaa.MulFOp),
        "negf": same(arith.NegFOp),
        "remf": same(arith.RemFOp),
        "subf": rounded(nv_tileaa.SubFOp),
        # either
        "select": same(arith.SelectOp),
    }
