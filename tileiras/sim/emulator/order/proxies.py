"""Ordering of the generic and the asynchronous proxy (PTX ISA, "Proxies", "Causality Order").

Accesses of threads through the generic proxy happen before those of the asynchronous one (bulk copies, `wgmma` and the
like) only if a `fence.proxy.async` lies between both: in the first thread before its release, or in the second after
its acquire. This applies to

- writes, which the asynchronous proxy reads or overwrites;
- reads of shared memory, which it overwrites.

The other direction needs no fence: waiting for the completion of the asynchronous operation suffices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..ptx.module import Instruction

if TYPE_CHECKING:
    from ..launch.scheduler import Batch
    from ..launch.warps import WarpGroup
    from ..memory.accesses import Access
    from .races import RaceChecker

_SEVERAL = 32  # instead of a lane, see `races.SharedCells`
_MISSING = "no fence.proxy.async between"


class Fencing:
    """The threads of a group that run a fence, and the accesses that it covers."""

    def __init__(self, races: RaceChecker, group: WarpGroup) -> None:
        self.clocks = races.clocks
        self.group = group
        active = group.active_lanes()
        self.warps = np.flatnonzero(active.any(1))
        self.leaders = group.numbers[self.warps * 32 + active[self.warps].argmax(1)]
        together = active[self.warps].all(1)
        whole = -2 - (self.leaders[together] >> 5)
        self.own = np.concatenate([group.numbers[group.active()], whole])
        self.parted = self._note_parts(races, active) if not together.all() else {}
        """Warps whose lanes have each run a fence, not all together -> the clock up to which it covers all lanes."""

    def _note_parts(self, races: RaceChecker, active: np.ndarray) -> dict[int, int]:
        """Record the fences of warps that run them lane by lane, as after a branch of one lane."""
        found = {}
        for position in self.warps.tolist():
            lanes = active[position]
            if lanes.all():
                continue
            warp = int(self.group.numbers[position * 32]) >> 5
            times = races.proxy_fences.setdefault(warp, np.zeros(32, np.int64))
            times[lanes] = self.clocks.own[warp - self.clocks.first]
            found[warp] = int(times.min())
        # Later reads of these lanes, before the other lanes run the fence, are not covered by it.
        self.clocks.advance(self.clocks.rows(self.group))
        return found

    def covers(self, others: np.ndarray, times: np.ndarray, blocks: np.ndarray) -> np.ndarray:
        """Whether accesses by ``others`` at their ``times`` are by these threads or happen before them; ``blocks``:
        positions in the batch of the blocks whose fences count, or -1 for any block."""
        done = np.isin(others, self.own)
        for warp, time in self.parted.items():
            done |= (others == -2 - warp) & (times <= time)
        if not done.all():
            # A fence of a single lane also covers the accesses of its own warp that it has seen.
            for leader, cta in zip(self.leaders.tolist(), self.group.warp_cta[self.warps].tolist()):
                at = np.flatnonzero(~done & ((blocks == cta) | (blocks < 0)))
                at = at[others[at] != leader]
                if at.size:
                    leaders = np.full(at.size, leader, np.int64)
                    done[at] = ~self.clocks.unordered(leaders, others[at].astype(np.int64), times[at])
        return done


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
                    covered = fencing.covers(writes.writer[cells], writes.clock[cells], np.full(cells.size, -1))
                    writes.unfenced[cells[covered]] = False


def _fence_shared(races: RaceChecker, group: WarpGroup, fencing: Fencing) -> None:
    state, stride = races.shared, group.batch.shared_stride
    cells = np.flatnonzero(state.unfenced)
    if cells.size:
        blocks = cells * races.granule // stride
        state.unfenced[cells[fencing.covers(state.writer[cells], state.clock[cells], blocks)]] = False
    if state.unfenced_reads is None:
        return
    flat = np.flatnonzero(state.unfenced_reads)
    if flat.size:
        cells, columns = np.divmod(flat, state.width)
        covered = fencing.covers(readers(races, group.batch, cells, columns), state.read_clock.reshape(-1)[flat],
                                 cells * races.granule // stride)  # fmt: skip
        state.unfenced_reads.reshape(-1)[flat[covered]] = False


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
    found = state.unfenced_reads[cells]
    if found.any():
        at, column = (int(each[0]) for each in np.nonzero(found))
        cell = cells[at]
        other = int(readers(races, group.batch, np.array([cell]), np.array([column]))[0])
        code = int(state.read_code[cell, column])
        races.report(group, item, access, int(cell), int(threads[at]), other, code, "read", missing=_MISSING)


def _check_writes(races: RaceChecker, group: WarpGroup, item: Instruction, access: Access) -> None:
    state, cells, threads = races.granules(group, access)
    writes = state if access.shared or state is None else state.writes
    if writes is None or writes.unfenced is None:
        return
    places = writes.places(cells)
    bad = np.flatnonzero(writes.unfenced[places])
    if not bad.size:
        return
    place = int(places[bad[0]])
    code = int(writes.code[place])
    if "async-proxy" in group.launch.waived and races.items[code >> 3].opcode == "cp":
        return
    cell, thread = int(cells[bad[0]]), int(threads[bad[0]])
    races.report(group, item, access, cell, thread, int(writes.writer[place]), code, "written", missing=_MISSING)
