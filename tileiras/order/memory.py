"""Memory accesses of nv_tileaa: their addresses, data and roots."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tileiras.analysis.incoming import incoming
from tileiras.dialects import arith
from tileiras.dialects import nv_tileaa as aa
from tileiras.ir import BlockArgument, Value, element_type_of

Root = Any
"""An allocation: the number of a pointer argument, the symbol of a global, or the result of an `alloca`; None if the
allocation is unknown."""

STORES = (aa.StoreOp, aa.TiledStoreOp)
UPDATES = (aa.TiledAtomicRMWOp, aa.AtomicRMWOp, aa.AtomicCASOp)
LOADS = (aa.LoadOp, aa.TiledLoadOp)


def address_of(op: Any) -> Value:
    """The view or pointer operand of an access."""
    return op.view if hasattr(op, "view") else op.pointer


def data_of(op: Any) -> Value:
    """The operand that a store or update writes."""
    return op.value if isinstance(op, (aa.AtomicRMWOp, aa.AtomicCASOp)) else op.data


def memref_of(view: Value) -> aa.MakeMemRefOp | None:
    """The memory of a view; None for a view that control flow selects."""
    tiling: Any = view.defining_op
    memref = tiling.source.defining_op if isinstance(tiling, aa.BlockTileOp) else None
    return memref if isinstance(memref, aa.MakeMemRefOp) else None


def places_of(op: Any) -> frozenset[Value]:
    """The values that select the elements of an access: the pointer, or the coordinates and the base of the view."""
    if not hasattr(op, "view"):
        return frozenset((op.pointer,))
    memref = memref_of(op.view)
    return frozenset((*op.coords, op.view if memref is None else memref.base))


def mode_of(op: Any) -> str:
    """The kind of an atomic update."""
    return "cas" if isinstance(op, aa.AtomicCASOp) else op.rmw_mode.value


def is_weak(op: Any) -> bool:
    """Whether accesses of other tile blocks to the same element are a data race, unless synchronization orders them."""
    return op.mem_semantic.value == "weak"


def is_private(root: Root) -> bool:
    """Whether only the tile block itself accesses an allocation."""
    return isinstance(root, Value) and root.defining_op.global_ is None  # type: ignore[union-attr]


def roots(address: Value) -> frozenset[Root]:
    """The allocations that a pointer, memref or view may lead to."""
    result: set[Root] = set()
    pending, seen = [address], set()
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        incoming_values = incoming(value)
        if incoming_values is not None:
            pending += [each.value for each in incoming_values]
            continue
        op: Any = value.block.parent_op if isinstance(value, BlockArgument) else value.defining_op
        if isinstance(value, BlockArgument):
            result.add(value.index if isinstance(op, aa.FuncOp) else None)
        elif isinstance(op, aa.AllocaOp):
            result.add(value)
        elif isinstance(op, aa.GetGlobalOp):
            result.add(op.symbol.root)
        elif isinstance(op, (aa.BlockTileOp, aa.MakeMemRefOp)):
            pending.append(op.operands[0])
        else:
            pointers = [v for v in op.operands if isinstance(element_type_of(v.type), aa.PtrType)]
            result |= {None} if not pointers or isinstance(op, (*LOADS, *UPDATES)) else set()
            pending += pointers
    return frozenset(result)


def conjuncts(mask: Value) -> Iterator[Value]:
    """The operands of nested `and` operations."""
    worklist = [mask]
    while worklist:
        mask = worklist.pop()
        if isinstance(mask.defining_op, arith.AndIOp):
            worklist += reversed(mask.defining_op.operands)
        else:
            yield mask
