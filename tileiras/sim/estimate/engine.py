"""Discrete-event model: warps replay their machine instructions and wait for issue slots, pipes, memories, asynchronous
units and each other.

A warp advances by segments (`machine.Segment`) in order of time. The completion of an asynchronous operation (copy,
dot, arrival of another warp) is either known when it is requested, since servers work in order, or is an event. Effects
beyond registers are modeled in `memory_events`, `tensor_events` and `barrier_events`. The model is deterministic:
events at one time are processed in the order of their creation.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from tileiras.codegen.machine_code import INSTRUCTION_BYTES
from tileiras.sim.emulator.launch.recording import (
    Arrive,
    BarrierInit,
    BlockBarrier,
    ClusterBarrier,
    Commit,
    Copy,
    Multiply,
    PhaseWait,
    SetRegisters,
    Sleep,
    Transfer,
    WaitGroup,
)
from tileiras.sim.estimate import barrier_events, memory_events, tensor_events
from tileiras.sim.estimate.barrier_events import deliver
from tileiras.sim.estimate.barriers import Cause, Waiting
from tileiras.sim.estimate.events import Access, Event, ThreadCopy
from tileiras.sim.estimate.in_flight import (
    Cluster,
    Done,
    Mbarrier,
    Outcome,
    Signal,
    Span,
    StalledForever,
    Update,
    Wait,
    Warp,
    WarpWork,
)
from tileiras.sim.estimate.machine import Instruction, Machine, Segment, pipe_cycles, pipe_of
from tileiras.sim.estimate.paths import Step
from tileiras.sim.estimate.tensor_events import multiply_in_registers
from tileiras.sim.estimate.units import Chip, Multiprocessor, Shares
from tileiras.targets.rates import SUB_CORES, Gpu

_AHEAD = 16
"""Cycles that the last instruction of a segment may be ahead of the next event for its effects to apply at once."""
CODE_LINE = 128
"""Bytes of code that an instruction cache fetches at a time (Jia et al., arXiv 1804.06826)."""
PREFETCHED = 16
"""Lines of code that are prefetched ahead of the warp by a stream buffer: 8 and 16 fit an RTX A6000 equally well, with
mean errors of 13.45 and 13.51 % (Huerta et al., MICRO '25, table 5); code of a first launch is farther away."""
_READ = 4
"""Cycles of an operand read: the delay that ptxas puts between dependent fixed-latency instructions."""


class Simulation:
    """Clusters on the SMs that one cluster needs: ``slots`` of them at a time, the others start one by one as these
    end."""

    def __init__(
        self, machine: Machine, gpu: Gpu, shares: Shares, members: int, cache_bytes: int,
        products: Mapping[int, Multiply] | None = None, registers: int = 0, cold: bool = False, history: bool = True,
    ) -> None:  # fmt: skip
        """``products``: PTX line -> the `mma` there; ``registers``: initial registers of a thread; ``cold``: the
        code is in memory only, and is fetched to an SM line by line; ``history``: whether the outcome has all waits,
        spans and requests, not only their sums."""
        self.registers = registers
        self.cold = cold
        self.history = history
        self.code: list[dict[int, float]] = [{} for _ in range(members)]  # by SM: line of code -> when it arrives
        self.products = products or {}
        self.tensor_cycles: dict[int, float] = {}  # by instruction of an `mma`, computed on demand
        self.tensor_flop: dict[int, tuple[str, float]] = {}  # the same: type of the operands, FLOP
        self.machine = machine
        self.gpu = gpu
        self.members = members
        chip = Chip(shares, members)
        self.sms = tuple(Multiprocessor(gpu, shares, cache_bytes, chip, history) for _ in range(members))
        self.heap: list[tuple[float, int, Warp | Signal]] = []
        self.order = 0
        self.now = 0.0
        self.warps: list[Warp] = []
        self.ends: list[float] = []
        self.executed: defaultdict[int, int] = defaultdict(int)  # number of a segment -> times
        self.latencies: dict[int, tuple[float, str, str, float]] = {}  # by segment, see `_latency_of`
        self.stalls: defaultdict[tuple[int, str], float] = defaultdict(float)
        self.spans: list[Span] = []
        self.updates: list[Update] = []
        self.mbarriers: list[Mbarrier] = []
        self.queue: Sequence[Sequence[WarpWork]] = ()
        self.begun = 0
        self.most_begun = -1
        """Clusters of the queue before whose next one the simulation stops."""
        self.stopped = False
        self.midway: tuple[Warp, float] | None = None
        """The warp that was running when the simulation stopped, and its time."""
        self.next_cluster: tuple[int, float] | None = None
        """Slot and time of the cluster before whose beginning the simulation stopped."""

    # -- running ---------------------------------------------------------------------------------------------------

    def run(self, clusters: Sequence[Sequence[WarpWork]], slots: int) -> Outcome:
        """Raise StalledForever if warps wait for events that never come."""
        self.queue = clusters
        self.begin(slots)
        return self.finish()

    def begin(self, slots: int) -> None:
        """Start the first clusters of the queue."""
        for slot in range(min(slots, len(self.queue))):
            self._begin(slot, 0.0)

    def proceed(self) -> None:
        """Process events until none is left, or a warp or the queue reaches its limit."""
        self.stopped = False
        if self.next_cluster is not None:
            slot, at = self.next_cluster
            self.next_cluster = None
            if self.begun < len(self.queue):
                self._begin(slot, at)
        if self.midway is not None:
            warp, at = self.midway
            self.midway = None
            if self.heap and self.heap[0][0] < at:
                self.push(at, warp)
            else:
                self._advance(warp, at)
        while self.heap and not self.stopped:
            self.now, _, item = heapq.heappop(self.heap)
            if isinstance(item, Warp):
                self._advance(item, self.now)
            else:
                deliver(self, item)

    def finish(self) -> Outcome:
        """Process all events. Raises StalledForever."""
        self.proceed()
        waiting = [warp for warp in self.warps if warp.ended < 0]
        if waiting:
            instruction = self._instruction(waiting[0])
            raise StalledForever(
                f"{len(waiting)} warps wait for events that never come, the first at PTX line {instruction.ptx_line}"
            )
        issued: dict[int, int] = {}
        for number, times in self.executed.items():
            segment = self.machine.numbered[number]
            for index in range(segment.first, segment.first + segment.issues):
                issued[index] = issued.get(index, 0) + times
                fixed = max(1, self.machine.instructions[index].stall) - 1
                if fixed:
                    self._note(index, "fixed latency", fixed * times)
        # The launch ends when its stores have reached memory.
        cycles = max([*self.ends, *(max(sm.backlog(0.0), sm.port) for sm in self.sms)], default=0.0)
        return Outcome(cycles, tuple(self.ends), tuple(self.warps), self.sms, issued, self.stalls,
                       self.spans, self.updates, self.mbarriers)  # fmt: skip

    def _begin(self, slot: int, at: float) -> None:
        works = self.queue[self.begun]
        live: dict[int, int] = {}
        for work in works:
            live[work.rank] = live.get(work.rank, 0) + 1
        cluster = Cluster(self.begun, slot, live)
        self.ends.append(-1.0)
        self.begun += 1
        for place, work in enumerate(works):
            # Warps of a CTA are assigned to the sub-cores in turn; so are CTAs with fewer warps than sub-cores.
            count = live[work.rank]
            first = slot * count if count < SUB_CORES else 0
            warp = Warp(len(self.warps), place, work, cluster, self.sms[work.rank], (first + work.warp) % SUB_CORES)
            warp.start = at
            warp.ended = -1.0
            self.warps.append(warp)
            self.push(at, warp)

    def push(self, at: float, item: Warp | Signal) -> None:
        self.order += 1
        heapq.heappush(self.heap, (at, self.order, item))

    def _instruction(self, warp: Warp) -> Instruction:
        block = warp.work[min(warp.step, len(warp.work) - 1)].block
        segment = self.machine.segments[block][min(warp.segment, len(self.machine.segments[block]) - 1)]
        return segment.last

    def _note(self, instruction: int, reason: str, cycles: float) -> None:
        self.stalls[instruction, reason] += cycles

    def wait(self, warp: Warp, instruction: int, reason: str, start: float, end: float, cause: Cause | None) -> None:
        self._note(instruction, reason, end - start)
        if self.history:
            warp.log.append(Wait(start, end, reason, instruction, cause))

    def _advance(self, warp: Warp, now: float) -> None:
        """Run a warp until it blocks or an earlier event is pending."""
        heap = self.heap
        while True:
            step = warp.work[warp.step]
            segments = self.machine.segments[step.block]
            segment = segments[warp.segment]
            if self.cold and warp.phase == 0:
                ready = self._fetch(warp, segment, now)
                if ready >= now + 1:
                    self.wait(warp, segment.first, "instruction fetch", now, ready, None)
                    self.push(ready, warp)
                    return
            if warp.phase == 0:
                warp.phase = 1
                if segment.wait & warp.held:
                    ready = self._await_scoreboards(warp, segment, now)
                    if ready > now:
                        now = ready
                        if heap and heap[0][0] < now:
                            self.push(now, warp)
                            return
            if warp.phase == 1:
                warp.saved = self._issue(warp, segment, now)
                warp.phase = 2
                if segment.acts and heap and heap[0][0] < (issued := warp.saved - segment.stall) - _AHEAD:
                    self.push(issued, warp)
                    return
            following = self._act(warp, step, segment, warp.saved) if segment.acts else warp.saved
            if following is None:
                return
            now = following
            warp.phase = 0
            warp.segment += 1
            if warp.segment == len(segments):
                now = self._leave_block(warp, step, now)
                if warp.step == warp.limit:
                    if warp.step == len(warp.work):
                        self._end(warp, now)
                    else:
                        self.stopped, self.midway = True, (warp, now)
                    return
            if heap and heap[0][0] < now:
                self.push(now, warp)
                return

    def _fetch(self, warp: Warp, segment: Segment, now: float) -> float:
        """Earliest start of a segment whose code is executed for the first time and has to be fetched."""
        lines = self.code[warp.rank]
        per_line = CODE_LINE // INSTRUCTION_BYTES
        first, last = segment.first // per_line, (segment.first + segment.issues - 1) // per_line
        at, spent = now, segment.cycles / (last - first + 1)
        for line in range(first, last + 1):
            for ahead in range(line, line + PREFETCHED + 1):
                lines.setdefault(ahead, at + self.gpu.latency["dram"])
            at = max(at, lines[line]) + spent
        return max(now, at - segment.cycles)

    def _leave_block(self, warp: Warp, step: Step, now: float) -> float:
        warp.segment = warp.event = 0
        warp.step += 1
        if warp.step == len(warp.work):
            return now
        following = warp.work[warp.step].block
        if following == step.block + 1:
            return now
        last = self.machine.segments[step.block][-1]
        if following <= step.block:
            warp.marks.append((following, now))
        # The stall count of the branch is part of the time to the first instruction after it.
        end = now + max(0.0, self.gpu.latency["branch"] - max(1, last.last.stall))
        if end > now:
            self._note(last.first + last.issues - 1, "branch", end - now)
        return end

    def _await_scoreboards(self, warp: Warp, segment: Segment, now: float) -> float:
        ready, last = now, -1
        mask = segment.wait & warp.held
        for board in range(6):
            if mask >> board & 1 and warp.scoreboards[board] > ready:
                ready, last = warp.scoreboards[board], board
        warp.held &= ~mask
        if last >= 0:
            self.wait(warp, segment.first, warp.reasons[last], now, ready, warp.causes[last])
        return ready

    def _issue(self, warp: Warp, segment: Segment, now: float) -> float:
        """Issue a segment; returns when the warp can issue the next one."""
        servers = warp.servers
        self.executed[segment.number] += 1
        alone = now + segment.cycles
        stall, issues = segment.stall, segment.issues
        unit, server = servers["issue"]
        end = max(alone, unit.take(server, now, issues) + issues - 1 + stall)
        binding = "issue"
        for pipe, total, one in segment.pipes:
            # The pipe has to accept the last instruction when it is issued.
            unit, server = servers[pipe]
            limit = unit.take(server, now, total) + total - one + stall
            if limit > end:
                end, binding = limit, f"{pipe} pipe"
        if end > alone:
            self.wait(warp, segment.first, binding, alone, end, None)
        return end

    def _act(self, warp: Warp, step: Step, segment: Segment, end: float) -> float | None:
        """Apply the effects of the last instruction of a segment; None if the warp blocks."""
        instruction = segment.last
        index = segment.first + segment.issues - 1
        issued = end - segment.stall
        finish, reason, cause = issued, "", None
        blocked = False
        if segment.tensor:
            finish, reason, cause = multiply_in_registers(self, warp, index, issued)
        if warp.event < len(step.events) and step.events[warp.event][0] == segment.position:
            for event in step.events[warp.event][1]:
                if blocked and type(event.operation) in _MEETINGS:
                    continue  # diverged parts of a warp, executed one after the other, wait once
                result = HANDLERS[type(event.operation)](self, warp, event, index, issued)
                if result is None:
                    blocked = True
                elif result[0] > finish or not reason:
                    finish, reason, cause = result
            warp.event += 1
        elif instruction.opcode in ("LDL", "STL"):
            finish, reason, cause = memory_events.spill(self, warp, instruction, index, issued)
        elif instruction.write_scoreboard is not None and not segment.tensor:
            finish, reason = self._untold(warp, segment, issued)
        if segment.group is not None:
            result = barrier_events.hand_on_products(warp, segment.group, issued)
            if result[0] > finish or not reason:
                finish, reason, cause = result
        if segment.fences:
            # L2, which other SMs read, acknowledges the stores of threads (PTX ISA, "membar/fence": scope `.gpu`);
            # asynchronous copies in flight are not covered.
            finish, reason, cause = max(issued, warp.sm.stored) + self.gpu.latency["l2"], "fence", None
        if instruction.write_scoreboard is not None:
            self._hold(warp, instruction.write_scoreboard, finish, reason, cause)
        if instruction.read_scoreboard is not None:
            # Operands are read when the unit starts; then the registers are free.
            start = cause.start if cause is not None else issued
            read_end = max(start, issued) + _READ
            until = min(finish, read_end) if finish > issued else read_end
            self._hold(warp, instruction.read_scoreboard, until, reason, cause)
        if blocked:
            return None
        if (segment.fences or reason in _IN_LINE) and finish > end:
            # The instruction itself does not end earlier.
            self.wait(warp, index, reason, end, finish, cause)
            return finish
        return end

    def _hold(self, warp: Warp, board: int, until: float, reason: str, cause: Cause | None) -> None:
        if warp.held >> board & 1 and warp.scoreboards[board] > until:
            return
        warp.held |= 1 << board
        warp.scoreboards[board] = until
        warp.reasons[board] = reason or "operands"
        warp.causes[board] = cause

    def _untold(self, warp: Warp, segment: Segment, issued: float) -> tuple[float, str]:
        """Completion of a variable-latency instruction for which the emulator records no event."""
        entry = self.latencies.get(segment.number)
        if entry is None:
            entry = self.latencies[segment.number] = self._latency_of(segment.last)
        latency, reason, unit, cycles = entry
        start = issued
        if unit and cycles:
            servers, number = warp.servers[unit]
            start = max(issued, servers.free[number] - cycles)
        return start + latency, reason

    def _latency_of(self, instruction: Instruction) -> tuple[float, str, str, float]:
        """Latency of an instruction without an event, the reason of waits for it, and the unit that it has to wait for
        with the cycles there, if any."""
        latency = self.gpu.latency
        opcode, pipe = instruction.opcode, pipe_of(instruction)
        if pipe == "lsu" and opcode != "LDC":
            return 2, "memory", "", 0.0  # no lane was active
        key, reason = _LATENCIES.get(opcode) or _PIPE_LATENCIES.get(pipe, ("mufu", "special register"))
        unit = pipe if pipe in self.sms[0].units else ""
        return latency.get(key, latency["mufu"]), reason, unit, pipe_cycles(pipe, self.gpu)

    def _end(self, warp: Warp, now: float) -> None:
        warp.ended = now
        cluster = warp.cluster
        cluster.live[warp.rank] -= 1
        cause = Cause("warp", warp.number, 0, now, now, now)
        for (rank, _), state in cluster.block_barriers.items():
            if rank == warp.rank and state.waiting and state.complete(32 * cluster.live[rank]):
                self.free(state.release(), now, "barrier", "barrier", cause)
        live = sum(cluster.live.values())
        if live:
            self.free(cluster.barrier.check(live, cause), now, "cluster_barrier", "cluster barrier", cause)
            return
        self.ends[cluster.number] = now
        if self.begun == self.most_begun:
            self.stopped, self.next_cluster = True, (cluster.slot, now)
        elif self.begun < len(self.queue):
            self._begin(cluster.slot, now)

    def free(self, waiting: list[Waiting], at: float, latency: str, reason: str, cause: Cause | None) -> None:
        """Resume warps that waited for others."""
        for warp, since, instruction in waiting:
            resumed = max(since, at + self.gpu.latency.get(latency, self.gpu.latency["barrier"]))
            self._resume(warp, instruction, since, resumed, reason, cause)

    def _resume(
        self, warp: Warp, instruction: int, since: float, resumed: float, reason: str, cause: Cause | None
    ) -> None:
        end = max(warp.saved, resumed)
        if end > warp.saved:
            self.wait(warp, instruction, reason, warp.saved, end, cause)
        segment = self.machine.segments[warp.work[warp.step].block][warp.segment]
        board = segment.last.write_scoreboard
        if board is not None:
            self._hold(warp, board, end, reason, cause)
        warp.phase = 0
        warp.segment += 1
        step = warp.work[warp.step]
        if warp.segment == len(self.machine.segments[step.block]):
            end = self._leave_block(warp, step, end)
            if warp.step == len(warp.work):
                self._end(warp, end)
                return
            self.stopped |= warp.step == warp.limit
        self.push(end, warp)

    def span(self, warp: Warp, unit: str, name: str, start: float, end: float, index: int) -> None:
        if self.history:
            self.spans.append(Span(warp.rank, unit, name, start, end, index))


HANDLERS: dict[type, Callable[[Simulation, Warp, Event, int, float], Done | None]] = {
    Access: memory_events.access_memory, Copy: memory_events.begin_copy, ThreadCopy: memory_events.begin_copy,
    Multiply: tensor_events.begin_product,
    Transfer: tensor_events.transfer_tensor_memory, Commit: barrier_events.commit,
    WaitGroup: barrier_events.wait_for_group, BarrierInit: barrier_events.init_barrier, Arrive: barrier_events.arrive,
    PhaseWait: barrier_events.wait_for_phase, BlockBarrier: barrier_events.meet_block,
    ClusterBarrier: barrier_events.meet_cluster, SetRegisters: barrier_events.set_registers,
    Sleep: barrier_events.sleep,
}  # fmt: skip
"""Event type -> cost function; None if it blocks."""
_MEETINGS = frozenset({PhaseWait, BlockBarrier, ClusterBarrier, SetRegisters})
_IN_LINE = frozenset({
    "tensor pipe", "asynchronous copy", "tensor core", "tensor memory", "cluster barrier", "registers",
    "store queue", "sleep",
})  # fmt: skip
"""Reasons for which the instruction itself waits, not a later one for its scoreboard."""
#: Opcode -> (latency of `targets.rates`, reason), where the pipe does not determine it.
_LATENCIES: dict[str, tuple[str, str]] = {
    "LDC": ("shared", "constant memory"), "LDCU": ("shared", "constant memory"), "ULDC": ("shared", "constant memory"),
    "S2R": ("mufu", "special register"), "S2UR": ("mufu", "special register"), "R2UR": ("branch", "uniform datapath"),
    "MEMBAR": ("membar", "fence"), "FENCE": ("fence_proxy", "fence"), "ERRBAR": ("membar", "fence"),
    "CCTL": ("membar", "fence"), "SYNCS": ("mbarrier", "mbarrier"), "UTCATOMSWS": ("tcgen05_ld", "tensor memory"),
}  # fmt: skip
_PIPE_LATENCIES: dict[str, tuple[str, str]] = {
    "mufu": ("mufu", "MUFU"), "ex2": ("mufu", "MUFU"), "conversion": ("conversion", "conversion"),
    "fp64": ("fp64", "FP64"), "shuffle": ("shuffle", "shuffle"), "uniform": ("branch", "uniform datapath"),
}  # fmt: skip
