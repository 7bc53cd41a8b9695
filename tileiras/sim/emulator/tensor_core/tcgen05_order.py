"""Order of operations on tensor memory (PTX ISA, "Memory Consistency Model for 5th generation of TensorCore
operations").

`ld`, `st`, `cp`, `shift` and `mma` are asynchronous: once issued they are in flight. `wait::ld` and `wait::st` complete
a warp's loads and stores; `commit` makes an mbarrier track a thread's `cp`, `shift` and `mma`, which execute as late as
possible, when the end of that barrier's phase is observed, in the order of their issue.

Two operations on one cell, at least one of them a write, need an order:

- Some pairs execute in the order of their issue (`_PIPELINED`); issued by different threads, they need
  `fence::before_thread_sync`, a synchronisation and `fence::after_thread_sync` between them.
- For all other pairs, the first has to be complete, and the completion has to happen before the issue of the second.

The ISA permits two readings of fences, and public kernels rely on more pipelining than the ISA guarantees: see the
rules "tensor-fences", "tensor-pipeline" and "tensor-load-wait" (`rules`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ..order.waits import block_id
from ..ptx.module import Instruction
from .tensor_memory import Region

if TYPE_CHECKING:
    from ..launch.scheduler import Batch
    from ..launch.warps import WarpGroup
    from .tensor_memory import TensorMemory

#: Earlier and later operation of one queue that execute in this order (ISA: "Pipelined tcgen05 Instructions").
_PIPELINED = {("mma", "mma"), ("cp", "mma"), ("shift", "mma"), ("shift", "cp"), ("mma", "shift")}
#: Further pairs that public kernels assume to be in order, for any accumulators.
_OBSERVED = _PIPELINED | {("mma", "cp"), ("cp", "cp"), ("cp", "shift"), ("shift", "shift")}
#: Kinds that a whole warp issues and waits for -> the instruction of the wait.
WAITED = {"ld": "tcgen05.wait::ld", "st": "tcgen05.wait::st"}


class Operation:
    """One asynchronous operation of ``thread`` of ``group``, or of its whole warp.

    ``reads`` and ``writes`` are its regions of tensor memory; ``run`` executes it. ``accumulator`` of a dot determines
    the dots that it is pipelined with. ``clock`` is the issuer's when a fence released the operation, None before;
    ``seen`` are the warps with a later `fence::after_thread_sync`.
    """

    __slots__ = (
        "accumulator", "block", "clock", "complete", "done", "group", "item", "kind", "needs", "queue", "reads", "run",
        "seen", "single", "thread", "warp", "writes",
    )  # fmt: skip

    def __init__(
        self,
        group: WarpGroup,
        item: Instruction,
        thread: int,
        kind: str,
        reads: list[Region],
        writes: list[Region],
        run: Callable[[], None] | None = None,
        accumulator: tuple | None = None,
    ) -> None:
        self.group = group
        self.item = item
        self.thread = thread
        self.kind = kind
        self.single = kind not in WAITED
        self.reads = reads
        self.writes = writes
        self.run = run
        self.accumulator = accumulator
        self.block = int(group.cta[thread])
        self.warp = int(group.thread[thread]) // 32
        self.queue = (self.block, int(group.thread[thread]) if self.single else -1 - self.warp)
        self.complete = False
        self.clock: int | None = None
        self.done = 0  # the issuer's clock at its completion
        self.needs: list[Operation] = []
        self.seen: set[tuple[int, int]] = set()


class _Use:
    """A region that an operation reads or writes."""

    __slots__ = ("operation", "region", "writes")

    def __init__(self, operation: Operation, region: Region, writes: bool) -> None:
        self.operation = operation
        self.region = region
        self.writes = writes


class Order:
    """The operations of a batch with which later ones have to be ordered."""

    def __init__(self, batch: Batch, memory: TensorMemory) -> None:
        self.memory = memory
        self.launch = batch.launch
        self.strict = "tensor-fences" not in batch.launch.waived
        self.dependent_loads = "tensor-load-wait" in batch.launch.waived
        self.in_order = _OBSERVED if "tensor-pipeline" in batch.launch.waived else _PIPELINED
        self.uses: dict[int, list[_Use]] = {}  # by block
        self.queues: dict[tuple[int, int], list[Operation]] = {}
        self.unfenced: dict[tuple[int, int], list[Operation]] = {}  # by block and warp

    # -- clocks ----------------------------------------------------------------------------------------------------

    @property
    def clocks(self):
        """The race checker's clocks; None if races are not checked."""
        races = self.launch.races
        return races.clocks if races is not None and not races.clocks.exhausted else None

    def _warp_number(self, operation: Operation) -> int:
        return int(operation.group.numbers[operation.thread]) >> 5

    def _now(self, operation: Operation) -> int:
        clocks = self.clocks
        return int(clocks.own[self._warp_number(operation) - clocks.first]) if clocks is not None else 0

    def _knows(self, group: WarpGroup, threads: np.ndarray, earlier: Operation, clock: int) -> bool:
        """Whether one of the threads, of one warp, has seen the issuer of ``earlier`` at ``clock``."""
        clocks = self.clocks
        if clocks is None:
            return True
        numbers = group.numbers[threads].tolist()
        number = int(earlier.group.numbers[earlier.thread])
        if earlier.single:
            if number in numbers:
                return True
            if numbers[0] >> 5 == number >> 5:
                pairs = (np.full(len(numbers), each) for each in (number, clock))
                return not clocks.unordered(np.array(numbers), *pairs).all()
            return clocks.one_knows(numbers, [number], clock)
        if numbers[0] >> 5 == number >> 5:
            return True
        # A release of any lane covers operations of the whole warp.
        first = number & ~31
        return clocks.one_knows(numbers, [-2 - (number >> 5), *range(first, first + 32)], clock)

    # -- issue -----------------------------------------------------------------------------------------------------

    def issue(self, operation: Operation) -> None:
        """Issue an operation: check its order with earlier ones, and put it in flight."""
        for writes, regions in ((False, operation.reads), (True, operation.writes)):
            for region in regions:
                self.memory.check_allocated(operation.group, operation.item, region, operation.thread)
                self._check(operation, region, writes)
        for writes, regions in ((False, operation.reads), (True, operation.writes)):
            for region in regions:
                self.uses.setdefault(region.block, []).append(_Use(operation, region, writes))
        self.queues.setdefault(operation.queue, []).append(operation)
        if self.strict:
            self.unfenced.setdefault((operation.block, operation.warp), []).append(operation)
        else:
            operation.clock = self._now(operation)

    def _check(self, operation: Operation, region: Region, writes: bool) -> None:
        rest = []
        for use in self.uses.get(region.block, ()):
            if not (writes or use.writes):
                # A later read of the same cells by the same queue replaces the earlier one.
                repeated = use.region == region and use.operation.queue == operation.queue and use.operation.complete
                if not repeated:
                    rest.append(use)
            elif not use.region.overlaps(region):
                rest.append(use)
            else:
                self._require(operation, use, region, writes)
                if not (writes and region.covers(use.region)):
                    rest.append(use)
        if region.block in self.uses:
            self.uses[region.block] = rest

    def _require(self, later: Operation, use: _Use, region: Region, writes: bool) -> None:
        earlier = use.operation
        if earlier is later:
            return
        if self._in_pipeline(earlier, later):
            if earlier.queue == later.queue:
                return
            if not earlier.complete:
                later.needs.append(earlier)
            self._require_known(later, use, region, writes)
            return
        if earlier.kind == "ld" and earlier.queue == later.queue and self.dependent_loads:
            return
        if not earlier.complete:
            wait = WAITED.get(earlier.kind)
            missing = f"no {wait} since" if wait else "no tcgen05.commit that has been waited for"
            self._fault(later, use, region, writes, f"which is in flight: {missing}")
        if earlier.queue == later.queue and not earlier.single:
            return  # its wait is in program order
        self._require_known(later, use, region, writes)

    def _in_pipeline(self, earlier: Operation, later: Operation) -> bool:
        pair = (earlier.kind, later.kind)
        if pair not in self.in_order:
            return False
        if self.in_order is _OBSERVED:
            return True
        if pair == ("mma", "mma"):
            return earlier.accumulator == later.accumulator
        return pair != ("shift", "cp") or "4x256b" in later.item.modifiers

    def _require_known(self, later: Operation, use: _Use, region: Region, writes: bool) -> None:
        earlier, group = use.operation, later.group
        if self.clocks is None or earlier.warp == later.warp and earlier.block == later.block and not earlier.single:
            return
        if self.strict and earlier.clock is None:
            self._fault(later, use, region, writes, "with no tcgen05.fence::before_thread_sync behind it")
        if self.strict:
            if (later.block, later.warp) in earlier.seen:
                return
            if self._knows(group, self._threads(later), earlier, earlier.clock):
                self._fault(later, use, region, writes, "with no tcgen05.fence::after_thread_sync since it is known")
        elif self._knows(group, self._threads(later), earlier, earlier.clock):
            return
        self._fault(later, use, region, writes, "and nothing orders the two")

    def _threads(self, operation: Operation) -> np.ndarray:
        if operation.single:
            return np.array([operation.thread])
        first = operation.thread & ~31
        return np.arange(first, first + 32)

    def _fault(self, later: Operation, use: _Use, region: Region, writes: bool, missing: str) -> None:
        earlier = use.operation
        first, last = max(region.first, use.region.first), min(region.last, use.region.last) - 1
        block = block_id(earlier.group.batch, earlier.block)
        later.group.fault(
            f"columns {first} to {last} of tensor memory are {'written' if writes else 'read'} here and "
            f"{'written' if use.writes else 'read'} by warp {earlier.warp} of block {block} at line "
            f"{earlier.item.line} ({earlier.item.text}), {missing}",
            later.item,
            later.thread,
        )

    # -- completion ------------------------------------------------------------------------------------------------

    def wait(self, group: WarpGroup, thread: int, kind: str) -> None:
        """A warp waits for all its loads, or all its stores."""
        queue = (int(group.cta[thread]), -1 - int(group.thread[thread]) // 32)
        rest = []
        for operation in self.queues.get(queue, ()):
            if operation.kind != kind:
                rest.append(operation)
                continue
            operation.complete = True
            operation.done = self._now(operation)
            if not self.strict:
                operation.clock = operation.done
        self.queues[queue] = rest

    def pending(self, group: WarpGroup, thread: int) -> list[Operation]:
        """Operations that a commit of the thread tracks."""
        return list(self.queues.get((int(group.cta[thread]), int(group.thread[thread])), ()))

    def land(self, operation: Operation) -> None:
        """Execute an operation after the earlier ones of its thread and its dependences."""
        queue = self.queues[operation.queue]
        while not operation.complete:
            first = queue[0]
            for need in first.needs:
                self.land(need)
            first.run()
            queue.pop(0)
            first.complete = True
            first.clock = first.done = self._now(first)

    def commit(self, operations: list[Operation]) -> None:
        """`commit` releases the operations that it tracks, as `fence::before_thread_sync` would."""
        for operation in operations:
            if operation.clock is None:
                operation.clock = self._now(operation)

    # -- fences ----------------------------------------------------------------------------------------------------

    def fence_before(self, group: WarpGroup, threads: list[int]) -> None:
        """One thread of each warp that runs `fence::before_thread_sync`."""
        for thread in threads:
            key = (int(group.cta[thread]), int(group.thread[thread]) // 32)
            rest = []
            for operation in self.unfenced.pop(key, ()):
                if not operation.single and not operation.complete:
                    rest.append(operation)  # released after its wait
                elif operation.clock is None or not operation.complete:
                    operation.clock = self._now(operation)
            if rest:
                self.unfenced[key] = rest

    def fence_after(self, group: WarpGroup, threads: np.ndarray) -> None:
        """The threads, of one warp, run `fence::after_thread_sync`."""
        if not self.strict or self.clocks is None:
            return
        block = int(group.cta[threads[0]])
        key = (block, int(group.thread[threads[0]]) // 32)
        cache: dict[tuple[int, int | None], bool] = {}
        for where in {block, self.memory.peer(block)} - {None}:
            for use in self.uses.get(where, ()):
                operation = use.operation
                if key in operation.seen or operation.clock is None:
                    continue
                about = (int(operation.group.numbers[operation.thread]), operation.clock)
                if about not in cache:
                    cache[about] = self._knows(group, threads, operation, operation.clock)
                if cache[about]:
                    operation.seen.add(key)

    # -- the end of an allocation ----------------------------------------------------------------------------------

    def check_free(self, group: WarpGroup, item: Instruction, region: Region, thread: int) -> None:
        """Freed columns may not be in use by any operation."""
        freeing = Operation(group, item, thread, "ld", [], [])
        for use in self.uses.pop(region.block, []):
            if use.region.overlaps(region):
                earlier = use.operation
                if not earlier.complete and not (earlier.kind == "ld" and self.dependent_loads):
                    self._fault(freeing, use, region, True, "which is in flight as they are freed")
                if not self._knows(group, self._threads(freeing), earlier, earlier.done):
                    self._fault(freeing, use, region, True, "and nothing orders that and their being freed")
            else:
                self.uses.setdefault(region.block, []).append(use)
