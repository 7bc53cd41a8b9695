"""Puts the barriers that a function needs where they have to stand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from tileiras import schedule, synchronization
from tileiras.analysis.barrier_needs import accesses_buffer
from tileiras.analysis.function_pass import FunctionPass
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import ArrayAttr, IntegerAttr, Operation, UnitAttr, VerifyError, i32
from tileiras.targets.sm import NAMED_BARRIERS, WARP_SIZE

from .function_barriers import Synchronization

if TYPE_CHECKING:
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target


class InsertBarriers(FunctionPass):
    name = "tileas-insert-barriers"
    requires = "ALLOCATED"
    leaves = "SYNCHRONIZED"
    needs = "places of buffers and scratch areas; operations in the order in which they will run"
    establishes = (
        "`nv_tileas.barrier` operations, the barrier of each scratch area, `nv_tileas.named_barriers` on the function, "
        "fences of accesses of threads to tensor memory, stages of pipes that barriers show to be empty"
    )
    keeps = "all other operations"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        insert_barriers(func)
        schedule.agents.simplify.know_empty_stages(func)
        if gpu.has("tcgen05"):
            synchronization.tensor_fences.fence_columns(func)


def insert_barriers(func: aa.FuncOp) -> None:
    """Insert barriers into a function of nv_tileas whose scratch areas are placed, and record the barrier of each
    area. The function gets the number of barriers that it uses.

    All threads of the CTA have barrier 0, an agent the first one that is free where it needs one.  Agents in the
    function's own block leave theirs to later ones, since a barrier of all threads stands after them.

    Raises VerifyError at agents that need more barriers than a CTA has.
    """
    _erase_idle_fences(func)
    present = {op.id.value for op in func.walk() if isinstance(op, tileas.BarrierOp)}
    whole = Synchronization(func, tileas.block_warps(func))
    whole.block(func.body.blocks[0])
    _apply(whole, 0, None)
    result = present | ({0} if _needs_barrier(whole) else set())
    numbers = set(result)
    for switch, agents in groupby(whole.agents, lambda agent: agent[2]):
        numbers_here = set(result) if switch.parent is func.body.blocks[0] else result
        for agent, warps in _with_inner(agents):
            if _needs_barrier(agent):
                number = next((n for n in range(1, NAMED_BARRIERS) if n not in numbers_here), None)
                if number is None:
                    raise VerifyError(f"needs more than the {NAMED_BARRIERS} barriers of a CTA", switch.location)
                _apply(agent, number, WARP_SIZE * warps)
                numbers_here.add(number)
        numbers |= numbers_here
    func.attributes[tileas.NAMED_BARRIERS] = IntegerAttr(max(numbers, default=-1) + 1, i32)


def _erase_idle_fences(func: aa.FuncOp) -> None:
    """Erase fences between accesses to shared memory by threads and by the asynchronous proxy if no such access of
    threads precedes them: conversions have moved after them since boxes were put ahead of a loop."""
    for op in list(func.body.blocks[0].operations):
        if isinstance(op, tileas.FenceProxyOp):
            if op.global_memory is not None:
                return
            op.erase()
        elif any(tileas.SCRATCH in inner.attributes or accesses_buffer(inner) for inner in op.walk()):
            return


def _with_inner(agents: Iterable[tuple[Synchronization, int, Operation]]) -> Iterator[tuple[Synchronization, int]]:
    """Agents, and those inside of them, each with its number of warps."""
    for agent, warps, _ in agents:
        yield agent, warps
        yield from _with_inner(agent.agents)


def _needs_barrier(barriers: Synchronization) -> bool:
    return bool(barriers.places or barriers.exchanging or barriers.cluster_meets)


def _apply(barriers: Synchronization, number: int, threads: int | None) -> None:
    """Insert the barriers of the CTA or of an agent, and note at each scratch area which one it has."""
    for place, cause in barriers.places.items():
        if place.area is None:
            barrier = tileas.BarrierOp(
                id=IntegerAttr(number, i32),
                threads=None if threads is None else IntegerAttr(threads, i32),
                cluster=UnitAttr() if place in barriers.of_cluster else None,
            )
            barrier.location = cause.location
            place.op.parent.insert_before(barrier, place.op)
    for place, cause in barriers.cluster_meets.items():
        barrier = tileas.BarrierOp(id=IntegerAttr(0, i32), cluster=UnitAttr(), relaxed=UnitAttr())
        barrier.location = cause.location
        place.op.parent.insert_before(barrier, place.op)
    for op in barriers.exchanging:
        areas = tileas.scratch_areas(op)
        op.attributes[tileas.SCRATCH] = ArrayAttr(
            [area.with_barrier(number, threads, (op, n) in barriers.places) for n, area in enumerate(areas)]
        )
