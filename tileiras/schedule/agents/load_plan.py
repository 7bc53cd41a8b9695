"""Which loops of a kernel can leave their loads to another agent, through which pipes, and with how many stages.

The producer repeats the control flow around the loads of these loops, with only the operations from which their
addresses are computed (`producer_slice.py`). Loads whose tiles are read by the same dots share a pipe.  Either all
loops whose loads run ahead are specialized or none is: a function with agents has pipes and no rings beside them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Any

from tileiras import schedule
from tileiras.analysis.agents import least_ctas_of
from tileiras.analysis.cluster_uniformity import ClusterUniformity
from tileiras.analysis.copied_loads import is_zero, moves_with_conversion, rounds
from tileiras.analysis.derivations import uses_through
from tileiras.analysis.dots_in_flight import (
    accumulated_in_place,
    carried_in_flight,
    chain_of,
    is_of_tensor_memory,
    is_of_warpgroups,
    scales_of,
)
from tileiras.diagnostics import DiagnosticEngine
from tileiras.diagnostics.remarks import Remark
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.ir import Operation, Pure, Value
from tileiras.layout.arena import ARENA_ALIGNMENT, aligned_to
from tileiras.layout.encoding import is_in_shared
from tileiras.layout.tensor_memory import COLUMNS, LANES
from tileiras.reasons import Reason
from tileiras.resources.agent_registers import (
    BESIDE_ACCUMULATORS,
    FEWER_REGISTERS,
    MORE_REGISTERS,
    POINTER_COPIES,
    TILED_COPIES,
    RegisterShares,
    loading_warps,
    register_shares,
)
from tileiras.resources.expected_registers import expected_registers
from tileiras.resources.limits import LEAST_RESERVE
from tileiras.resources.registers import block_registers
from tileiras.resources.shared_memory import (
    MBARRIER_BYTES,
    pipe_mbarrier_bytes,
    resident_size,
    scratch_bytes,
    shared_budget,
)
from tileiras.schedule.agents.budget import FURTHER_WARPS
from tileiras.schedule.agents.issue_cycles import only_waits
from tileiras.schedule.agents.partition import unmark
from tileiras.schedule.agents.slice import CannotSpecialize, ProducerSlice
from tileiras.schedule.materialize.scale_columns import columns_of_scales, turns_of_stages
from tileiras.schedule.plain import DEFAULT_STAGES
from tileiras.schedule.schedule_analysis import analysis_of, is_published
from tileiras.schedule.staging import StagedLoad, staged_load
from tileiras.schedule.tensor_boxes import box_refusal, comes_in_boxes, consumer_kind, ctas_of, is_multicast, keep_apart
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets import CopyAtom, Target, find_copy_atom, mma_atom, registers_per_thread
from tileiras.targets.pipe_protocol import BOXES, PIPE_PROTOCOLS, RUNS, WARPGROUPS
from tileiras.targets.sm import MAX_THREADS_PER_CTA, WARP_SIZE

LEAST_STAGES = 2


class PipePlan:
    """A pipe of a loop: its loads, how they fill stages, how their tiles are read, and whether a stage is held until
    the next iteration's dots have begun.  `first`: the plan of the earlier loop whose ring this loop shares, or this
    plan itself."""

    __slots__ = ("_stages", "consumer", "first", "held", "loads", "producer")

    def __init__(self, loads: list[StagedLoad], producer: str, consumer: str, is_late: bool, stages: int) -> None:
        self.loads = loads
        self.producer = producer
        self.consumer = consumer
        self.held = is_late
        self.first = self
        self._stages = stages

    @property
    def stages(self) -> int:
        return self.first._stages

    @stages.setter
    def stages(self, count: int) -> None:
        self.first._stages = count

    @property
    def bytes(self) -> int:
        """Bytes of the rings, each aligned as instructions of warpgroups require; 0 for a ring of another plan."""
        if self.first is not self:
            return 0
        return sum(aligned_to(self.stages * each.stage_bytes, ARENA_ALIGNMENT) for each in self.loads)

    def fits(self, other: PipePlan) -> bool:
        """Whether the tiles of both plans can share one ring: the stages have the same layout and are filled and read
        alike."""
        kinds = (self.producer, self.consumer) == (other.producer, other.consumer)
        return kinds and [each.buffer_type(1) for each in self.loads] == [each.buffer_type(1) for each in other.loads]


class LoopPlan(NamedTuple):
    """A loop, and its pipes in the order of their first loads."""

    loop: scf.ForOp
    pipes: list[PipePlan]

    @property
    def stages(self) -> int:
        return min(pipe.stages for pipe in self.pipes)

    @property
    def staged(self) -> list[StagedLoad]:
        return [staged for pipe in self.pipes for staged in pipe.loads]


class LoadPlan(NamedTuple):
    """How a kernel is split into an agent that loads and one that computes."""

    loops: list[LoopPlan]
    slice: ProducerSlice
    atom: CopyAtom
    beside: int
    """The most bytes of shared memory that the kernel uses beside its rings."""
    registers: RegisterShares
    """The registers that the agents are expected to need."""

    @property
    def staged(self) -> list[StagedLoad]:
        return [staged for each in self.loops for staged in each.staged]

    @property
    def in_boxes(self) -> bool:
        """Whether one thread copies all tiles, in boxes."""
        return all(map(comes_in_boxes, self.staged))


def plan_loads(func: aa.FuncOp, target: Target, loops: list[scf.ForOp]) -> LoadPlan:
    """The plan for the loops of a function whose loads, marked `nv_tileas.runs_ahead`, go to an agent of their own.

    Raises CannotSpecialize, with the reason.
    """
    atom = find_copy_atom(target, "global", "shared", asynchronous=True)
    if atom is None or not target.has("setmaxnreg"):
        raise CannotSpecialize(func, "agents.no-registers-by-agent", target=target.name)
    call = next((op for op in func.walk() if isinstance(op, tileas.ExternCallOp)), None)
    if call is not None:
        raise CannotSpecialize(call, "agents.call-by-all-threads", callee=call.callee.root)
    # Agents have as many warps as the kernel has until `tileas-resolve-agent-boundary` determines the number of each.
    warps = 2 * func.kernel_spec.num_warps
    if warps * WARP_SIZE > MAX_THREADS_PER_CTA:
        raise CannotSpecialize(func, "agents.too-many-warps", warps=warps)
    plans = [_loop_plan(loop, atom, target) for loop in loops]
    _check_pairs(func, plans)
    _share_rings(plans, func)
    beside = _fit(func, plans, target)
    _deepen(plans, _budget(func, target) - beside)
    staged = [each for plan in plans for each in plan.staged]
    shares = _registers(func, staged)
    address_slice = ProducerSlice(func, [each.load for each in staged])
    for each in staged:
        if comes_in_boxes(each) and each.load.view.defining_op not in address_slice.outside:
            raise CannotSpecialize(each.load, "agents.map-in-agent")
    return LoadPlan(plans, address_slice, atom, beside, shares)


def leave_plain(loops: list[scf.ForOp], target: Target, engine: DiagnosticEngine | None = None) -> None:
    """Give loops the plain schedule, or single stages, instead of agents; loads that could be boxes only in an agent
    are copied by all threads.  So are, with a remark, those beside rows that threads gather, which only wait otherwise,
    unless boxes round them.

    An expert's product of gathered rows, 128x256x64, takes 108.9 us on B200 by our estimate, 119.6 with
    its weights in boxes of the host and 123.6 with those of the device.
    """
    atom = find_copy_atom(target, "global", "shared", asynchronous=True)
    for loop in loops:
        stages = loop.attributes[tileas.LOOP_SCHEDULE].stages  # type: ignore[attr-defined]
        kind = tileas.PLAIN if stages > 1 else tileas.SINGLE_BUFFER
        loop.attributes[tileas.LOOP_SCHEDULE] = tileas.LoopScheduleAttr(kind, stages)
        loads: list[Any] = [op for op in loop.body.block.operations if tileas.RUNS_AHEAD in op.attributes]
        for op in loop.body.block.operations:
            op.attributes.pop(tileas.STAGES, None)
            unmark([op])
        if atom is None:
            continue
        staged_loads = {load: staged_load(load, loop, atom) for load in loads}
        func, gathers = aa.function_of(loop), any(isinstance(load, tileas.LoadOp) for load in loads)
        only_waiting = False
        if gathers and func is not None:
            staged_only = [each for each in staged_loads.values() if each]
            only_waiting = only_waits(loop, staged_only, target, func.kernel_spec.num_warps)
        for load, staged in staged_loads.items():
            if tileas.AHEAD_ATOM not in load.attributes:
                continue
            by_threads = only_waiting and not rounds(load)
            if staged is not None and not by_threads and not box_refusal(staged, loop):
                keep_apart(staged, loop)
                continue
            del load.attributes[tileas.AHEAD_ATOM]
            if rounds(load):
                schedule.rounded_loads.round_by_threads(load)
            if by_threads and engine is not None:
                reason = Reason("maps.unused", cause=Reason("maps.threads-wait"))
                engine.emit(Remark(reason, load.location))


def _loop_plan(loop: scf.ForOp, atom: CopyAtom, target: Target) -> LoopPlan:
    loads = [op for op in loop.body.block.operations if tileas.RUNS_AHEAD in op.attributes]
    stages = loop.attributes[tileas.LOOP_SCHEDULE].stages
    carried = carried_in_flight(loop).values() if tileas.DOTS_IN_FLIGHT in loop.attributes else ()
    flying = {each for dot in carried for each in chain_of(dot)}
    groups: dict[tuple[str, str, frozenset[Operation]], list[StagedLoad]] = {}
    for load in loads:
        why: list[Reason] = []
        staged = staged_load(load, loop, atom, why)
        if staged is None:
            raise CannotSpecialize.of(load, why[-1] if why else Reason("agents.no-copy"))
        producer, consumer = BOXES if comes_in_boxes(staged) else RUNS, consumer_kind(staged)
        if consumer is None:
            raise CannotSpecialize(load, "agents.read-in-two-ways")
        protocol = PIPE_PROTOCOLS.get((producer, consumer))
        if protocol is None or not target.meets(protocol.requires):
            raise CannotSpecialize(load, "agents.no-pipe", target=target.name, producer=producer, consumer=consumer)
        dots = frozenset(dot for leaf in staged.leaves for dot in _dots(leaf.convert))
        groups.setdefault((producer, consumer, dots), []).append(staged)
    pipes = []
    overlaps = is_published(loop)
    if overlaps:
        analysis_of(loop)  # rejects an impossible schedule
    for (producer, consumer, dots), group in groups.items():
        # Where iterations overlap, the dots that add to accumulators are waited for in the next round.
        late = any(dot.results[0] in loop.yield_op.operands for dot in dots) if overlaps else bool(dots & flying)
        is_late = consumer == WARPGROUPS and late
        own = [each.load.attributes[tileas.STAGES].value for each in group if tileas.STAGES in each.load.attributes]
        pipes.append(PipePlan(group, producer, consumer, is_late, max(own, default=stages)))
    return LoopPlan(loop, pipes)


def _share_rings(plans: list[LoopPlan], func: aa.FuncOp) -> None:
    """Make consecutive loops share one ring: the copies of the later loop begin while the earlier one still
    multiplies, and pipes, which live as long as the agents, take less memory.  Nested loops cannot: they would take
    stages in another order than they are filled."""
    rings: dict[PipePlan, list[scf.ForOp]] = {}
    for loop, pipes in plans:
        for pipe in pipes:
            for ring, users in rings.items():
                apart = not any(_contains(user, loop) for user in users)
                if apart and pipe.fits(ring) and _fill_alike(pipe, ring, loop, pipes, func):
                    pipe.first = ring
                    ring.stages = max(ring.stages, pipe._stages)
                    break
            rings.setdefault(pipe.first, []).append(loop)


def _fill_alike(
    pipe: PipePlan, ring: PipePlan, loop: scf.ForOp, pipes: list[PipePlan], func: aa.FuncOp
) -> bool:
    """Whether the same number of CTAs fill the stages of both; or, in a loop with these pipes, each CTA fills its own
    in boxes, as often as the others of its cluster, which fill all stages of the ring together."""
    ctas = ctas_of(pipe.loads)
    if ctas == ctas_of(ring.loads):
        return True
    values = ClusterUniformity(func)
    if not all(all(map(values.is_common, each.load.coords)) for each in ring.loads if is_multicast(each)):
        return False
    in_boxes = all(each.producer == BOXES for each in pipes)
    return ctas == 1 and in_boxes and values.trips_are_known(loop)


def _contains(one: scf.ForOp, other: scf.ForOp) -> bool:
    """Whether one of two loops is the other or contains it."""
    return one is other or one.is_ancestor_of(other) or other.is_ancestor_of(one)


def _check_pairs(func: aa.FuncOp, plans: list[LoopPlan]) -> None:
    """Raise CannotSpecialize where a dot of a pair of CTAs depends on anything but stages of pipes that both CTAs
    fill, and accumulators that are stages of a pipe: threads of one agent have no barrier with those of another CTA."""
    dots: list[Any] = [op for op in func.walk() if is_of_tensor_memory(op) and op.atom.is_of_pair]
    if not dots:
        return
    boxes = [pipe for plan in plans for pipe in plan.pipes if pipe.producer == BOXES]
    leaves = {leaf.convert.result for pipe in boxes for staged in pipe.loads for leaf in staged.leaves}
    columns: dict[tuple[Operation, int], int] = {}
    for dot in dots:
        if not {_unmoved(value) for value in (dot.a, dot.b, *scales_of(dot))} <= leaves:
            raise CannotSpecialize(dot, "agents.pair-without-boxes")
        loop: Any = dot.parent_op
        if not isinstance(loop, scf.ForOp):
            raise CannotSpecialize(dot, "agents.pair-accumulator-loaded")
        places = accumulated_in_place(loop)
        place = next((number for number, each in places.items() if dot in each), None)
        if place is None or not is_zero(loop.init_args[place]):
            raise CannotSpecialize(dot, "agents.pair-accumulator-written")
        columns[loop, place] = dot.c.type.num_elements // LANES
    loops = [dot.parent_op for dot in dots]
    if not pairs_need_dot_agent(func):
        if len(set(loops)) > 1:
            raise CannotSpecialize(dots[0], "agents.pair-accumulator-loaded")
        return
    staged = {each.load for pipe in boxes for each in pipe.loads}
    for loop in loops:
        if not any(True for _ in scf.loops_around(loop)) or not _only_multiplies(loop, staged):
            raise CannotSpecialize(loop, "agents.pair-accumulator-loaded")
    scales = sum(_columns_of_scales(dot, boxes) for dot in dots)
    columns_in_use, most = sum(columns.values()) + scales, COLUMNS // (func.kernel_spec.occupancy or 1)
    if columns_in_use > most:
        raise CannotSpecialize(dots[0], "agents.pair-columns", taken=columns_in_use, most=most)


def _columns_of_scales(dot: Any, pipes: list[PipePlan]) -> int:
    """Columns of a dot's scales, for each stage of its operands."""
    if not isinstance(dot, tileas.BlockScaledMmaOp):
        return 0
    return turns_of_stages(max(pipe.stages for pipe in pipes)) * sum(columns_of_scales(dot))


