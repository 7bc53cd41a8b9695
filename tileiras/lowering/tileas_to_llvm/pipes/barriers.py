"""Barriers of the CTA, of agents, and of the cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.nv_tileas.thread import THREAD

from ..emit.function import FunctionLowering


def barrier(op: tileas.BarrierOp, args: Sequence[Any], lowering: FunctionLowering) -> None:
    if op.cluster is not None:
        lowering.emit.insert(THREAD["cluster.barrier"](relaxed=op.relaxed))
        return
    lowering.barrier(op.id.value, None if op.threads is None else op.threads.value)
