"""Launching: the argument list, batches of thread blocks, barriers, and the order in which groups of warps advance.

Thread blocks run in batches. Within a batch a group holds the warps of one number in all its blocks, without a seed all
warps; with `wgmma` a warp of one block, without a seed a warpgroup, which may be that of all blocks. The scheduler
advances groups in an order drawn from the seed, each until it blocks or for a number of instructions that is drawn as
well. The hardware may choose any such order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from random import Random
from typing import TYPE_CHECKING

import numpy as np

from ...blas import one_thread
from ...memory import distinct
from ..async_copies.barrier_objects import FarArrival, Initialised, check_arrivals_seen
from ..async_copies.landing import check_end
from ..async_copies.map_proxy import MapProxy
from ..errors import EmulationError
from ..memory.banks import BankCounter
from ..order import waits
from ..order.barrier import Barriers
from ..order.cluster import ClusterBarriers
from ..order.race_cells import SharedCells
from ..order.races import RaceChecker
from ..ptx.program import Program
from . import livelock
from .reconvergence import Meeting
from .recording import Recorder
from .warps import WarpGroup

if TYPE_CHECKING:
    from ...memory import Memory

#: Target number of threads per group: enough to amortise NumPy's call overhead, few enough to stay in a core's cache.
_GROUP_THREADS = 4096
# Instructions of a long turn: enough to run far ahead of the other warps, few enough for the holder of a lock on which
# the group spins to get its turn.
_TURN = 4096
_AHEAD = 512  # instructions of a turn of warps that run ahead of the others
_SHARED_BUDGET = 256 << 20
_LOCAL_BUDGET = 64 << 20


class Launch:
    """One kernel launch; ``threads`` is the number of threads of a block."""

    def __init__(
        self,
        program: Program,
        memory: Memory,
        grid: Sequence[int],
        block: Sequence[int],
        cluster: Sequence[int],
        dynamic_shared: int,
        parameters: bytes,
        seed: int | None,
        step_limit: int,
        check_uninitialised: bool,
        check_races: bool,
        count_bank_conflicts: bool,
        waived: frozenset[str] = frozenset(),
        recorder: Recorder | None = None,
        blocks: Sequence[int] | None = None,
        multiply: bool = True,
        leader: int = 0,
        compared: Callable[[int, np.ndarray], None] | None = None,
        ahead: int = 0,
        apart: bool = True,
    ) -> None:
        self.program = program
        self.memory = memory
        self.grid = grid
        self.block = block
        self.cluster = cluster
        self.members = cluster[0] * cluster[1] * cluster[2]
        self.threads = block[0] * block[1] * block[2]
        self.random = Random(seed) if seed is not None else None
        self.step_limit = step_limit
        self.check_uninitialised = check_uninitialised
        self.check_races = check_races
        self.waived = waived
        """Names of rules that are not checked (`rules.RULES`)."""
        self.recorder = recorder
        self.blocks = blocks
        """Positions of the blocks to run in the order of clusters; all if None."""
        self.multiply = multiply
        self.leader = leader
        """`elect.sync` elects the first lane from this one on, the same each time (PTX ISA, "elect.sync")."""
        self.compared = compared
        """Takes the line of each ordering comparison of integers, and the differences of its operands."""
        self.ahead = ahead
        """1: warps of low numbers run ahead of the others as far as they can; -1: those of high numbers; 0: none."""
        self.apart = apart
        """Whether groups of a launch with `wgmma` have one block each."""
        self.races: RaceChecker | None = None
        self.steps = 0
        self.next_probe = livelock.FIRST_PROBE if recorder is None else livelock.FIRST_RECORDED
        """Steps after which the next search for a livelock begins."""
        self.watch: livelock.Watch | None = None
        """Observes stores and atomic operations during a search."""
        self.fruitless_waits = 0
        self.banks = BankCounter() if count_bank_conflicts else None
        self.output: list[str] = []
        self.waiting_blocks = self.started_blocks = 0
        """(blocks to run, in order, without cancelled ones; blocks that have started)."""
        self.heap: set[int] = set()
        """Addresses returned by malloc and not freed."""
        self.maps = MapProxy()
        # Bytes of global memory of each block (`.minperctamemory`), in whole tensor maps.
        self.block_memory = -(-program.entry.directives.get("minperctamemory", (0,))[0] // 128) * 128
        self.block_counts = [0] * len(program.blocks)
        self.meeting: Meeting | None = Meeting(program.blocks) if recorder is not None else None
        """Reconvergence points like those of the hardware, for a recorder."""
        self.registers = list(program.registers)
        self.dynamic_shared = dynamic_shared
        start = program.shared_bytes
        if program.dynamic_align:
            start = -(-start // program.dynamic_align) * program.dynamic_align
        self.shared_bytes = start + dynamic_shared
        self.local_stride = -(-program.local_bytes // 16) * 16
        self._bind(parameters, start)

    def _bind(self, parameters: bytes, dynamic_start: int) -> None:
        """Initialise the slots whose values are known at launch."""
        program, registers = self.program, self.registers
        for slot, offset, storage in program.parameters:
            registers[slot] = np.frombuffer(parameters, storage, 1, offset)
        for slot, offset in program.dynamic_slots:
            registers[slot] = np.array([dynamic_start + offset], np.uint64)
        if program.parameter_addresses:
            data = np.frombuffer(parameters, np.uint8)
            base = self.memory.allocate(data, name="the kernel's parameters")
            for slot, offset in program.parameter_addresses:
                registers[slot] = np.array([base + offset], np.uint64)

    def bind_addresses(self, addresses: dict[str, int]) -> None:
        for slot, name, offset in self.program.addresses:
            self.registers[slot] = np.array([addresses[name] + offset], np.uint64)

    @one_thread()
    def run(self) -> None:
        warps = -(-self.threads // 32)
        size = _GROUP_THREADS // (32 if self.random is not None else 32 * warps)
        per_block = self.shared_bytes
        if self.check_races:
            members = warps * self.cluster[0] * self.cluster[1] * self.cluster[2]
            per_granule = SharedCells.BYTES + members * SharedCells.BYTES_PER_WARP
            per_block += self.shared_bytes // self.program.granule * per_granule
        size = min(size, _SHARED_BUDGET // per_block)
        size = max(1, min(size, _LOCAL_BUDGET // max(1, self.local_stride * self.threads)))
        per_cluster = self.cluster[0] * self.cluster[1] * self.cluster[2]
        size = max(per_cluster, size // per_cluster * per_cluster)
        order = self.order = _cluster_order(self.grid, self.cluster, self.blocks)
        total = order.shape[1]
        if self.check_races:
            self.races = RaceChecker(self, order)
        if self.program.cancels:
            size = per_cluster
        self.waiting_blocks = total
        with np.errstate(all="ignore"):
            start = 0
            while start < self.waiting_blocks:
                self.started_blocks = min(start + size, self.waiting_blocks)
                batch = Batch(self, order[:, start : start + size])
                if self.races is not None:
                    self.races.begin(batch, start)
                batch.run()
                start += size

    def cancel(self) -> tuple[int, int, int] | None:
        """The id of the first block of a cluster that will not be started, None if all have been started."""
        if self.waiting_blocks <= self.started_blocks:
            return None
        self.waiting_blocks -= self.members
        return tuple(int(axis) for axis in self.order[:, self.waiting_blocks])


def _cluster_order(
    grid: Sequence[int], cluster: Sequence[int], blocks: Sequence[int] | None = None
) -> np.ndarray:  # fmt: skip
    """(3, blocks): the block ids, the blocks of a cluster next to each other in rank order; those at the positions
    ``blocks`` of that order, or all."""
    clusters = [g // c for g, c in zip(grid, cluster)]
    numbers = np.arange(prod(grid)) if blocks is None else np.array(blocks, dtype=np.int64)
    gz, gy, gx, cz, cy, cx = np.unravel_index(numbers, (*clusters[::-1], *cluster[::-1]))
    return np.stack([gx * cluster[0] + cx, gy * cluster[1] + cy, gz * cluster[2] + cz])


class Batch:
    """Thread blocks that are resident together; ``ctaid`` is (3, blocks)."""

    def __init__(self, launch: Launch, ctaid: np.ndarray) -> None:
        self.launch = launch
        self.ctaid = ctaid
        self.count = ctaid.shape[1]
        self.shared_stride = -(-launch.shared_bytes // 128) * 128
        self.shared = np.full(self.count * self.shared_stride, 0xCD, np.uint8)
        self.shared_written = np.zeros(self.shared.size, bool) if launch.check_uninitialised else None
        self.block_memory = 0
        """Address of the global memory of the first block; the others' follow."""
        if launch.block_memory:
            self.block_memory = launch.memory.allocate(self.count * launch.block_memory, name="per-CTA memory")
        warps = -(-launch.threads // 32)
        every = np.stack([np.tile(np.arange(self.count), warps), np.repeat(np.arange(warps), self.count)], axis=1)
        # Diverged warps may rename a warpgroup's accumulators in flight by moves, each warp separately.
        apart = every[:, 0] * (launch.program.moves_in_flight and launch.apart)
        together = every[:, 1] if launch.random is not None else every[:, 1] // 4 * launch.program.moves_in_flight
        names = together * self.count + apart
        self.groups = [WarpGroup(self, every[names == name]) for name in distinct(names).tolist()]
        self.live_threads = np.full(self.count, launch.threads)
        self.barriers = Barriers(self)
        self.cluster_barriers = ClusterBarriers(self)
        self.bulk_copies: list = []
        self.waits: list[waits.Wait] = []
        self.arrivals = waits.Arrivals()
        self.far_arrivals: dict[tuple[int, int], FarArrival] = {}
        """Arrivals at barriers of other blocks, by that block's position and the thread."""
        self.moved = False  # an asynchronous operation has made progress, though no warp has issued an instruction
        self.apart = False
        """Whether threads continue without waiting threads of their warp: all of them waited for each other."""
        self.initialised: dict[int, Initialised] = {}  # mbarriers, by their element of shared memory
        self.unfenced_barriers: dict[int, Initialised] = {}
        """Those not yet visible to the asynchronous proxy."""
        self.known_initialised: set[tuple[int, WarpGroup, int]] = set()
        """(barrier, thread of a group) for threads ordered after its initialisation."""
        self.quiet: dict[int, bool] = {}
        """By basic block: whether it may be part of a livelock (`livelock`)."""
        self.units: dict[str, object] = {}
        """State of units that only some instructions use, by name."""
        self.ended_warps = np.zeros((self.count, warps), bool)
        self.on_warp_end: list[Callable[[WarpGroup, int, int], None]] = []
        """Callbacks for the block (position in the batch) and number of a warp all of whose threads have exited."""
        self.on_block_end: list[Callable[[WarpGroup, np.ndarray], None]] = []
        """Callbacks for ended blocks (positions in the batch), with the group of the last threads."""
        self.matrices: dict[tuple, np.ndarray] = {}
        """Units of shared memory of the matrices named by descriptors of `wgmma`, by shape, descriptor and block."""
        self.warpgroup_operands: dict = {}  # operands in shared memory of one dot, read for a warpgroup

    def threads_exit(self, group: WarpGroup, leaving: np.ndarray | None) -> None:
        cta = group.cta if leaving is None else group.cta[leaving]
        for row in np.flatnonzero(~group.live.reshape(-1, 32).any(1)).tolist():
            block, warp = int(group.warp_cta[row]), int(group.thread[row * 32]) // 32
            if not self.ended_warps[block, warp]:
                self.ended_warps[block, warp] = True
                for tell_warp in self.on_warp_end:
                    tell_warp(group, block, warp)
        before = self.live_threads > 0
        self.live_threads -= np.bincount(cta, minlength=self.count)
        ended = np.flatnonzero(before & (self.live_threads == 0))
        if ended.size:
            check_end(self, ended)
            check_arrivals_seen(self, ended)
            for tell in self.on_block_end:
                tell(group, ended)
        if self.launch.races is not None:
            self.launch.races.clocks.exit(group)
        self.barriers.release()
        self.cluster_barriers.complete()

    def run(self) -> None:
        random = self.launch.random
        waiting = self.groups[:: -1 if self.launch.ahead < 0 else 1]
        while waiting:
            before = self.launch.steps
            if random is not None and not self.launch.ahead:
                random.shuffle(waiting)
            self.moved = False
            for group in waiting:
                self.wake()
                if not self.launch.ahead:
                    group.run(_TURN if random is None or random.random() < 0.5 else random.randrange(1, 300))
                elif self._runs_ahead(group):
                    break
            waiting = [group for group in waiting if not group.done]
            if waiting and self.launch.steps == before and not self.moved:
                if self.launch.meeting is not None and not self.apart:
                    self.apart = True
                    continue
                raise EmulationError(waits.deadlock(self, waiting))
            if waiting and self.launch.steps >= self.launch.next_probe:
                self.launch.next_probe = 2 * self.launch.steps
                livelock.probe(self, waiting)
                waiting = [group for group in waiting if not group.done]
        # Copies without a wait land at the end of the batch, the last one first, since their order is undefined
        # (`bulk_copy`).
        for copy in reversed(self.bulk_copies):
            copy.land(self)

    def _runs_ahead(self, group: WarpGroup) -> bool:
        """Whether the groups behind this one, which made progress, have no turn yet; they have one at times, since it
        may spin on what one of them does."""
        before = self.launch.steps
        group.run(_AHEAD)
        return self.launch.steps != before and self.launch.random.random() < 0.9

    def wake(self) -> None:
        """Resume the threads whose conditions are met."""
        if self.waits:
            woken = [wait.wake() for wait in list(self.waits)]
            self.moved |= any(woken)
            self.waits = [wait for wait in self.waits if wait.lanes.any()]
