"""Ordering of the generic and the asynchronous proxy (PTX ISA, "Proxies", "Causality Order").

Accesses of threads through the generic proxy happen before those of the asynchronous one (bulk copies, `wgmma` and the
like) only if a `fence.proxy.async` lies between both: in the first thread before its release, or in the second after
its acquire. This applies to

- writes, which the asynchronous proxy reads or overwrites;
- reads of shared memory, which it overwrites.

The other direction needs no fence: waiting for the completion of the asynchronous operation suffices.

Each access has the number of a set of fences that cover it: 0 if it needs no fence, 1 for the empty set, others are
positions in `Fences.sets`. An access of the asynchronous proxy must come behind one of these fences by happens-before:
a fence behind the release that orders the two accesses does not lie between them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..ptx.module import Instruction
from .knowledge import spread, warp_of

if TYPE_CHECKING:
    from ..launch.scheduler import Batch
    from ..launch.warps import WarpGroup
    from ..memory.accesses import Access
    from .happens_before import Clocks
    from .races import RaceChecker

_SEVERAL = 32  # instead of a lane, see `races.SharedCells`
_MISSING = "no fence.proxy.async between"


class Event(NamedTuple):
    """A fence at the clock of its warp: `warp` is -1 for one by the thread of the covered access itself; `thread` is -1
    for one by all lanes of the warp; each lane covers the access."""

    warp: int
    thread: int
    clock: int

    def precedes(self, clocks: Clocks, thread: int) -> bool:
        """Whether a thread's present access or fence comes behind this fence, which is not of the access itself."""
        if self.thread == thread or self.thread < 0 and self.warp == thread >> 5:
            return True
        if self.thread < 0:
            return clocks.one_knows([thread], list(clocks.lanes_of(self.warp)), self.clock)
        return not _unseen(clocks, thread, np.array([self.thread]), self.clock)[0]


class Fences:
    """The sets of fences that cover accesses of a launch."""

    def __init__(self) -> None:
        self.sets: list[tuple[Event, ...]] = [(), ()]
        self._numbers: dict[tuple[Event, ...], int] = {}

    def number(self, events: tuple[Event, ...]) -> int:
        result = self._numbers.get(events)
        if result is None:
            result = self._numbers[events] = len(self.sets)
            self.sets.append(events)
        return result


def _unseen(clocks: Clocks, thread: int, others: np.ndarray, times: np.ndarray | int) -> np.ndarray:
    """Whether operations of `others` (-2-w: all lanes of warp w) at `times` do not happen before a thread's present."""
    others = others.astype(np.int64)
    unseen = np.zeros(others.size, bool)
    (at,) = ((others != thread) & (others != -2 - (thread >> 5))).nonzero()
    if at.size:
        limits = times[at] if isinstance(times, np.ndarray) else np.full(at.size, times)
        unseen[at] = clocks.unordered(np.full(at.size, thread, np.int64), others[at], limits)
    return unseen


