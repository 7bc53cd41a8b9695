"""The plain schedule: which loads of a loop run ahead of it, through how many stages, and where their tiles are held.

A loop without loads that can run ahead, or without room for them, is serial: it is executed as written.  Where a target
has asynchronous copies, tiles wait in a ring of buffers in shared memory; elsewhere those of the next iteration are
held in registers (prefetch).

The choice is recorded in the IR: `nv_tileas.loop_schedule` on each loop, `nv_tileas.runs_ahead` on its loads that do,
and `nv_tileas.no_room` on those that could but found no shared memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tileiras import schedule
from tileiras.analysis.copied_loads import LOADS, loads_of, rounds
from tileiras.analysis.dots_in_flight import carried_in_flight, is_asynchronous, is_of_warpgroups
from tileiras.diagnostics import Diagnostic, DiagnosticEngine
from tileiras.diagnostics.remarks import Remark
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.dialects.arith import constant_integer
from tileiras.ir import IntegerAttr, Operation, UnitAttr, i32
from tileiras.layout.accumulators import reads_a_in_tensor_memory
from tileiras.layout.encoding import is_in_shared
from tileiras.reasons import Reason
from tileiras.resources.expected_registers import expected_registers
from tileiras.resources.limits import LEAST_RESERVE, threads_of
from tileiras.resources.registers import registers_behind, words
from tileiras.resources.shared_memory import (
    MBARRIER_BYTES,
    bytes_in_use,
    pipe_mbarrier_bytes,
    ring_bytes,
    scratch_before,
    scratch_beside,
    shared_budget,
)
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets import CopyAtom, Target, find_copy_atom, occupancy, registers_per_thread
from tileiras.targets.sm import WARPGROUP

from .induction_variable import can_look_ahead, trip_count
from .materialize.register_prefetch import Prefetched, loads_of_indices, loads_of_next_share, prefetched_loads
from .remarks import ScheduleRemarks
from .ring_depth import LEAST_CTAS, depth_of_copies
from .single_buffer import turns_of, turns_of_threads
from .staging import StagedLoad, staged_load
from .strategy import MAX_STAGES, Loads, Strategy
from .streams import StreamedLoad, stages_together, stream_of
from .tensor_boxes import box_refusal, comes_in_boxes, keep_apart, keep_apart_beside_threads

DEFAULT_STAGES = 3

STAGES_IN_FLIGHT = 3
"""The fewest stages with which dots can be in flight at the end of an iteration: theirs, the next iteration's, and one
being filled."""

WARPGROUPS = 4
"""The CTAs of one warpgroup on an SM with which each computes between its dots while the dots of others execute: each
scheduler then has a warp of every one.  Attention of 64 heads over 4,096 positions, causal, 64x64, d 64, takes 413 us
on H200 by our estimate with three CTAs of four stages, 337 with four of two, whose dots are waited for in their
iteration, and 343 with five."""

FEW_TRIPS = 2
"""The trip count of a loop around pipelined loops with which its own loads do not run ahead: such a load would hide its
latency once, and occupy a stage all the time."""


class Outcome(NamedTuple):
    """For the loops with loads that could run ahead: how many got a pipeline, and how many had no room for one."""

    pipelined: int = 0
    refused: int = 0
    reason: Diagnostic | None = None
    """The remark about the last loop without room."""


def generate_schedule(
    func: aa.FuncOp,
    target: Target,
    strategy: Strategy = Strategy(),
    engine: DiagnosticEngine | None = None,
) -> Outcome:
    """Choose a schedule for every loop of a function of nv_tileas, with loads that run ahead where possible."""
    return _Scheduler(func, target, strategy, engine).run()


def leave_serial(func: Any) -> None:
    """Give every loop of a function of nv_tileas the serial schedule."""
    for op in func.walk():
        if isinstance(op, scf.ForOp):
            op.attributes[tileas.LOOP_SCHEDULE] = tileas.LoopScheduleAttr(tileas.SERIAL, 1)


def stages_leave_room(
    func: aa.FuncOp, target: Target, engine: DiagnosticEngine | None = None, by_threads: bool = True
) -> None:
    """Lower the occupancy that a kernel asks for, in place, as long as it leaves no shared memory for two stages of
    each load that could run ahead: a load executed where it is used would have to be held in registers as well.

    Loops of dots into tensor memory accept one stage, and so do loops of other dots, where threads may issue the copies
    (`by_threads`), if two stages would leave an SM one CTA: while that CTA starts or ends, nothing would be loaded.
    """
    atom = find_copy_atom(target, "global", "shared", asynchronous=True)
    result = func.kernel_spec.occupancy or 1
    if atom is None or result == 1:
        return
    entry = list(_that_run_ahead(func, atom))
    required = _bytes_beside(func, entry, False)
    if required > shared_budget(func, target, 2) and by_threads:
        single = _bytes_beside(func, entry, True)
        required = single if single <= shared_budget(func, target, 2) else required
    while func.kernel_spec.occupancy > 1 and required > shared_budget(func, target):
        func.attributes["kernel_spec"] = func.kernel_spec.with_occupancy(func.kernel_spec.occupancy - 1)
    if func.kernel_spec.occupancy < result and engine is not None:
        cause = Reason("kernel.bytes-ahead", bytes=required)
        reason = Reason("kernel.fewer-ctas", ctas=func.kernel_spec.occupancy, asked=result, cause=cause)
        engine.emit(Remark(reason, func.location))


def _that_run_ahead(func: aa.FuncOp, atom: CopyAtom) -> Iterator[tuple[scf.ForOp, list[StagedLoad]]]:
    """The loops of a function with the loads of each that could run ahead."""
    for loop in [op for op in func.walk() if isinstance(op, scf.ForOp)]:
        result = [staged for load in loads_of(loop) if (staged := staged_load(load, loop, atom)) is not None]
        if result and trip_count(loop) != 1:
            yield loop, result


def _bytes_beside(func: aa.FuncOp, loops: list[tuple[scf.ForOp, list[StagedLoad]]], by_threads: bool) -> int:
    """Shared memory that the loop which takes most needs for the fewest stages with which its loads can run ahead;
    `by_threads`: single ones where threads execute the dots as well."""
    most_bytes = 0
    for loop, result in loops:
        single = turns_of(loop, result) or by_threads and turns_of_threads(loop, result)
        beside = scratch_beside(loop, _obsolete(result)) + pipe_mbarrier_bytes(func) * any(map(comes_in_boxes, result))
        most_bytes = max(most_bytes, (1 if single else 2) * sum(s.stage_bytes for s in result) + beside)
    return most_bytes


def _obsolete(staged_loads: list[StagedLoad]) -> set[Operation]:
    """The operations that a loop no longer executes when these loads run ahead."""
    return {leaf.convert for each in staged_loads for leaf in each.leaves} | {each.load for each in staged_loads}


def _without_boxes(staged: StagedLoad, loop: scf.ForOp, atom: CopyAtom) -> list[StagedLoad]:
    """A load as threads can stage it, if they can."""
    load = staged.load
    del load.attributes[tileas.AHEAD_ATOM]
    if not rounds(load):
        return [staged]
    again = staged_load(schedule.rounded_loads.round_by_threads(load), loop, atom)
    return [] if again is None else [again]


def _is_around_rings(loop: scf.ForOp, atom: CopyAtom) -> bool:
    """Whether loads of a nested loop may run ahead."""
    inner = [op for op in loop.walk() if op is not loop and isinstance(op, scf.ForOp)]
    return any(staged_load(load, each, atom) is not None for each in inner for load in loads_of(each))


def _wanted_stages(loads: Sequence[StagedLoad | StreamedLoad]) -> int:
    hints = [s.load.attributes[aa.LATENCY].value for s in loads if aa.LATENCY in s.load.attributes]
    return min(MAX_STAGES, max(2, *hints)) if hints else DEFAULT_STAGES


def _stored_operands(loop: scf.ForOp) -> list[tileas.ConvertLayoutOp]:
    """The conversions by which threads store operands that they compute, and that asynchronous dots of a loop read in
    shared memory."""
    tiles = [tile for op in loop.body.block.operations if is_asynchronous(op) for tile in (op.a, op.b)]  # type: ignore[attr-defined]
    converts = [tile.defining_op for tile in tiles if is_in_shared(tile.type)]
    return [op for op in converts if isinstance(op, tileas.ConvertLayoutOp) and op.parent is loop.body.block
            and not isinstance(op.operand.defining_op, (*LOADS, *tileas.VIEW_LIKE))]  # fmt: skip


_BY_AGENT = {Loads.ALL_WARPS: (False,), Loads.AGENT: (True,), Loads.BY_RULE: (False, True)}
"""Whether loads will be left to an agent, which supports more than a loop's own ring, or both."""


