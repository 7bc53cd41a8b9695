"""Multicast memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tileiras.diagnostics import CompileError
from tileiras.dialects import nv_tileaa
from tileiras.ir import FloatType, Operation, UnitAttr
from tileiras.targets import target
from tileiras.targets.cpu import is_cpu

from .memory import ordering, result_types, with_hints
from .rules import Table, converted

if TYPE_CHECKING:
    from tileiras.ir import ConversionRewriter


def _refuse_without_multicast(op: Operation, rewriter: ConversionRewriter) -> None:
    gpu_name = rewriter.data.gpu_name
    if is_cpu(gpu_name) or not target(gpu_name).has("multicast_memory"):
        message = f"Incompatibility with architecture '{gpu_name}': multicast pointers require sm_90 or newer"
        raise CompileError.at(op.location, message)


def _mode(op: Operation) -> str:
    """The kind of reduction as an atomic operation's mode."""
    kind = op.reduction.value
    return "addf" if kind == "add" and isinstance(op.view.type.tile_type.element_type, FloatType) else kind


def _operands(op: Operation, rewriter: ConversionRewriter) -> tuple[Any, Any, Any]:
    return rewriter.value(op.view), converted(rewriter, op.index), converted(rewriter, op.token)


def _load(op: Operation, args: tuple, rewriter: ConversionRewriter) -> Any:
    _refuse_without_multicast(op, rewriter)
    data, token = result_types(op, rewriter)
    attributes = {"data": data, "result_token": token, "reduction": _mode(op), **ordering(op)}
    return with_hints(rewriter.insert(nv_tileaa.TiledLoadOp(*_operands(op, rewriter), **attributes)), op, rewriter)


def _store(op: Operation, args: tuple, rewriter: ConversionRewriter) -> Any:
    _refuse_without_multicast(op, rewriter)
    attributes: dict[str, Any] = {"result_token": nv_tileaa.MemTokenType(), "multicast": UnitAttr(), **ordering(op)}
    cls: Any = nv_tileaa.TiledStoreOp
    if op.name == "cuda_tile.multimem_reduce_view_tko":
        cls, attributes["rmw_mode"] = nv_tileaa.TiledAtomicRMWOp, _mode(op)
    data = rewriter.value(op.tile)
    return with_hints(rewriter.insert(cls(data, *_operands(op, rewriter), **attributes)), op, rewriter)


def patterns() -> Table:
    return {
        "multimem_load_reduce_view_tko": _load,
        "multimem_reduce_view_tko": _store,
        "multimem_store_view_tko": _store,
    }
