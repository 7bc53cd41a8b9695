"""Memory operations: each with the atom that moves its data, in the layout that anchors it."""

from __future__ import annotations

from typing import Any

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import ConversionRewriter, TensorType, element_type_of
from tileiras.layout import LinearLayout
from tileiras.layout.encoding import with_layout
from tileiras.remarks import Remark

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
    if layouts.remarks is not None:
        _remark(op, data.type, layouts, vector_size, layout if isinstance(data.type, TensorType) else None)
    return rewriter.insert(cls.create(operands, types, attributes))


_INSTRUCTIONS = {"ld_global": "ld.global", "st_global": "st.global", "red_global": "red.global"}


def _remark(op: Any, type: Any, layouts: Any, vector_size: int, layout: LinearLayout | None) -> None:
    """Says how an operation reaches memory, and what keeps its accesses narrow."""
    instruction = _INSTRUCTIONS.get(_ATOMS.get(op.__class__, ""), "atom.global")
    kind = {"ld.global": "Load", "st.global": "Store"}.get(instruction, "Atomic")
    if instruction == "atom.global":
        vector_size = 1
    bits = max(8, element_type_of(type).width) * vector_size
    arguments = {"Instruction": instruction, "Width": f"{bits // 8} bytes"}
    reason = ""
    if layout is not None:
        arguments |= {"Shape": list(type.shape), "Elements per access": vector_size}
        if instruction == "atom.global":
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
