"""Assigns events of the recording to the machine instructions that implement their lines."""

from __future__ import annotations

from collections.abc import Sequence

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
from tileiras.sim.estimate.events import Access, Event, PtxBlock, ThreadCopy, WarpTrace
from tileiras.sim.estimate.machine_blocks import MachineBlock

_FAMILY_OF_TYPE: dict[type, str] = {
    Access: "access", Copy: "copy", ThreadCopy: "copy", Commit: "commit", WaitGroup: "wait", Transfer: "transfer",
    BarrierInit: "mbarrier", Arrive: "mbarrier", PhaseWait: "mbarrier", BlockBarrier: "barrier",
    ClusterBarrier: "cluster", SetRegisters: "registers", Sleep: "sleep",
}  # fmt: skip


def family_of(event: Event) -> str:
    operation = event.operation
    return operation.kind if isinstance(operation, Multiply) else _FAMILY_OF_TYPE[type(operation)]


class TracedEvents:
    """Events of a warp, and queues of those not yet assigned, in order, the first last."""

    def __init__(self, trace: WarpTrace, ptx: dict[int, PtxBlock], places: set[tuple[int, str]]) -> None:
        self.queues: dict[tuple[int, str], list[tuple[int, list[Event]]]] = {}
        self.told = self.crowded = 0
        self.visits = trace.visits
        self.unplaced: list[tuple[int, Event]] = []  # events whose line has no instruction of their family
        for at in sorted(trace.events):
            lines = ptx[trace.visits[at]].lines
            for event in trace.events[at]:
                # A guarded instruction at the end of a block has its effects in a separate block after it.
                where = at if event.line in lines else max(at - 1, 0)
                key = (event.line, family_of(event))
                if key not in places:
                    self.unplaced.append((where, event))
                    continue
                queue = self.queues.setdefault(key, [])
                if queue and queue[-1][0] == where:
                    queue[-1][1].append(event)
                else:
                    queue.append((where, [event]))
        for queue in self.queues.values():
            queue.reverse()
        self.unplaced.reverse()

    def take(self, block: MachineBlock, reached: int) -> dict[int, list[Event]]:
        """Events of the instructions of one execution of a block, by position in it, up to a position of the trace."""
        merged: dict[int, list[Event]] = {}
        for key, positions in block.places.items():
            queue = self.queues.get(key)
            if not queue or queue[-1][0] > reached:
                continue
            due: list[list[Event]] = []
            again: set[int] = set()
            while queue and queue[-1][0] <= reached:
                at, events = queue.pop()
                due.append(events)
                again.add(self.visits[at])
            self.told += len(due)
            # One line may have several statements, each in a separate block.
            self.crowded += max(0, len(due) - len(again) + 1 - len(positions))
            # One PTX instruction may be several machine instructions, or ptxas may have merged several into one.
            for index, events in enumerate(due):
                merged.setdefault(positions[index * len(positions) // len(due)], []).extend(events)
        counts: dict[str, int] = {}
        while self.unplaced and self.unplaced[-1][0] <= reached:
            _, event = self.unplaced.pop()
            family = family_of(event)
            if family == "access":
                continue  # ptxas needs no access for it
            positions = block.families.get(family, (len(block.instructions) - 1,))
            index = counts.get(family, 0)
            counts[family] = index + 1
            at = -1 if family == "commit" else min(index, len(positions) - 1)
            merged.setdefault(positions[at], []).append(event)
        return merged

    def give_rest(
        self, path: Sequence[int], blocks: list[MachineBlock], executions: list[dict[int, list[Event]]]
    ) -> None:
        """Assign each remaining event to the last execution that could have it: no event may be lost, since others
        may wait for it."""
        for key, queue in self.queues.items():
            for at in range(len(path) - 1, -1, -1) if queue else ():
                positions = blocks[path[at]].places.get(key)
                if positions is not None:
                    for _, events in reversed(queue):
                        executions[at].setdefault(positions[-1], []).extend(events)
                    break
