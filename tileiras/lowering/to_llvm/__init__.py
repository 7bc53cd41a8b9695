"""Operations of arith and math, of a thread's scalars and vectors, that are one operation of llvm.

    %z = arith.addi %x, %y overflow<nsw> : i32     ->   %z = llvm.add %x, %y overflow<nsw> : i32
    %z = math.fma %a, %b, %c : vector<8xf32>       ->   %z = llvm.intr.fma(%a, %b, %c)

Others of arith are expanded (`lowering.arith_expand`), others of math become functions (`lowering.math_to_funcs`).
"""

from __future__ import annotations

from collections.abc import Mapping

from tileiras.dialects import llvm
from tileiras.ir import Attribute, Operation

OPERATIONS: Mapping[str, type[Operation]] = {
    "arith.addi": llvm.AddOp, "arith.subi": llvm.SubOp, "arith.muli": llvm.MulOp, "arith.shli": llvm.ShlOp,
    "arith.shrsi": llvm.AShrOp, "arith.shrui": llvm.LShrOp, "arith.divsi": llvm.SDivOp, "arith.divui": llvm.UDivOp,
    "arith.remsi": llvm.SRemOp, "arith.remui": llvm.URemOp, "arith.andi": llvm.AndOp, "arith.ori": llvm.OrOp,
    "arith.xori": llvm.XOrOp, "arith.addf": llvm.FAddOp, "arith.subf": llvm.FSubOp, "arith.mulf": llvm.FMulOp,
    "arith.divf": llvm.FDivOp, "arith.negf": llvm.FNegOp,
}  # fmt: skip
"""Operations and the instructions that they are."""

INTRINSICS: Mapping[str, str] = {
    "arith.maxsi": "smax", "arith.maxui": "umax", "arith.minsi": "smin", "arith.minui": "umin",
    "arith.maximumf": "maximum", "arith.minimumf": "minimum", "arith.maxnumf": "maxnum", "arith.minnumf": "minnum",
    "math.absf": "fabs", "math.ceil": "ceil", "math.floor": "floor", "math.sqrt": "sqrt", "math.fma": "fma",
}  # fmt: skip
"""Operations and the intrinsics that they are."""

_FLAGS = {"nsw": ("nsw",), "nuw": ("nuw",), "nsw_nuw": ("nsw", "nuw")}


def convert(op: Operation) -> bool:
    """Convert an operation in place; return False for one that is not of the tables."""
    name = op.name
    cls = OPERATIONS.get(name)
    if cls is None:
        intrinsic = INTRINSICS.get(name)
        if intrinsic is None:
            return False
        cls = llvm.INTRINSIC_OPS[intrinsic]
    op.attributes = _attributes(op.attributes) if op.attributes else {}
    op.become(cls)
    return True


def _attributes(attributes: dict[str, Attribute]) -> dict[str, Attribute]:
    flags = attributes.get("overflowFlags")
    names = _FLAGS.get(flags.value, ()) if flags is not None else ()  # type: ignore[attr-defined]
    return {"overflowFlags": llvm.IntegerOverflowFlagsAttr(names)} if names else {}
