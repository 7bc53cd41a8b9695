"""Structured control flow, agents, and coordinates of tile blocks."""

from __future__ import annotations

from typing import Any

import numpy as np

from tileiras.ir import Operation

from ..machine import Signal, Undefined
from ..values import signed, unsigned
from .machine import LoweredMachine, as_only, rule

AXES = "xyz"


@rule("scf.yield", "nv_tileaa.yield", "nv_tileas.yield", "nv_tileaa.return", "scf.condition")
def terminator(machine: LoweredMachine, op: Operation) -> Signal:
    return Signal(op.name, machine.operands(op))


@as_only("async.pipeline.yield")
def end_of_agent(machine: LoweredMachine, op: Operation) -> Signal:
    return Signal(op.name, machine.operands(op))


@rule("scf.if")
def if_(machine: LoweredMachine, op: Any) -> tuple:
    machine.decide("a condition", machine[op.operands[0]])
    region = op.regions[0 if machine[op.operands[0]] else 1]
    return tuple(machine.run_block(region.block).values) if region.blocks else ()


@rule("scf.for")
def for_(machine: LoweredMachine, op: Any) -> tuple:
    bounds = [machine[value] for value in op.operands[:3]]
    machine.decide("a bound", *bounds)
    width = op.operands[0].type.width
    convert = unsigned if "unsignedCmp" in op.attributes else signed
    first, last, by = (int(convert(value, width)) for value in bounds)
    if by <= 0:
        raise Undefined(f"has step {by}; it must be positive")
    carried = [machine[value] for value in op.operands[3:]]
    block = op.regions[0].block
    for number in range(first, last, by):
        value = np.array(number, np.uint64 if number >= 0 else np.int64).astype(bounds[0].dtype)
        machine.bind(block.arguments, [value, *carried])
        carried = machine.run_block(block).values
    return tuple(carried)


@rule("scf.while")
def while_(machine: LoweredMachine, op: Any) -> tuple:
    carried = machine.operands(op)
    before, after = (region.block for region in op.regions)
    while True:
        machine.bind(before.arguments, carried)
        goes_on, *values = machine.run_block(before).values
        machine.decide("a condition", goes_on)
        if not goes_on:
            return tuple(values)
        machine.bind(after.arguments, values)
        carried = machine.run_block(after).values


@as_only("async.pipeline.agent_switch")
def agent_switch(machine: LoweredMachine, op: Any) -> None:
    tasks = [machine.crew.begin(lambda block=agent.block: machine.run_block(block)) for agent in op.regions]
    machine.crew.wait(lambda: all(task.is_done for task in tasks))


@rule("get_program_id")
def get_program_id(machine: LoweredMachine, op: Any) -> np.ndarray:
    """Without a cluster each tile block is its own neighbour."""
    return np.array(machine.block_id[AXES.index(op.axis.value)], f"int{op.results[0].type.width}")


@rule("get_num_programs")
def get_num_programs(machine: LoweredMachine, op: Any) -> np.ndarray:
    return np.array(machine.grid[AXES.index(op.axis.value)], f"int{op.results[0].type.width}")


@rule("get_cta_rank")
def get_cta_rank(machine: LoweredMachine, op: Any) -> np.ndarray:
    return np.array(machine.rank, np.int32)


@as_only("neighbor_counter")
def neighbor_counter(machine: LoweredMachine, op: Any) -> np.ndarray:
    return machine[op.counter]


@as_only("is_same_tile")
def is_same_tile(machine: LoweredMachine, op: Any) -> np.ndarray:
    pairs = zip(op.first, op.second)
    return np.array(all(int(machine[first]) == int(machine[second]) for first, second in pairs))


def meet(machine: LoweredMachine, key: Any, value: Any = None) -> list[Any]:
    """The values that the CTAs of the tile block pass to the same execution of an operation; waits for all."""
    count = machine.shared.get((key, "count"), 0)
    machine.shared[key, "count"] = count + 1
    machine.shared[key, count] = (value,)
    machine.crew.wait(lambda: all((key, count) in peer.shared for peer in machine.peers))
    return [peer.shared[key, count][0] for peer in machine.peers]


@as_only("barrier")
def barrier(machine: LoweredMachine, op: Any) -> None:
    """An agent is one task: only CTAs have to wait for each other."""
    if op.cluster is not None and len(machine.peers) > 1:
        meet(machine, id(op))


@as_only("delay", "fence_proxy_async", "async.wait_turn", "async.end_turn")
def nothing(machine: LoweredMachine, op: Operation) -> None:
    """Order threads, which tasks do not have."""
