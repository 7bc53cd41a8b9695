"""Turns of warpgroups: named barriers to which two of them come, one to wait and the one before it to let it go on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tileiras.analysis.warpgroup_turns import THREADS
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.nv_tileas.thread import THREAD
from tileiras.ir import Value
from tileiras.targets.sm import WARPGROUP

from ..emit.function import FunctionLowering
from ..pipes.agents import elected
from .warpgroup_dot import WARP_BITS, uniform_warp


def _warpgroup(lowering: FunctionLowering) -> Value:
    """The number of the thread's warpgroup in its agent, uniform in the warp, as `.aligned` requires."""
    return lowering.emit.lshr(uniform_warp(lowering), WARP_BITS)


def wait_turn(op: tileas.WaitTurnOp, args: Sequence[Any], lowering: FunctionLowering) -> None:
    emit, group = lowering.emit, _warpgroup(lowering)
    waits = None if op.last is None else emit.icmp("eq", group, emit.integer(0))
    number = emit.value(emit.add(group, op.id.value))
    with elected(lowering, waits):
        emit.insert(THREAD["barrier"](number, emit.integer(THREADS)))


def end_turn(op: tileas.EndTurnOp, args: Sequence[Any], lowering: FunctionLowering) -> None:
    emit, group = lowering.emit, _warpgroup(lowering)
    last = emit.icmp("eq", group, emit.integer(lowering.num_warps // WARPGROUP - 1))
    number = emit.select(last, emit.integer(op.id.value), emit.value(emit.add(group, op.id.value + 1)))
    with elected(lowering, None if op.first is None else last):
        emit.insert(THREAD["barrier.arrive"](number, emit.integer(THREADS)))
