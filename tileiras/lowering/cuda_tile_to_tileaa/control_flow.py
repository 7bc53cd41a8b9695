"""Entries, loops, branches, the grid, globals and debugging."""

from __future__ import annotations

from typing import Any

from tileiras.dialects import cuda_tile as ct
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import scf
from tileiras.ir import Attribute, ConversionRewriter, FunctionType, Operation, StringAttr, SymbolRefAttr, VerifyError

from .types import convert_type, result_types

# ---- entry, return ---------------------------------------------------------------------------------------------------


def convert_entry(op: Any, args: tuple, rewriter: ConversionRewriter) -> Operation:
    kernel = rewriter.data
    hints = op.optimization_hints
    hint = (lambda key: None) if hints is None else (lambda key: hints.hint(kernel.gpu_name, key))
    spec = aa.KernelSpecAttr(kernel.num_warps, kernel.num_ctas or hint("num_cta_in_cga") or 1, hint("occupancy"))
    body = rewriter.convert_region(op.body)
    return rewriter.insert(
        aa.FuncOp(
            sym_name=op.sym_name,
            function_type=FunctionType([argument.type for argument in body.blocks[0].arguments]),
            kernel_spec=spec,
            target_spec=StringAttr(kernel.gpu_name),
            body=body,
        )
    )


def convert_return(op: Any, args: tuple, rewriter: ConversionRewriter) -> None:
    if not isinstance(op.parent_op, ct.EntryOp):
        raise _early_exit()
    rewriter.insert(aa.ReturnOp())


def _early_exit() -> VerifyError:
    return VerifyError("leaving an enclosing region from inside a branch is not supported")


# ---- for, if ---------------------------------------------------------------------------------------------------------


def convert_for(op: Any, args: tuple, rewriter: ConversionRewriter) -> Operation:
    body = rewriter.convert_region(op.region)
    flags = {"unsignedCmp": op.unsignedCmp} if op.unsignedCmp is not None else {}
    return rewriter.insert(scf.ForOp.create(args, result_types(op), flags, (body,)))


def convert_if(op: Any, args: tuple, rewriter: ConversionRewriter) -> Operation:
    then_region = rewriter.convert_region(op.thenRegion)
    else_region = rewriter.convert_region(op.elseRegion)
    return rewriter.insert(scf.IfOp.create(args, result_types(op), {}, (then_region, else_region)))


def convert_continue(op: Any, args: tuple, rewriter: ConversionRewriter) -> None:
    if not isinstance(op.parent_op, ct.ForOp):
        raise _early_exit()
    rewriter.insert(scf.YieldOp.create(args))


def convert_yield(op: Any, args: tuple, rewriter: ConversionRewriter) -> None:
    collective = isinstance(op.parent_op, (ct.ReduceOp, ct.ScanOp))
    rewriter.insert((aa.YieldOp if collective else scf.YieldOp).create(args))


# ---- grid ------------------------------------------------------------------------------------------------------------


def _per_axis(cls: type[Operation]) -> Any:
    def convert(op: Any, args: tuple, rewriter: ConversionRewriter) -> list[Any]:
        types = result_types(op)
        return [rewriter.insert(cls(axis=axis, result=type)).results[0] for axis, type in zip("xyz", types)]

    return convert


# ---- globals, debugging ----------------------------------------------------------------------------------------------


def convert_global(op: Any, args: tuple, rewriter: ConversionRewriter) -> None:
    attributes: dict[str, Attribute] = {"sym_name": op.sym_name}
    value = op.value
    attributes["value"] = type(value)(convert_type(value.type), value.data, value.is_splat)
    if op.alignment is not None:
        attributes["alignment"] = op.alignment
    rewriter.insert(aa.GlobalOp.create((), (), attributes))


def convert_get_global(op: Any, args: tuple, rewriter: ConversionRewriter) -> Operation:
    name = op.attributes["name"]
    symbol = name if isinstance(name, SymbolRefAttr) else SymbolRefAttr(name.value)  # type: ignore[attr-defined]
    return rewriter.insert(aa.GetGlobalOp(symbol=symbol, result=convert_type(op.result.type)))


def convert_assert(op: Any, args: tuple, rewriter: ConversionRewriter) -> None:
    rewriter.insert(aa.AssertOp(args[0], message=op.message))


PATTERNS: dict[type[Operation], Any] = {
    ct.EntryOp: convert_entry,
    ct.ReturnOp: convert_return,
    ct.ForOp: convert_for,
    ct.IfOp: convert_if,
    ct.ContinueOp: convert_continue,
    ct.YieldOp: convert_yield,
    ct.GetTileBlockIdOp: _per_axis(aa.GetProgramIdOp),
    ct.GetNumTileBlocksOp: _per_axis(aa.GetNumProgramsOp),
    ct.GlobalOp: convert_global,
    ct.GetGlobalOp: convert_get_global,
    ct.AssertOp: convert_assert,
}
