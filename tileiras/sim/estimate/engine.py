"""The discrete-event model: warps replay the machine instructions that they executed, and wait for issue slots, pipes,
memories, asynchronous units and each other.

A warp is advanced segment by segment (`machine.Segment`) in the order of time.  What finishes later (copies, products,
arrivals of other warps) is either known when it is asked for, since servers work in order, or comes as an event of its
own.  Everything is a function of its inputs: events at one time are taken in the order in which they were made.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence

from tileiras.named_tuple import NamedTuple
from tileiras.sim.emulator.recording import (
    Arrive,
    BarrierInit,
    BlockBarrier,
    ClusterBarrier,
    Commit,
    Copy,
    Multiply,
    PhaseWait,
    Place,
    SetRegisters,
    Transfer,
    WaitGroup,
)
from tileiras.sim.errors import SimulationError
from tileiras.sim.estimate.barriers import (
    BlockBarrierState,
    Cause,
    ClusterBarrierState,
    TransactionBarrier,
    Waiting,
)
from tileiras.sim.estimate.events import SECTOR, Access, Event, sectors_of
from tileiras.sim.estimate.machine import Machine, Segment, pipe_cycles, pipe_of
from tileiras.sim.estimate.paths import Step
from tileiras.sim.estimate.units import Multiprocessor, Shares
from tileiras.targets.rates import SUB_CORES, Gpu

_AHEAD = 16
"""Cycles that the last instruction of a segment may be ahead of the next event when its effects are taken at once."""
STORE_QUEUE = 512.0
"""Cycles of work that stores may be ahead of L2 and DRAM: nothing published says how deep these queues are; with less
than a memory's latency, loads and stores could not overlap."""
LEAST_TCGEN05 = 42.0
"""Cycles of the shortest product of 64 rows: m64n64k16 and m64n128k16 both take 54.5 with 12 of latency (microbenchmark
"utcmma", B200), m64n256k16 takes what its work does."""
_READ = 4
"""Cycles that reading operands takes: what ptxas has fixed-latency instructions wait for each other."""
_COPY_GROUPS = ("cp.async", "bulk", "wgmma")
_WARPGROUP = 4


class StalledForever(SimulationError):
    """Warps wait for each other: what was replayed is not a whole execution."""


class WarpWork(NamedTuple):
    """What one warp of a cluster has to do."""

    rank: int
    warp: int
    steps: Sequence[Step]


class Span(NamedTuple):
    """A stretch of time of a warp or a unit, for drawing; ``track`` is the warp's number or the unit's name."""

    sm: int
    track: int | str
    name: str
    start: float
    end: float
    instruction: int


class Wait(NamedTuple):
    """A wait of a warp that something else ended."""

    start: float
    end: float
    reason: str
    instruction: int
    cause: Cause | None


class Group:
    """Asynchronous operations of one warp and kind: the latest completion of those not committed, and the committed."""

    __slots__ = ("cause", "committed", "open", "reads", "read_done")

    def __init__(self) -> None:
        self.open = 0.0
        self.reads = 0.0
        self.cause: Cause | None = None
        self.committed: list[tuple[float, float, Cause | None]] = []  # (sources read, done, by what)


class Warp:
    """A warp in flight."""

    __slots__ = (
        "causes", "cluster", "ended", "event", "groups", "held", "log", "marks", "number", "phase", "rank", "reasons",
        "saved", "scoreboards", "segment", "sm", "start", "step", "sub_core", "tensor_loads", "warp", "work",
    )  # fmt: skip

    def __init__(self, number: int, work: WarpWork, cluster: Cluster, sm: Multiprocessor, sub_core: int) -> None:
        self.number = number
        self.work = work.steps
        self.rank = work.rank
        self.warp = work.warp
        self.cluster = cluster
        self.sm = sm
        self.sub_core = sub_core
        self.start = self.ended = 0.0
        self.step = self.segment = self.event = self.phase = 0
        self.saved = 0.0
        self.held = 0
        self.scoreboards = [0.0] * 6
        self.reasons = [""] * 6
        self.causes: list[Cause | None] = [None] * 6
        self.groups = {kind: Group() for kind in _COPY_GROUPS}
        self.tensor_loads = 0.0
        self.log: list[Wait] = []
        self.marks: list[tuple[int, float]] = []  # (block of the loop's head, when it was gone back to)