class Fencing:
    """The threads of a group that run a fence, and the accesses that it covers."""

    def __init__(self, races: RaceChecker, group: WarpGroup) -> None:
        self.clocks, self.fences = races.clocks, races.fences
        self.group = group
        active = group.active_lanes()
        self.warps = np.flatnonzero(active.any(1))
        self.leaders = group.numbers[self.warps * 32 + active[self.warps].argmax(1)]
        self.together = active[self.warps].all(1)
        whole = -2 - (self.leaders[self.together] >> 5)
        self.own = np.concatenate([group.numbers[group.active()], whole])
        self.times = self.clocks.own[(self.leaders >> 5) - self.clocks.first]
        self.parted = self._note_parts(races, active) if not self.together.all() else {}
        """Warps whose lanes have each run a fence, not all together -> the clock up to which it covers all lanes."""

    def _note_parts(self, races: RaceChecker, active: np.ndarray) -> dict[int, int]:
        """Record the fences of warps that run them lane by lane, as after a branch of one lane."""
        parts = {}
        for position in self.warps.tolist():
            lanes = active[position]
            if lanes.all():
                continue
            warp = int(self.group.numbers[position * 32]) >> 5
            times = races.proxy_fences.setdefault(warp, np.zeros(32, np.int64))
            times[lanes] = self.clocks.own[warp - self.clocks.first]
            parts[warp] = int(times.min())
        # Later reads of these lanes, before the other lanes run the fence, are not covered by it.
        self.clocks.advance(self.clocks.rows(self.group))
        return parts

    def cover(self, numbers: np.ndarray, others: np.ndarray, times: np.ndarray, blocks: np.ndarray) -> np.ndarray:
        """The numbers of accesses by ``others`` at their ``times`` with this fence; ``blocks``: positions in the batch
        of the blocks whose fences count, or -1 for any block."""
        changes = np.zeros(numbers.size, bool)
        changes[0] = True
        for column in (numbers, others, times, blocks):
            changes[1:] |= column[1:] != column[:-1]
        starts = np.flatnonzero(changes)
        columns = [column[starts].astype(np.int64) for column in (numbers, others, times, blocks)]
        first, inverse = _distinct(columns)
        with_fence = self._cover(*(column[first] for column in columns))[inverse]
        return spread(with_fence, starts, numbers.size)

    def _cover(self, numbers: np.ndarray, others: np.ndarray, times: np.ndarray, blocks: np.ndarray) -> np.ndarray:
        added: defaultdict[int, list[Event]] = defaultdict(list)  # by row; most rows are behind other fences already
        clock_of = dict(zip((self.leaders >> 5).tolist(), self.times.tolist()))
        for at in np.flatnonzero(np.isin(others, self.own)).tolist():
            if not any(event.warp == -1 for event in self.fences.sets[numbers[at]]):
                added[at].append(Event(-1, -1, clock_of[int(warp_of(others[at : at + 1])[0])]))
        events_by_number = {number: self.fences.sets[number] for number in np.unique(numbers).tolist()}
        for leader, cta, clock, together in zip(
            self.leaders.tolist(), self.group.warp_cta[self.warps].tolist(), self.times.tolist(), self.together.tolist()
        ):
            event = Event(leader >> 5, -1 if together else leader, clock)
            at = np.flatnonzero((blocks == cta) | (blocks < 0))
            behind = [n for n, events in events_by_number.items() if self._is_behind(events, leader)]
            if behind:
                open_sets = np.ones(len(self.fences.sets), bool)
                open_sets[behind] = False
                at = at[open_sets[numbers[at]]]
            if not at.size:
                continue
            covered = ~_unseen(self.clocks, leader, others[at], times[at])
            covered &= others[at] != -2 - event.warp if not together else True
            if event.warp in self.parted:
                covered |= (others[at] == -2 - event.warp) & (times[at] <= self.parted[event.warp])
            for position in at[covered].tolist():
                added[position].append(event)
        result = numbers.astype(np.int32)
        for at, events in added.items():
            result[at] = self.fences.number((*self.fences.sets[numbers[at]], *events))
        return result

    def _is_behind(self, events: tuple[Event, ...], leader: int) -> bool:
        """Whether a fence by the leader is behind one of these, and so orders nothing more."""
        return any(event.warp >= 0 and event.precedes(self.clocks, leader) for event in events)


