"""Barriers of the CTA and of agents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import nvvm

from .function import FunctionLowering


def barrier(op: tileas.BarrierOp, args: Sequence[Any], lowering: FunctionLowering) -> None:
    if op.threads is None:
        lowering.synchronization.barrier()
        return
    emit = lowering.emit
    emit.insert(nvvm.BarrierOp(emit.integer(op.id.value), emit.integer(op.threads.value)))
