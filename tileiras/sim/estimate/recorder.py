"""Records a launch: the emulator runs some clusters of the grid and reports the events of their warps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tileiras.sim.emulator.launch.recording import Commit, Copy, Multiply, warp_parts
from tileiras.sim.emulator.memory.accesses import LOCAL_WINDOW, SHARED_WINDOW, WINDOW_END
from tileiras.sim.estimate.events import (
    Access,
    Allocation,
    ClusterTrace,
    Event,
    PtxBlock,
    Recording,
    ThreadCopy,
    WarpTrace,
)

if TYPE_CHECKING:
    from tileiras.sim.emulator.launch.recording import Operation
    from tileiras.sim.emulator.launch.warps import WarpGroup
    from tileiras.sim.emulator.ptx.module import Instruction
    from tileiras.sim.emulator.ptx.program import Block


_BRANCHES = ("bra", "brx", "ret", "exit", "call")


class TraceRecorder:
    """A `sim.emulator.launch.recording.Recorder` that stores events by warp."""

    def __init__(self) -> None:
        self.blocks: dict[int, PtxBlock] = {}
        self.clusters: list[ClusterTrace] = []
        self.products: dict[int, Multiply] = {}
        self._groups: dict[int, list[WarpTrace]] = {}
        self._batches: dict[int, dict[tuple[int, int], WarpTrace]] = {}
        self._seen: list[object] = []  # keeps groups and batches alive, so that their ids stay unique
        self._launch: Any = None
        self._asynchronous = False

    def visit(self, group: WarpGroup, block: Block) -> None:
        traces = self._groups.get(id(group)) or self._begin(group)
        number = block.index
        if number not in self.blocks:
            lines = tuple(item.line for item in block.instructions)
            ends = bool(lines) and block.instructions[-1].opcode in _BRANCHES
            self.blocks[number] = PtxBlock(number, lines, lines[-1] if ends else 0, _jump_behind(block))
        mask = group.mask
        if mask is None:
            for trace in traces:
                trace.visits.append(number)
                trace.lanes.append(32)
            return
        counts = mask.reshape(-1, 32).sum(1).tolist()
        for trace, count in zip(traces, counts):
            if count:
                trace.visits.append(number)
                trace.lanes.append(count)

    def access(self, group: WarpGroup, item: Instruction, space: str, addresses: np.ndarray, size: int,
               threads: np.ndarray, write: bool, atomic: bool = False) -> None:  # fmt: skip
        if not threads.size:
            return
        places, lanes = addresses.astype(np.int64), threads & 31
        traces = self._groups[id(group)]
        if space == "generic" and len(spaces := _spaces(places)) == 1:
            ((_, space, base),) = spaces
            places -= base
        for warp, part in warp_parts(threads):
            trace, at = traces[warp], places[part]
            if space == "generic":
                for inside, where, base in _spaces(at):
                    offsets = at[inside] - base
                    self._access(trace, item, Access(where, offsets, lanes[part][inside], size, write, atomic))
            else:
                self._access(trace, item, Access(space, at, lanes[part], size, write, atomic))

    def product(self, item: Instruction, product: Multiply) -> None:
        self.products[item.line] = product

    def operation(self, group: WarpGroup, item: Instruction, thread: int, operation: Operation) -> None:
        trace = self._groups[id(group)][thread // 32]
        if isinstance(operation, Copy | Commit) and operation.kind in ("tensor", "bulk"):
            # The machine has one such instruction per warp: equal requests of all lanes are executed once.
            entry = trace.events.get(len(trace.visits) - 1)
            if entry and entry[-1].line == item.line and _same(entry[-1].operation, operation):
                return
        if isinstance(operation, Copy) and operation.kind == "cp.async":
            operation = ThreadCopy(*operation)
        self._asynchronous |= isinstance(operation, Multiply)
        self._add(trace, item, operation)

    def _access(self, trace: WarpTrace, item: Instruction, access: Access) -> None:
        if access.atomic:
            trace.updates.append(access)
        self._add(trace, item, access)

    def _add(self, trace: WarpTrace, item: Instruction, operation: Access | Operation) -> None:
        trace.events.setdefault(len(trace.visits) - 1, []).append(Event(item.line, operation))

    def _begin(self, group: WarpGroup) -> list[WarpTrace]:
        """The traces of a group's warps, created with those of its whole batch."""
        batch = group.batch
        launch = self._launch = group.launch
        if id(batch) not in self._batches:
            self._seen.append(batch)
            warps = -(-launch.threads // 32)
            recorded: dict[tuple[int, int], WarpTrace] = {}
            for first in range(0, batch.count, launch.members):
                members = range(first, first + launch.members)
                for cta in members:
                    for warp in range(warps):
                        recorded[cta, warp] = WarpTrace(cta - first, warp)
                ctaids = tuple(_ctaid(batch, cta) for cta in members)
                every = tuple(recorded[cta, warp] for cta in members for warp in range(warps))
                self.clusters.append(ClusterTrace(ctaids, every))
            self._batches[id(batch)] = recorded
        recorded = self._batches[id(batch)]
        numbers = (group.thread[::32] // 32).tolist()
        traces = [recorded[cta, warp] for cta, warp in zip(group.warp_cta.tolist(), numbers)]
        self._seen.append(group)
        self._groups[id(group)] = traces
        return traces

    def recording(self, steps: int) -> Recording:
        launch = self._launch
        allocations = tuple(Allocation(each.name, each.address, each.size) for each in launch.memory.reachable())
        others = (block for block in launch.program.blocks if block.index not in self.blocks)
        skipped = frozenset(item.line for block in others for item in block.instructions)
        result = Recording(self.blocks, tuple(self.clusters), launch.members, launch.threads, launch.shared_bytes,
                           allocations, steps, self.products, self._asynchronous, skipped)  # fmt: skip
        # The groups of a launch refer to each other and to this recorder: the traces are not to live as long.
        self.clusters, self._groups, self._batches, self._seen = [], {}, {}, []
        return result


def _jump_behind(block: Block) -> int:
    """Line of the unconditional branch that a warp reaches only where it does not take the branch that ends a block;
    0 without."""
    if not block.instructions or block.instructions[-1].opcode != "bra" or block.instructions[-1].guard is None:
        return 0
    assert block.successors is not None
    behind = block.successors[-1].instructions
    return behind[0].line if len(behind) == 1 and behind[0].opcode == "bra" and behind[0].guard is None else 0


def _same(one: object, other: Copy | Commit) -> bool:
    if isinstance(one, Copy) and isinstance(other, Copy):
        if one._replace(addresses=None) != other._replace(addresses=None):
            return False
        places = (one.addresses, other.addresses)
        if places[0] is None or places[1] is None or not places[0].size or not places[1].size:
            return places[0] is places[1] or all(each is not None and not each.size for each in places)
        return bool(places[0][0] == places[1][0]) and places[0].size == places[1].size
    return isinstance(one, Commit) and one == other


def _ctaid(batch: Any, cta: int) -> tuple[int, int, int]:
    x, y, z = batch.ctaid[:, cta].tolist()
    return x, y, z


def _spaces(addresses: np.ndarray) -> list[tuple[np.ndarray, str, int]]:
    """State space of each generic address, and the base to subtract."""
    shared = (addresses >= SHARED_WINDOW) & (addresses < LOCAL_WINDOW)
    local = (addresses >= LOCAL_WINDOW) & (addresses < WINDOW_END)
    parts = ((shared, "shared", SHARED_WINDOW), (local, "local", LOCAL_WINDOW), (~(shared | local), "global", 0))
    return [part for part in parts if part[0].any()]


def record(
    ptx: str,
    entry: str,
    grid: int | Sequence[int],
    args: Sequence[Any],
    metadata: Mapping[str, Any] | None = None,
    *,
    blocks: Sequence[int],
    multiply: bool = False,
    **launch: Any,
) -> Recording:
    """Run the CTAs ``blocks`` (positions in the order of clusters) of a launch and return their events.

    ``launch`` is passed to `sim.emulate`. The arguments' arrays are changed as a launch changes them. Without
    ``multiply`` tensor cores compute nothing; the path of a kernel must not depend on their results.

    Raises the errors of `sim.emulate`.
    """
    from tileiras.sim.emulator import emulate

    recorder = TraceRecorder()
    result = emulate(
        ptx, entry, grid, args, metadata, seed=None, check_races=False, check_uninitialised=False, recorder=recorder,
        blocks=blocks, multiply=multiply, **launch,
    )  # fmt: skip
    return recorder.recording(result.steps)


def joined(recordings: Sequence[Recording]) -> Recording:
    """Merge recordings of one launch, of some clusters each."""
    first = recordings[0]
    if len(recordings) == 1:
        return first
    blocks = {number: block for each in recordings for number, block in each.blocks.items()}
    executed = {line for block in blocks.values() for line in block.lines}
    return first._replace(
        blocks=blocks,
        clusters=tuple(cluster for each in recordings for cluster in each.clusters),
        products={line: product for each in recordings for line, product in each.products.items()},
        steps=sum(each.steps for each in recordings),
        asynchronous=any(each.asynchronous for each in recordings),
        skipped=first.skipped - executed,
    )
