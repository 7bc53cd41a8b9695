"""Atomic updates: one instruction per element, by one thread for each element.

Threads that hold copies of an element must not execute its update again; when the old values are wanted in a layout
with copies, they are handed to the others through scratch memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import nvvm
from tileiras.dialects.nvvm.intrinsics import admits
from tileiras.ir import FloatType, IntegerType, Value, VerifyError
from tileiras.layout import LinearLayout

from .convert_layout import through_shared
from .function import FunctionLowering
from .types import count_of, element_of, vector_of
from .views import TileAddresses

# nv_tileaa's names of the operations -> PTX's (nvvm.atom).
_OPERATIONS = {
    "and": "and",
    "or": "or",
    "xor": "xor",
    "add": "add",
    "addf": "fadd",
    "max": "max",
    "min": "min",
    "umax": "umax",
    "umin": "umin",
    "xchg": "exch",
}
_SCOPES = {"tl_blk": "cta", "cluster": "cluster", "gpu": "gpu", "sys": "sys"}


def _order(op: Any) -> tuple[str, str]:
    """PTX's order and scope; a weak update is a relaxed one that nobody outside the block looks at."""
    if op.mem_semantic.value == "weak":
        return "relaxed", "gpu"
    return op.mem_semantic.value, _SCOPES[op.mem_scope.value]


def _update(
    pointer: Value,
    values: Sequence[Value],
    kind: str,
    order: tuple[str, str],
    predicate: Value | None,
    lowering: FunctionLowering,
) -> Value:
    """One update; `values` are the new value, or for `cas` the value to compare with and the new one."""
    emit = lowering.emit
    compared = list(values[:-1])
    op = nvvm.AtomOp(
        pointer,
        values[-1],
        *compared,
        op=nvvm.AtomicOpAttr(kind),
        order=nvvm.MemOrderAttr(order[0]),
        scope=nvvm.MemScopeAttr(order[1]),
    )
    instruction = op.target()
    if not admits(instruction.sm, lowering.target.name):
        mode = next((mode for mode, name in _OPERATIONS.items() if name == kind), kind)
        what = f"atomic '{mode}' of '{values[-1].type}'"
        raise VerifyError(f"{what} is not supported on {lowering.target.name}", prefix=False)
    if predicate is None:
        return emit.insert(op)
    # The instruction of the operation, under a guard.
    op.drop_all_references()
    letters = instruction.constraints.split(",")
    last = len(letters) - 1  # operands end before the memory clobber
    letters.insert(last, "b")
    text = f"@${last} {instruction.text}"
    # Without the guard's thread the register keeps what it had: tie a zero to it.
    letters.insert(last + 1, "0")
    args = [pointer, *compared, values[-1], predicate, emit.zero(values[-1].type)]
    return emit.assembly(text, ",".join(letters), args, values[-1].type)


def _old_values(
    old: Value, layout: LinearLayout, wanted: bool, lowering: FunctionLowering
) -> Value:
    """What was in memory, in every thread that holds a copy of the element."""
    free = layout.free_variable_masks()
    if not wanted or not (free["lane"] or free["warp"]):
        return old
    return through_shared(old, layout, layout, lowering)


def _through_pointers(op: Any, kind: str, values: Sequence[Value], lowering: FunctionLowering) -> list[Any]:
    lowering.synchronization.before_access(op)
    emit = lowering.emit
    layout = lowering.layout(op.pointer)
    pointers = lowering.value(op.pointer)
    mask = lowering.value(op.mask) if op.mask is not None else None
    free = layout.free_variable_masks()
    representative = emit.thread_is_representative(free["lane"], free["warp"])
    results: list[Value] = []
    for register in range(layout.registers):
        first = register & ~free["register"]
        if first != register:
            results.append(results[first])
            continue
        active = emit.extract(mask, register) if mask is not None else None
        results.append(
            _update(
                emit.extract(pointers, register),
                [emit.extract(v, register) for v in values],
                kind,
                _order(op),
                emit.both(representative, active),
                lowering,
            )
        )
    old = _old_values(emit.build(results), layout, bool(list(op.data.users)), lowering)
    return [old, None]


def atomic_rmw(op: Any, args: Sequence[Any], lowering: FunctionLowering) -> list[Any]:
    return _through_pointers(op, _OPERATIONS[op.rmw_mode.value], [lowering.value(op.value)], lowering)


def atomic_cas(op: Any, args: Sequence[Any], lowering: FunctionLowering) -> list[Any]:
    """Floats are compared by their bits, as PTX does."""
    emit = lowering.emit
    values = [lowering.value(op.compare), lowering.value(op.value)]
    held = element_of(values[0].type)
    if isinstance(held, FloatType):
        bits = IntegerType(held.width)
        values = [emit.bitcast(v, vector_of(bits, count_of(v.type))) for v in values]
    old, token = _through_pointers(op, "cas", values, lowering)
    return [emit.bitcast(old, vector_of(held, count_of(old.type))), token]


def tiled_atomic_rmw(op: Any, args: Sequence[Any], lowering: FunctionLowering) -> list[Any]:
    lowering.synchronization.before_access(op)
    emit = lowering.emit
    layout = lowering.layout(op.data)
    addresses = TileAddresses(op, layout, lowering)
    value = lowering.value(op.data)
    free = layout.free_variable_masks()
    representative = emit.thread_is_representative(free["lane"], free["warp"])
    for register in range(layout.registers):
        if register & free["register"]:
            continue
        pointer, offset = addresses.address(register)
        predicate = emit.both(representative, addresses.mask(register))
        scalar = emit.extract(value, register)
        _update(emit.gep(pointer, offset), [scalar], _OPERATIONS[op.rmw_mode.value], _order(op), predicate, lowering)
    return [None]


PATTERNS: dict[type, Any] = {
    tileas.AtomicRMWOp: atomic_rmw,
    tileas.AtomicCASOp: atomic_cas,
    tileas.TiledAtomicRMWOp: tiled_atomic_rmw,
}
