"""Structured control flow and its terminators."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .machine import Signal, Undefined, meaning
from .values import signed, unsigned

if TYPE_CHECKING:
    from tileiras.dialects import cuda_tile
    from tileiras.ir import Operation

    from .machine import Machine


@meaning("yield", "continue", "break", "return")
def terminator(machine: Machine, op: Operation):
    return Signal(op.name.partition(".")[2], machine.operands(op))


@meaning("if")
def if_(machine: Machine, op: cuda_tile.IfOp):
    machine.decide("a condition", machine[op.operands[0]])
    condition = bool(machine[op.operands[0]])
    regions = op.regions
    region = regions[0] if condition else regions[1] if len(regions) > 1 else None
    if region is None or not region.blocks:
        return ()
    signal = machine.run_block(region.block)
    if signal.kind in ("yield", "end"):
        return tuple(signal.values)
    return signal


@meaning("for")
def for_(machine: Machine, op: cuda_tile.ForOp):
    lower, upper, step = (machine[value] for value in op.operands[:3])
    machine.decide("a bound", lower, upper, step)
    convert = unsigned if "unsignedCmp" in op.attributes or "unsigned_cmp" in op.attributes else signed
    width = op.operands[0].type.element_type.width
    first, last, by = int(convert(lower, width)), int(convert(upper, width)), int(convert(step, width))
    if by <= 0:
        raise Undefined(f"has step {by}; it must be positive")
    carried = [machine[value] for value in op.operands[3:]]
    block = op.regions[0].block
    kind = lower.dtype.type
    for number in range(first, last, by):
        if convert is unsigned and width > 1:
            number -= (number >> (width - 1)) << width
        machine.bind(block.arguments, [np.array(number, kind), *carried])
        signal = machine.run_block(block)
        if signal.kind not in ("continue", "end"):
            return signal
        carried = signal.values
    return tuple(carried)


@meaning("loop")
def loop(machine: Machine, op: cuda_tile.LoopOp):
    carried = machine.operands(op)
    block = op.regions[0].block
    while True:
        machine.bind(block.arguments, carried)
        signal = machine.run_block(block)
        if signal.kind == "break":
            return tuple(signal.values)
        if signal.kind not in ("continue", "end"):
            return signal
        carried = signal.values