def _distinct(columns: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Rows in lexicographic order without repetitions, as the position of the first of each, and the place in them of
    every row."""
    # One number for a row sorts faster than rows do; columns without gaps keep it small.
    keys = np.zeros(columns[0].size, np.int64)
    for column in columns:
        least, most = int(column.min()), int(column.max())
        if (int(keys.max()) + 1) * (most - least + 1) >= 1 << 63:
            keys = np.unique(keys, return_inverse=True)[1].reshape(-1)
        keys = keys * (most - least + 1) + (column - least)
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    return first, inverse.reshape(-1)


def fence(races: RaceChecker, group: WarpGroup, shared: bool, everywhere: bool) -> None:
    """The active threads run `fence.proxy.async` for shared memory, global memory or both."""
    fencing = Fencing(races, group)
    if shared and races.shared is not None:
        _fence_shared(races, group, fencing)
    if everywhere:
        for _, state in races.allocations.values():
            writes = state.writes
            if writes is not None and writes.unfenced is not None:
                cells = np.flatnonzero(writes.unfenced)
                if cells.size:
                    writes.unfenced[cells] = fencing.cover(
                        writes.unfenced[cells], writes.writer[cells], writes.clock[cells], np.full(cells.size, -1)
                    )


def _fence_shared(races: RaceChecker, group: WarpGroup, fencing: Fencing) -> None:
    state, stride = races.shared, group.batch.shared_stride
    cells = np.flatnonzero(state.unfenced)
    if cells.size:
        blocks = cells * races.granule // stride
        state.unfenced[cells] = fencing.cover(state.unfenced[cells], state.writer[cells], state.clock[cells], blocks)
    if state.unfenced_reads is None:
        return
    flat = np.flatnonzero(state.unfenced_reads)
    if flat.size:
        cells, columns = np.divmod(flat, state.width)
        numbers = state.unfenced_reads.reshape(-1)
        numbers[flat] = fencing.cover(numbers[flat], readers(races, group.batch, cells, columns),
                                      state.read_clock.reshape(-1)[flat], cells * races.granule // stride)  # fmt: skip


def _uncovered(races: RaceChecker, numbers: np.ndarray, others: np.ndarray, threads: np.ndarray) -> np.ndarray:
    """Positions of accesses by ``others`` without a fence between them and the present access of ``threads``."""
    at = np.flatnonzero(numbers)
    bad = np.zeros(numbers.size, bool)
    if not at.size:
        return at
    pairs, inverse = np.unique(numbers[at].astype(np.int64) << 32 | threads[at], return_inverse=True)
    for row, pair in enumerate(pairs.tolist()):
        thread, those = pair & 0xFFFFFFFF, at[inverse.reshape(-1) == row]
        bad[those] = True
        for event in races.fences.sets[pair >> 32]:
            if event.warp < 0:
                bad[those] &= _unseen(races.clocks, thread, others[those], event.clock)
            elif event.precedes(races.clocks, thread):
                bad[those] = False
            if not bad[those].any():
                break
    return np.flatnonzero(bad)


def readers(races: RaceChecker, batch: Batch, cells: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """The threads that read granules last, one for each column of a warp: -2-w for several lanes of warp w."""
    clusters = cells * races.granule // (batch.shared_stride * races.clocks.members)
    warps = races.clocks.first + clusters * races.clocks.width + columns
    lanes = races.shared.read_lane[cells, columns]
    return np.where(lanes == _SEVERAL, -2 - warps, warps * 32 + lanes)


def check_read(races: RaceChecker, group: WarpGroup, item: Instruction, access: Access) -> None:
    """Check that data read by the asynchronous proxy was written through it, or is covered by a fence."""
    _check_writes(races, group, item, access)


def check_overwrite(races: RaceChecker, group: WarpGroup, item: Instruction, access: Access) -> None:
    """Check that data overwritten by the asynchronous proxy was not written, or in shared memory read, through the
    generic one without a later fence."""
    if "async-overwrite" in group.launch.waived:
        return
    _check_writes(races, group, item, access)
    state, cells, threads = races.granules(group, access)
    if not access.shared or state.unfenced_reads is None:
        return
    at, columns = np.nonzero(state.unfenced_reads[cells])
    if not at.size:
        return
    others = readers(races, group.batch, cells[at], columns)
    bad = _uncovered(races, state.unfenced_reads[cells[at], columns], others, threads[at])
    if bad.size:
        first, column = int(at[bad[0]]), int(columns[bad[0]])
        cell = int(cells[first])
        code = int(state.read_code[cell, column])
        races.report(group, item, access, cell, int(threads[first]), int(others[bad[0]]), code, "read",
                     missing=_MISSING)  # fmt: skip


def _check_writes(races: RaceChecker, group: WarpGroup, item: Instruction, access: Access) -> None:
    state, cells, threads = races.granules(group, access)
    writes = state if access.shared or state is None else state.writes
    if writes is None or writes.unfenced is None:
        return
    places = writes.places(cells)
    bad = _uncovered(races, writes.unfenced[places], writes.writer[places], threads)
    if not bad.size:
        return
    place = int(places[bad[0]])
    code = int(writes.code[place])
    if "async-proxy" in group.launch.waived and races.items[code >> 3].opcode == "cp":
        return
    cell, thread = int(cells[bad[0]]), int(threads[bad[0]])
    races.report(group, item, access, cell, thread, int(writes.writer[place]), code, "written", missing=_MISSING)
