"""Dependent launch, and the fence between addresses of one memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tileiras.dialects.nv_tileas.thread import THREAD

from ..emit.function import FunctionLowering

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileas as tileas


def gdc_wait(op: tileas.GdcWaitOp, args: Any, lowering: FunctionLowering) -> None:
    lowering.emit.insert(THREAD["grid_dependency.wait"]())


def gdc_launch_dependents(op: tileas.GdcLaunchDependentsOp, args: Any, lowering: FunctionLowering) -> None:
    lowering.emit.insert(THREAD["grid_dependency.launch"]())


def fence_alias(op: tileas.FenceAliasOp, args: Any, lowering: FunctionLowering) -> None:
    """The fence is a thread's own (PTX ISA, membar / fence.proxy), between barriers that hand its effect to the
    others."""
    lowering.emit.insert(THREAD["fence.proxy.alias"]())
