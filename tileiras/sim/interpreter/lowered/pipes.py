"""Pipes: stages that agents fill and drain in turn.

An iterator counts stages from the first on, over all passes of the ring.  A stage is full when its producer has
committed it and a consumer has waited for it: copies arrive then, not before.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple

import numpy as np

from tileiras.ir import Operation

from .buffers import Buffer, Copy, fill
from .machine import LoweredMachine, as_only
from .memory import read_tile, write_tile

PIPELINE = "async.pipeline."
Signals = dict[int, dict[Any, set[int]]]
"""Stage -> agent -> warpgroups that have signalled."""

WHOLE = -1
"""Stands for all warpgroups, in place of the number of one."""


class Pipe:
    """A ring, and the signals of each of its stages."""

    def __init__(self, op: Any, buffers: list[Any]) -> None:
        self.stages = op.num_stages.value
        self.groups = op.num_groups
        self.buffers = buffers
        ends = (op.producer, ("producer_acquire", "produce_one")), (op.consumer, ("consumer_wait", "consume_one"))
        self.producers, self.consumers = (1 if op.by_turns is not None else max(1, _agents(*end)) for end in ends)
        self.full: Signals = defaultdict(lambda: defaultdict(set))
        self.empty: Signals = defaultdict(lambda: defaultdict(set))
        self.copies: dict[int, list[Copy]] = defaultdict(list)

    def _signalled(self, signals: set[int], group: int) -> bool:
        return WHOLE in signals or group in signals or signals >= set(range(self.groups))

    def is_full(self, number: int, group: int) -> bool:
        """Whether every agent that fills the stage has committed it."""
        return sum(self._signalled(each, group) for each in self.full[number].values()) >= self.producers

    def is_empty(self, number: int, group: int) -> bool:
        """Whether every consumer has released the tile that the stage held one pass of the ring ago."""
        before = number - self.stages
        if before < 0:
            return True
        return sum(self._signalled(each, group) for each in self.empty[before].values()) >= self.consumers


def _agents(end: Any, operations: tuple[str, ...]) -> int:
    """How many agents have such operations on an end of a pipe."""
    agents = set()
    for user in end.users:
        if user.name.endswith(operations):
            around: Operation | None = user
            region = None
            while around is not None and around.parent_op is not None:
                if around.parent_op.name.endswith("agent_switch"):
                    region = around.parent
                around = around.parent_op
            agents.add(id(region))
    return len(agents)


class Token(NamedTuple):
    """An end of a pipe; the stage that was acquired or waited for, by its number."""

    pipe: Pipe
    number: int | None = None


class Iterator(NamedTuple):
    pipe: Pipe
    number: int = 0


def _group(op: Any) -> int:
    return WHOLE if op.group is None else op.group.value


@as_only(PIPELINE + "create_pipeline")
def create_pipeline(machine: LoweredMachine, op: Any) -> tuple:
    pipe = Pipe(op, [machine[buffer] for buffer in op.buffers])
    return Token(pipe), Token(pipe)


@as_only(PIPELINE + "destroy_pipeline", PIPELINE + "consumer_tail")
def end(machine: LoweredMachine, op: Any) -> None:
    """All of its stages have been read."""


@as_only(PIPELINE + "create_iterator")
def create_iterator(machine: LoweredMachine, op: Any) -> Iterator:
    return Iterator(machine[op.token].pipe)


@as_only(PIPELINE + "inc_iter")
def inc_iter(machine: LoweredMachine, op: Any) -> Iterator:
    pipe, number = machine[op.iterator]
    return Iterator(pipe, number + (1 if op.by is None else int(machine[op.by])))


@as_only(PIPELINE + "get_stage")
def get_stage(machine: LoweredMachine, op: Any) -> np.ndarray:
    pipe, number = machine[op.iterator]
    return np.array(number % pipe.stages, np.int32)


@as_only(PIPELINE + "producer_acquire")
def producer_acquire(machine: LoweredMachine, op: Any) -> Token:
    pipe, number = machine[op.iterator]
    if op.fresh is None and op.known is None:
        machine.crew.wait(lambda: pipe.is_empty(number, _group(op)))
    return Token(pipe, number)


@as_only(PIPELINE + "producer_commit")
def producer_commit(machine: LoweredMachine, op: Any) -> Token:
    pipe, number = token = machine[op.token]
    task = machine.crew.current
    mine = [each for each in task.copies if each.buffer in pipe.buffers]
    task.copies = [each for each in task.copies if each.buffer not in pipe.buffers]
    pipe.copies[number] += mine
    pipe.full[number][task].add(_group(op))
    return token


@as_only(PIPELINE + "producer_tail")
def producer_tail(machine: LoweredMachine, op: Any) -> None:
    pipe, number = machine[op.iterator]
    filled = [each for each in range(max(0, number - pipe.stages), number) if pipe.full[each]]
    machine.crew.wait(lambda: all(pipe.is_empty(each + pipe.stages, _group(op)) for each in filled))


@as_only(PIPELINE + "consumer_wait")
def consumer_wait(machine: LoweredMachine, op: Any) -> Token:
    pipe, number = machine[op.iterator]
    machine.crew.wait(lambda: pipe.is_full(number, _group(op)))
    for each in pipe.copies.pop(number, ()):
        each.arrive()
    return Token(pipe, number)


@as_only(PIPELINE + "consumer_release")
def consumer_release(machine: LoweredMachine, op: Any) -> Token:
    pipe, number = token = machine[op.token]
    if number is not None:
        pipe.empty[number][machine.crew.current].add(_group(op))
    return token


# -- tiles in stages -------------------------------------------------------------------------------------------------


def _place(machine: LoweredMachine, op: Any) -> tuple[Pipe, int, Buffer, int]:
    pipe, number = machine[op.token]
    buffer = pipe.buffers[0 if op.buffer is None else op.buffer.value]
    return pipe, number, buffer, number % pipe.stages


@as_only(PIPELINE + "producer_write")
def producer_write(machine: LoweredMachine, op: Any) -> None:
    _, _, buffer, stage = _place(machine, op)
    fill(machine, buffer, stage, machine[op.tensor])


@as_only(PIPELINE + "consumer_read")
def consumer_read(machine: LoweredMachine, op: Any) -> np.ndarray:
    _, _, buffer, stage = _place(machine, op)
    return buffer.read(stage)


@as_only("async.bulk_load")
def bulk_load(machine: LoweredMachine, op: Any) -> None:
    pipe, number, buffer, stage = _place(machine, op)
    tile = read_tile(machine, machine[op.view], op.coords, buffer.type.tile.element_type, zeros=True)
    pipe.copies[number].append(Copy(machine, buffer, stage, tile))


@as_only("async.tma_load")
def tma_load(machine: LoweredMachine, op: Any) -> None:
    """Each CTA copies for itself; with multicast, the copies of several CTAs contain the same tile."""
    pipe, number, buffer, stage = _place(machine, op)
    tile = read_tile(machine, machine[op.desc], op.coords, buffer.type.tile.element_type, zeros=True)
    pipe.copies[number].append(Copy(machine, buffer, stage, tile))


@as_only("async.bulk_store")
def bulk_store(machine: LoweredMachine, op: Any) -> None:
    _, _, buffer, stage = _place(machine, op)
    write_tile(machine, machine[op.view], op.coords, buffer.read(stage))


@as_only("async.tma_store_stage")
def tma_store_stage(machine: LoweredMachine, op: Any) -> None:
    _, _, buffer, stage = _place(machine, op)
    write_tile(machine, machine[op.desc], op.coords, buffer.read(stage))
