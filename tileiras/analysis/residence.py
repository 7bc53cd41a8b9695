"""Residence of tiles, and the operations that take tiles outside registers.

A tile is in registers, distributed over threads by its layout; in shared memory, where its encoding gives the place of
each element, swizzle included; or in flight, in registers that an asynchronous dot may read or write.  The stages of a
buffer are not tiles: `copy` and `consumer_read` give the tile of a stage.  Buffers of tensor memory are not tiles
either: `load` gives their tiles in registers, and an encoding of tensor memory occurs only in the type of a buffer.
"""

from __future__ import annotations

from collections.abc import Mapping

from tileiras.dialects.nv_tileas import SharedLayoutAttr, names
from tileiras.ir import Operation, TensorType, Type
from tileiras.layout.encoding import TENSOR_LAYOUT
from tileiras.targets.atoms.rows import Residence

_DOT_OPERANDS = frozenset((0, 1))
_ANY = frozenset(range(64))

TAKES: Mapping[str, Mapping[str, frozenset[int]]] = {
    "nv_tileas.dot": {"shared": _DOT_OPERANDS},
    "nv_tileas.async.dot": {"shared": _DOT_OPERANDS, "in flight": frozenset((0, 1, 2))},
    "nv_tileas.block_scaled_mma": {"shared": frozenset((0, 1, 3, 4))},
    "nv_tileas.tensor_memory.dot": {"shared": frozenset((0, 1, 4, 5))},
    "nv_tileas.async.future_wait": {"in flight": _ANY},
    "nv_tileas.view": {"shared": _ANY},
    "nv_tileas.permute": {"shared": _ANY},
    "nv_tileas.unpack": {"shared": _ANY},
    "scf.for": {"in flight": _ANY},
    "scf.yield": {"in flight": _ANY},
    "scf.if": {"in flight": _ANY},
}
"""Operation -> residences other than registers -> the operands that may have them."""


def residence_of(type: Type) -> Residence | str:
    """The residence of values of a type: register, shared, tensor, or in flight; register also for other types than
    tiles."""
    if isinstance(type, TensorType):
        if type.encoding is not None and type.encoding.name == TENSOR_LAYOUT:
            return "tensor"
        return "shared" if isinstance(type.encoding, SharedLayoutAttr) else "register"
    return "in flight" if type.name == names.IN_FLIGHT else "register"


def residence_error(op: Operation) -> str:
    """The error in the residence of the operands of an operation; empty if correct."""
    for number, value in enumerate(op.operands):
        where = residence_of(value.type)
        if where != "register" and number not in TAKES.get(op.name, {}).get(where, ()):
            place = "in flight" if where == "in flight" else f"in {where} memory"
            return f"takes tiles in registers, not one that is {place}: {value.type}"
    return ""
