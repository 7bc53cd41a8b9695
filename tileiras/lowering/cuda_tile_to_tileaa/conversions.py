"""Conversions between element types."""

from __future__ import annotations

from typing import Any

from tileiras.dialects import arith, nv_tileaa

from .rules import Table, by_signedness, cast


def _float_to_float(op: Any, args: tuple, rewriter: Any) -> Any:
    result = rewriter.convert_type(op.results[0].type)
    return rewriter.insert(nv_tileaa.FpToFpOp(args[0], rounding_mode=op.rounding_mode.value, result=result))


def patterns() -> Table:
    return {
        "bitcast": cast(arith.BitcastOp),
        "exti": by_signedness(arith.ExtSIOp, arith.ExtUIOp, is_cast=True),
        "ftof": _float_to_float,
        # Only truncation exists, so the rounding mode says nothing.
        "ftoi": by_signedness(arith.FPToSIOp, arith.FPToUIOp, is_cast=True),
        "int_to_ptr": cast(nv_tileaa.IntToPtrOp),
        # Only rounding to nearest even exists.
        "itof": by_signedness(arith.SIToFPOp, arith.UIToFPOp, is_cast=True),
        "ptr_to_int": cast(nv_tileaa.PtrToIntOp),
        "ptr_to_ptr": cast(nv_tileaa.PtrBitcastOp),
        "trunci": cast(arith.TruncIOp),
    }