class _Scheduler:
    """Visits the loops of a function, outer loops first: their rings take shared memory from inner ones."""

    def __init__(self, func: aa.FuncOp, target: Target, strategy: Strategy, engine: DiagnosticEngine | None) -> None:
        self._by_agent = _BY_AGENT[strategy.loads]
        self._func = func
        self._target = target
        self._stages = strategy.stages
        self._engine = engine
        self._remarks = ScheduleRemarks(engine, func.sym_name.value) if engine is not None and engine.remarks else None
        self._atom: CopyAtom | None = find_copy_atom(target, "global", "shared", asynchronous=True)
        self._refusal: Diagnostic | None = None
        self._rings: dict[Operation, int] = {}
        """Bytes of the ring of each loop that gets one."""
        self._streamed: set[Operation] = set()
        """Loops whose schedule was chosen with that of an earlier one."""
        self._has_dots = any(isinstance(op, tileas.DOTS) for op in func.walk())

    def run(self) -> Outcome:
        outcomes = []
        for loop in [op for op in self._func.walk() if isinstance(op, scf.ForOp)]:
            if loop not in self._streamed:
                loop.attributes[tileas.LOOP_SCHEDULE] = tileas.LoopScheduleAttr(tileas.SERIAL, 1)
            outcomes.append(self._prefetch(loop) if self._atom is None else self._stage(loop, self._atom))
        return Outcome(outcomes.count(True), outcomes.count(False), self._refusal)

    def _as_written(self, loop: scf.ForOp, reason: Reason) -> None:
        if self._remarks is not None:
            self._remarks.as_written(loop, reason)

    def _say(self, loop: scf.ForOp, reason: Reason) -> Diagnostic:
        remark = Remark(reason, loop.location)
        return remark if self._engine is None else self._engine.emit(remark)

    def _prefetch(self, loop: scf.ForOp) -> bool | None:
        """Whether loads of a loop run ahead of its dots in registers; None when none does."""
        reason = Reason("loops.no-async-copy", target=self._target.name)
        if self._loads_in_registers(loop, lambda: prefetched_loads(loop, self._func), reason):
            return True
        self._as_written(loop, reason)
        return None

    def _loads_in_registers(self, loop: scf.ForOp, find: Callable[[], list[Prefetched]], reason: Reason) -> bool:
        """Give a loop the schedule in which loads run one iteration ahead in registers, as they can on every target,
        where it has any."""
        may = can_look_ahead(loop) and self._stages != 1 and trip_count(loop) != 1
        loads = [each.load for each in find()] if may else []
        if loads and self._remarks is not None:
            self._remarks.prefetched(loop, loads, reason)
        if loads:
            self._schedule(loop, tileas.PREFETCH, 2, loads)
        return bool(loads)

    def _schedule(self, loop: scf.ForOp, kind: str, stages: int, loads: list[Any]) -> None:
        loop.attributes[tileas.LOOP_SCHEDULE] = tileas.LoopScheduleAttr(kind, stages)
        for load in loads:
            load.attributes[tileas.RUNS_AHEAD] = UnitAttr()

    def _stage(self, loop: scf.ForOp, atom: CopyAtom) -> bool | None:
        """Whether loads of a loop run ahead of dots through shared memory; None when none could, or there is no
        gain."""
        if not self._has_dots and (self._streams(loop, atom) or self._loads_ahead(loop)):
            return None
        loads = loads_of(loop)
        if self._remarks is None:
            stage = [staged for load in loads if (staged := staged_load(load, loop, atom)) is not None]
        else:
            stage = self._remarks.staged(loop, loads, lambda load, why: staged_load(load, loop, atom, why))
        if not stage:
            return None
        if not can_look_ahead(loop):
            self._as_written(loop, Reason("loops.bound-unknown"))
            return None
        trips = trip_count(loop)
        count = self._stages or _wanted_stages(stage)
        count = count if trips is None else min(count, trips)
        if trips == FEW_TRIPS and not self._stages and _is_around_rings(loop, atom):
            self._as_written(loop, Reason("loops.around-loops", iterations=trips))
            return None
        if count < 2:
            self._as_written(loop, Reason("loops.one-stage-option" if self._stages == 1 else "loops.at-most-once"))
            return None
        return self._fit(loop, stage, count, atom)

    def _streams(self, loop: scf.ForOp, atom: CopyAtom) -> bool:
        """Give a loop the schedule in which each thread copies its own elements ahead, where the static model predicts
        a gain; and with it the loops that load the same arrays again."""
        if loop in self._streamed:
            return True
        stream = stream_of(loop, atom) if self._stages != 1 else None
        if stream is None:
            return False
        bytes_of_rings = ring_bytes(loop) + sum(self._rings.values())
        most_stages = self._stages or _wanted_stages(stream.loads)
        budget = shared_budget(self._func, self._target) - bytes_of_rings - scratch_beside(stream.outermost, ())
        with_stages = stages_together(self._func, stream, atom, self._target, most_stages, budget, bytes_of_rings)
        for each, stages in with_stages:
            if self._remarks is not None:
                self._remarks.streamed(each, stages, atom)
            self._rings[each.outermost] = self._rings.get(each.outermost, 0) + stages * each.stage_bytes
            self._schedule(each.loop, tileas.STREAM, stages, [one.load for one in each.loads])
            self._streamed.add(each.loop)
        return bool(with_stages)

    def _loads_ahead(self, loop: scf.ForOp) -> bool:
        """Schedule the loads of a tile block's next rows ahead, in registers, since no other CTA hides their latency,
        or those of indices for the addresses of other loads."""
        here = loop, self._func, self._target
        return self._loads_in_registers(
            loop, lambda: loads_of_next_share(*here), Reason("loops.few-tile-blocks")
        ) or self._loads_in_registers(loop, lambda: loads_of_indices(*here), Reason("loops.loads-indices"))

    def _choose_boxes(self, loop: scf.ForOp, staged_loads: list[StagedLoad], atom: CopyAtom) -> list[StagedLoad]:
        """Keep the mark of loads that a tensor map can serve where their stages can be filled with boxes; return the
        loads as they can be staged then."""
        result = []
        for staged in staged_loads:
            if not comes_in_boxes(staged):
                result.append(staged)
                continue
            refusals = [box_refusal(staged, loop, by_agent) for by_agent in self._by_agent]
            refusal = refusals[0]
            if not all(refusals):
                refusal = keep_apart(staged, loop, True in self._by_agent)
            if refusal and self._remarks is not None:
                self._remarks.no_boxes(staged.load, refusal)
            result += _without_boxes(staged, loop, atom) if all(refusals) else [staged]
        keep_apart_beside_threads(result, loop, self._func)
        return result

    def _goes_through_one_stage(self, loop: scf.ForOp, staged_loads: list[StagedLoad], budget: int) -> bool:
        """Give a loop the schedule of single stages where it can have it, and no ring fits, or, beside other CTAs of
        its SM, no ring that allows dots in flight between iterations."""
        bytes = sum(each.stage_bytes for each in staged_loads)
        available = budget - scratch_beside(loop, _obsolete(staged_loads))
        if self._stages or available < bytes:
            return False
        turns = turns_of(loop, staged_loads) or turns_of_threads(loop, staged_loads)
        only_by_agent = False not in self._by_agent
        if turns is None or only_by_agent and turns.by_threads:
            return False
        if turns.by_threads:
            for each in filter(comes_in_boxes, staged_loads):
                if available < 2 * bytes:
                    del each.load.attributes[tileas.AHEAD_ATOM]
        elif any(box_refusal(each, loop) for each in filter(comes_in_boxes, staged_loads)):
            return False  # boxes that only an agent can copy, for one
        # By the clock a ring of two is no faster, unless A goes through shared memory, which is then the bottleneck.
        shares_sm = (self._func.kernel_spec.occupancy or 1) > 1 and all(map(reads_a_in_tensor_memory, turns.adding))
        shares_sm = shares_sm and not only_by_agent
        if available >= (STAGES_IN_FLIGHT if shares_sm else 2) * bytes:
            return False
        if self._remarks is not None:
            self._remarks.pipelined(loop, staged_loads, 1, 1, self._atom)
        for each in filter(comes_in_boxes, staged_loads):
            keep_apart(each, loop, single=True)
        self._rings[loop] = bytes
        self._schedule(loop, tileas.SINGLE_BUFFER, 1, [each.load for each in staged_loads])
        return True

    def _fit(self, loop: scf.ForOp, staged_loads: list[StagedLoad], most_stages: int, atom: CopyAtom) -> bool:
        """Assign a loop as many of its loads and stages, up to `most_stages`, as shared memory has room for."""
        around = sum(size for outer, size in self._rings.items() if outer.is_ancestor_of(loop))
        budget = shared_budget(self._func, self._target) - ring_bytes(loop) - around
        staged_loads = self._choose_boxes(loop, staged_loads, atom)
        if any(map(comes_in_boxes, staged_loads)):
            budget -= pipe_mbarrier_bytes(self._func)
        if self._goes_through_one_stage(loop, staged_loads, budget):
            return True
        staged, fitting, no_room = list(staged_loads), 0, Reason("loops.no-shared-memory")
        while staged:
            fitting = (budget - scratch_beside(loop, _obsolete(staged))) // sum(s.stage_bytes for s in staged)
            if fitting >= 2:
                break
            # The largest load stays synchronous, the others may still run ahead.
            staged.remove(max(staged, key=lambda s: s.stage_bytes))
        others = [each.load for each in staged_loads if each not in staged]
        for load in others:
            load.attributes[tileas.NO_ROOM] = UnitAttr()
        if others:
            self._say(loop, Reason("loops.loads-without-room", loads=len(others), all=len(staged_loads), cause=no_room))
        if not staged:
            self._refusal = self._say(loop, Reason("loops.not-pipelined", cause=no_room))
            self._as_written(loop, no_room)
            return False
        # A dot in flight reads its tiles for an iteration longer: a stage more keeps as many copies ahead of it.
        in_place = any(leaf.in_place for each in staged for leaf in each.leaves)
        in_flight = in_place and bool(carried_in_flight(loop)) and self._holds_operands(loop, staged)
        stores = _stored_operands(loop)
        in_flight = in_flight and (not stores or self._takes_turns(loop, stores, staged, budget))
        if in_flight and stores:
            fitting = (budget - scratch_beside(loop, _obsolete(staged))) // sum(s.stage_bytes for s in staged)
        # Beside stored operands of warpgroups that memory is left to another CTA, whose threads compute under its dots.
        of_warpgroups = any(is_of_warpgroups(op) for op in loop.body.block.operations)
        alone = not stores or not of_warpgroups
        if in_flight and alone and not self._stages:
            trips = trip_count(loop)
            most_stages = most_stages + 1 if trips is None else min(most_stages + 1, trips)
        number = min(most_stages, fitting)
        if in_place and False in self._by_agent and self._may_have_more(staged):
            scratch = max(scratch_beside(loop, _obsolete(staged)), scratch_before(loop, budget))
            beside = around + ring_bytes(loop) + scratch + pipe_mbarrier_bytes(self._func)
            fewer = self._stages_beside_warpgroups(loop, number, staged, beside, in_flight)
            number, most_stages = fewer, fewer if fewer < number else most_stages
        if in_place and any(isinstance(each.load, tileas.LoadOp) for each in staged) and self._may_have_more(staged):
            beside = around + ring_bytes(loop) + scratch_beside(loop, _obsolete(staged))
            most = min(fitting, MAX_STAGES, trip_count(loop) or MAX_STAGES)
            number = self._stages_beside_as_many_ctas(number, most, staged, beside)
            most_stages = max(most_stages, number)
        cause = None
        if in_place and not stores and self._may_have_more(staged):
            depth = depth_of_copies(loop, staged, self._target, self._func.kernel_spec.num_warps, in_flight)
            if depth is not None:
                beside = around + ring_bytes(loop) + self._beside_pipes(loop, staged)
                most = min(fitting, depth.stages)
                number = self._stages_beside_as_many_ctas(number, most, staged, beside, LEAST_CTAS)
                most_stages, cause = max(most_stages, number), depth.reason(number)
                # Tensor cores free the stages of dots into tensor memory themselves.
                in_flight = in_flight and (number >= depth.stages or not of_warpgroups)
        if in_flight and number >= STAGES_IN_FLIGHT:
            loop.attributes[tileas.DOTS_IN_FLIGHT] = UnitAttr()
        if number < most_stages:
            self._say(loop, Reason("loops.fewer-stages", stages=number, wanted=most_stages, cause=no_room))
        if self._remarks is not None:
            self._remarks.pipelined(loop, staged, number, most_stages, atom, cause)
        self._rings[loop] = number * sum(s.stage_bytes for s in staged)
        self._schedule(loop, tileas.PLAIN, number, [each.load for each in staged])
        return True

    def _beside_pipes(self, loop: scf.ForOp, staged: list[StagedLoad]) -> int:
        """Bytes beside the pipe that a ring may become: it lives as long as the kernel, beside exchanges after the
        loop."""
        replaced_ops, budget = _obsolete(staged), shared_budget(self._func, self._target)
        anywhere = bytes_in_use(self._func.body.blocks[0], budget, replaced_ops)
        return max(scratch_beside(loop, replaced_ops), anywhere) + MBARRIER_BYTES

    def _may_have_more(self, staged: list[StagedLoad]) -> bool:
        """Whether neither the number of stages nor the latency of a load is given."""
        return not self._stages and not any(aa.LATENCY in each.load.attributes for each in staged)

    def _stages_beside_as_many_ctas(
        self, number: int, most: int, staged: list[StagedLoad], beside: int, enough: int | None = None
    ) -> int:
        """As many stages, from a number on, as shared memory allows with the same number of CTAs on an SM, or with
        `enough`. Rows that threads gather lie anywhere: they come from DRAM, whose latency is that of several steps of
        dots that nothing waits for."""
        stage = sum(each.stage_bytes for each in staged)

        def ctas(stages: int) -> int:
            return self._target.shared_per_sm // (stages * stage + beside + self._target.shared_reserved)

        least_ctas = ctas(number) if enough is None else enough
        while number < most and ctas(number + 1) >= least_ctas:
            number += 1
        return number

    def _takes_turns(
        self, loop: scf.ForOp, stores: list[tileas.ConvertLayoutOp], staged: list[StagedLoad], budget: int
    ) -> bool:
        """Whether operands that threads store have two buffers in turn, so that a dot is in flight while threads
        compute the operand of the next one; the conversions are marked then."""
        if constant_integer(loop.step) != 1:
            return False
        for convert in stores:
            convert.attributes[tileas.STAGES] = IntegerAttr(2, i32)
        available = budget - scratch_beside(loop, _obsolete(staged))
        if available >= STAGES_IN_FLIGHT * sum(each.stage_bytes for each in staged):
            return True
        for convert in stores:
            del convert.attributes[tileas.STAGES]
        return False

    def _stages_beside_warpgroups(
        self, loop: scf.ForOp, number: int, staged: list[StagedLoad], beside: int, in_flight: bool
    ) -> int:
        """Fewer stages than a number, if an SM then holds `WARPGROUPS` CTAs of one warpgroup, or a second one, and the
        loop computes between dots that depend on each other; the number itself otherwise.  Dots that are waited for in
        their iteration anyway are not worth more than a second one, nor is a second one that copies by its threads
        worth more than an agent for copies (64x64 tiles of d 128 on H200: 195 us, with an agent 167; sim.estimate)."""
        dots = sum(is_of_warpgroups(op) for op in loop.body.block.operations)
        threads = threads_of(self._func)
        if dots < 2 or self._func.kernel_spec.num_warps != WARPGROUP or self._func.kernel_spec.occupancy:
            return number
        stage, registers = sum(each.stage_bytes for each in staged), expected_registers(self._func)

        def ctas(stages: int) -> int:
            return occupancy(self._target, threads, registers, stages * stage + beside).ctas

        for least_ctas in (WARPGROUPS,) * in_flight + (2,) * any(map(comes_in_boxes, staged)):
            fitting = [stages for stages in range(2, number + 1) if ctas(stages) >= least_ctas]
            if fitting:
                return max(fitting)
        return number

    def _holds_operands(self, loop: scf.ForOp, staged: list[StagedLoad]) -> bool:
        """Whether a thread has registers for the operands of dots in flight while the first dot of the next iteration
        is executed.

        Where it has not, ptxas 13.5 serializes all dots of a loop, their steps along K included (its message C7511).
        """
        dots = [dot for dot in carried_in_flight(loop).values() if is_of_warpgroups(dot)]
        operands = sum(words(tileas.instruction_a(dot)) for dot in dots)
        first = next((op for op in loop.body.block.operations if is_of_warpgroups(op)), None)
        if not operands or first is None or first in dots:
            return True
        replaced_ops = _obsolete(staged)
        there = registers_per_thread(threads_of(self._func), self._func.kernel_spec.occupancy or 1)
        return registers_behind(first, loop, replaced_ops) + operands + LEAST_RESERVE <= there