class Cluster:
    """CTAs that run together, and their barriers."""

    __slots__ = ("barrier", "block_barriers", "live", "number", "slot", "transactions", "tensor_queue")

    def __init__(self, number: int, slot: int, live: dict[int, int]) -> None:
        self.number = number
        self.slot = slot
        self.live = live  # rank -> warps that have not ended
        self.transactions: dict[tuple[int, int], TransactionBarrier] = {}
        self.block_barriers: dict[tuple[int, int], BlockBarrierState] = {}
        self.barrier = ClusterBarrierState()
        self.tensor_queue: dict[int, float] = {}  # rank -> when its products so far are complete


class _Signal(NamedTuple):
    """Arrivals or bytes that come to a transaction barrier."""

    cluster: Cluster
    key: tuple[int, int]
    arrivals: int
    transactions: int
    cause: Cause


class Outcome(NamedTuple):
    """What was simulated; times are cycles."""

    cycles: float
    """Until the last warp had ended and memory had what was stored."""
    ends: tuple[float, ...]
    """When each cluster had ended, in the order in which they began."""
    warps: tuple[Warp, ...]
    sms: tuple[Multiprocessor, ...]
    issued: dict[int, int]
    """Machine instruction -> how often warps issued it."""
    stalls: dict[tuple[int, str], float]
    """(machine instruction, reason) -> cycles that warps waited there."""
    spans: list[Span]


