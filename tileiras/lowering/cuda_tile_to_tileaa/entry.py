"""Kernels, the grid, globals, and statements about values."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Callable

from tileiras.diagnostics import CompileError
from tileiras.dialects import nv_tileaa
from tileiras.ir import DenseElementsAttr, IntegerAttr, Operation, StringAttr, TensorType

from .memory import check_alignment
from .rules import Rule, Table, converted

if TYPE_CHECKING:
    from tileiras.dialects import cuda_tile
    from tileiras.ir import ConversionRewriter

    from . import TargetSpec


def _entry(op: cuda_tile.EntryOp, args: tuple, rewriter: ConversionRewriter) -> None:
    for number, type in enumerate(op.function_type.inputs):
        if type.name != "cuda_tile.tile":
            # The dialect allows it, but a launch has no such value to give.
            message = f"entry argument #{number} has type '{type}', which is no kernel parameter"
            raise CompileError.at(op.location, message)
    function_type = rewriter.convert_type(op.function_type)
    body = rewriter.convert_region(op.regions[0])
    rewriter.insert(
        nv_tileaa.FuncOp(
            sym_name=op.sym_name,
            function_type=function_type,
            kernel_spec=kernel_spec(op, rewriter.data),
            target_spec=StringAttr(rewriter.data.gpu_name),
            body=body,
            location=op.location,
        )
    )


def kernel_spec(op: cuda_tile.EntryOp, data: TargetSpec) -> Any:
    """The launch shape as far as it is forced, by the options first, then by the source's hints for the target."""
    hints = op.optimization_hints

    def hint(key: str) -> int | None:
        return hints.hint(data.gpu_name, key) if hints is not None else None

    num_warps = data.num_warps or hint("num_worker_warps_per_cta")
    num_ctas = data.num_ctas or hint("num_cta_in_cga") or 1
    return nv_tileaa.KernelSpecAttr(num_warps, num_ctas, hint("occupancy"))


def _return(op: cuda_tile.ReturnOp, args: tuple, rewriter: ConversionRewriter) -> None:
    rewriter.insert(nv_tileaa.ReturnOp())


def _per_axis(target: type[Operation]) -> Rule:
    def rule(
        op: cuda_tile.GetNumTileBlocksOp | cuda_tile.GetTileBlockIdOp, args: tuple, rewriter: ConversionRewriter
    ) -> Any:
        return [
            rewriter.insert(target(axis=axis, result=rewriter.convert_type(result.type))).results[0]
            for axis, result in zip("xyz", op.results)
        ]

    return rule


def _global(op: cuda_tile.GlobalOp, args: tuple, rewriter: ConversionRewriter) -> None:
    attributes: dict[str, Any] = {"constant": op.constant} if op.constant is not None else {}
    if op.alignment.value > 0:
        # The language accepts any number; the vendor's compiler uses its highest bit.
        alignment = 1 << op.alignment.value.bit_length() - 1
        check_alignment(op, alignment)
        attributes["alignment"] = IntegerAttr(alignment, op.alignment.type)
    if op.symbol_visibility.value == "private":
        attributes["sym_visibility"] = StringAttr("private")
    rewriter.insert(nv_tileaa.GlobalOp(sym_name=op.sym_name, value=_as_tensor(op.value), **attributes))


def _as_tensor(elements: DenseElementsAttr) -> DenseElementsAttr:
    """The same elements as a tensor; a global of rank 0 is an array of one."""
    type = elements.type
    return DenseElementsAttr(TensorType(type.shape or (1,), type.element_type), elements.data, elements.is_splat)


PREDICATES: dict[str, Callable[[Any], Any]] = {
    "cuda_tile.div_by": lambda p: nv_tileaa.DivByAttr(*p.values),
    "cuda_tile.bounded": lambda p: nv_tileaa.BoundedAttr(*p.values),
    "cuda_tile.same_elements": lambda p: nv_tileaa.SameElementsAttr(*p.values),
}


@functools.lru_cache(maxsize=1024)  # kernels assume the same of most parameters
def _predicate(assumed: cuda_tile.AssumePredicate) -> Any:
    return PREDICATES[assumed.name](assumed)


def _assume(op: cuda_tile.AssumeOp, args: tuple, rewriter: ConversionRewriter) -> Any:
    return rewriter.insert(nv_tileaa.AssumeOp(args[0], predicate=_predicate(op.predicate)))


def _assert(op: cuda_tile.AssertOp, args: tuple, rewriter: ConversionRewriter) -> None:
    rewriter.insert(nv_tileaa.AssertOp(args[0], message=op.message))


def _print(op: cuda_tile.PrintTkoOp, args: tuple, rewriter: ConversionRewriter) -> Any:
    values = [rewriter.value(value) for value in op.args]
    after = converted(rewriter, op.token)
    return rewriter.insert(
        nv_tileaa.PrintOp(values, after, format=op.attributes["str"], result_token=nv_tileaa.MemTokenType())
    )


def patterns() -> Table:
    return {
        "assert": _assert,
        "assume": _assume,
        "entry": _entry,
        "get_num_tile_blocks": _per_axis(nv_tileaa.GetNumProgramsOp),
        "get_tile_block_id": _per_axis(nv_tileaa.GetProgramIdOp),
        "global": _global,
        "print_tko": _print,
        "return": _return,
    }