def pairs_need_dot_agent(func: aa.FuncOp) -> bool:
    """Whether dots of pairs of CTAs are nested in loops over tiles and add to columns that threads of both CTAs load in
    between: an agent that multiplies learns of these loads through a pipe."""
    dots = (op for op in func.walk() if is_of_tensor_memory(op) and op.atom.is_of_pair)  # type: ignore[attr-defined]
    return any(isinstance(each, scf.ForOp) and each.parent is not func.body.blocks[0] for each in map(_parent, dots))


def _parent(op: Operation) -> Operation | None:
    return op.parent_op


def _only_multiplies(loop: scf.ForOp, loads: set[Any]) -> bool:
    """Whether an agent that multiplies can execute everything in a loop but these loads."""
    kinds = (*tileas.DOTS, scf.YieldOp, tileas.CreateMemTokenOp, tileas.JoinMemTokenOp)
    inside = all(op in loads or isinstance(op, kinds) or op.has_trait(Pure) for op in loop.body.block.operations)
    dots = {place for place in accumulated_in_place(loop)}
    others = [value for number, value in enumerate(loop.results) if number not in dots and value.has_uses]
    return inside and all(isinstance(value.type, aa.MemTokenType) for value in others)


def _unmoved(value: Value) -> Value:
    """A tile in shared memory in the shape in which it was loaded."""
    while value.defining_op is not None and moves_with_conversion(value.defining_op):
        value = value.defining_op.operands[0]
    return value


