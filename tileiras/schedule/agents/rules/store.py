"""The agent of stores of tiles in loops over tiles, through a stage of shared memory each.

    for %tile ... {                        agent that computes              agent that stores
      ...                                    for %tile ... {                  for %tile ... {
      tiled_store %x, %view[...]     ->        ...                              consumer_wait
    }                                          producer_acquire                 tma_store_stage
                                               producer_write %x                consumer_release
                                               producer_commit                }
                                             }

The warps that compute write the tile to shared memory and continue with the next one; meanwhile one thread of the agent
copies it to global memory in boxes of a tensor map, and waits for the copy.  Tokens may order such a store only with
other stores that move too: the agent executes them in program order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tileiras.analysis.incoming import incoming
from tileiras.analysis.ranges import RangeAnalysis
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.dialects.nv_tileas import names
from tileiras.dialects.nv_tileas.agents import AgentSwitchOp
from tileiras.ir import Block, Builder, MemoryRead, MemoryWrite, Operation, Value
from tileiras.layout.arena import ARENA_ALIGNMENT, aligned_to
from tileiras.reasons import Reason
from tileiras.resources.agent_registers import RegisterShares
from tileiras.resources.expected_registers import expected_registers
from tileiras.resources.shared_memory import MBARRIER_BYTES, bytes_in_use, shared_budget
from tileiras.schedule.agents.budget import FURTHER_WARPS, Room, check_ctas, further_shares
from tileiras.schedule.agents.channels import Channel
from tileiras.schedule.agents.further import Further
from tileiras.schedule.agents.slice import AgentSlice, CannotSpecialize
from tileiras.schedule.agents.split import Agent, AgentProgram, Remainder, split
from tileiras.schedule.materialize.box_ring import box_coordinates
from tileiras.schedule.stored_tiles import LEAST_BYTES, as_it_comes, stored_in_boxes, tile_bytes
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets import Target
from tileiras.targets.pipe_protocol import BOX_STORES, STORES

STAGES = 1
"""Stages of the pipe of a store: while one tile is copied the next one is multiplied."""


class StorePlan(NamedTuple):
    """The stores that leave the agent that computes, in program order, and the operations that their agent repeats."""

    stores: list[tileas.TiledStoreOp]
    slice: AgentSlice


def stores_of_tiles(program: Block) -> list[Operation]:
    """The stores of a program that the rule chooses: those in loops over tiles that a tensor map can serve."""
    return [
        op for outer in program.operations for op in outer.walk()
        if isinstance(op, tileas.TiledStoreOp) and tileas.AHEAD_ATOM in op.attributes and _is_in_loop_over_tiles(op)
    ]  # fmt: skip


def store_agent(
    switch: AgentSwitchOp, func: aa.FuncOp, target: Target, stores: list[tileas.TiledStoreOp]
) -> Further | None:
    """The agent of stores of the first agent of a switch, which computes.  Raises CannotSpecialize, with the reason."""
    plan = plan_stores(switch, stores, set(func.body.blocks[0].operations))
    for store in plan.stores:
        if stored_in_boxes(store) is None:
            raise CannotSpecialize(store, "maps.no-boxes")
        if tile_bytes(store) < LEAST_BYTES:
            raise CannotSpecialize(store, "maps.small-tile", bytes=tile_bytes(store), least=LEAST_BYTES)
    shares = further_shares(switch, func, others=FURTHER_WARPS)
    _check_room(func, plan, shares, target)
    reason = Reason("agents.stores-specialized", stores=len(plan.stores))
    return Further(lambda: _separate(switch, plan), shares, reason, plan.stores[0])


def _check_room(func: aa.FuncOp, plan: StorePlan, shares: RegisterShares, target: Target) -> None:
    """Raise CannotSpecialize where shared memory does not hold the tiles beside all else, or where with them, and with
    a further warp, an SM would hold fewer CTAs than without."""
    converts = {convert for store in plan.stores if (convert := as_it_comes(store.data)[1]) is not None}
    sources = {convert for convert in converts if all(user in plan.stores for user in convert.results[0].users)}
    budget, body = shared_budget(func, target), func.body.blocks[0]
    stages = sum(STAGES * aligned_to(tile_bytes(store), ARENA_ALIGNMENT) for store in plan.stores)
    before = bytes_in_use(body, budget) + MBARRIER_BYTES
    after = bytes_in_use(body, budget, sources) + MBARRIER_BYTES + stages
    if after > budget:
        raise CannotSpecialize(plan.stores[0], "agents.store-shared-memory", bytes=after, budget=budget)
    registers = shares.entry if shares.compute else min(expected_registers(func), shares.entry)
    alone = Room(tileas.block_warps(func), registers, before)
    check_ctas(plan.stores[0], func, target, alone, Room(shares.warps, registers, after))


def plan_stores(switch: AgentSwitchOp, stores: list[Any], outside: set[Operation]) -> StorePlan:
    """The plan for stores of the first agent of a switch, which computes.  `outside`: operations before the agents.

    Raises CannotSpecialize, with the reason.
    """
    agent_slice = AgentSlice(switch, outside)
    together = set(stores)
    for store in stores:
        if store.view.defining_op not in outside:
            raise CannotSpecialize(store, "agents.map-in-agent")
        _check_before(store, together)
        _check_behind(store, together)
        agent_slice.take(store, store.coords)
    agent_slice.close()
    return StorePlan(stores, agent_slice)


def _is_in_loop_over_tiles(op: Operation) -> bool:
    """Whether a loop around an operation computes tiles from loads of other agents, not only slices of one of them."""
    return any(inner.name == names.CONSUMER_WAIT for loop in scf.loops_around(op) for inner in loop.walk())


def _check_before(store: Any, stores: set[Any]) -> None:
    """Raise CannotSpecialize where a store is ordered after anything but stores of the same agent."""
    seen: set[Value] = set()
    pending = [] if store.token is None else [store.token]
    while pending:
        token = pending.pop()
        if token in seen:
            continue
        seen.add(token)
        handed_on = incoming(token)
        op = token.defining_op
        if handed_on is not None:
            pending += [each.value for each in handed_on]
        elif op is not None and op not in stores:
            if op.regions or _accesses(op):
                raise CannotSpecialize(store, "agents.ordered-after", op=op.name)
            pending += [value for value in op.operands if isinstance(value.type, aa.MemTokenType)]


def _check_behind(store: Any, stores: set[Any]) -> None:
    """Raise CannotSpecialize where anything but stores of the same agent is ordered after a store."""
    seen: set[Value] = set()
    pending = [store.result_token]
    while pending:
        token = pending.pop()
        if token in seen:
            continue
        seen.add(token)
        for user in token.users:
            if user in stores:
                continue
            if not isinstance(user, _HANDING_ON):
                raise CannotSpecialize(user, "agents.store-ordered-before", op=user.name)
            pending += _becomes(token, user)


_HANDING_ON = (scf.ForOp, scf.WhileOp, scf.YieldOp, scf.ConditionOp, tileas.JoinMemTokenOp)


def _becomes(token: Value, user: Any) -> list[Value]:
    """The values that take the value of a token: loop-carried values that it initializes, results of a loop or branch
    that yields it, and joined tokens."""
    if isinstance(user, tileas.JoinMemTokenOp):
        return list(user.results)
    is_loop = isinstance(user, (scf.ForOp, scf.WhileOp))
    around: Any = user if is_loop else user.parent_op
    result = user.init_args if isinstance(user, scf.ForOp) else user.operands
    if isinstance(user, scf.ConditionOp):
        result = user.args
    become: list[Any] = [around.results]
    if isinstance(around, scf.ForOp):
        become.append(around.iter_args)
    elif isinstance(user, scf.ConditionOp):
        become.append(around.after.block.arguments)
    elif isinstance(around, scf.WhileOp):
        become = [around.before.block.arguments]
    return [values[number] for number, value in enumerate(result) if value is token for values in become]


def _accesses(op: Operation) -> bool:
    """Whether an operation that returns a token accesses memory, or waits for others that do."""
    return op.has_trait(MemoryRead) or op.has_trait(MemoryWrite) or not isinstance(
        op, (tileas.CreateMemTokenOp, tileas.JoinMemTokenOp)
    )


# ---- the agent -------------------------------------------------------------------------------------------------------


class StorePipe(Channel):
    """The pipe through which the tiles of a store go, and the descriptor of its view."""

    __slots__ = ("desc", "store")

    def __init__(self, store: tileas.TiledStoreOp, builder: Builder) -> None:
        self.store = store
        result = stored_in_boxes(store)
        assert result is not None, "the plan has looked at the boxes of the store"
        desc, tile = result
        builder.location = store.location
        buffer = builder.insert(tileas.AllocTensorOp(result=tileas.BufferType(STAGES, tile))).results[0]
        super().__init__(builder, [buffer], STAGES, (STORES, BOX_STORES))
        self.desc = builder.insert(tileas.MakeTmaDescOp(store.view, result=desc)).results[0]


def _separate(switch: AgentSwitchOp, plan: StorePlan) -> AgentSwitchOp:
    stores = _Stores(plan, Builder.before(switch))
    new = split(switch, stores)
    behind = Builder.after(new)
    behind.location = new.location
    for pipe in reversed(stores.pipes):
        behind.insert(tileas.DeallocTensorOp(pipe.buffers[0]))
    return new


class _Stores(Agent[StorePipe]):
    """The stores of a plan; the agent drains the pipes of their tiles."""

    def __init__(self, plan: StorePlan, builder: Builder) -> None:
        self._by_store: dict[Operation, StorePipe] = {store: StorePipe(store, builder) for store in plan.stores}
        super().__init__(plan.slice, list(self._by_store.values()))
        self._ranges = RangeAnalysis()

    def fills(self, pipe: StorePipe) -> bool:
        return False

    def of(self, op: Operation) -> Sequence[StorePipe]:
        return [self._by_store[op]] if op in self._by_store else ()

    def takes(self, op: Operation) -> bool:
        return op in self._by_store

    def execute(
        self, op: Operation, program: AgentProgram[StorePipe], builder: Builder, at: dict[StorePipe, Value]
    ) -> None:
        pipe = self._by_store[op]
        coords = box_coordinates(builder, pipe.store, program.value, self._ranges)
        token = pipe.begin(builder, at, False)
        builder.insert(tileas.TmaStoreStageOp(token=token, desc=pipe.desc, coords=coords))
        pipe.end(builder, token, at, False)

    def hand_over(
        self, store: Any, rest: Remainder[StorePipe], at: dict[StorePipe, Value], runs_once: bool
    ) -> None:
        pipe, builder = self._by_store[store], Builder.before(store)
        builder.location = store.location
        data, convert = as_it_comes(store.data)
        token = pipe.begin(builder, at, True)
        builder.insert(tileas.ProducerWriteOp(data, token))
        pipe.end(builder, token, at, True)
        before = store.token
        if before is None:
            before = builder.insert(tileas.CreateMemTokenOp(result=aa.MemTokenType())).results[0]
        store.result_token.replace_all_uses_with(before)
        store.erase()
        if convert is not None and not convert.results[0].has_uses:
            convert.erase()
