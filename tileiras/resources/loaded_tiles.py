"""How much a kernel loads outside of loops: what decides whether its registers are looked at more closely."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import TensorType

from .limits import threads_of

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa

MUCH = 48
"""Elements of loaded tiles in a thread, outside of loops; fewer are no reason to look at all registers of a kernel."""


def loads_much(func: aa.FuncOp) -> bool:
    """Whether a kernel loads tiles outside of loops that may take many registers."""
    loads = (op for op in func.body.blocks[0].operations if isinstance(op, (tileas.TiledLoadOp, tileas.LoadOp)))
    types = (op.data.type for op in loads)
    loaded = sum(type.num_elements for type in types if isinstance(type, TensorType))
    return loaded > MUCH * threads_of(func)
