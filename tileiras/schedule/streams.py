"""Loads of loops without dots, which compute with tiles where they are loaded: which run ahead, and whether this pays.

Each thread copies the elements that it will read itself, into a private place in shared memory (`cp.async`), and waits
for its own copies only: the loop has no barrier.  Where a loop is nested in another one whose iterations continue to
load, as the slices of a tile do, copies continue from the last iteration of one to the first of the next
(`materialize/stream_ring.py`).

Arrays that are loaded once profit: L1 serves repeated loads, and these copies bypass it.  Several loops in one loop
over rows that all load the row with a latency hint run ahead together where L2 can serve the repeated loads in the time
of DRAM: while one loop walks over a row, copies of the next row are on their way for another.  The schedule is chosen
where, by the static model, a full SM takes no longer with the ring, whose memory may leave it fewer CTAs; an SM with a
single CTA, as in small grids, then waits for memory once and not in each iteration.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tileiras.analysis.copied_loads import copied_vector, loads_of, refused, rounds
from tileiras.analysis.derivations import is_derived
from tileiras.analysis.tensor_map_rules import memref_of
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.ir import BlockArgument, Convergent, NoMemoryEffect, TensorType, Value
from tileiras.layout.encoding import layout_of
from tileiras.reasons import Reason
from tileiras.resources.expected_registers import expected_registers
from tileiras.resources.limits import threads_of
from tileiras.resources.shared_memory import scratch_beside
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets import CopyAtom, Target, occupancy

from .cost_model import loop_cost
from .induction_variable import can_look_ahead, trip_count
from .resource_table import Unit, resources
from .staging import tokens_from_outside

if TYPE_CHECKING:
    from tileiras.ir import Operation

COPIED_BYTES = 16
"""Bytes of one copy: the size that bypasses L1, with one instruction for as much as a vector load."""

LEAST_BYTES = 8192
"""The fewest bytes of the tiles of an iteration: with less, an SM has many such CTAs, which hide each other's
latency."""

LEAST_TRIPS = 3

LEAST_TOGETHER = 3
"""Stages of each of several rings, at least.  A persistent RMS norm of 65,536 rows of 4,096 f16 with one CTA an SM
takes 299.8 us on H200 without rings, 307.4 with two stages, and 274.3 with six (sim.estimate)."""


class StreamedLoad(NamedTuple):
    """A load whose tile each thread copies for itself; `tokens`: those that order it, all from outside the loop."""

    load: tileas.TiledLoadOp
    tokens: tuple[Value, ...]

    def buffer_type(self, stages: int) -> tileas.BufferType:
        return tileas.BufferType(stages, self.load.data.type)


class Stream(NamedTuple):
    """A loop and those of its loads that can run ahead, across the iterations of the loop around it where there is
    one."""

    loop: scf.ForOp
    around: scf.ForOp | None
    loads: list[StreamedLoad]

    @property
    def outermost(self) -> scf.ForOp:
        return self.loop if self.around is None else self.around

    @property
    def stage_bytes(self) -> int:
        return sum(each.buffer_type(1).stage_bytes for each in self.loads)


def stream_of(loop: scf.ForOp, atom: CopyAtom, loads: list[Any] | None = None) -> Stream | None:
    """The loads of a loop, or those of `loads`, that can run ahead in private places of each thread; None where none
    can."""
    if not can_look_ahead(loop):
        return None
    around = loop.parent_op
    nested = isinstance(around, scf.ForOp) and can_look_ahead(around) and _is_fixed_in(loop, around)
    candidates = loads_of(loop) if loads is None else loads
    for outer in (around, None) if nested else (None,):
        stream = [each for load in candidates if (each := streamed_load(load, loop, outer, atom)) is not None]
        if stream:
            return Stream(loop, outer, stream)
    return None


def streamed_load(
    load: tileas.Load, loop: scf.ForOp, around: scf.ForOp | None, atom: CopyAtom, why: list[Reason] | None = None
) -> StreamedLoad | None:
    """How a load can run ahead of its loop and the one around it; None, with the reason in `why`, where it cannot."""
    if not isinstance(load, tileas.TiledLoadOp):
        return refused(why, "copies.pointers")
    if copied_vector(load, atom, why) is None or rounds(load):
        return None
    type: TensorType = load.data.type
    if load.atom.vector_size * type.element_type.width != 8 * COPIED_BYTES:
        return refused(why, "copies.stream-width", bytes=COPIED_BYTES)
    if not layout_of(type).is_injective:
        return refused(why, "copies.replicated")
    loops = [each for each in (loop, around) if each is not None]
    if not is_derived((load.view, *load.coords), lambda value: _sources(value, loops)):
        return refused(why, "copies.address-computed")
    if any(not _depends(load.coords, each, loops) for each in loops):
        return refused(why, "copies.same-tile")
    tokens = tokens_from_outside(load.token, loops[-1])
    return refused(why, "copies.ordered-in-loop") if tokens is None else StreamedLoad(load, tokens)


def stages_together(
    func: aa.FuncOp, stream: Stream, atom: CopyAtom, target: Target, most_stages: int, budget: int, bytes_of_rings: int
) -> list[tuple[Stream, int]]:
    """A stream, and those that run ahead with it, each with the stages of its ring, up to `most_stages`; empty if there
    is no gain.

    `budget`: bytes of shared memory that are left; `bytes_of_rings`: bytes of other rings beside them.
    """
    streams = _that_load_again(func, stream, atom)
    least = LEAST_TOGETHER if len(streams) > 1 else 2
    if len(streams) > 1 and not (_are_hinted(streams) and _l2_serves(func, streams, target)):
        return []
    result: list[tuple[Stream, int]] = []
    for each in streams:
        stages = _stages_of(func, each, target, most_stages, budget // len(streams), bytes_of_rings)
        if stages < least:
            return []
        result.append((each, stages))
        bytes_of_rings += stages * each.stage_bytes
    return result


def _are_hinted(streams: list[Stream]) -> bool:
    """Whether the program has a latency hint on each load: its grid may have as many CTAs as SMs have without rings."""
    return all(aa.LATENCY in each.load.attributes for one in streams for each in one.loads)


def _l2_serves(func: aa.FuncOp, streams: list[Stream], target: Target) -> bool:
    """Whether L2 takes no longer for the loads of all streams and the stores of their loops than DRAM, which each array
    passes once."""
    result = [loop_cost(each.loop, target, func.kernel_spec.num_warps) for each in streams]
    costs = [cost for cost in result if cost is not None]
    if len(costs) < len(result):
        return False
    table = resources(target)
    again = sum(each.stage_bytes for each in streams[1:])
    dram = sum(cost.busy.get(Unit.DRAM, 0.0) for cost in costs) - table.cycles(Unit.DRAM, again)
    return sum(cost.busy.get(Unit.L2, 0.0) for cost in costs) <= dram


def _stages_of(func: aa.FuncOp, stream: Stream, target: Target, most_stages: int, budget: int, rings: int) -> int:
    """Stages of a stream's ring, up to `most_stages`; 0 if there is no gain."""
    if stream.stage_bytes < LEAST_BYTES or _trips(stream) < LEAST_TRIPS:
        return 0
    cost = loop_cost(stream.loop, target, func.kernel_spec.num_warps)
    if cost is None:
        return 0
    table = resources(target)
    # Copies into shared memory and loads from there are more to issue, and pass its port.
    busy = max(cost.resource_mii, cost.busy.get(Unit.DRAM, 0.0))
    more = {Unit.SHARED: 2.0 * stream.stage_bytes, Unit.ISSUE: stream.stage_bytes / (COPIED_BYTES * 32)}
    ahead = max(busy, *(cost.busy.get(unit, 0.0) + table.cycles(unit, amount) for unit, amount in more.items()))
    latency, threads, registers = table.latency["dram"], threads_of(func), expected_registers(func)
    beside = rings + scratch_beside(stream.outermost, set())
    alone = max(1, occupancy(target, threads, registers, beside).ctas)
    serial = max(busy, (latency + busy) / alone)
    for stages in range(most_stages, 1, -1):
        bytes = stages * stream.stage_bytes
        ctas = occupancy(target, threads, registers, beside + bytes).ctas
        if bytes <= budget and ctas and max(ahead, (latency + ahead) / (ctas * stages)) <= serial:
            return stages
    return 0


