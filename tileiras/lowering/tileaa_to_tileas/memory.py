"""Memory operations: each with the atom that moves its data, in the layout that anchors it."""

from __future__ import annotations

from typing import Any

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import ConversionRewriter, TensorType, element_type_of
from tileiras.layout import LinearLayout
from tileiras.layout.encoding import with_layout
from tileiras.remarks import Remark
from tileiras.targets import CopyAtom, Target, find_copy_atom

from .anchors import data_of

_READS = (aa.TiledLoadOp, aa.LoadOp)
_WRITES = (aa.TiledStoreOp, aa.StoreOp)


def _atom(op: Any, target: Target) -> CopyAtom | None:
    """What moves the data of an access; None for updates of single elements, whose old values are wanted."""
    if isinstance(op, _READS):
        return find_copy_atom(target, "global", "register")
    if isinstance(op, (*_WRITES, aa.TiledAtomicRMWOp)):
        return find_copy_atom(target, "register", "global", combines=not isinstance(op, _WRITES))
    return None


_STORES = (*_WRITES, aa.TiledAtomicRMWOp)


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
    atom = _atom(op, layouts.assignment.dots.target)
    if atom is not None:
        attributes["atom"] = tileas.CopyAtomAttr(atom.name, vector_size)
    if layouts.remarks is not None:
        _remark(op, atom, data.type, layouts, vector_size, layout if isinstance(data.type, TensorType) else None)
    return rewriter.insert(cls.create(operands, types, attributes))


UPDATE = "atom.global"


def _remark(
    op: Any, atom: CopyAtom | None, type: Any, layouts: Any, vector_size: int, layout: LinearLayout | None
) -> None:
    """Says how an operation reaches memory, and what keeps its accesses narrow."""
    instruction = UPDATE if atom is None else atom.instruction
    kind = "Load" if isinstance(op, _READS) else "Store" if isinstance(op, _WRITES) else "Atomic"
    if atom is None:
        vector_size = 1
    bits = max(8, element_type_of(type).width) * vector_size
    arguments = {"Instruction": instruction, "Width": f"{bits // 8} bytes"}
    reason = ""
    if layout is not None:
        arguments |= {"Shape": list(type.shape), "Elements per access": vector_size}
        if atom is None:
            reason = "an update is of one element"
        else:
            reason = layouts.assignment.memory.why_not_wider(op, layout)
    layouts.remarks.emit(
        Remark(
            "passed", f"RemarkMemory{kind}InstructionSelected", op.location,
            arguments=arguments, reason=reason, function=layouts.function,
        )
    )  # fmt: skip


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
