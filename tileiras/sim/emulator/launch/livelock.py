"""Livelock: no warp changes memory any more, and each repeats a state or waits, so that none ever ends.

A probe runs the groups in turn, a basic block at a time, and compares the state of each warp (places and registers of
its threads) with an earlier one. While no store and no atomic operation changes memory, and no instruction runs that
acts on anything else than registers, memory and barriers of threads, the next state of a warp follows from its own:
a barrier only delays it. If every warp has returned to an earlier state, or has waited since, in a time without
changes, all of them continue so in every order. Blocks that have not started might change memory, and so might copies
and products in flight, which no warp executes: a launch with either is not probed.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np

from ..errors import EmulationError
from ..order import waits
from ..ptx.decoder import _decoder_of
from .warps import DEAD, PARKED, WarpGroup, instruction_at

if TYPE_CHECKING:
    from ..memory.accesses import Access
    from ..ptx.module import Instruction
    from ..ptx.program import Block
    from .scheduler import Batch

FIRST_PROBE = 1 << 15
"""Instructions of warps before the first probe; each further one comes after as many again."""
FIRST_RECORDED = 1 << 20
"""The same with a recorder: a probe changes the order of warps."""
_ROUNDS = (64, 256, 1024)
"""Rounds of a probe from one state with which later ones are compared to the next."""

_QUIET = frozenset({
    "ld", "ldu", "st", "atom", "red", "ldmatrix", "movmatrix", "bra", "brx", "ret", "nanosleep", "bar.warp.sync",
    "bar", "barrier", "barrier.cluster.arrive", "barrier.cluster.wait", "membar", "fence", "mbarrier.test_wait",
    "mbarrier.try_wait", "griddepcontrol", "createpolicy", "prefetch", "prefetchu", "applypriority", "discard", "mov",
})  # fmt: skip
"""Instructions, besides those of arithmetic, whose effect beyond registers is a store or an atomic operation, which a
`Watch` observes, or a barrier of threads."""
_ASYNCHRONOUS = frozenset({"cp", "tcgen05", "wgmma"})
"""Opcodes of units that change memory, or complete phases of barriers, behind the instructions of warps; so do accesses
with the modifier `async`."""
_OUTSIDE = frozenset({"activemask", "red"})
"""Opcodes of arithmetic, and modifiers of barriers, whose results depend on the order or the values of other warps."""
_SHARED_SPACES = frozenset({"shared", "shared::cta", "shared::cluster", "local", "param", "const"})


class Watch:
    """Whether an access has changed memory since the watch began."""

    __slots__ = ("changed",)

    def __init__(self) -> None:
        self.changed = False

    def before_store(self, access: Access, values: np.ndarray) -> None:
        """A store of `values`, one per element of the access."""
        if not self.changed:
            self.changed = _bits(access.data[access.index]) != _bits(values)

    def after_update(self, access: Access, before: np.ndarray, previous: np.ndarray) -> None:
        """Atomic operations: the elements before the instruction, and those that its threads have seen."""
        if not self.changed:
            self.changed = _bits(before) != _bits(access.data[access.index]) or _bits(before) != _bits(previous)


def _bits(values: np.ndarray) -> bytes:
    return np.ascontiguousarray(values).tobytes()


class _Anchor:
    """A state of a group that later ones are compared with."""

    def __init__(self, group: WarpGroup) -> None:
        self.group = group
        self.places = _places(group)
        self.resume = None if group.resume is None else group.resume.copy()
        self.registers = list(group.R)
        self.has_run = np.zeros(group.n, bool)
        """Threads that have run since."""
        self.idle = np.zeros(group.n, bool)
        """Threads of warps that have returned to the state, without a step of their own."""
        self.open = np.ones(group.n // 32, bool)
        """Warps that have not returned to the state."""

    def compare(self) -> None:
        """Close the warps that are in the state again; called before and after each basic block of the group."""
        group, places = self.group, _places(self.group)
        same = (places == self.places) & (self.has_run | _waits(group, places))
        parked = places == PARKED
        if parked.any():
            same &= ~parked | (self.resume is not None and group.resume == self.resume)
        warps = self.open & same.reshape(-1, 32).all(1)
        for now, then in zip(group.R, self.registers):
            if now is then:
                continue
            if not warps.any():
                return
            warps &= _equal(now, then, group.n).reshape(-1, 32).all(1)
        self.open &= ~warps
        self.idle |= np.repeat(warps, 32) & ~self.has_run

    def has_returned(self) -> bool:
        """Whether all warps have been in the state again, and threads that had not run until then wait still."""
        leaving = self.idle & (self.has_run | ~_waits(self.group, _places(self.group)))
        if leaving.any():
            warps = leaving.reshape(-1, 32).any(1)
            self.open |= warps
            self.idle &= ~np.repeat(warps, 32)
        return not self.open.any()


def _waits(group: WarpGroup, places: np.ndarray) -> np.ndarray:
    """Threads that have ended, or wait: at a barrier, for a condition, for other lanes of their warp."""
    waits = places >= PARKED
    for place in np.unique(places[~waits]).tolist():
        collective = group.program.blocks[place].collective
        if collective is not None:
            lanes = places == place
            waits |= lanes & ~group.complete(collective, lanes)
    return waits


def _places(group: WarpGroup) -> np.ndarray:
    if group.pcs is not None:
        return group.pcs.copy()
    places = np.full(group.n, group.pc, np.int32)
    if group.live is not None:
        places[~group.live] = DEAD
    return places


def _equal(now: np.ndarray, then: np.ndarray, count: int) -> np.ndarray:
    """Whether a register has the same bits, by thread."""
    equal = now == then
    return np.broadcast_to(equal.all(-1) if equal.ndim == 2 else equal, (count,))


def _is_quiet(block: Block) -> bool:
    """Whether a block acts on nothing but registers, memory that a `Watch` observes, and barriers of threads."""
    return all(_acts_quietly(item) for item in block.instructions)


def _acts_quietly(item: Instruction) -> bool:
    if item.opcode in _OUTSIDE - {"red"} or item.opcode in ("bar", "barrier") and "red" in item.modifiers:
        return False
    decode, rest = _decoder_of(item)
    if decode is None or isinstance(decode, functools.partial):
        return decode is not None  # rows of `verbs` compute a register from others
    name = [item.opcode, *item.modifiers[: len(item.modifiers) - len(rest)]]
    return ".arithmetic." in decode.__module__ or ".".join(name) in _QUIET


def _has_unit(block: Block) -> bool:
    """Whether a block hands work to an asynchronous unit."""
    return any(item.opcode in _ASYNCHRONOUS or "async" in item.modifiers for item in block.instructions)


def probe(batch: Batch, waiting: list[WarpGroup]) -> None:
    """Run groups for some rounds; raises EmulationError if they are in a livelock."""
    launch = batch.launch
    blocks = launch.program.blocks
    if launch.waiting_blocks > launch.started_blocks or any(map(_has_unit, blocks)):
        return
    for rounds in _ROUNDS:
        anchors, counts = [_Anchor(group) for group in waiting], list(launch.block_counts)
        launch.watch = Watch()
        try:
            for _ in range(rounds):
                if not _advances(batch, anchors) or launch.watch.changed:
                    return
                ran = [block for block, now, then in zip(blocks, launch.block_counts, counts) if now != then]
                if not all(batch.quiet.setdefault(block.index, _is_quiet(block)) for block in ran):
                    return
                if all([anchor.has_returned() for anchor in anchors]) and ran:
                    raise _livelock(batch, waiting, ran)
        finally:
            launch.watch = None


def _advances(batch: Batch, anchors: list[_Anchor]) -> bool:
    """Run one basic block of each group; False if a group ends, or no thread can continue."""
    before, batch.moved = batch.launch.steps, False
    for anchor in anchors:
        batch.wake()
        anchor.compare()  # a thread that has been resumed has another place until its next step
        earlier = batch.launch.steps
        anchor.group.run(1)
        if anchor.group.done:
            return False
        if batch.launch.steps != earlier:
            anchor.has_run |= True if anchor.group.mask is None else anchor.group.mask
        anchor.compare()
    return batch.launch.steps != before or batch.moved


def _livelock(batch: Batch, waiting: list[WarpGroup], ran: list[Block]) -> EmulationError:
    items = [item for block in ran for item in block.instructions]
    polled = [item for item in items if item.opcode in ("ld", "atom") and _SHARED_SPACES.isdisjoint(item.modifiers)]
    item = next(iter(polled or items), None) or instruction_at(ran[0], batch.launch.program.blocks)
    group = next(group for group in waiting if (_places(group) < PARKED).any())
    thread = int((_places(group) < PARKED).argmax())
    return EmulationError(
        waits.deadlock(batch, waiting, "no warp changes the memory that others poll"),
        line=item.line,
        text=item.text,
        thread=tuple(int(v) for v in group.thread_ids()[:, thread]),
        block=waits.block_id(batch, int(group.cta[thread])),
    )
