"""Which stores of tiles in loops over tiles can go to an agent of their own.

The warps that compute write the tile to shared memory and continue with the next one; meanwhile one thread of another
agent copies it to global memory in boxes of a tensor map, and waits for the copy.  Tokens may order such a store only
with other stores that move too: the agent executes them in program order.
"""

from __future__ import annotations

from typing import Any

from tileiras.analysis.incoming import incoming
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.dialects.nv_tileas import names
from tileiras.dialects.nv_tileas.agents import AgentSwitchOp
from tileiras.ir import MemoryRead, MemoryWrite, Operation, Value
from tileiras.named_tuple import NamedTuple
from tileiras.schedule.agents.slice import AgentSlice, CannotSpecialize

STORE_WARPS = 1
"""The warps of an agent that stores: one thread copies boxes."""


class StorePlan(NamedTuple):
    """The stores that leave the agent that computes, in program order, and the operations that their agent repeats."""

    stores: list[tileas.TiledStoreOp]
    slice: AgentSlice


def plan_stores(switch: AgentSwitchOp, outside: set[Operation]) -> StorePlan | None:
    """The plan for the stores of the first agent of a switch, which computes; None where it has no store in a loop that
    a tensor map can serve.  `outside`: operations before the agents.

    Raises CannotSpecialize, with the reason.
    """
    program = switch.agents[0].block
    stores: list[Any] = [
        op for outer in program.operations for op in outer.walk()
        if isinstance(op, tileas.TiledStoreOp) and tileas.AHEAD_ATOM in op.attributes and _is_in_loop_over_tiles(op)
    ]  # fmt: skip
    if not stores:
        return None
    needed = AgentSlice(switch, outside)
    together = set(stores)
    for store in stores:
        if store.view.defining_op not in outside:
            raise CannotSpecialize(store, "agents.map-in-agent")
        _check_before(store, together)
        _check_behind(store, together)
        needed.take(store, store.coords)
    needed.close()
    return StorePlan(stores, needed)


def _is_in_loop_over_tiles(op: Operation) -> bool:
    """Whether a loop around an operation computes tiles from loads of other agents, not only slices of one of them."""
    return any(inner.name == names.CONSUMER_WAIT for loop in scf.loops_around(op) for inner in loop.walk())


def _check_before(store: Any, stores: set[Any]) -> None:
    """Raises CannotSpecialize where a store is ordered after anything but stores of the same agent."""
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
    """Raises CannotSpecialize where anything but stores of the same agent is ordered after a store."""
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
    given = user.init_args if isinstance(user, scf.ForOp) else user.operands
    if isinstance(user, scf.ConditionOp):
        given = user.args
    become: list[Any] = [around.results]
    if isinstance(around, scf.ForOp):
        become.append(around.iter_args)
    elif isinstance(user, scf.ConditionOp):
        become.append(around.after.block.arguments)
    elif isinstance(around, scf.WhileOp):
        become = [around.before.block.arguments]
    return [values[number] for number, value in enumerate(given) if value is token for values in become]


def _accesses(op: Operation) -> bool:
    """Whether an operation that returns a token accesses memory, or waits for others that do."""
    return op.has_trait(MemoryRead) or op.has_trait(MemoryWrite) or not isinstance(
        op, (tileas.CreateMemTokenOp, tileas.JoinMemTokenOp)
    )
