"""Multicast memory, and what the language only previews."""

from __future__ import annotations

from typing import Any

from tileiras.diagnostics import CompileError
from tileiras.dialects import nv_tileaa
from tileiras.ir import FloatType, UnitAttr
from tileiras.targets import target

from .memory import ordering, result_types, with_hints
from .rules import Table, converted


def _refuse_without_multicast(op: Any, rewriter: Any) -> None:
    gpu_name = rewriter.data.gpu_name
    if not target(gpu_name).has("multicast_memory"):
        message = f"Incompatibility with architecture '{gpu_name}': multicast pointers require sm_90 or newer"
        raise CompileError.at(op.location, message)


def _mode(op: Any) -> str:
    """The kind of reduction as an atomic operation's mode."""
    kind = op.reduction.value
    return "addf" if kind == "add" and isinstance(op.view.type.tile_type.element_type, FloatType) else kind


def _operands(op: Any, rewriter: Any) -> tuple[Any, Any, Any]:
    return rewriter.value(op.view), converted(rewriter, op.index), converted(rewriter, op.token)


def _load(op: Any, args: tuple, rewriter: Any) -> Any:
    _refuse_without_multicast(op, rewriter)
    data, token = result_types(op, rewriter)
    named = {"data": data, "result_token": token, "reduction": _mode(op), **ordering(op)}
    return with_hints(rewriter.insert(nv_tileaa.TiledLoadOp(*_operands(op, rewriter), **named)), op, rewriter)


def _store(op: Any, args: tuple, rewriter: Any) -> Any:
    _refuse_without_multicast(op, rewriter)
    named: dict[str, Any] = {"result_token": nv_tileaa.MemTokenType(), "multicast": UnitAttr(), **ordering(op)}
    cls: Any = nv_tileaa.TiledStoreOp
    if op.name == "cuda_tile.multimem_reduce_view_tko":
        cls, named["rmw_mode"] = nv_tileaa.TiledAtomicRMWOp, _mode(op)
    data = rewriter.value(op.tile)
    return with_hints(rewriter.insert(cls(data, *_operands(op, rewriter), **named)), op, rewriter)


def _preview_call(op: Any, args: tuple, rewriter: Any) -> None:
    """What is called is code for threads, which takes fragments of tiles in layouts that nothing documents."""
    message = f"'{op.name}' op calls '@{op.callee.root}', a function of a tile library, whose code is not linked here"
    raise CompileError.at(op.location, message)


def patterns() -> Table:
    return {
        "multimem_load_reduce_view_tko": _load,
        "multimem_reduce_view_tko": _store,
        "multimem_store_view_tko": _store,
        "preview$call": _preview_call,
    }
