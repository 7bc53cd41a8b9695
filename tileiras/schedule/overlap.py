"""Which operations of a loop overlap with those of its next iteration: the choice for one agent (AUS).

Loops whose loads the plain schedule has running ahead are placed (`modulo_placement`). Where the iteration of an
overlapping schedule is shorter than the loop's original one, and its tiles fit into registers, operations get stages;
otherwise all are in one.  In either case the rings are as deep as the placement requires: the loads run ahead by as
many iterations as their latency lasts.

The choice is recorded in the IR: `nv_tileas.loop_schedule<unspecialize, N>` on the loop, where N is the number of
stages of the ring that is held longest, and `nv_tile.aws.stage` and `nv_tile.aws.order` on its operations.  A loop that
cannot be placed keeps its plain schedule, with a remark.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import permutations
from typing import Any

import tileiras
from tileiras.analysis.copied_loads import loads_of
from tileiras.analysis.dots_in_flight import is_of_warpgroups
from tileiras.diagnostics import DiagnosticEngine
from tileiras.diagnostics.remarks import Remark
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.ir import Operation, Value
from tileiras.layout.encoding import is_in_shared
from tileiras.reasons import Reason
from tileiras.resources.expected_registers import expected_registers
from tileiras.resources.limits import registers_for_tiles, threads_of
from tileiras.resources.registers import LiveRegisters
from tileiras.resources.shared_memory import pipe_mbarrier_bytes, ring_bytes, scratch_beside, shared_budget
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets import CopyAtom, Target, find_copy_atom, occupancy
from tileiras.targets.pipe_protocol import WARPGROUPS

from .constraints import constraints_of
from .dependence_graph import LoopGraph, Wait, loop_graph
from .exact_placement import improve
from .induction_variable import can_look_ahead, trip_count
from .modulo_placement import Placement, place, place_serially
from .resource_table import Unit, resources
from .round_model import GROUP, round_cycles
from .schedule_analysis import ScheduleAnalysis, broken_wait, publish, slots_of
from .staging import StagedLoad, staged_load
from .strategy import Overlap, Strategy
from .tensor_boxes import comes_in_boxes, consumer_kind

OVERLAPPING = 2
"""The most stages: with each, a thread holds a further tile between dots, and the code has another copy of the
loop's parts."""

GAIN = 1.05
"""The factor by which an iteration must be shorter for its parts to overlap: smaller differences are within the error
of the static model."""

LEFT_BY_RULE = 16
"""Registers that tiles have to leave free where the user has not requested overlap.  With fewer, `sim.estimate` finds
loops slower than without overlap: attention on A10, 128x64, d 64, 482 us instead of 462, with all 255 registers in use
(docs/scheduling.md)."""

_MOST_PRODUCTS = 3
"""The most dots whose orders are all examined."""

MOST_AHEAD = 7
"""The most iterations by which loads run ahead."""


Slots = tuple[tuple[int, int], ...]
"""Stage and order of each operation of a loop."""


class Choice(NamedTuple):
    """The schedule chosen for a loop: the `slots` of its operations, the cycles of an iteration by the static model,
    and the registers of a thread that its tiles take."""

    slots: Slots
    cycles: int
    registers: int


def overlap_loops(func: aa.FuncOp, target: Target, strategy: Strategy, engine: DiagnosticEngine | None = None) -> None:
    """Give loops of a function of nv_tileas that have the plain schedule one whose operations overlap, in place.

    Where a rule decides (`Overlap.BY_RULE`), loops whose operations are in one stage keep their schedule, without a
    remark.
    """
    atom = find_copy_atom(target, "global", "shared", asynchronous=True)
    if atom is None:
        return
    for loop in [op for op in func.walk() if isinstance(op, scf.ForOp)]:
        schedule = loop.attributes[tileas.LOOP_SCHEDULE]
        if schedule.kind == tileas.PLAIN and can_look_ahead(loop):  # type: ignore[attr-defined]
            LoopOverlap(func, loop, target, atom, strategy, engine).choose()


class Computing(NamedTuple):
    """For an agent that computes beside one that loads: the CTAs of an SM, the registers of a thread for tiles, and
    whether iterations overlap only where no other CTA computes under the dots of this one."""

    ctas: int
    registers: int
    only_alone: bool = False


