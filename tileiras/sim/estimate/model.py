"""From an image to an estimate: choose the CTAs to record, simulate some of them, extrapolate to the grid."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import chain
from math import lcm
from typing import Any

import numpy as np

from tileiras.codegen.machine_code import INSTRUCTION_BYTES
from tileiras.sim.emulator.errors import EmulationError
from tileiras.sim.emulator.launch.emulation import launch_shapes
from tileiras.sim.emulator.rules import RULES
from tileiras.sim.errors import SimulationError
from tileiras.sim.estimate import (
    alike,
    contention,
    doubt,
    drawing,
    fill_levels,
    grid_limits,
    locks,
    power,
    runs,
    sampling,
    steady_state,
    uncertainty,
)
from tileiras.sim.estimate.bottlenecks import bound_by, phases_of, reasons_of, shares_of_bounds, utilization_of
from tileiras.sim.estimate.engine import CODE_LINE, PREFETCHED, Simulation
from tileiras.sim.estimate.events import ClusterTrace, Recording
from tileiras.sim.estimate.images import Image
from tileiras.sim.estimate.in_flight import Outcome, StalledForever, WarpWork
from tileiras.sim.estimate.machine import Machine, compile_blocks
from tileiras.sim.estimate.paths import Walker
from tileiras.sim.estimate.recorder import joined, record
from tileiras.sim.estimate.result import Estimate, Link, Occupied, Stall, SteadyLoop
from tileiras.sim.estimate.runs import Run, Sample
from tileiras.sim.estimate.sampling import Sampled
from tileiras.sim.estimate.traffic import Cache, traffic
from tileiras.sim.estimate.units import L1_AND_SHARED, TITLES, Shares
from tileiras.sim.memory import Journal
from tileiras.targets.rates import Gpu
from tileiras.targets.sm import WARP_SIZE, occupancy

_AGREE = 0.01
"""Relative error of an extrapolated time, by the difference of two stretches of the steady state."""
_FULL = 1.01
"""Utilisation that no unit exceeds, up to the extrapolation of loops."""
_FIRST_KEPT = 8
_STRETCH = 4
_SIMULATED_AT_ONCE = 150_000
"""Instructions up to which CTAs that follow each other on an SM are simulated one after the other; otherwise their
times are added."""
_TAIL = 0.02
"""Tail fraction below which tail effects are ignored."""


class Model:
    """The estimate of one launch."""

    def __init__(
        self, image: Image, grid: Sequence[int], gpu: Gpu, arguments: Sequence[Any], dirty: bool = False
    ) -> None:
        """``dirty``: L2 is full of dirty lines of earlier launches when the launch begins."""
        self.image = image
        self.dirty = dirty
        self.gpu = gpu
        self.arguments = arguments
        self.given_grid = grid
        self.notes: list[str] = []
        self.mean = 1.0
        """Mean time of all clusters over the time of the cluster that `grid` returns."""
        self.outcomes: dict[tuple, Outcome] = {}
        self.states: dict[tuple, steady_state.SteadyState | None] = {}
        """Steady states by the kind of a cluster."""
        self.with_history: set[tuple] = set()
        """Keys of those outcomes that have a history."""
        self.one_by_one = False
        """Whether clusters take each other's locks and are therefore recorded one after the other."""
        self.apart = False
        """Whether blocks with `wgmma` are recorded each on its own."""

    # -- recording -------------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Record some clusters and determine the occupancy."""
        image, gpu = self.image, self.gpu
        grid, _, cluster = launch_shapes(image.ptx, image.entry, self.given_grid, image.metadata, self.arguments)
        self.members = int(np.prod(cluster))
        self.shape = tuple(blocks // members for blocks, members in zip(grid, cluster))
        self.clusters = int(np.prod(self.shape))
        kernel = image.metadata or {}
        blocks = self.members // int(np.prod(kernel.get("cluster", cluster)))  # that are one cluster
        self.order = sampling.block_order(self.shape, -(-kernel.get("block_group", 0) // blocks))
        self.starts = np.argsort(self.order)
        self.sampled = self._sample()
        threads = self.recording.threads
        self.held = occupancy(gpu.target, threads, image.code.registers, image.shared)
        if not self.held.ctas:
            raise SimulationError(f"no CTA of '{image.entry}' fits an SM of {gpu.name}: {self.held.limit}")
        self.sets = max(1, gpu.sms // self.members)  # of SMs that hold a cluster
        self.each = -(-self.clusters // self.sets)  # clusters for each, at most
        self.slots = min(self.held.ctas, self.each)
        self.warps = -(-threads // WARP_SIZE)
        l2 = Cache(gpu.l2_bytes, min(self.clusters, self.sets * self.slots), self.dirty)
        self.moved = traffic(self.recording, self.clusters, self.sampled, self.places, l2)
        self.walker = Walker(image.code, self.recording.blocks, self.recording.skipped)
        self.machine: Machine = compile_blocks(self.walker.blocks, gpu)
        self.active = min(gpu.sms, self.clusters * self.members)
        whole = L1_AND_SHARED[gpu.target.name] << 10
        self.cache = max(0, whole - self.slots * (image.shared + gpu.target.shared_reserved))

    def shares(self, active: int) -> Shares:
        """Bandwidth of L2 and DRAM for each of `active` SMs on average; one may use more while others use less."""
        l2 = min(self.gpu.bytes_per_cycle["l2"], self.gpu.l2_bytes_per_cycle / active)
        dram = min(l2, self.gpu.dram_bytes_per_cycle / active)
        return Shares(l2, dram, self.moved.dram_bytes, self.moved.miss, self.moved.displacing)

    def _sample(self) -> Sampled:
        """Record clusters until the work of the clusters between them can be interpolated."""
        self.places = sampling.ends(self.shape)
        self.recording = self._record(self.places)
        self.one_by_one = any(map(locks.locks_of, self.recording.clusters))
        if self.one_by_one:  # waiting clusters would only poll
            self.recording = self._record(self.places)
        while True:
            visits = ([trace.visits for trace in cluster.warps] for cluster in self.recording.clusters)
            sample = sampling.sampled(self.shape, self.places, visits)
            more = sample.missing()
            if not more:
                return sample
            self.places = [*self.places, *more]
            self.recording = joined([self.recording, self._record(more)])

    def _record(self, clusters: Sequence[int]) -> Recording:
        metadata = dict(self.image.metadata or {})
        if self.image.hidden is not None:
            # The image's own host code fills them.
            metadata.pop("hidden_parameters", None)
        starts = [int(self.starts[cluster]) for cluster in clusters]
        together = [[cluster] for cluster in starts] if self.one_by_one else [starts]
        try:
            result = self._recorded(together, metadata)
        except EmulationError:
            if self.apart or "wgmma" not in self.image.ptx:
                raise
            # Blocks that take different paths while accumulators in flight are moved cannot run in lock step.
            self.apart = True
            result = self._recorded(together, metadata)
        contention.mark_sums(result, self.image.code.by_ptx_line)
        return result

    def _recorded(self, together: Sequence[Sequence[int]], metadata: dict[str, Any]) -> Recording:
        with Journal() as journal:
            return joined([
                record(
                    self.image.ptx, self.image.entry, self.given_grid, self.arguments, metadata or None,
                    blocks=[cluster * self.members + member for cluster in some for member in range(self.members)],
                    hidden=self.image.hidden, waive=tuple(RULES), journal=journal, apart=self.apart,
                )
                for some in together
            ])  # fmt: skip

    # -- simulating ------------------------------------------------------------------------------------------------

    def simulate(
        self, executions: Sequence[Sequence[ClusterTrace]], slots: int, active: int | None = None, history: bool = True,
        trunk: alike.Trunk | None = None,
    ) -> list[Outcome]:  # fmt: skip
        """Simulate executions, the longest last, of clusters on the slots of an SM; outcomes are cached by the paths.

        ``history``: whether the estimate shows the longest one, so that its outcome needs a history; ``trunk``: the
        common part of executions of these clusters on these slots.
        """
        active = active or self.active
        keys = [(tuple(map(_kind, traces)), slots, active) for traces in executions]
        last = len(keys) - 1
        missing = [
            at for at, key in enumerate(keys)
            if key not in (self.with_history if history and at == last else self.outcomes)
        ]  # fmt: skip
        if missing:
            history &= missing[-1] == last
            every = [executions[at] for at in missing]
            outcomes = self._simulate(every, slots, active, history=history, trunk=trunk)
            self.outcomes.update(zip((keys[at] for at in missing), outcomes))
            self.with_history.update(keys[last:] if history else ())
        return [self.outcomes[key] for key in keys]

    def _simulate(
        self, executions: Sequence[Sequence[ClusterTrace]], slots: int, active: int, cold: bool = False,
        history: bool = False, trunk: alike.Trunk | None = None,
    ) -> list[Outcome]:  # fmt: skip
        works: dict[int, list[WarpWork]] = {}
        for cluster in chain(*executions):
            if id(cluster) not in works:
                works[id(cluster)] = [
                    WarpWork(each.rank, each.warp, self.walker.follow(each)) for each in cluster.warps
                ]

        def create(history: bool) -> Simulation:
            return Simulation(
                self.machine, self.gpu, self.shares(active), self.members, self.cache, self.recording.products,
                self.image.code.registers, cold, history,
            )  # fmt: skip

        every = [[works[id(cluster)] for cluster in traces] for traces in executions]
        return alike.outcomes(create, every, slots, history, trunk)

    def run(
        self, cluster: ClusterTrace, count: int, slots: int, active: int | None = None, history: bool = True
    ) -> Run:
        """``count`` clusters of a kind on the slots of an SM; loops are extrapolated from their steady state if they
        reach one.

        ``active``: number of SMs with work; all that the grid fills if None; ``history`` as in `simulate`.
        """
        state = self._state(cluster)
        if state is not None:
            steady = self._steady(cluster, count, slots, active, state, history)
            if steady is not None:
                return steady
        (outcome,) = self.simulate([[cluster] * count], slots, active, history)
        return runs.whole(outcome, Sample((cluster,) * count, slots, active or self.active, outcome.cycles))

    def _state(self, cluster: ClusterTrace) -> steady_state.SteadyState | None:
        kind = _kind(cluster)
        if kind not in self.states:
            lines = {number: block.lines for number, block in self.recording.blocks.items()}
            self.states[kind] = steady_state.find(cluster, lines)
        return self.states[kind]

    def _steady(
        self, cluster: ClusterTrace, count: int, slots: int, active: int | None, state: steady_state.SteadyState,
        history: bool,
    ) -> Run | None:  # fmt: skip
        # ptxas merges several iterations into one of the machine code: only multiples of it are left out.
        first_line, last_line = state.lines
        copies = (block.copies for block in self.walker.blocks
                  if any(first_line <= line <= last_line for line in block.anchors or block.lines))  # fmt: skip
        period = lcm(state.period, *copies)
        where = f"the loop at PTX lines {state.lines[0]} to {state.lines[1]}"
        stretch = -(-_STRETCH // period) * period
        result = state.trips - state.most // period * period
        while result < _FIRST_KEPT:
            result += period
        why, trunk = f"{state.trips} iterations with a period of {period} are too few to leave any out", alike.Trunk()
        while result + 2 * stretch < state.trips:
            # One stretch later, start-up effects may be over; over twice the length, alternately fast and slow
            # iterations average out.
            for begin, length in ((result, stretch), (result + stretch, stretch), (result, 2 * stretch)):
                if begin + 2 * length >= state.trips:
                    continue
                traces = [steady_state.cut(cluster, state, state.trips - begin - n * length) for n in range(3)]
                try:
                    outcomes = self.simulate([[trace] * count for trace in traces], slots, active, history, trunk)
                except StalledForever:
                    self.note(f"{where} was simulated whole: without some of its iterations warps wait forever")
                    return None
                first, second = outcomes[1].cycles - outcomes[0].cycles, outcomes[2].cycles - outcomes[1].cycles
                end = begin + 2 * length
                since = 0 if length > stretch else 1  # the mean of both if they are uneven
                rate, further = (first + second) / 2 if since == 0 else second, (state.trips - end) / length
                error, total = abs(second - first) / (2 - since) * further, outcomes[2].cycles + rate * further
                if second >= length and error <= _AGREE * total:
                    self.note(
                        f"of {state.trips} iterations of {where} {end} were simulated: its iterations repeat with a "
                        f"period of {period}, and {length} more took {first:.0f} and then {second:.0f} cycles"
                    )
                    sample = Sample((traces[0],) * count, slots, active or self.active, outcomes[0].cycles)
                    more = (2 - since) * length
                    cycles = outcomes[2].cycles - outcomes[since].cycles
                    each = cycles / more / state.executions / max(1.0, count / slots)
                    return runs.extend(outcomes[since], outcomes[2], (state.trips - end) / more, each, end, sample)
            # As many again, without whole periods.
            result = state.trips - max(0, state.trips - 2 * (result + 2 * stretch)) // period * period
            why = "its iterations repeat, but not in the same time"
        self.note(f"{where} was simulated whole: {why}")
        return None

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    # -- the grid --------------------------------------------------------------------------------------------------

    def grid(self) -> tuple[float, Run]:
        """(cycles of the grid, the run of one full SM)."""
        kinds: dict[tuple, int] = {}
        for number, cluster in enumerate(self.recording.clusters):
            kinds.setdefault(_kind(cluster), number)
        if len(kinds) == 1:
            return self._even(self.recording.clusters[0])
        runs = {
            kind: self.run(self.recording.clusters[number], self.slots, self.slots) for kind, number in kinds.items()
        }
        spent = [runs[_kind(cluster)].cycles for cluster in self.recording.clusters]
        longest = max(runs.values(), key=lambda run: run.cycles)
        self.note(
            f"clusters do different work: of {self.clusters} the times of {len(spent)} were simulated, those of the "
            "others follow by interpolation along the axes of the grid"
        )
        kind = next(key for key, run in runs.items() if run is longest)
        durations = self.sampled.every(dict(zip(self.places, spent)))
        self.mean = float(durations.mean()) / longest.cycles
        return self._schedule(durations, self.recording.clusters[kinds[kind]], longest), longest

    def _even(self, cluster: ClusterTrace) -> tuple[float, Run]:
        rounds, rest = divmod(self.each, self.slots)
        full = self.run(cluster, self.slots, self.slots, self._sharing(self.clusters, self.slots))
        if rounds == 1 and not rest:
            return full.cycles, full
        steps = sum(full.outcome.issued.values())
        # CTAs that share an SM get out of step: the end of one overlaps with the beginning of another.
        if self.slots > 1 and rounds > 2 and steps * 3 <= _SIMULATED_AT_ONCE:
            shorter, longer = 2 * self.slots + rest, 3 * self.slots + rest
            if not full.per_iteration:
                self.simulate([[cluster] * shorter, [cluster] * longer], self.slots)
            two = self.run(cluster, shorter, self.slots, history=False)
            three = self.run(cluster, longer, self.slots)
            self.note(f"of {self.each} clusters an SM has {3 * self.slots + rest} were simulated one after the other; "
                      f"{self.slots} more took {three.cycles - two.cycles:.0f} cycles")  # fmt: skip
            return three.cycles + (rounds - 3) * (three.cycles - two.cycles), three
        # Waves: the last may leave SMs idle, and the active ones with a larger share of the memories.
        waves, rest = divmod(self.clusters, self.sets * self.slots)
        cycles, most = waves * full.cycles, -(-rest // self.sets)
        if rest:
            cycles += self.run(cluster, most, self.slots, self._sharing(rest, most), history=False).cycles
        self.note(f"the times of {waves + bool(rest)} waves are added, {self.sets * self.slots} clusters in each"
                  + (f" but the last, which has {rest}" if rest else ""))  # fmt: skip
        return cycles, full

    def _sharing(self, clusters: int, most: int) -> int:
        return grid_limits.sharing(clusters, most, self.members, self.active)

    def _schedule(self, durations: np.ndarray, cluster: ClusterTrace, run: Run) -> float:
        """End of the last cluster; each begins in order as soon as a slot is free.

        ``durations`` are of a full grid. In its tail SMs run out of work, and the others get more of L2 and DRAM:
        ``cluster``, whose full-grid run is ``run``, is simulated once more with the mean number of active SMs in the
        tail.
        """
        free = [0.0] * (self.sets * self.slots)
        for cycles in durations.transpose(2, 1, 0).reshape(-1)[self.order].tolist():
            heapq.heappush(free, heapq.heappop(free) + cycles)
        free.sort()
        first, last = free[0], free[-1]
        if last - first <= _TAIL * last:
            return last
        work = sum(end - first for end in free)
        active = max(1, round(work / (last - first) / self.slots))
        alone = self.run(cluster, self.slots, self.slots, min(self.active, active * self.members), history=False)
        faster = min(1.0, alone.cycles / run.cycles)
        self.note(f"on average {active * self.members} of {self.active} SMs have work in the last {last - first:.0f} "
                  f"cycles, which takes {faster:.0%} of the time that it would on all")  # fmt: skip
        return first + (last - first) * faster

    # -- one-time costs ----------------------------------------------------------------------------------------------

    def _first_fetch(self, run: Run, cycles: float) -> float:
        """Cycles that the first CTAs of an SM wait for their code, which is in DRAM when the launch begins, as the
        arrays are."""
        lines = len(self.machine.instructions) * INSTRUCTION_BYTES / CODE_LINE
        if (lines / PREFETCHED + 1) * self.gpu.latency["dram"] < _TAIL * cycles:
            return 0.0
        sample = run.sample
        (cold,) = self._simulate([sample.clusters], sample.slots, sample.active, cold=True)
        longer = max(0.0, cold.cycles - sample.cycles)
        self.note(f"code that comes from memory for the first time takes {longer:.0f} cycles more")
        return longer

    def _behind_locks(self, run: Run) -> float:
        """Cycles that the last of the contending CTAs waits for the critical sections of the others."""
        places = dict(zip(self.places, self.recording.clusters))
        sharing = min(locks.contenders(places, self.shape), self.sets * self.slots)
        result = [each.cycles for each in locks.sections(run.outcome)]
        if sharing <= 1 or not result:
            return 0.0
        # A waiting CTA polls: one trip to L2, and on average half of another, after the release.
        each = max(result) + 1.5 * self.gpu.latency["l2"]
        self.note(f"{sharing} CTAs at a time take one lock, each for {each:.0f} cycles: the last waits for the others")
        return (sharing - 1) * each

    def _limit(self, run: Run) -> grid_limits.Limit:
        """Lower bound of the cycles of the grid."""
        each = self._runs(run)
        servers = {unit: len(each.free) for unit, each in run.outcome.sms[0].units.items()}
        busy = {unit: cycles * each for unit, cycles in run.busy.items()}
        turns = contention.turns(dict(zip(self.places, self.recording.clusters)), self.shape)
        active, flops = run.sample.active, self._all_flops(run)
        return grid_limits.limit(busy, servers, flops, self.gpu, active, self.recording, turns)

    # -- reporting ---------------------------------------------------------------------------------------------------

    def estimate(self) -> Estimate:
        cycles, run = self.grid()
        cycles += self._first_fetch(run, cycles) + self._behind_locks(run)
        limit = self._limit(run)
        if limits := limit.cycles > cycles:
            self.note(f"{limit.note}: without that limit it would take {cycles:.0f} cycles")
        gpu = self.gpu
        outcome = run.outcome
        utilization = utilization_of(run.busy, run.cycles, outcome)
        over = {unit: share for unit, share in utilization.items() if share > _FULL}
        assert not over, f"units are busy for more than all of the time: {over}"
        mhz, cycles = gpu.sustained_mhz, max(cycles, limit.cycles)
        total_us = cycles / mhz + gpu.launch_microseconds
        needs = uncertainty.split(total_us, self._busy_microseconds(run), gpu.launch_microseconds)
        l2_bytes = run.busy.get("l2", 0.0) * self.shares(run.sample.active).l2 * self._runs(run)
        mhz = power.clock(needs, self._all_flops(run), l2_bytes, gpu)
        if mhz < gpu.sustained_mhz:
            self.note(f"at the board's power limit the clock is {mhz:.0f} MHz instead of {gpu.sustained_mhz:.0f}")
            needs = power.at(needs, mhz / gpu.sustained_mhz)
            total_us = needs.under(uncertainty.NEUTRAL)
            cycles = (total_us - gpu.launch_microseconds) * mhz
        teraflops = {key: work / total_us / 1e6 for key, work in self._all_flops(run).items()}
        doubts = doubt.doubts(self.walker.doubtful, teraflops, gpu)
        low, high = doubt.widen(uncertainty.interval(needs, gpu), doubts)
        phases, pipes = phases_of(outcome, mhz), fill_levels.pipes(outcome, mhz)
        total = sum(run.issued.values()) + sum(run.stalls.values())
        stalls = self._stalls(run, total)
        occupied = Occupied(
            self.slots, self.held.limit if self.slots == self.held.ctas else "the grid has no more CTAs",
            self.slots * self.warps, self.active, self.clusters / (self.sets * self.held.ctas),
        )  # fmt: skip
        return Estimate(
            entry=self.image.entry, gpu=gpu.name, cycles=cycles,
            microseconds=total_us, low=low, high=high, needs=needs, doubt=doubt.text(doubts), teraflops=teraflops,
            bound=limit.by if limits else bound_by(utilization, reasons_of(stalls)),
            bounds=shares_of_bounds(phases),
            utilization=utilization, stalls=stalls, issued=sum(run.issued.values()) / total if total else 0.0,
            occupancy=occupied, steady=self._steady_loop(run), phases=phases, pipes=pipes, notes=tuple(self.notes),
            drawing=drawing.drawing(outcome, self.machine.instructions, mhz, pipes),
        )  # fmt: skip

    def _runs(self, run: Run) -> float:
        """Runs that have the work of all clusters."""
        return self.clusters * self.mean / len(run.sample.clusters)

    def _all_flops(self, run: Run) -> dict[str, float]:
        """FLOP of the dots of all clusters, by the key of their type."""
        return {key: work * self._runs(run) for key, work in sorted(run.flops.items())}

    def _busy_microseconds(self, run: Run) -> dict[str, float]:
        """Unit -> time that its work of the whole grid takes, with all SMs that have work."""
        each = self._runs(run) / run.sample.active / self.gpu.sustained_mhz
        result: dict[str, float] = {}
        for unit, cycles in run.busy.items():
            title, servers = TITLES[unit], len(run.outcome.sms[0].units[unit].free)
            result[title] = max(result.get(title, 0.0), cycles * each / servers)
        sustained = grid_limits.power_cycles(self._all_flops(run), self.gpu, self.recording) / self.gpu.sustained_mhz
        result["tensor"] = max(result.get("tensor", 0.0), sustained)
        return result

    def _stalls(self, run: Run, total: float) -> tuple[Stall, ...]:
        rows = []
        for (index, reason), cycles in run.stalls.items():
            at = self.machine.instructions[index]
            rows.append(Stall(at.address, at.name, at.ptx_line, at.source, reason, cycles / total))
        return tuple(sorted(rows, key=lambda row: (-row.share, row.address, row.reason)))

    def _steady_loop(self, run: Run) -> SteadyLoop | None:
        if not run.per_iteration:
            return None
        result = [self._state(cluster) for cluster in self.recording.clusters]
        state = max((each for each in result if each is not None), key=lambda each: each.trips)
        # The warp that closes most iterations, and its last one.
        warp = max(run.outcome.warps, key=lambda each: (len(each.marks), -each.number))
        path: tuple[Link, ...] = ()
        if warp.marks:
            end = warp.marks[-1][1]
            begin = end - run.per_iteration * state.period
            path = drawing.critical_path(run.outcome, self.machine.instructions, begin, warp, end)
        return SteadyLoop(state.lines, state.trips, run.iterations, state.period, run.per_iteration, path)


def _kind(cluster: ClusterTrace) -> tuple:
    return sampling.kind_of(trace.visits for trace in cluster.warps)
