"""Which loops of dots into tensor memory can go to an agent of their own, and through which accumulators.

Such a loop is nested in a loop over tiles: the agent multiplies for the next tile while the warps that compute load,
convert and store the current one.  That takes two accumulators.  With one, the agent would begin once the previous tile
has been loaded, as these warps do without an agent: with rings of two stages a persistent matrix product of tiles of
256x256 takes 107.3 us on B200 in this way, by our estimate, and 106.3 without the agent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tileiras.analysis.one_thread import is_done_by_one_thread
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.dialects.nv_tileas.agents import AgentSwitchOp
from tileiras.dialects.nv_tileas.tensor_memory import allocation_of
from tileiras.ir import Operation, Value
from tileiras.layout.tensor_memory import COLUMNS
from tileiras.named_tuple import NamedTuple
from tileiras.schedule.agents.slice import AgentSlice, CannotSpecialize, is_inside

ACCUMULATORS = 2
"""Used in turn: the one that dots write and the one that is being stored."""


class DotLoop(NamedTuple):
    """A loop whose dots an agent issues, the commit of the group after it unless that has been joined with a later
    one, the accumulators, and the operations of its block between which these are loaded; whether the dots are of a
    pair of CTAs, the number of accumulators used in turn, and the buffers of block scales, by stages of its operands.
    """

    loop: scf.ForOp
    commit: tileas.TensorCommitOp | None
    buffers: list[Value]
    first: Operation
    last: Operation
    is_of_pair: bool = False
    stages: int = ACCUMULATORS
    scales: Sequence[Value] = ()


class DotPlan(NamedTuple):
    """The loops of dots of a kernel, and the operations that their agent repeats."""

    loops: list[DotLoop]
    slice: AgentSlice


def plan_dots(func: aa.FuncOp, switch: AgentSwitchOp) -> DotPlan | None:
    """The plan for the dots of the first agent of a switch, which computes; None where it has no loop over tiles
    around dots into tensor memory.  Raises CannotSpecialize, with the reason."""
    program = switch.agents[0].block
    dots = [op for outer in program.operations for op in outer.walk() if isinstance(op, tileas.TensorDotOp)]
    if not any(_is_in_loop(loop) for dot in dots for loop in scf.loops_around(dot)):
        return None
    loops: dict[scf.ForOp, None] = {}
    for dot in dots:
        loop = _outermost(dot)
        if loop is None:
            raise CannotSpecialize(dot, "agents.dot-beside-threads")
        if not _is_in_loop(loop):
            raise CannotSpecialize(loop, "agents.no-loop-over-tiles")
        loops[loop] = None
    found = [_dot_loop(loop) for loop in loops]
    columns = sum(buffer.type.columns for each in found for buffer in each.buffers)  # type: ignore[attr-defined]
    beside = sum(buffer.type.columns for each in found for buffer in each.scales)  # type: ignore[attr-defined]
    taken, most = ACCUMULATORS * columns + beside, COLUMNS // (func.kernel_spec.occupancy or 1)
    if taken > most and all(each.is_of_pair for each in found):
        # In one CTA the warps that compute know when they have loaded an accumulator; between two only a pipe signals
        # it.
        found = [each._replace(stages=1) for each in found]
    elif taken > most:
        raise CannotSpecialize(found[0].loop, "agents.dot-columns", taken=taken, scales=beside, most=most)
    needed = AgentSlice(switch, set(func.body.blocks[0].operations))
    for each in found:
        needed.take(each.loop, _taken(each))
    needed.close()
    return DotPlan(found, needed)


def _outermost(dot: Operation) -> scf.ForOp | None:
    """The outermost loop around a dot that one thread can execute alone."""
    found = None
    for loop in scf.loops_around(dot):
        if isinstance(loop, scf.ForOp) and is_done_by_one_thread(loop):
            found = loop
    return found


def _is_in_loop(loop: Operation) -> bool:
    return next(iter(scf.loops_around(loop)), None) is not None


def _dot_loop(loop: scf.ForOp) -> DotLoop:
    commit = loop.next if isinstance(loop.next, tileas.TensorCommitOp) else None
    dots = [op for op in loop.walk() if isinstance(op, tileas.TensorDotOp)]
    buffers = list(dict.fromkeys(dot.buffer for dot in dots))
    touched: list[Operation] = []
    for buffer in buffers:
        if not isinstance(buffer.defining_op, tileas.TensorAllocOp) or buffer.parent_block is not loop.parent:
            raise CannotSpecialize(loop, "agents.accumulator-outlives")
        for user in _users(buffer):
            if not isinstance(user, (tileas.TensorDotOp, tileas.TensorLoadOp)):
                raise CannotSpecialize(user, "agents.accumulator-written")
            if isinstance(user, tileas.TensorLoadOp):
                around = loop.parent.find_ancestor_op(user)
                if around is None:
                    raise CannotSpecialize(user, "agents.accumulator-loaded-elsewhere")
                touched.append(around)
    if not touched:
        raise CannotSpecialize(loop, "agents.accumulator-unread")
    places = {op: number for number, op in enumerate(loop.parent.operations)}
    touched.sort(key=lambda op: places[op])
    is_of_pair = any(dot.atom.is_of_pair for dot in dots)
    scales = list(dict.fromkeys(allocation_of(each) for dot in dots for each in dot.scales[2:]))
    if any(buffer.parent_block is not loop.parent for buffer in scales):
        raise CannotSpecialize(loop, "agents.scales-outlive")
    return DotLoop(loop, commit, buffers, touched[0], touched[-1], is_of_pair, scales=scales)


def _users(buffer: Value) -> Iterator[Operation]:
    """The operations on a buffer, or on parts of it."""
    for user in buffer.users:
        if isinstance(user, tileas.TensorSliceOp):
            yield from _users(user.result)
        elif not isinstance(user, tileas.TensorDeallocOp):
            yield user


def _taken(each: DotLoop) -> Iterator[Value]:
    """The values from outside that a loop of dots uses, tokens and accumulators apart."""
    for op in each.loop.walk():
        for value in op.operands:
            if value not in each.buffers and value not in each.scales and not isinstance(value.type, aa.MemTokenType):
                if not is_inside(value, each.loop):
                    yield value
