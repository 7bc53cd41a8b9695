"""Barriers of the CTA and of agents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tileiras.dialects import nv_tileas as tileas

from .function import FunctionLowering


def barrier(op: tileas.BarrierOp, args: Sequence[Any], lowering: FunctionLowering) -> None:
    lowering.barrier(op.id.value, None if op.threads is None else op.threads.value)
