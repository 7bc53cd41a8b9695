"""Stores of tiles in loops over tiles go to an agent of their own, through a stage of shared memory each.

    for %tile ... {                        agent that computes              agent that stores
      ...                                    for %tile ... {                  for %tile ... {
      tiled_store %x, %view[...]     ->        ...                              consumer_wait
    }                                          producer_acquire                 tma_store_stage
                                               producer_write %x                consumer_release
                                               producer_commit                }
                                             }

The agent that computes continues with the next tile once it has written this one.  It waits for the copy of the last
one where it writes the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tileiras.analysis.ranges import RangeAnalysis
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.nv_tileas.agents import AgentSwitchOp, YieldOp
from tileiras.ir import Block, Builder, DenseArrayAttr, Operation, Region, Value, i32
from tileiras.schedule.agents.channels import create_pipe
from tileiras.schedule.agents.load_consumer import Consumer
from tileiras.schedule.agents.rules.store import StorePlan
from tileiras.schedule.agents.split import AgentProgram
from tileiras.schedule.materialize.box_ring import box_coordinates
from tileiras.schedule.stored_tiles import as_it_comes, stored_in_boxes
from tileiras.targets.pipe_protocol import BOX_STORES, STORES

STAGES = 1
"""Stages of the pipe of a store: while one tile is copied the next one is multiplied."""


class StorePipe:
    """The pipe through which the tiles of a store go, and the descriptor of its view."""

    __slots__ = ("buffers", "consumer", "desc", "producer", "store")

    def __init__(self, store: tileas.TiledStoreOp, builder: Builder) -> None:
        self.store = store
        found = stored_in_boxes(store)
        assert found is not None, "the plan has looked at the boxes of the store"
        desc, tile = found
        builder.location = store.location
        buffer = tileas.AllocTensorOp(result=tileas.BufferType(STAGES, tile))
        self.buffers = [builder.insert(buffer).results[0]]
        self.producer, self.consumer = create_pipe(builder, self.buffers, STAGES, STORES, BOX_STORES)
        self.desc = builder.insert(tileas.MakeTmaDescOp(store.view, result=desc)).results[0]


class StorePipes:
    """The pipes of the stores of a kernel, by these; for `Consumer` no loop has some that it drains."""

    def __init__(self, plan: StorePlan, builder: Builder) -> None:
        self.by_store: dict[Operation, StorePipe] = {store: StorePipe(store, builder) for store in plan.stores}
        self.rings = list(self.by_store.values())

    def of(self, loop: Operation) -> Sequence[StorePipe]:
        return ()

    def inside(self, op: Operation) -> list[StorePipe]:
        """The pipes of an operation that is a store, and of those in it, in order."""
        return [self.by_store[inner] for inner in op.walk() if inner in self.by_store]


def separate_stores(switch: AgentSwitchOp, plan: StorePlan) -> AgentSwitchOp:
    """Moves the stores of a plan to a further, last agent, of as many warps as the first one; returns the switch that
    replaces the given one."""
    work = switch.agents[0].block
    before = Builder.before(switch)
    pipes = StorePipes(plan, before)
    program = _StoreProgram(plan, pipes).program(work)
    _Computing(pipes).rewrite(work)
    Builder.at_end(program, switch.location).insert(YieldOp.create(()))
    regions = [*(Region().take_blocks(region) for region in switch.agents), Region([program])]
    attributes = dict(switch.attributes)
    attributes["num_agents_per_group"] = DenseArrayAttr(i32, [*switch.num_agents_per_group.elements, 1])
    new = AgentSwitchOp.create((), (), attributes, regions, location=switch.location)
    switch.parent.insert_before(new, switch)
    behind = Builder.after(new)
    behind.location = switch.location
    for pipe in reversed(pipes.rings):
        behind.insert(tileas.DeallocTensorOp(pipe.buffers[0]))
    switch.erase()
    return new


class _StoreProgram(AgentProgram[StorePipe]):
    """Writes the program of the agent that stores."""

    def __init__(self, plan: StorePlan, pipes: StorePipes) -> None:
        super().__init__(plan.slice)
        self._pipes = pipes
        self._ranges = RangeAnalysis()

    def program(self, work: Block) -> Block:
        """The program of the agent that runs beside `work`."""
        return self._written(work, {pipe: pipe.consumer for pipe in self._pipes.rings})

    def _is_own(self, op: Operation) -> bool:
        return op in self._pipes.by_store

    def _inside(self, op: Operation) -> list[StorePipe]:
        return self._pipes.inside(op)

    def _do(self, store: Operation, builder: Builder, at: dict[StorePipe, Value]) -> None:
        pipe = self._pipes.by_store[store]
        coords = box_coordinates(builder, pipe.store, self._of, self._ranges)
        token = builder.insert(tileas.ConsumerWaitOp(pipe.consumer, at[pipe])).results[0]
        builder.insert(tileas.TmaStoreStageOp(token=token, desc=pipe.desc, coords=coords))
        builder.insert(tileas.ConsumerReleaseOp(token))
        at[pipe] = builder.insert(tileas.IncIterOp(at[pipe])).results[0]


class _Computing(Consumer):
    """Rewrites the program of the agent that computes, in place, to fill stages of pipes that another one drains."""

    def __init__(self, pipes: StorePipes) -> None:
        super().__init__(pipes)  # type: ignore[arg-type]
        self._by_store = pipes.by_store

    def rewrite(self, work: Block) -> None:
        builder = Builder.at_start(work)
        rings: Any = self._pipes.rings
        at = {pipe: builder.insert(tileas.CreateIteratorOp(pipe.producer)).results[0] for pipe in rings}
        self._block(work, at, runs_once=True)

    def _branch(self, branch: Any, at: dict[Any, Value], runs_once: bool) -> None:
        pipe = self._by_store.get(branch)
        if pipe is None:
            super()._branch(branch, at, runs_once)
        else:
            self._write(branch, pipe, at)

    def _write(self, store: Any, pipe: StorePipe, at: dict[Any, Value]) -> None:
        builder = Builder.before(store)
        builder.location = store.location
        data, convert = as_it_comes(store.data)
        token = builder.insert(tileas.ProducerAcquireOp(pipe.producer, at[pipe])).results[0]
        builder.insert(tileas.ProducerWriteOp(data, token))
        builder.insert(tileas.ProducerCommitOp(token))
        at[pipe] = builder.insert(tileas.IncIterOp(at[pipe])).results[0]
        before = store.token
        if before is None:
            before = builder.insert(tileas.CreateMemTokenOp(result=aa.MemTokenType())).results[0]
        store.result_token.replace_all_uses_with(before)
        store.erase()
        if convert is not None and not convert.results[0].has_uses:
            convert.erase()
