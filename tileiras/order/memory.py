"""Which memory accesses lead to, and through what."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tileiras.analysis.incoming import incoming
from tileiras.dialects import arith
from tileiras.dialects import nv_tileaa as aa
from tileiras.ir import BlockArgument, Value, element_type_of

Root = Any
"""Memory: the number of the argument that leads there, the symbol of a global, the result of an `alloca`; None where
that is not known."""

STORES = (aa.StoreOp, aa.TiledStoreOp)
UPDATES = (aa.TiledAtomicRMWOp, aa.AtomicRMWOp, aa.AtomicCASOp)
LOADS = (aa.LoadOp, aa.TiledLoadOp)


def address_of(op: Any) -> Value:
    """The view or the pointers of an access."""
    return op.view if hasattr(op, "view") else op.pointer


def data_of(op: Any) -> Value:
    """What an access writes."""
    return op.value if isinstance(op, (aa.AtomicRMWOp, aa.AtomicCASOp)) else op.data


def places_of(op: Any) -> frozenset[Value]:
    """What says which elements of its memory an access reads or writes."""
    return frozenset(op.coords) if hasattr(op, "view") else frozenset((op.pointer,))


def is_private(root: Root) -> bool:
    """Whether only the tile block itself leads there."""
    return isinstance(root, Value) and root.defining_op.global_ is None  # type: ignore[union-attr]


def roots(address: Value) -> frozenset[Root]:
    """The memory that a pointer, memref or view leads to."""
    found: set[Root] = set()
    waiting, seen = [address], set()
    while waiting:
        value = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        handed_on = incoming(value)
        if handed_on is not None:
            waiting += [each.value for each in handed_on]
            continue
        op: Any = value.block.parent_op if isinstance(value, BlockArgument) else value.defining_op
        if isinstance(value, BlockArgument):
            found.add(value.index if isinstance(op, aa.FuncOp) else None)
        elif isinstance(op, aa.AllocaOp):
            found.add(value)
        elif isinstance(op, aa.GetGlobalOp):
            found.add(op.symbol.root)
        elif isinstance(op, (aa.BlockTileOp, aa.MakeMemRefOp)):
            waiting.append(op.operands[0])
        else:
            pointers = [v for v in op.operands if isinstance(element_type_of(v.type), aa.PtrType)]
            found |= {None} if not pointers or isinstance(op, (*LOADS, *UPDATES)) else set()
            waiting += pointers
    return frozenset(found)


def conjuncts(mask: Value) -> Iterator[Value]:
    """The conditions all of which a mask needs."""
    op = mask.defining_op
    if isinstance(op, arith.AndIOp):
        for operand in op.operands:
            yield from conjuncts(operand)
    else:
        yield mask
