"""Structured control flow and its terminators."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .machine import Signal, Undefined, meaning, polled
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
    polls = polled(op) is not None
    with _Repetition(machine, op) as repetition:
        while True:
            if polls:
                machine.pause()
            machine.bind(block.arguments, carried)
            signal = machine.run_block(block)
            if signal.kind == "break":
                return tuple(signal.values)
            if signal.kind not in ("continue", "end"):
                return signal
            carried = signal.values
            repetition.observe(carried)


class _Repetition:
    """Finds out when a loop repeats a state: carried values that it has had before, and no change of memory since.
    Nothing but a change of memory by another tile block ends it then."""

    PATIENCE = 64
    """Trips before states are compared: most loops end earlier."""

    def __init__(self, machine: Machine, op: cuda_tile.LoopOp) -> None:
        self.machine, self.op = machine, op
        self.trips = 0
        self.state: list | None = None
        self.changes = 0
        self.calls = any(".preview$call" in each.name for each in op.walk())
        """Whether a trip calls a function, which may keep state."""

    def __enter__(self) -> _Repetition:
        return self

    def __exit__(self, *_: object) -> None:
        self.machine.memory.watchers -= self.trips >= self.PATIENCE

    def observe(self, carried: list) -> None:
        """After a trip: wait where the state is one that the loop has had before."""
        self.trips += 1
        memory = self.machine.memory
        if self.trips < self.PATIENCE:
            return
        if self.trips == self.PATIENCE:
            memory.watchers += 1
        if self.state is not None and memory.changes == self.changes and not self.calls:
            if all(map(_same, carried, self.state)):
                self.machine.wait(self.op)
            elif self.trips & self.trips - 1:
                return  # a state is compared with the next ones up to a power of two: with all of a cycle
        self.state, self.changes = carried, memory.changes


def _same(value: object, other: object) -> bool:
    if isinstance(value, np.ndarray) and isinstance(other, np.ndarray):
        return value is other or value.tobytes() == other.tobytes()
    return value == other