def _trips(stream: Stream) -> float:
    """The total trip count of the loop; infinity where it is not known."""
    trips = [trip_count(each) for each in (stream.loop, stream.around) if each is not None]
    counts = [each for each in trips if each is not None]
    return float("inf") if len(counts) < len(trips) else min(trips[0] * (trips[1] if len(trips) > 1 else 1), 1 << 32)


def _that_load_again(func: aa.FuncOp, stream: Stream, atom: CopyAtom) -> list[Stream]:
    """A stream, and those of other loops in the loop around it that load one of its arrays again; empty where a load
    that may read one of them cannot run ahead."""
    result, pending = [stream], True
    while pending:
        pending = False
        mine = [each.load for one in result for each in one.loads]
        arrays = {_array(load) for load in mine}
        if None in arrays or any(len({_array(each.load) for each in one.loads}) < len(one.loads) for one in result):
            return []
        for op in func.walk():
            if not isinstance(op, (tileas.TiledLoadOp, tileas.LoadOp)) or op in mine:
                continue
            if isinstance(op, tileas.TiledLoadOp) and _array(op) not in (None, *arrays):
                continue
            loop: Any = op.parent_op
            is_beside = stream.around is not None and isinstance(loop, scf.ForOp) and loop.parent_op is stream.around
            other = stream_of(loop, atom) if is_beside else None
            if other is None or other.around is None or all(each.load is not op for each in other.loads):
                return []
            result, pending = [*result, other], True
            break
    return result


