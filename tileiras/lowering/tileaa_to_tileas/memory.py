"""Memory operations: each with the atom that moves its data, in the layout that anchors it."""

from __future__ import annotations

from typing import Any

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import ConversionRewriter, TensorType
from tileiras.layout.encoding import with_layout

from .anchors import data_of

_ATOMS = {
    aa.TiledLoadOp: "ld_global",
    aa.LoadOp: "ld_global",
    aa.TiledStoreOp: "st_global",
    aa.StoreOp: "st_global",
    aa.TiledAtomicRMWOp: "red_global",
}

_STORES = (aa.TiledStoreOp, aa.StoreOp, aa.TiledAtomicRMWOp)


def convert_access(op: Any, args: tuple, rewriter: ConversionRewriter) -> Any:
    """Loads, stores and atomics, through views or through pointers."""
    layouts = rewriter.data
    data = data_of(op)
    attributes = dict(op.attributes)
    cls = tileas.COUNTERPARTS[type(op)]
    if isinstance(data.type, TensorType):
        memory = layouts.assignment.memory
        layout = layouts.assignment.store_layout(op) if isinstance(op, _STORES) else memory.layout(op)
        operands = [layouts.as_layout(operand, layout) for operand in op.operands]
        types = [with_layout(r.type, layout) if isinstance(r.type, TensorType) else r.type for r in op.results]
        vector_size = memory.vector_size(op, layout)
    else:
        operands = [layouts.concrete(operand) for operand in op.operands]
        types = [result.type for result in op.results]
        vector_size = 1
    atom = _ATOMS.get(type(op))
    if atom is not None:
        attributes["atom"] = tileas.CopyAtomAttr(atom, vector_size)
    return rewriter.insert(cls.create(operands, types, attributes))


PATTERNS = {
    op: convert_access
    for op in (
        aa.TiledLoadOp,
        aa.TiledStoreOp,
        aa.TiledAtomicRMWOp,
        aa.LoadOp,
        aa.StoreOp,
        aa.AtomicRMWOp,
        aa.AtomicCASOp,
    )
}
