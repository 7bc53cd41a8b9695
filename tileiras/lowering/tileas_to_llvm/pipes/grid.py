"""Dependent launch, and the fence between addresses of one memory.

These are inline PTX that clobbers memory: LLVM takes the intrinsics of dependent launch for operations that touch no
memory, and would move loads over them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..emit.function import FunctionLowering

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileas as tileas


def _instruction(text: str, min_ptx: str, lowering: FunctionLowering) -> None:
    lowering.emit.assembly(text, "~{memory}", (), min_ptx=min_ptx)


def gdc_wait(op: tileas.GdcWaitOp, args: Any, lowering: FunctionLowering) -> None:
    """Before sm_90 grids do not overlap: there is nothing to wait for."""
    if lowering.target.has("dependent_launch"):
        _instruction("griddepcontrol.wait;", "7.8", lowering)


def gdc_launch_dependents(op: tileas.GdcLaunchDependentsOp, args: Any, lowering: FunctionLowering) -> None:
    if lowering.target.has("dependent_launch"):
        _instruction("griddepcontrol.launch_dependents;", "7.8", lowering)


def fence_alias(op: tileas.FenceAliasOp, args: Any, lowering: FunctionLowering) -> None:
    """The fence is a thread's own (PTX ISA, membar / fence.proxy), between barriers that hand its effect to the
    others."""
    _instruction("fence.proxy.alias;", "7.5", lowering)