def _array(load: tileas.TiledLoadOp) -> Value | None:
    """The pointer of the array from which a load reads a tile, where it is known."""
    memref = memref_of(load.view)
    if memref is None:
        return None
    pointer: Value = memref.operands[0]
    while isinstance(pointer.defining_op, tileas.AssumeOp):
        pointer = pointer.defining_op.operands[0]
    return pointer


# ---- counters -------------------------------------------------------------------------------------------------------


def _is_fixed_in(loop: scf.ForOp, around: scf.ForOp) -> bool:
    """Whether each iteration of `around` runs a loop over the same values of its induction variable."""
    return all(_made_outside(value, around) for value in (loop.lower_bound, loop.upper_bound, loop.step))


def _made_outside(value: Value, loop: scf.ForOp) -> bool:
    op: Operation | None = value.block.parent_op if isinstance(value, BlockArgument) else value.defining_op
    return op is None or op is not loop and not loop.is_ancestor_of(op)


def _sources(value: Value, loops: list[scf.ForOp]) -> Sequence[Value] | None:
    """The values from which a value is computed for other iterations of nested loops, the innermost first; None if it
    cannot be."""
    if any(value is each.induction_variable for each in loops) or _made_outside(value, loops[-1]):
        return ()
    op = value.defining_op
    if op is None or all(op.parent is not each.body.block for each in loops):
        return None
    if op.regions or not op.has_trait(NoMemoryEffect) or op.has_trait(Convergent):
        return None
    return op.operands


def _depends(values: Any, loop: scf.ForOp, loops: list[scf.ForOp]) -> bool:
    """Whether one of these values depends on the induction variable of a loop."""
    pending, seen = list(values), set()
    while pending:
        value = pending.pop()
        if value is loop.induction_variable:
            return True
        op = None if isinstance(value, BlockArgument) else value.defining_op
        if op is not None and op not in seen and any(op.parent is each.body.block for each in loops):
            seen.add(op)
            pending += op.operands
    return False