def _dots(op: Operation) -> list[Operation]:
    """The dots that read the result of an operation, directly or element by element."""
    uses = uses_through(op.results[0], lambda user: not isinstance(user, tileas.DOTS) and moves_with_conversion(user))
    return [user for user, _ in uses if isinstance(user, tileas.DOTS)]


def _registers(func: aa.FuncOp, staged: list[StagedLoad]) -> RegisterShares:
    """The registers that agents are expected to need.  Raises CannotSpecialize where the warps that load leave too few
    to those that compute."""
    compute = func.kernel_spec.num_warps
    other_agents_ops = {each.load for each in staged} | {leaf.convert for each in staged for leaf in each.leaves}
    other_agents_ops |= {view for each in staged for view in _views(each.load.data) if _lead_to(view, other_agents_ops)}
    tiles = block_registers(func.body.blocks[0], other_agents_ops)
    pointers = any(isinstance(each.load, tileas.LoadOp) for each in staged)
    others = loading_warps(compute, all(map(comes_in_boxes, staged)))
    others += FURTHER_WARPS if pairs_need_dot_agent(func) else 0
    estimate, ctas = expected_registers(func), least_ctas_of(func)
    shares = register_shares(
        tiles, estimate, compute, others, POINTER_COPIES if pointers else TILED_COPIES, ctas
    )
    atoms = [mma_atom(op.atom.atom) for op in func.walk() if is_of_warpgroups(op)]
    least = max((BESIDE_ACCUMULATORS + atom.shape[1] // 2 for atom in atoms), default=0)
    # Values beyond the registers that a thread can have would spill with one agent as well.
    least_registers = max(tiles + LEAST_RESERVE, round(estimate * (MORE_REGISTERS if pointers else FEWER_REGISTERS)))
    least_registers = min(least_registers, registers_per_thread(WARP_SIZE * compute, ctas))
    if least_registers > shares.most or least > shares.entry:
        most = shares.most if least_registers > shares.most else shares.entry
        least_beside = max(least_registers, least)
        raise CannotSpecialize(func, "agents.too-few-registers", needed=least_beside, most=most)
    return shares


def _views(value: Value) -> Iterator[Operation]:
    """The view-like operations on a tile, and those on their results."""
    worklist = [value]
    while worklist:
        for user in worklist.pop().users:
            if isinstance(user, tileas.VIEW_LIKE):
                yield user
                worklist.append(user.results[0])


def _lead_to(view: Operation, replaced_ops: set[Operation]) -> bool:
    """Whether only these operations use the result of a view-like operation, perhaps through further ones."""
    uses = uses_through(view.results[0], lambda user: isinstance(user, tileas.VIEW_LIKE))
    return all(user in replaced_ops for user, _ in uses)


def _fit(func: aa.FuncOp, plans: list[LoopPlan], target: Target) -> int:
    """Give pipes fewer stages until all fit into shared memory, where they live as long as the kernel; return the
    bytes used beside them.

    Exchanges outside of these loops use less memory in more rounds before a pipe gets fewer stages than its loop asks
    for.

    Raises CannotSpecialize where two stages of each pipe do not fit, or one where the loop accepts single stages.
    """
    pipes = [pipe for plan in plans for pipe in plan.pipes]
    budget = _budget(func, target)
    beside, in_rounds = (MBARRIER_BYTES + _beside(func, plans, budget, each) for each in (False, True))
    while sum(pipe.bytes for pipe in pipes) > budget - beside:
        deepest = max(plans, key=lambda plan: plan.stages)
        if deepest.stages <= DEFAULT_STAGES and in_rounds < beside:
            beside = in_rounds
            continue
        if deepest.stages <= LEAST_STAGES:
            raise CannotSpecialize(deepest.loop, "agents.no-shared-memory", stages=deepest.stages)
        for ring in dict.fromkeys(pipe.first for pipe in deepest.pipes):
            ring.stages -= 1
    return beside


def _budget(func: aa.FuncOp, target: Target) -> int:
    """Bytes of shared memory for pipes and everything beside them.  The mbarriers of pipes lie beside those of dots
    into tensor memory, for which the budget leaves room."""
    return shared_budget(func, target) + MBARRIER_BYTES - pipe_mbarrier_bytes(func)


def _deepen(plans: list[LoopPlan], room: int) -> None:
    """Give pipes of loops with single stages another stage while there is room, beginning with the tiles that are read
    last: their stages are freed at the end of an iteration, the others while threads compute."""
    available = room - sum(pipe.bytes for plan in plans for pipe in plan.pipes)
    for loop, pipes in plans:
        if loop.attributes[tileas.LOOP_SCHEDULE].kind != tileas.SINGLE_BUFFER:
            continue
        places = {op: place for place, op in enumerate(loop.body.block.operations)}
        readers = {
            pipe: max(places[dot] for each in pipe.loads for leaf in each.leaves for dot in _dots(leaf.convert))
            for pipe in pipes
        }
        for pipe in sorted(pipes, key=lambda pipe: -readers[pipe]):
            if pipe.first is pipe and pipe.stages < LEAST_STAGES and pipe.bytes <= available:
                available -= pipe.bytes
                pipe.stages += 1


def _beside(func: aa.FuncOp, plans: list[LoopPlan], budget: int, in_rounds: bool) -> int:
    """The most bytes of shared memory that the rest of a function uses while the pipes live: buffers during their
    lifetimes, with the scratch memory of one operation at a time; `in_rounds`: with exchanges outside of the loops of
    the pipes in rounds of little memory."""
    loads = [staged for plan in plans for staged in plan.staged]
    other_agents_ops: set[Any] = {leaf.convert for staged in loads for leaf in staged.leaves}
    places = {op: place for place, op in enumerate(func.walk())}
    changes = [0] * (len(places) + 1)
    scratch = [0] * len(places)
    for op, place in places.items():
        if op in other_agents_ops:
            continue
        if isinstance(op, tileas.AllocTensorOp):
            size = aligned_to(op.result.type.bytes, ARENA_ALIGNMENT)
        elif isinstance(op, tileas.ConvertLayoutOp) and is_in_shared(op.result.type):
            size = resident_size(op)
        else:
            small = in_rounds and not any(plan.loop.is_ancestor_of(op) for plan in plans)
            scratch[place] = scratch_bytes(op, budget, small)
            continue
        changes[place] += size
        changes[1 + _last_use(op, places)] -= size
    return max(living + apart for living, apart in zip(accumulate(changes), scratch))


def _last_use(op: Operation, places: dict[Operation, int]) -> int:
    """The last operation at which the result of an operation is live: the end of a loop around a use, or of the whole
    function where the result is passed on."""
    assert op.parent is not None
    last = places[op]
    for user in op.results[0].users:
        around = op.parent.find_ancestor_op(user)
        if around is None or around is op.parent.last or isinstance(user, tileas.VIEW_LIKE):
            return len(places) - 1
        last = max(last, *(places[inner] for inner in around.walk()))
    return last
