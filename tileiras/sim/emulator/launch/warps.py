"""A group of warps that move together: the unit the scheduler advances and the instructions are vectorised over.

The threads of a group are the lanes of whole warps, possibly of several thread blocks. While they are converged,
``pcs`` is None and ``pc`` is their block; after divergence, ``pcs`` has a block number per thread, and the
lowest-numbered runnable block runs for its threads, so that threads reconverge where paths join. (LLVM's block layout
makes this the immediate post-dominator nearly always; in other cases, instructions that need the lanes of a warp
together wait for them, as the PTX ISA specifies for `.sync`.) With a recorder, which needs the events of a warp
together, `reconvergence` orders the blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from ..errors import EmulationError
from ..memory.accesses import RANK_BIT
from ..ptx.module import Instruction

if TYPE_CHECKING:
    from ..ptx.program import Block, Collective
    from .reconvergence import Meeting
    from .scheduler import Batch

#: Barrier number of threads that wait for their cluster (see `cluster`).
CLUSTER_BARRIER = 100
#: Barrier number of threads that wait for something else than a barrier (see `waits`).
WAITING = 101
#: SMs that the blocks of a launch are dealt to in turn, as many as an H100 has; in a random order, in pairs.
SMS = 132
#: Block numbers of waiting threads and of exited threads.
PARKED = 2**31 - 2
DEAD = 2**31 - 1

# Periodically the highest-numbered of the divergent paths runs: a thread that spins on a lock held by a later lane must
# not keep that lane from running (independent thread scheduling, sm_70 and later).
_FAIRNESS = 64
# Less often with a recorder, since it diverges threads whose operations a real warp executes together.
_RECORDED_FAIRNESS = 1 << 16


class WarpGroup:
    """``R`` is the register file, ``mask`` the threads a step applies to (None: all)."""

    __slots__ = (
        "R",
        "barrier",
        "bulk_groups",
        "cluster_phase",
        "cluster_waited",
        "penalty",
        "batch",
        "cta",
        "done",
        "lane",
        "launch",
        "live",
        "local",
        "mask",
        "n",
        "numbers",
        "pc",
        "pcs",
        "pending",
        "program",
        "resume",
        "selections",
        "shared_base",
        "sought",
        "thread",
        "times",
        "warp_cta",
        "warpgroup",
        "async_copies",
        "async_groups",
    )

    def __init__(self, batch: Batch, warps: np.ndarray) -> None:
        """``warps`` has a row (block's position in the batch, warp number in the block) per warp."""
        self.batch = batch
        self.launch = batch.launch
        self.program = batch.launch.program
        count = len(warps)
        self.n = count * 32
        self.warp_cta = warps[:, 0].astype(np.int64)
        self.cta = np.repeat(self.warp_cta, 32)
        self.lane = np.tile(np.arange(32, dtype=np.uint32), count)
        self.thread = (np.repeat(warps[:, 1].astype(np.int64), 32) * 32 + self.lane).astype(np.int64)
        live = self.thread < batch.launch.threads
        self.live: np.ndarray | None = None if live.all() else live
        self.shared_base = self.cta * batch.shared_stride
        self.local = np.full(self.n * batch.launch.local_stride, 0xCD, np.uint8)
        self.mask = self.live
        self.pc = 0
        self.pcs: np.ndarray | None = None
        self.resume: np.ndarray | None = None
        self.barrier: np.ndarray | None = None
        self.pending: list = []
        self.done = False
        self.selections = 0
        self.async_copies: list = []
        self.bulk_groups = np.zeros(self.n, np.int64)
        self.cluster_phase: np.ndarray | None = None  # by thread: the phase of the last arrival, of the last wait; -1
        self.cluster_waited: np.ndarray | None = None
        self.sought: dict[int, tuple[int, int]] = {}  # thread -> barrier and phase of its last unsuccessful test
        self.penalty = 0  # instructions to charge to the turn, for unsuccessful waits
        self.async_groups = np.zeros(1, np.int64)
        self.numbers: np.ndarray | None = None  # of its threads in the launch, and their clocks, for the race checker
        self.times: tuple[int, np.ndarray | None] = (-1, None)
        self.warpgroup = None  # state of `wgmma` of its warps
        self.R = list(batch.launch.registers)
        if batch.launch.members > 1:
            rank = (self.cta % batch.launch.members).astype(np.uint64) << np.uint64(RANK_BIT)
            for slot in self.program.shared_slots:
                self.R[slot] = self.R[slot] | (rank[:1] if (rank == rank[0]).all() else rank)
        self._fill_specials()

    # -- special registers -----------------------------------------------------------------------------------------

    def thread_ids(self) -> np.ndarray:
        """(3, n): x, y, z of every thread."""
        x, y, _ = self.launch.block
        return np.stack([self.thread % x, self.thread // x % y, self.thread // (x * y)])

    def _fill_specials(self) -> None:
        specials = self.program.specials
        if not specials:
            return
        launch = self.launch
        cluster = launch.cluster
        ctaid = self.batch.ctaid[:, self.cta]
        within = ctaid % np.array(cluster)[:, None]
        tids = self.thread_ids()
        vectors = {
            "%tid": tids,
            "%ntid": launch.block,
            "%ctaid": ctaid,
            "%nctaid": launch.grid,
            "%clusterid": ctaid // np.array(cluster)[:, None],
            "%nclusterid": [g // c for g, c in zip(launch.grid, cluster)],
            "%cluster_ctaid": within,
            "%cluster_nctaid": cluster,
        }
        warps = -(-launch.threads // 32)
        together = 1 if launch.random is None else 2
        bit = np.uint32(1) << self.lane
        below = bit - np.uint32(1)
        scalars = {
            "%laneid": self.lane,
            "%warpid": self.thread // 32,
            "%nwarpid": warps,
            "%smid": (ctaid[0] + launch.grid[0] * (ctaid[1] + launch.grid[1] * ctaid[2])) // together % SMS,
            "%nsmid": SMS,
            "%gridid": 1,
            "%lanemask_eq": bit,
            "%lanemask_lt": below,
            "%lanemask_le": below | bit,
            "%lanemask_gt": ~(below | bit),
            "%lanemask_ge": ~below,
            "%cluster_ctarank": within[0] + cluster[0] * (within[1] + cluster[1] * within[2]),
            "%cluster_nctarank": cluster[0] * cluster[1] * cluster[2],
            "%is_explicit_cluster": int(cluster != (1, 1, 1)),
            "%dynamic_smem_size": launch.dynamic_shared,
            "%total_smem_size": launch.shared_bytes,
            "%aggr_smem_size": launch.shared_bytes,
            "%reserved_smem_offset_begin": 0,
            "%perctamemoryoffset": self.batch.block_memory + self.cta * launch.block_memory,
        }
        for name, slot in specials.items():
            head, _, axis = name.partition(".")
            value = vectors[head]["xyz".index(axis)] if axis else scalars[name]
            value = np.atleast_1d(np.asarray(value))
            if value.size > 1 and (value == value[0]).all():
                value = value[:1]
            self.R[slot] = value.astype(self.R[slot].dtype)

    def clock(self, shift: int, storage: np.dtype) -> np.ndarray:
        return np.array([self.launch.steps >> shift & (1 << 8 * storage.itemsize) - 1], storage)

    # -- reading and writing ---------------------------------------------------------------------------------------

    def write(self, slot: int, value: np.ndarray) -> None:
        """Set a slot for the active threads; ``value`` in storage type."""
        mask = self.mask
        self.R[slot] = value if mask is None else np.where(mask, value, self.R[slot])

    def write_buffer(self, slot: int, offset: int, value: np.ndarray) -> None:
        """Set bytes from ``offset`` on of a parameter buffer for the active threads."""
        old = self.R[slot]
        raw = np.ascontiguousarray(value).view(np.uint8).reshape(value.size, -1)
        rows = max(len(raw), len(old)) if self.mask is None else self.n
        new = np.array(np.broadcast_to(old, (rows, old.shape[1])))
        if self.mask is None:
            new[:, offset : offset + raw.shape[1]] = raw
        else:
            raw = np.broadcast_to(raw, (rows, raw.shape[1]))
            new[self.mask, offset : offset + raw.shape[1]] = raw[self.mask]
        self.R[slot] = new

    def full(self, slot: int) -> np.ndarray:
        """A slot's value with one element per thread."""
        value = self.R[slot]
        return value if value.size == self.n else np.broadcast_to(value, (self.n,))

    def active(self) -> np.ndarray:
        """Numbers of the active threads."""
        return np.arange(self.n) if self.mask is None else np.flatnonzero(self.mask)

    def active_lanes(self) -> np.ndarray:
        """(warps, 32) bool: the active threads."""
        if self.mask is None:
            return np.ones((self.n // 32, 32), bool)
        return self.mask.reshape(-1, 32)

    def check_whole_warps(self, item: Instruction) -> None:
        """Check for instructions that are undefined once a thread of the warp has exited (PTX ISA, mma, ldmatrix,
        stmatrix)."""
        if self.mask is None:
            return
        lanes = self.active_lanes()
        short = lanes.any(1) & ~lanes.all(1)
        if short.any():
            first = int(short.argmax())
            self.fault("a thread of the warp has exited", item, 32 * first + int(lanes[first].argmax()))

    def fault(self, message: str, item: Instruction, thread: int | None = None, address: int | None = None) -> NoReturn:
        """Raise EmulationError at an instruction, for a thread of the group (the first active one when None)."""
        if thread is None:
            active = self.active()
            thread = int(active[0]) if active.size else 0
        raise EmulationError(
            message,
            line=item.line,
            text=item.text,
            thread=tuple(int(v) for v in self.thread_ids()[:, thread]),
            block=tuple(int(v) for v in self.batch.ctaid[:, self.cta[thread]]),
            address=address,
        )

    # -- control ---------------------------------------------------------------------------------------------------

    def goto(self, target: int) -> None:
        if self.pcs is None:
            self.pc = target
        else:
            self.pcs[self.mask] = target

    def branch(self, condition: np.ndarray, target: int, following: int) -> None:
        """Send the active threads to ``target`` where ``condition``, else to ``following``."""
        if condition.size == 1:
            self.goto(target if condition[0] else following)
            return
        if self.mask is not None:
            condition = condition & self.mask
        count = np.count_nonzero(condition)
        if count == 0:
            self.goto(following)
        elif count == (self.n if self.mask is None else np.count_nonzero(self.mask)):
            self.goto(target)
        else:
            if self.pcs is None:
                self._part()
            pcs = self.pcs
            if self.mask is None:
                pcs[:] = following
            else:
                pcs[self.mask] = following
            pcs[condition] = target

    def branch_many(self, targets: np.ndarray) -> None:
        """Send every active thread to its own block number."""
        if targets.size == 1:
            self.goto(int(targets[0]))
            return
        if self.pcs is None:
            self._part()
        self.pcs[:] = targets if self.mask is None else np.where(self.mask, targets, self.pcs)

    def _part(self) -> None:
        self.pcs = np.full(self.n, self.pc, np.int32)
        if self.live is not None:
            self.pcs[~self.live] = DEAD

    def exit(self) -> None:
        """End the active threads."""
        leaving = self.mask
        if self.pcs is None:
            self.done = True
            self._part()
            self.pcs[:] = DEAD
        else:
            self.pcs[leaving] = DEAD
        before = self.live
        self.live = np.zeros(self.n, bool) if leaving is None else (~leaving if before is None else before & ~leaving)
        self.done = not self.live.any()
        for copy in self.async_copies:
            copy.land(self, leaving)
        self.batch.threads_exit(self, leaving)

    def park(self, resume: int, barrier: np.ndarray) -> None:
        """Stop the active threads at a barrier (``barrier``: id per thread); they continue at block ``resume``."""
        if self.pcs is None:
            self._part()
        if self.resume is None:
            self.resume = np.zeros(self.n, np.int32)
            self.barrier = np.full(self.n, -1, np.int8)
        mask = slice(None) if self.mask is None else self.mask
        self.pcs[mask] = PARKED
        self.resume[mask] = resume
        self.barrier[mask] = np.broadcast_to(barrier, (self.n,))[mask]

    def unpark(self, lanes: np.ndarray) -> None:
        self.pcs[lanes] = self.resume[lanes]
        self.barrier[lanes] = -1

    def _select(self) -> int:
        """Choose the block to run next and set the mask; -1 when no thread can run."""
        pcs = self.pcs
        meeting = self.launch.meeting
        if meeting is not None and self.barrier is not None and not self.batch.apart:
            pcs = self._behind(pcs, meeting)
        lowest = int(pcs.min())
        if lowest >= PARKED:
            return -1
        if meeting is not None:
            lowest = meeting.first(pcs[pcs < PARKED])
        self.selections += 1
        if self.selections % (_FAIRNESS if self.launch.recorder is None else _RECORDED_FAIRNESS) == 0:
            candidates = np.unique(pcs[pcs < PARKED])[::-1].tolist()
        else:
            candidates = [lowest]
        mask = self._choose(candidates, pcs)
        if mask is None:
            mask = self._choose(np.unique(pcs[pcs < PARKED]).tolist(), pcs)
            if mask is None:
                return -1
        pc = int(pcs[int(mask.argmax())])
        self.mask = mask
        members = np.count_nonzero(mask)
        if members == (self.n if self.live is None else np.count_nonzero(self.live)):
            self.pcs = None
            self.pc = pc
            self.mask = self.live
        return pc

    def _behind(self, pcs: np.ndarray, meeting: Meeting) -> np.ndarray:
        """Places of threads, including parked ones at the reconvergence point of waiting threads of their warp: the
        hardware lets them continue together."""
        waiting = (pcs == PARKED) & (self.barrier == WAITING)
        if not waiting.any():
            return pcs
        ranks = meeting.ranks
        first = np.where(waiting, ranks[self.resume], len(ranks)).reshape(-1, 32).min(1)
        running = pcs < PARKED
        is_ahead = running & (ranks[np.where(running, pcs, 0)] > np.repeat(first, 32))
        return np.where(is_ahead, PARKED, pcs)

    def _choose(self, candidates: list[int], pcs: np.ndarray) -> np.ndarray | None:
        for candidate in candidates:
            mask = pcs == candidate
            collective = self.program.blocks[candidate].collective
            if collective is not None:
                mask = self.complete(collective, mask)
                if not mask.any():
                    continue
            return mask
        return None

    def complete(self, collective: Collective, mask: np.ndarray) -> np.ndarray:
        """The threads of ``mask`` whose warp (or member mask) has all of its live lanes in ``mask``."""
        here = mask.reshape(-1, 32)
        live = np.ones_like(here) if self.live is None else self.live.reshape(-1, 32)
        if collective.members is None:
            return (here & (here == live).all(1, keepdims=True)).reshape(-1)
        here_bits = np.packbits(here, axis=1, bitorder="little").view(np.uint32)
        live_bits = np.packbits(live, axis=1, bitorder="little").view(np.uint32)
        members = self.full(collective.members).reshape(-1, 32) & live_bits
        return mask & ((members & ~here_bits) == 0).reshape(-1)

    def run(self, budget: int) -> None:
        """Advance until no thread can continue, or ``budget`` instructions have been issued."""
        blocks = self.program.blocks
        launch = self.launch
        counts = launch.block_counts
        recorder = launch.recorder
        while budget > 0 and not self.done:
            if self.pcs is None:
                at = self.pc
                self.mask = self.live
            else:
                at = self._select()
                if at < 0:
                    return
            block = blocks[at]
            if recorder is not None:
                recorder.visit(self, block)
            for step in block.steps:
                step(self)
            mask = self.mask
            warps = self.n // 32 if mask is None else int(np.count_nonzero(mask.reshape(-1, 32).any(1)))
            counts[at] += warps
            length = len(block.instructions)
            budget -= length + self.penalty
            self.penalty = 0
            launch.steps += length * warps
            if launch.steps > launch.step_limit:
                self.fault(f"the step limit of {launch.step_limit} was reached", instruction_at(block, blocks))
            block.terminator(self)


def instruction_at(block: Block, blocks: Sequence[Block]) -> Instruction:
    """The first instruction of a block, or the next after it."""
    for each in blocks[block.index :]:
        if each.instructions:
            return each.instructions[0]
    return last_before(blocks, len(blocks))


def last_before(blocks: Sequence[Block], index: int) -> Instruction:
    """The last instruction before a block."""
    for block in reversed(blocks[:index]):
        if block.instructions:
            return block.instructions[-1]
    return Instruction("", [], [], None, 0, "")