class Simulation:
    """Clusters on the SMs that one cluster needs: ``slots`` of them at a time, the others one by one as these end."""

    def __init__(
        self, machine: Machine, gpu: Gpu, shares: Shares, members: int, cache_bytes: int,
        products: Mapping[int, Multiply] | None = None,
    ) -> None:  # fmt: skip
        """``products``: PTX line -> the `mma` there."""
        self.products = products or {}
        self.machine = machine
        self.gpu = gpu
        self.members = members
        self.sms = tuple(Multiprocessor(gpu, shares, cache_bytes) for _ in range(members))
        self.heap: list[tuple[float, int, Warp | _Signal]] = []
        self.order = 0
        self.now = 0.0
        self.warps: list[Warp] = []
        self.ends: list[float] = []
        self.executed: dict[int, list] = {}  # id of a segment -> [segment, times]
        self.stalls: dict[tuple[int, str], float] = {}
        self.spans: list[Span] = []
        self.handlers: dict[type, Callable[[Warp, Event, int, float], tuple[float, str, Cause | None] | None]] = {
            Access: self._access, Copy: self._copy, Multiply: self._multiply, Commit: self._commit,
            WaitGroup: self._wait_group, Transfer: self._transfer, BarrierInit: self._init, Arrive: self._arrive,
            PhaseWait: self._phase_wait, BlockBarrier: self._block_barrier, ClusterBarrier: self._cluster_barrier,
            SetRegisters: self._set_registers,
        }  # fmt: skip

    # -- running ---------------------------------------------------------------------------------------------------

    def run(self, clusters: Sequence[Sequence[WarpWork]], slots: int) -> Outcome:
        """Raises StalledForever when warps wait for what never comes."""
        self.queue = list(clusters)
        self.begun = 0
        for slot in range(min(slots, len(clusters))):
            self._begin(slot, 0.0)
        while self.heap:
            self.now, _, item = heapq.heappop(self.heap)
            if isinstance(item, Warp):
                self._advance(item, self.now)
            else:
                self._signal(item)
        waiting = [warp for warp in self.warps if warp.ended < 0]
        if waiting:
            instruction = self._instruction(waiting[0])
            raise StalledForever(
                f"{len(waiting)} warps wait for what never comes, the first at PTX line {instruction.ptx_line}"
            )
        issued: dict[int, int] = {}
        for segment, times in self.executed.values():
            for index in range(segment.first, segment.first + segment.issues):
                issued[index] = issued.get(index, 0) + times
                fixed = max(1, self.machine.instructions[index].stall) - 1
                if fixed:
                    self._note(index, "fixed latency", fixed * times)
        # The launch ends when the memories have what was stored.
        cycles = max([*self.ends, *(sm.backlog(0.0) for sm in self.sms)], default=0.0)
        return Outcome(cycles, tuple(self.ends), tuple(self.warps), self.sms, issued, self.stalls,
                       self.spans)  # fmt: skip

    def _begin(self, slot: int, at: float) -> None:
        works = self.queue[self.begun]
        live: dict[int, int] = {}
        for work in works:
            live[work.rank] = live.get(work.rank, 0) + 1
        cluster = Cluster(self.begun, slot, live)
        self.ends.append(-1.0)
        self.begun += 1
        for work in works:
            # Warps of a CTA go to the sub-cores in turn.
            warp = Warp(len(self.warps), work, cluster, self.sms[work.rank], work.warp % SUB_CORES)
            warp.start = at
            warp.ended = -1.0
            self.warps.append(warp)
            self._push(at, warp)

    def _push(self, at: float, item: Warp | _Signal) -> None:
        self.order += 1
        heapq.heappush(self.heap, (at, self.order, item))

    def _instruction(self, warp: Warp):
        block = warp.work[min(warp.step, len(warp.work) - 1)].block
        segment = self.machine.segments[block][min(warp.segment, len(self.machine.segments[block]) - 1)]
        return segment.last

    def _note(self, instruction: int, reason: str, cycles: float) -> None:
        key = (instruction, reason)
        self.stalls[key] = self.stalls.get(key, 0.0) + cycles

    def _wait(self, warp: Warp, instruction: int, reason: str, start: float, end: float, cause: Cause | None) -> None:
        self._note(instruction, reason, end - start)
        warp.log.append(Wait(start, end, reason, instruction, cause))

    def _advance(self, warp: Warp, now: float) -> None:
        """Run a warp until it waits, or something else comes first."""
        heap = self.heap
        while True:
            step = warp.work[warp.step]
            segments = self.machine.segments[step.block]
            segment = segments[warp.segment]
            if warp.phase == 0:
                warp.phase = 1
                if segment.wait & warp.held:
                    ready = self._await_scoreboards(warp, segment, now)
                    if ready > now:
                        now = ready
                        if heap and heap[0][0] < now:
                            self._push(now, warp)
                            return
            if warp.phase == 1:
                warp.saved = self._issue(warp, segment, now)
                warp.phase = 2
                issued = warp.saved - max(1, segment.last.stall)
                if segment.acts and heap and heap[0][0] < issued - _AHEAD:
                    self._push(issued, warp)
                    return
            following = self._act(warp, step, segment, warp.saved) if segment.acts else warp.saved
            if following is None:
                return
            now = following
            warp.phase = 0
            warp.segment += 1
            if warp.segment == len(segments):
                now = self._leave_block(warp, step, now)
                if warp.step == len(warp.work):
                    self._end(warp, now)
                    return
            if heap and heap[0][0] < now:
                self._push(now, warp)
                return

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
        # The stall count of the branch is part of the time to the first instruction behind it.
        end = now + max(0.0, self.gpu.latency["branch"] - max(1, last.last.stall))
        if end > now:
            self._note(last.first + last.issues - 1, "branch", end - now)
        return end

    def _await_scoreboards(self, warp: Warp, segment: Segment, now: float) -> float:
        ready, which = now, -1
        mask = segment.wait & warp.held
        for board in range(6):
            if mask >> board & 1 and warp.scoreboards[board] > ready:
                ready, which = warp.scoreboards[board], board
        warp.held &= ~mask
        if which >= 0:
            self._wait(warp, segment.first, warp.reasons[which], now, ready, warp.causes[which])
        return ready

    def _issue(self, warp: Warp, segment: Segment, now: float) -> float:
        """Issue a segment; when the warp can issue what follows."""
        sm, sub_core = warp.sm, warp.sub_core
        known = self.executed.get(id(segment))
        if known is None:
            self.executed[id(segment)] = [segment, 1]
        else:
            known[1] += 1
        alone = now + segment.cycles
        stall = max(1, segment.last.stall)
        end = max(alone, sm.take("issue", sub_core, now, segment.issues) + segment.issues - 1 + stall)
        binding = "issue"
        for pipe, total, one in segment.pipes:
            # The pipe has to take the last instruction when that is issued.
            limit = sm.take(pipe, sub_core, now, total) + total - one + stall
            if limit > end:
                end, binding = limit, f"{pipe} pipe"
        if end > alone:
            self._wait(warp, segment.first, binding, alone, end, None)
        return end

    def _act(self, warp: Warp, step: Step, segment: Segment, end: float) -> float | None:
        """The effects of the last instruction of a segment; None when the warp waits for somebody else."""
        instruction = segment.last
        index = segment.first + segment.issues - 1
        issued = end - max(1, instruction.stall)
        done, reason, cause = issued, "", None
        blocked = False
        if segment.tensor:
            done, reason, cause = self._mma(warp, index, issued)
        if warp.event < len(step.events) and step.events[warp.event][0] == segment.position:
            for event in step.events[warp.event][1]:
                if blocked and type(event.what) in _MEETINGS:
                    continue  # parts of a warp that come one after the other wait once
                found = self.handlers[type(event.what)](warp, event, index, issued)
                if found is None:
                    blocked = True
                elif found[0] > done or not reason:
                    done, reason, cause = found
            warp.event += 1
        elif instruction.write_scoreboard is not None and not segment.tensor:
            done, reason = self._untold(warp, segment, issued)
        if instruction.write_scoreboard is not None:
            self._hold(warp, instruction.write_scoreboard, done, reason, cause)
        if instruction.read_scoreboard is not None:
            # Operands are read when the unit begins with them; then the registers are free.
            begun = cause.start if cause is not None else issued
            read = max(begun, issued) + _READ
            self._hold(warp, instruction.read_scoreboard, min(done, read) if done > issued else read, reason, cause)
        if blocked:
            return None
        if reason in _IN_LINE and done > end:
            # The instruction itself does not end before that.
            self._wait(warp, index, reason, end, done, cause)
            return done
        return end

    def _hold(self, warp: Warp, board: int, until: float, reason: str, cause: Cause | None) -> None:
        if warp.held >> board & 1 and warp.scoreboards[board] > until:
            return
        warp.held |= 1 << board
        warp.scoreboards[board] = until
        warp.reasons[board] = reason or "operands"
        warp.causes[board] = cause

    def _untold(self, warp: Warp, segment: Segment, issued: float) -> tuple[float, str]:
        """When the result of an instruction of variable latency is there that the emulator tells nothing of."""
        latency = self.gpu.latency
        opcode = segment.last.opcode
        pipe = pipe_of(segment.last)
        if pipe == "lsu" and opcode != "LDC":
            return issued + 2, "memory"  # no lane took part
        key, reason = _LATENCIES.get(opcode) or _PIPE_LATENCIES.get(pipe, ("mufu", "special register"))
        cycles = pipe_cycles(pipe, self.gpu)
        free = warp.sm.free.get(pipe)
        begun = issued
        if free is not None and cycles:
            begun = max(issued, free[warp.sub_core if len(free) > 1 else 0] - cycles)
        return begun + latency.get(key, latency["mufu"]), reason

    def _end(self, warp: Warp, now: float) -> None:
        warp.ended = now
        cluster = warp.cluster
        cluster.live[warp.rank] -= 1
        cause = Cause("warp", warp.number, 0, now, now, now)
        for (rank, _), state in cluster.block_barriers.items():
            if rank == warp.rank and state.waiting and state.complete(32 * cluster.live[rank]):
                self._free(state.release(), now, "barrier", "barrier", cause)
        live = sum(cluster.live.values())
        if live:
            self._free(cluster.barrier.check(live, cause), now, "cluster_barrier", "cluster barrier", cause)
            return
        self.ends[cluster.number] = now
        if self.begun < len(self.queue):
            self._begin(cluster.slot, now)

    def _free(self, waiting: list[Waiting], at: float, latency: str, reason: str, cause: Cause | None) -> None:
        """Let warps go on that waited for others."""
        for warp, since, instruction in waiting:
            resumed = max(since, at + self.gpu.latency.get(latency, self.gpu.latency["barrier"]))
            self._resume(warp, instruction, since, resumed, reason, cause)

    def _resume(
        self, warp: Warp, instruction: int, since: float, resumed: float, reason: str, cause: Cause | None
    ) -> None:
        end = max(warp.saved, resumed)
        if end > warp.saved:
            self._wait(warp, instruction, reason, warp.saved, end, cause)
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
        self._push(end, warp)

    def _span(self, warp: Warp, unit: str, name: str, start: float, end: float, index: int) -> None:
        self.spans.append(Span(warp.rank, unit, name, start, end, index))

    # -- memory ----------------------------------------------------------------------------------------------------

    def _access(self, warp: Warp, event: Event, index: int, at: float) -> tuple[float, str, Cause | None]:
        access: Access = event.what  # type: ignore[assignment]
        sm, latency = warp.sm, self.gpu.latency
        if access.space == "shared":
            done = sm.shared_access(at, access.wavefronts)
            cause = Cause("shared", warp.number, index, at, done - access.wavefronts, done)
            return done + (latency["shared"] if not access.write or access.atomic else 0), "shared memory", cause
        if access.space == "local":
            # Words of one register of all lanes lie side by side.
            cycles = max(1.0, access.bytes / self.gpu.bytes_per_cycle["l1"])
            start = sm.take("l1", 0, at, cycles)
            cause = Cause("l1", warp.number, index, at, start, start + cycles)
            return start + cycles + (0 if access.write else latency["l1"]), "local memory", cause
        start, done = sm.global_access(at, access, warp.cluster.number, cached=not access.write and not access.atomic)
        cause = Cause("l2", warp.number, index, at, start, done)
        if access.write and not access.atomic:
            # Stores are posted, until those that L2 and DRAM have not taken fill the queues before them.
            until = sm.backlog(at) - STORE_QUEUE
            return (until, "store queue", cause) if until > at else (start, "global memory", cause)
        return done, "global memory", cause

    def _copy(self, warp: Warp, event: Event, index: int, at: float) -> tuple[float, str, Cause | None]:
        copy: Copy = event.what  # type: ignore[assignment]
        if copy.kind == "cp.async":
            start, done = self._cp_async(warp, copy, at)
        else:
            start, done = self._bulk(warp, copy, at)
        cause = Cause("tma" if copy.kind != "cp.async" else "l2", warp.number, index, at, start, done)
        self._span(
            warp, "tma" if copy.kind != "cp.async" else "cp.async", f"{copy.kind} {copy.direction}", start, done, index
        )
        for place in copy.barriers:
            signal = _Signal(warp.cluster, self._key(place), 0, -copy.bytes, cause)
            self._push(
                done + (0 if place.cta % self.members == warp.rank else self.gpu.latency.get("dsmem", 0)), signal
            )
        if not copy.barriers:
            group = warp.groups["cp.async" if copy.kind == "cp.async" else "bulk"]
            if done >= group.open:
                group.open, group.cause = done, cause
            group.reads = max(group.reads, start + copy.bytes / self.gpu.bytes_per_cycle["shared"])
        return at + 2, "asynchronous copy", cause

    def _cp_async(self, warp: Warp, copy: Copy, at: float) -> tuple[float, float]:
        sm = warp.sm
        if copy.addresses is None or not copy.addresses.size:
            return at, at + self.gpu.latency["shared"]
        served = sm.take("lsu", 0, at, max(1.0, copy.element / 4)) + 1
        sectors = sectors_of(copy.addresses, copy.element)
        size = sectors.size * SECTOR
        missing = sm.shares.missing(copy, size)
        start, done = sm.l2_transfer(served, size, missing)
        return start, done + sm.latency(missing)

    def _bulk(self, warp: Warp, copy: Copy, at: float) -> tuple[float, float]:
        """The engine takes a row of up to 128 bytes a cycle and moves them through L2's port."""
        sm, latency = warp.sm, self.gpu.latency
        rate = self.gpu.bytes_per_cycle["tma"]
        cycles = max(copy.bytes / rate, float(copy.rows))
        start = sm.take("tma", 0, at, cycles)
        for target in {target % self.members for target in copy.destinations} or {warp.rank}:
            self.sms[target].count("shared", start, copy.bytes / self.gpu.bytes_per_cycle["shared"])
        if copy.direction == "shared" or copy.addresses is None:
            return start, start + cycles + latency.get("dsmem", latency["l2"])
        if not copy.addresses.size:
            return start, start + cycles + latency["tma"]  # nothing of the box exists
        size = copy.addresses.size * copy.element
        missing = sm.shares.missing(copy, size)
        _, done = sm.l2_transfer(start, size, missing)
        return start, done + latency.get("tma", 0) + (
            sm.latency(missing) if copy.direction == "load" else latency["l2"]
        )

    # -- tensor cores ----------------------------------------------------------------------------------------------

    def tensor_rate(self, multiply: Multiply) -> float:
        """FLOP of an SM in a cycle."""
        name = multiply.type
        key = {"bf16": "f16", "f16": "f16", "tf32": "tf32", "f64": "f64"}.get(name)
        if key is None:
            key = "i8" if name[0] in "sub" else "f4" if name == "e2m1" and multiply.k >= 64 else "f8"
        if key == "f16" and multiply.accumulator == "f16":
            key = "f16_f16"
        table = self.gpu.mma_sync if multiply.kind == "mma" else self.gpu.tensor
        rate = table.get(key) or self.gpu.tensor.get(key)
        if not rate:
            raise SimulationError(f"{self.gpu.name} has no tensor cores for {multiply.type}")
        return rate

    def _multiply(self, warp: Warp, event: Event, index: int, at: float) -> tuple[float, str, Cause | None]:
        multiply: Multiply = event.what  # type: ignore[assignment]
        rate = self.tensor_rate(multiply)
        work = 2.0 * multiply.m * multiply.n * multiply.k
        latency = self.gpu.latency
        sm = warp.sm
        if multiply.kind == "wgmma":
            # Each of the four warps multiplies 16 rows on its own sub-core; B is read once for all of them.
            cycles = work / rate
            free = sm.free["tensor"][warp.sub_core]
            start = max(at, free)
            size = multiply.a_bytes + multiply.b_bytes
            if warp.warp % _WARPGROUP == 0:
                sm.read_operands(start, cycles, size)
            cycles = max(cycles, size / self.gpu.bytes_per_cycle["shared"])
            sm.take("tensor", warp.sub_core, at, cycles)
            done = start + cycles + latency.get("wgmma", 0.0)
            cause = Cause("tensor", warp.number, index, at, start, done)
            group = warp.groups["wgmma"]
            if done >= group.open:
                group.open, group.cause = done, cause
            if warp.warp % _WARPGROUP == 0:
                self._span(warp, "tensor", f"wgmma m{multiply.m}n{multiply.n}k{multiply.k}", start, done, index)
            return at + 1, "tensor core", cause
        return self._tcgen05(warp, multiply, work / rate, index, at)

    def _mma(self, warp: Warp, index: int, at: float) -> tuple[float, str, Cause | None]:
        """A machine instruction of an `mma`, or a part of one that the machine does in several."""
        instruction = self.machine.instructions[index]
        multiply = self.products.get(instruction.ptx_line)
        if multiply is None:  # the line is that of something beside it
            multiply = next(iter(self.products.values()), None)
            if multiply is None:
                return at, "", None
        work = 2.0 * multiply.m * multiply.n * multiply.k * self.machine.parts[index]
        cycles = work * SUB_CORES / self.tensor_rate(multiply)
        start = warp.sm.take("tensor", warp.sub_core, at, cycles)
        cause = Cause("tensor", warp.number, index, at, start, start + cycles)
        if instruction.write_scoreboard is not None:
            return start + max(cycles, self.gpu.latency["mma_sync"]), "tensor core result", cause
        # Stall counts cover the latency; the warp issues nothing before its tensor core has taken the product.
        return start + max(1, instruction.stall), "tensor pipe", cause

    def _tcgen05(
        self, warp: Warp, multiply: Multiply, cycles: float, index: int, at: float
    ) -> tuple[float, str, Cause]:
        """Products of one CTA, or of both of a pair."""
        blocks = multiply.blocks
        cycles /= blocks
        if multiply.m <= 64 * blocks:
            cycles = max(cycles, LEAST_TCGEN05)
        first = warp.rank & ~1 if blocks == 2 else warp.rank
        ranks = range(first, min(first + blocks, self.members))
        start = max(at, *(self.sms[rank].free["tensor"][0] for rank in ranks))
        # A is read ahead into a buffer of its own: m64n256k16 takes 64 cycles though both operands have 80 of the port.
        cycles = max(cycles, multiply.b_bytes / self.gpu.bytes_per_cycle["shared"])
        for rank in ranks:
            self.sms[rank].read_operands(start, cycles, multiply.a_bytes + multiply.b_bytes)
        for rank in ranks:
            for sub_core in range(SUB_CORES):
                self.sms[rank].take("tensor", sub_core, start, cycles)
        done = start + cycles + self.gpu.latency.get("tcgen05", 0.0)
        cause = Cause("tensor", warp.number, index, at, start, done)
        queue = warp.cluster.tensor_queue
        queue[warp.rank] = max(queue.get(warp.rank, 0.0), done)
        self._span(warp, "tensor", f"tcgen05 m{multiply.m}n{multiply.n}k{multiply.k}", start, done, index)
        return at + self.gpu.latency.get("tcgen05_issue", 1.0), "tensor core", cause

    def _transfer(self, warp: Warp, event: Event, index: int, at: float) -> tuple[float, str, Cause | None]:
        transfer: Transfer = event.what  # type: ignore[assignment]
        sm, latency = warp.sm, self.gpu.latency
        if transfer.kind == "wait":
            return max(at, warp.tensor_loads), "tensor memory", None
        if transfer.kind == "cp":
            start = max(at, sm.free["tensor"][0])
            done = start + latency.get("tcgen05_cp", 70.0)
            for sub_core in range(SUB_CORES):
                sm.take("tensor", sub_core, start, done - start)
            queue = warp.cluster.tensor_queue
            queue[warp.rank] = max(queue.get(warp.rank, 0.0), done)
            return at + 1, "tensor memory", Cause("tensor", warp.number, index, at, start, done)
        cycles = transfer.bytes / self.gpu.bytes_per_cycle.get("tensor_memory", 512.0)
        start = sm.take("tensor_memory", 0, at, cycles)
        done = start + cycles + latency.get("tcgen05_ld", latency["shared"])
        warp.tensor_loads = max(warp.tensor_loads, done)
        return done, "tensor memory", Cause("tensor_memory", warp.number, index, at, start, done)

    # -- groups and barriers ---------------------------------------------------------------------------------------

    def _key(self, place: Place) -> tuple[int, int]:
        return place.cta % self.members, place.offset

    def _commit(self, warp: Warp, event: Event, index: int, at: float) -> tuple[float, str, Cause | None]:
        commit: Commit = event.what  # type: ignore[assignment]
        if commit.kind == "tcgen05":
            done = (
                max(at, warp.cluster.tensor_queue.get(warp.rank, 0.0)) + self.gpu.latency.get("tcgen05_commit", 0.0) / 2
            )
            cause = Cause("tensor", warp.number, index, at, at, done)
            for place in commit.barriers:
                self._push(done, _Signal(warp.cluster, self._key(place), 1, 0, cause))
            return at + 1, "tensor core", cause
        group = warp.groups[commit.kind]
        if commit.barriers:
            cause = group.cause or Cause("warp", warp.number, index, at, at, at)
            for place in commit.barriers:
                self._push(max(at, group.open), _Signal(warp.cluster, self._key(place), 1, 0, cause))
            return at + 1, "asynchronous copy", cause
        group.committed.append((group.reads, group.open, group.cause))
        return at + 1, "", None

    def _wait_group(self, warp: Warp, event: Event, index: int, at: float) -> tuple[float, str, Cause | None]:
        wait: WaitGroup = event.what  # type: ignore[assignment]
        group = warp.groups[wait.kind]
        due = group.committed[: len(group.committed) - wait.left] if wait.left else group.committed
        done, cause = at, None
        for reads, complete, by in due:
            until = reads if wait.reads else complete
            if until > done:
                done, cause = until, by
        if due:
            del group.committed[: max(0, len(due) - 1)]
        return done, "tensor core" if wait.kind == "wgmma" else "asynchronous copy", cause

    def _barrier(self, cluster: Cluster, key: tuple[int, int]) -> TransactionBarrier:
        found = cluster.transactions.get(key)
        if found is None:
            found = cluster.transactions[key] = TransactionBarrier(1)
        return found

    def _init(self, warp: Warp, event: Event, index: int, at: float) -> tuple[float, str, Cause | None]:
        init: BarrierInit = event.what  # type: ignore[assignment]
        warp.cluster.transactions[self._key(init.barrier)] = TransactionBarrier(init.count)
        return at + self.gpu.latency["shared"], "shared memory", None

    def _arrive(self, warp: Warp, event: Event, index: int, at: float) -> tuple[float, str, Cause | None]:
        arrive: Arrive = event.what  # type: ignore[assignment]
        cause = Cause("warp", warp.number, index, at, at, at)
        key = self._key(arrive.barrier)
        far = 0.0 if key[0] == warp.rank else self.gpu.latency.get("dsmem", 0.0)
        self._push(at + far, _Signal(warp.cluster, key, arrive.count, arrive.expected, cause))
        return at + 4, "mbarrier", None

    def _signal(self, signal: _Signal) -> None:
        barrier = self._barrier(signal.cluster, signal.key)
        free = barrier.change(signal.arrivals, signal.transactions, signal.cause)
        self._free(free, self.now, "mbarrier", "mbarrier", signal.cause)

    def _phase_wait(self, warp: Warp, event: Event, index: int, at: float) -> tuple[float, str, Cause | None] | None:
        wait: PhaseWait = event.what  # type: ignore[assignment]
        barrier = self._barrier(warp.cluster, self._key(wait.barrier))
        if not wait.blocking or barrier.passes(wait.parity):
            return at + self.gpu.latency.get("mbarrier", self.gpu.latency["shared"]), "mbarrier", None
        barrier.waiting.append((wait.parity, Waiting(warp, at, index)))
        return None

    def _block_barrier(self, warp: Warp, event: Event, index: int, at: float) -> tuple[float, str, Cause | None] | None:
        told: BlockBarrier = event.what  # type: ignore[assignment]
        key = (warp.rank, told.number)
        state = warp.cluster.block_barriers.setdefault(key, BlockBarrierState())
        state.arrive(warp.number)
        state.expected = told.threads
        cause = Cause("warp", warp.number, index, at, at, at)
        if told.waits:
            state.waiting.append(Waiting(warp, at, index))
        if state.complete(32 * warp.cluster.live[warp.rank]):
            self._free(state.release(), at, "barrier", "barrier", cause)
        return None if told.waits else (at + 1, "barrier", None)

    def _cluster_barrier(
        self, warp: Warp, event: Event, index: int, at: float
    ) -> tuple[float, str, Cause | None] | None:
        told: ClusterBarrier = event.what  # type: ignore[assignment]
        state = warp.cluster.barrier
        if not told.waits:
            cause = Cause("warp", warp.number, index, at, at, at)
            live = sum(warp.cluster.live.values())
            self._free(state.arrive(warp.number, live, cause), at, "cluster_barrier", "cluster barrier", cause)
            return at + 1, "", None
        if state.joined.get(warp.number, -1) < state.phase:
            return at + self.gpu.latency.get("barrier", 0.0), "cluster barrier", state.cause
        state.waiting.append(Waiting(warp, at, index))
        return None

    def _set_registers(self, warp: Warp, event: Event, index: int, at: float) -> tuple[float, str, Cause | None]:
        return at + self.gpu.latency["barrier"], "registers", None


_MEETINGS = frozenset({PhaseWait, BlockBarrier, ClusterBarrier})
_IN_LINE = frozenset({
    "tensor pipe", "asynchronous copy", "tensor core", "tensor memory", "cluster barrier", "registers",
    "store queue",
})  # fmt: skip
"""Reasons for which the instruction itself waits, and not a later one for its scoreboard."""
#: Opcode -> (latency of `targets.rates`, reason), where the pipe does not say it.
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