class LoopOverlap:
    """The choice for one loop; `computing`: for the agent that computes, where another one loads."""

    def __init__(
        self, func: aa.FuncOp, loop: scf.ForOp, target: Target, atom: CopyAtom, strategy: Strategy,
        engine: DiagnosticEngine | None, computing: Computing | None = None,
    ) -> None:  # fmt: skip
        self._strategy = strategy
        self._computing = computing
        self._by_rule = computing is None and strategy.overlap is Overlap.BY_RULE
        self._func = func
        self._loop = loop
        self._target = target
        self._atom = atom
        self._engine = engine
        loads = [load for load in loads_of(loop) if tileas.RUNS_AHEAD in load.attributes]
        self._staged = [result for load in loads if (result := staged_load(load, loop, atom)) is not None]
        self._live = LiveRegisters()
        self._constraints = constraints_of(loop)
        self._warps = func.kernel_spec.num_warps
        schedule: Any = loop.attributes[tileas.LOOP_SCHEDULE]
        self._plain_ahead = schedule.stages - (2 if tileas.DOTS_IN_FLIGHT in loop.attributes else 1)
        """Iterations by which loads run ahead with the plain schedule."""
        self._seen: set[tuple[int, ...]] = set()
        """Numbers of stages that were examined."""

    def place(self) -> tuple[LoopGraph, Choice] | None:
        """The graph of the loop, and the stage and order of its operations; None, with a remark, where it cannot be
        placed."""
        loop = self._loop
        if any(isinstance(op, (scf.ForOp, scf.WhileOp)) for op in loop.walk() if op is not loop):
            self._stays(Reason("loops.inner-loop"))
            return None
        graph = loop_graph(loop, self._target, self._warps, self._staged)
        if graph is None:
            self._stays(Reason("loops.latency-unknown"))
            return None
        if self._computing is not None and graph.graph.table_size > self._strategy.table:
            self._stays(Reason("loops.table-too-large", rows=graph.graph.table_size, most=self._strategy.table))
            return None
        choice = self._serial(graph)
        if self._may_overlap():
            choice = self._place(graph, choice)
        return graph, choice

    def announce(self, graph: LoopGraph, choice: Choice) -> None:
        """Emit a remark where iterations overlap."""
        stages = 1 + max(stage for stage, _ in choice.slots)
        if stages > 1:
            serial = self._serial(graph).cycles
            self._say(Reason("loops.overlap", stages=stages, cycles=choice.cycles, serial=serial))

    def choose(self) -> None:
        loop = self._loop
        if self._by_rule and not self._may_overlap():
            return
        candidate = self.place()
        if candidate is None:
            return
        graph, choice = candidate
        if self._by_rule and not any(stage for stage, _ in choice.slots):
            return
        analysis = ScheduleAnalysis(loop, graph.operations, choice.slots, graph.waits)
        # Dots in flight at the end of a round of stages are waited for there.
        in_flight = loop.attributes.pop(tileas.DOTS_IN_FLIGHT, None) if analysis.stages > 1 else None
        stages = self._stages(analysis, choice.cycles)
        if stages is None and self._by_rule:
            if in_flight is not None:
                loop.attributes[tileas.DOTS_IN_FLIGHT] = in_flight
            return
        if stages is None and analysis.stages > 1:
            # Tiles that are read later are held longer: the serial order may fit.
            choice = self._serial(graph)
            analysis = analysis._replace(slots=choice.slots)
            if in_flight is not None:
                loop.attributes[tileas.DOTS_IN_FLIGHT] = in_flight
            stages = self._stages(analysis, choice.cycles)
        if stages is None:
            return self._stays(Reason("loops.no-shared-memory"))
        publish(graph, choice.slots)
        self.announce(graph, choice)
        loop.attributes[tileas.LOOP_SCHEDULE] = tileas.LoopScheduleAttr(tileas.UNSPECIALIZE, stages)

    def _say(self, reason: Reason) -> None:
        if self._engine is not None:
            self._engine.emit(Remark(reason, self._loop.location))

    def _stays(self, reason: Reason) -> None:
        if not self._by_rule:
            self._say(Reason("loops.not-in-stages", cause=reason))

    # -- placement -----------------------------------------------------------------------------------------------------

    def _serial(self, graph: LoopGraph) -> Choice:
        """All operations in one stage, in program order."""
        slots = tuple((0, number) for number in range(len(graph.operations)))
        return Choice(slots, round(round_cycles(graph, slots, self._warps)), self._registers(graph, slots))

    def _may_overlap(self) -> bool:
        """Whether operations of several iterations may overlap: not where other warps of the SM compute under the
        dots of each, nor where threads read boxes, which gains nothing by `sim.estimate` (docs/scheduling.md).
        Beside an agent that loads, they do for one warpgroup; several take turns (`warpgroup_turns.py`)."""
        if self._constraints.serial or trip_count(self._loop) == 1:
            return False
        if self._strategy.searches:
            return True
        if self._computing is not None:
            beside = self._computing.ctas if self._computing.only_alone else 1
            return beside * self._warps <= GROUP
        by_threads = (each for each in self._staged if consumer_kind(each) != WARPGROUPS)
        return not any(map(comes_in_boxes, by_threads)) and self._resident_warps() <= GROUP

    def _resident_warps(self) -> int:
        """Warps of an SM that run the kernel with its plain schedule."""
        shared = shared_budget(self._func, self._target) - self._room()
        shared += _ring_of(self._loop, self._atom)
        # Before the loop, while its ring is filled, a conversion has its tile there as well.
        converts = (op.result.type for op in self._func.walk() if isinstance(op, tileas.ConvertLayoutOp)
                    and not self._loop.is_ancestor_of(op) and not is_in_shared(op.result.type))  # fmt: skip
        shared += max((type.num_elements * type.element_type.width // 8 for type in converts), default=0)
        result = occupancy(self._target, threads_of(self._func), expected_registers(self._func), shared)
        return max(1, result.ctas) * self._warps

    def _place(self, graph: LoopGraph, serial: Choice) -> Choice:
        if self._strategy.placements < 1:
            return serial
        longest = place_serially(graph.graph).interval
        best = self._better(graph, _by_cuts(graph), None)
        least, overlap = 0, best is not None
        for _ in range(self._strategy.placements):
            placement = place(graph.graph, least=least)
            if placement is None:
                self._say(Reason("loops.no-interval"))
                break
            if self._strategy.searches and least == 0:
                placement = improve(graph.graph, placement).placement or placement
            if placement.interval >= longest or best is not None and best.cycles <= placement.interval * graph.grain:
                break
            overlap = True
            best = self._better(graph, _by_shifts(graph, placement), best)
            # Rounds that last longer overlap less, and take fewer registers.
            least = placement.interval + max(1, (longest - placement.interval) // 4)
        if best is None:
            if overlap and not self._by_rule:
                self._say(Reason("loops.no-overlap"))
            return serial
        return best if best.cycles * GAIN <= serial.cycles else serial

    def _better(self, graph: LoopGraph, candidates: Iterable[Slots], best: Choice | None) -> Choice | None:
        """The schedule with the shortest iteration whose tiles fit into registers, and among those the one with the
        fewest registers; None where none fits."""
        if self._computing is None:
            room = registers_for_tiles(threads_of(self._func), self._func.kernel_spec.occupancy or 1)
            room -= LEFT_BY_RULE if self._by_rule else 0
        else:
            room = self._computing.registers
        for slots in candidates:
            stages = tuple(stage for stage, _ in slots)
            if stages in self._seen or 1 + max(stages) > OVERLAPPING:
                continue
            self._seen.add(stages)
            for variant in (slots, *_with_products_first(graph, slots)):
                if not self._can_be(graph, variant):
                    continue
                cycles = round(round_cycles(graph, variant, self._warps))
                if best is not None and cycles > best.cycles:
                    continue
                registers = self._registers(graph, variant)
                if registers <= room and (best is None or (cycles, registers) < (best.cycles, best.registers)):
                    best = Choice(variant, cycles, registers)
        return best

    def _can_be(self, graph: LoopGraph, slots: Sequence[tuple[int, int]]) -> bool:
        """Whether the schedule respects constraints that the graph of nodes does not show: the order inside nodes, that
        tiles in shared memory are used in their stage, and that accumulators of warpgroups are read in place: ptxas
        serializes dots (C7514) where these are copied while another dot is in flight."""
        if not self._constraints.keeps(slots):
            return False
        crossing = (wait for wait in graph.waits if wait.value is not None and is_in_shared(wait.value.type))
        if any(slots[wait.source][0] != slots[wait.target][0] for wait in crossing):
            return False
        if any(_is_copied(wait, slots) for wait in graph.waits if is_of_warpgroups(graph.operations[wait.source])):
            return False
        return broken_wait(graph.waits, slots) is None

    # -- registers -----------------------------------------------------------------------------------------------------

    def _registers(self, graph: LoopGraph, slots: Sequence[tuple[int, int]]) -> int:
        """Registers of a thread that tiles take at a time in an iteration of the loop: each from its definition to its
        last use, possibly iterations later; those from outside the loop all the time."""
        count = len(slots)
        numbers = {op: number for number, op in enumerate(graph.operations)}
        begins = [place + count * stage for stage, place in slots]
        waiting = _in_rings(self._staged)
        ends: dict[Value, int] = {}
        for wait in graph.waits:
            source = graph.operations[wait.source]
            for value in source.results if wait.value is None or wait.value not in source.results else (wait.value,):
                at = begins[wait.target] + count * wait.distance
                ends[value] = max(ends.get(value, 0), at)
        for value in self._loop.yield_op.operands:
            if value not in ends and value.defining_op in numbers:  # for uses after the loop
                ends[value] = begins[numbers[value.defining_op]] + count
        by_slot = [0] * count
        for value, end in ends.items():
            start = begins[numbers[value.defining_op]]
            words = 0 if value in waiting else self._live.words_of(value)
            for at in range(start, end) if words else ():
                by_slot[at % count] += words
        values = self._live.used_inside(self._loop)
        outside = sum(self._live.words(value) for value in values if _is_outside(value, self._loop))
        return outside + max(by_slot, default=0)

    # -- shared memory -------------------------------------------------------------------------------------------------

    def _stages(self, analysis: ScheduleAnalysis, cycles: float) -> int | None:
        """Stages of the ring that is held longest, when an iteration lasts `cycles`; None where no copy can run ahead,
        or, where the user has not requested overlap, where loads would not run as far ahead as with the plain schedule:
        loops that L2 bounds would wait for them."""
        uses = [tileiras.schedule.materialize.unspecialized.held_iterations(each, analysis) for each in self._staged]
        if self._strategy.stages is not None:
            ahead = self._plain_ahead
        else:
            ahead = self.iterations_ahead(cycles)
        trips = trip_count(self._loop)
        ahead = max(1, ahead if trips is None else min(ahead, trips - 1))
        room = self._room()
        while ahead > 0 and sum((ahead + n) * each.stage_bytes for n, each in zip(uses, self._staged)) > room:
            ahead -= 1
        if self._by_rule and ahead < self._plain_ahead:
            return None
        return ahead + max(uses) if ahead else None

    def iterations_ahead(self, cycles: float) -> int:
        """Iterations by which loads have to run ahead to hide their latency, when an iteration lasts `cycles`."""
        table = resources(self._target)
        latency = max(table.latency["l2"] + table.latency.get("tma", 0.0) if comes_in_boxes(each)
                      else table.latency["dram"] for each in self._staged)  # fmt: skip
        loaded = sum(each.stage_bytes for each in self._staged) / table.rate[Unit.L2]
        return min(MOST_AHEAD, max(self._plain_ahead, math.ceil(latency / max(1.0, cycles, loaded))))

    def _room(self) -> int:
        """Bytes of shared memory for the rings of the loop."""
        loop = self._loop
        replaced_ops: set[Operation] = {leaf.convert for each in self._staged for leaf in each.leaves}
        replaced_ops |= {each.load for each in self._staged}
        room = shared_budget(self._func, self._target) - ring_bytes(loop) - scratch_beside(loop, replaced_ops)
        if any(map(comes_in_boxes, self._staged)):
            room -= pipe_mbarrier_bytes(self._func)
        outer = loop.parent_op
        while outer is not None:
            if isinstance(outer, scf.ForOp):
                room -= _ring_of(outer, self._atom)
            outer = outer.parent_op
        return room


def _by_shifts(graph: LoopGraph, placement: Placement) -> Iterator[Slots]:
    """The stages of a placement for each point at which an iteration of the rewritten loop may begin."""
    for shift in sorted({-start % placement.interval for start in placement.starts}):
        slots = slots_of(graph, placement, shift)
        if any(stage for stage, _ in slots):
            yield slots


def _by_cuts(graph: LoopGraph) -> Iterator[Slots]:
    """Two stages, the second with a node and all its dependents, in program order.  Placements start every operation
    as early as possible, which takes more registers."""
    following: dict[int, set[int]] = {}
    for wait in graph.waits:
        if wait.distance == 0:
            following.setdefault(graph.node_of[wait.source], set()).add(graph.node_of[wait.target])
    for node in sorted(set(graph.node_of)):
        second = {node}
        waiting = [node]
        while waiting:
            more = following.get(waiting.pop(), set()) - second
            second |= more
            waiting += sorted(more)
        yield tuple((int(each in second), number) for number, each in enumerate(graph.node_of))


def _with_products_first(
    graph: LoopGraph, slots: Slots
) -> Iterator[Slots]:
    """The schedule reordered so that an iteration begins with some of its dots, and their dependences in the same
    iteration: the tensor cores execute dots in the order in which they are issued."""
    needs: list[list[int]] = [[] for _ in slots]
    for wait in graph.waits:
        if slots[wait.target][0] + wait.distance == slots[wait.source][0] and wait.source != wait.target:
            needs[wait.target].append(wait.source)
    products = [number for number, op in enumerate(graph.operations) if isinstance(op, tileas.DOTS)]
    if len(products) > _MOST_PRODUCTS:
        return
    for leaders in (each for count in range(1, len(products) + 1) for each in permutations(products, count)):
        rank: dict[int, int] = {}
        for leader in leaders:
            waiting = [leader]
            while waiting:
                number = waiting.pop()
                if number not in rank:
                    rank[number] = leaders.index(leader)
                    waiting += needs[number]
        order = sorted(range(len(slots)), key=lambda each: (rank.get(each, len(leaders)), slots[each][1]))
        places = {each: place for place, each in enumerate(order)}
        yield tuple((stage, places[each]) for each, (stage, _) in enumerate(slots))


def _is_copied(wait: Wait, slots: Sequence[tuple[int, int]]) -> bool:
    """Whether a value is still used when the next iteration defines it again."""
    (stage, place), (other_stage, other_place) = slots[wait.source], slots[wait.target]
    rounds = other_stage + wait.distance - stage
    return rounds > 1 or rounds == 1 and other_place > place


def _in_rings(staged: Sequence[StagedLoad]) -> set[Value]:
    """Tiles that no thread holds: those of loads that run ahead, until they are read in the layout of their use."""
    rings: set[Value] = set()
    waiting = [each.load.data for each in staged]
    while waiting:
        value = waiting.pop()
        rings.add(value)
        waiting += [user.results[0] for user in value.users if isinstance(user, tileas.VIEW_LIKE)]
    return rings


def _is_outside(value: Value, loop: scf.ForOp) -> bool:
    producer = value.defining_op
    if producer is not None:
        return not loop.is_ancestor_of(producer)
    owner: Any = value
    return not (owner.block.parent_op is loop or loop.is_ancestor_of(owner.block.parent_op))


def _ring_of(loop: scf.ForOp, atom: CopyAtom) -> int:
    """Bytes of the rings of an enclosing loop."""
    schedule: Any = loop.attributes[tileas.LOOP_SCHEDULE]
    loads = [load for load in loads_of(loop) if tileas.RUNS_AHEAD in load.attributes]
    staged = [result for load in loads if (result := staged_load(load, loop, atom)) is not None]
    return schedule.stages * sum(each.stage_bytes for each in staged)
