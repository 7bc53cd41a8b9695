"""Barriers that each operation of nv_tileas needs: for scratch memory, buffers, tensor memory, and along tokens.

Which token edges need a barrier is in `analysis/memory_conflicts.py`; agents, loops and branches are in
`synchronization.py`.
"""

from __future__ import annotations

from typing import Any

from tileiras.analysis.barrier_needs import is_of_pair, is_read_by_threads
from tileiras.analysis.barrier_times import BarrierTimes, Place, Range
from tileiras.analysis.dots import feeds_dots, joined_conversions
from tileiras.analysis.dots_in_flight import buffers_read
from tileiras.analysis.memory_conflicts import MemoryConflicts, operations_before
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.nv_tileas import names
from tileiras.ir import Operation, Value, VerifyError
from tileiras.layout.encoding import is_in_shared
from tileiras.targets.sm import WARP_SIZE, WARPGROUP

_FIRST_COLUMN = 1 << 32
"""Columns of tensor memory are ranges behind all bytes of shared memory."""


class OperationBarriers(BarrierTimes):
    """When each operation of a function, or of one of its agents, uses memory, and which of them need a barrier."""

    def __init__(self, func: aa.FuncOp, num_warps: int) -> None:
        super().__init__(any(isinstance(op, tileas.TensorReserveOp) and op.pair is not None for op in func.walk()))
        self.exchanging: list[Operation] = []
        """The operations with scratch areas."""
        self.buffers: dict[Value, Range] = {}
        self.num_warps = num_warps
        self._staged: dict[Value, Range] = {}
        """Tiles that dots read from their buffers, until the first one does."""
        self._unfenced: list[Range] = []
        """What threads wrote since the last fence for the asynchronous proxy."""
        self.under_way: dict[Range, None] = {}
        """What asynchronous dots read, which are complete behind a wait."""
        self._conflicts = MemoryConflicts(func, num_warps)

    # -- scratch memory ------------------------------------------------------------------------------------------------

    def exchange(self, op: Operation) -> None:
        """An operation that exchanges elements between threads, through one area after the other."""
        areas = tileas.scratch_areas(op)
        self.exchanging.append(op)
        group: list[Range] = []
        for number, area in enumerate(areas):
            group.append(self.scratch_range(area))
            if area.rounds > 1 and isinstance(op, tileas.PrintOp):
                self.wait(Place(op, number))  # at the head of a loop
            else:
                self.before_stores(Place(op, number), group[-1])
            if number + 1 < len(areas) and areas[number + 1].joins:
                continue
            self._handed_on(group, area.rounds)
            group = []

    def _handed_on(self, ranges: list[Range], rounds: int) -> None:
        """Behind the first stores to areas: a barrier, and the loads; further rounds begin and go on with one."""
        for _ in range(rounds):
            self.wait()
            for each in ranges:
                self.read(each)

    def conversions(self, op: Operation) -> None:
        """A conversion, with those that share its barrier."""
        areas = tileas.scratch_areas(op)
        if not areas or areas[0].joins:
            return
        group = [op, *joined_conversions(op)]
        self.exchanging += group
        found = [tileas.scratch_areas(each)[0] for each in group]
        ranges = [self.scratch_range(area) for area in found]
        for each, area in zip(group, ranges):
            self.before_stores(Place(each, 0), area)
        self._handed_on(ranges, found[0].rounds)

    def barrier_op(self, op: tileas.BarrierOp) -> None:
        """A barrier that stands there already counts where all threads come to it."""
        if op.relaxed is not None:
            return  # nobody sees what others did
        if op.cluster is not None:
            self.wait()
            self.cluster = self.barrier
        elif op.threads is None or op.threads.value == WARP_SIZE * self.num_warps:
            self.wait()

    # -- buffers -------------------------------------------------------------------------------------------------------

    def allocate(self, op: Any) -> None:
        """Copies into a buffer start any time from now on; what used the place before must be done."""
        if op.offset is None:
            if tileas.SCRATCH in op.attributes:
                self.exchange(op)
            return
        size = op.result.type.bytes if isinstance(op, tileas.AllocTensorOp) else op.bytes
        found = self.buffers[op.result] = self.new_range(op.offset.value, op.offset.value + size)
        found.piped = any(user.name == names.CREATE_PIPELINE for user in op.result.users)
        # Stages of a pipe are filled behind the barrier that shows its mbarriers.
        self.before_stores(Place(op), found)

    def _buffer(self, op: Any) -> Range:
        found = self.buffers.get(op.buffer)
        if found is None:
            raise VerifyError("expects a buffer that is allocated here, and not one of several", location=op.location)
        return found

    def store_tensor(self, op: Any) -> None:
        buffer = self._buffer(op)
        if op.buffer.type.is_of_registers:
            # No other thread reads it. What takes the place after the buffer's life has to wait for stores as well.
            self.read(buffer)
            return
        self.before_stores(Place(op), buffer)
        self.write(buffer)
        self._unfenced.append(buffer)

    def copy(self, op: Any) -> None:
        if is_in_shared(op.result.type):
            return  # where it is; asynchronous dots read it there
        buffer = self._buffer(op)
        if not op.buffer.type.is_of_registers:
            self.before_loads(Place(op), buffer)
            if feeds_dots(op.result, op.parent):
                self._staged[op.result] = buffer
                return
        self.read(buffer)

    def dot(self, op: Operation) -> None:
        for value in op.operands if self._staged else ():
            while isinstance(value.defining_op, tileas.VIEW_LIKE):
                value = value.defining_op.operand
            buffer = self._staged.pop(value, None)
            if buffer is not None:
                self.read(buffer)

    def async_copy(self, op: tileas.AsyncTiledLoadOp | tileas.AsyncLoadOp) -> None:
        """What threads have read of a buffer of one stage is over before it is filled again.  Of rings the wait for
        another stage says so, and of what asynchronous dots read the wait for these."""
        if op.buffer in self.buffers and op.buffer.type.stages == 1 and is_read_by_threads(op.buffer):
            self.before_stores(Place(op), self.buffers[op.buffer])
        self.access(op)

    def async_wait(self, op: tileas.AsyncWaitOp) -> None:
        """Each thread waits for its own copies; the barrier makes all of them visible to those that read others'."""
        self.access(op)
        if op.own is not None:
            return
        behind = op.next
        while behind.name == names.FENCE_PROXY:
            behind = behind.next
        self.wait(Place(behind), op, self.joint and any(map(is_of_pair, op.parent.operations)))

    def fence_proxy(self, op: Operation) -> None:
        """What the thread wrote is written for the asynchronous proxy here, behind whatever barrier stands between."""
        self.time += 1
        for each in self._unfenced:
            each.last_written = self.time
        self._unfenced.clear()

    def async_dot(self, op: tileas.AsyncDotOp | tileas.TensorDotOp) -> None:
        """What it reads of shared memory has to be there now, and is not free before a wait."""
        for buffer in self.read_in_place(op):
            self.before_loads(Place(op), buffer, is_of_pair(op))
            self.read(buffer)
            self.under_way[buffer] = None

    def future_wait(self, op: tileas.FutureWaitOp | tileas.TensorWaitOp) -> None:
        """The dots before are complete, or some of them: their reads end here at the earliest."""
        for buffer in self.under_way:
            self.read(buffer)

    def read_in_place(self, dot: tileas.AsyncDotOp | tileas.TensorDotOp) -> list[Range]:
        return [self.buffers[buffer] for buffer in buffers_read(dot) if buffer in self.buffers]

    def tma_store(self, op: Any) -> None:
        """One thread copies a buffer to memory, when all have written it, and has read it when it goes on."""
        buffer = self._buffer(op)
        self.before_loads(Place(op), buffer)
        self.access(op)
        if not op.leaves_all:
            self.read(buffer)

    def tma_store_tail(self, op: Any) -> None:
        """One thread knows of the last copies that their buffer has been read."""
        self.read(self._buffer(op))

    # -- tensor memory -------------------------------------------------------------------------------------------------

    def reserve(self, op: tileas.TensorReserveOp | tileas.MapReserveOp) -> None:
        """The address of the columns, and the mbarriers, are for all threads behind a barrier; or the slot's number."""
        if op.offset is None:
            return
        found = self.new_range(op.offset.value, op.offset.value + op.bytes)
        self.before_stores(Place(op), found)
        if op.name != names.TENSOR_RESERVE:
            self.wait(Place(op.next), op)
            return
        self.write(found)
        self.buffers[op.result] = found

    def reserved(self, op: tileas.TensorOpenOp | tileas.TensorCommitOp | tileas.TensorWaitOp) -> None:
        """What is used of a reservation is there behind the first barrier after it."""
        if op.memory in self.buffers:
            # The other CTA's are used from here as well.
            self.before_loads(Place(op), self.buffers[op.memory], self.joint)
        if isinstance(op, tileas.TensorWaitOp):
            self.future_wait(op)

    def tensor_alloc(self, op: tileas.TensorAllocOp) -> None:
        if op.column is not None:
            start = _FIRST_COLUMN + op.column.value
            self.buffers[op.result] = found = self.new_range(start, start + op.result.type.columns)
            found.piped = any(user.name == names.CREATE_PIPELINE for user in op.result.users)

    def tensor_slice(self, op: tileas.TensorSliceOp) -> None:
        if op.buffer in self.buffers:
            self.buffers[op.result] = self.buffers[op.buffer]

    def tensor_load(self, op: tileas.TensorLoadOp) -> None:
        self.read(self._buffer(op))

    def tensor_scale(self, op: tileas.TensorScaleOp) -> None:
        buffer = self._buffer(op)
        self.read(buffer)
        self.write(buffer)

    def tensor_store(self, op: tileas.TensorStoreOp) -> None:
        """A thread has the same elements of a buffer in all loads and stores: others' loads are of other buffers.  Of
        four warps each reaches the lanes of its own only (PTX ISA, "Access restrictions" of tensor memory), and of a
        pipe of several groups of warps each has columns of its own."""
        buffer = self._buffer(op)
        if self.num_warps == WARPGROUP or any(getattr(user, "groups", None) is not None for user in op.buffer.users):
            self.write(buffer)
            return
        alloc = op.buffer.defining_op
        if any(r.last_read > self.barrier for r in self.ranges if r.overlaps(buffer) and r is not buffer):
            self.wait(Place(op))
        else:
            # Where each iteration has a buffer of its own, an earlier one may have loaded from another in its place.
            for loop in self.loops:
                if self.barrier <= loop.entered and loop.op.is_ancestor_of(alloc):
                    loop.pending.append((Place(op), buffer, False))
        self.write(buffer)

    def tensor_dot(self, op: tileas.TensorDotOp) -> None:
        """One thread issues it: what the others stored or loaded in its columns has to be over."""
        buffer, cluster = self._buffer(op), is_of_pair(op)
        self.before_loads(Place(op), buffer, cluster)
        self.before_stores(Place(op), buffer, cluster)
        if op.a in self.buffers:
            self.before_loads(Place(op), self.buffers[op.a], cluster)
        self.async_dot(op)

    def release(self, op: tileas.TensorReleaseOp) -> None:
        """Once all threads have loaded what they load."""
        columns = [each for each in self.ranges if each.start >= _FIRST_COLUMN]
        if not columns or any(max(each.last_read, each.last_written) > self.barrier for each in columns):
            self.wait(Place(op))

    def fence(self, op: Operation) -> None:
        """The fence is a thread's own (PTX ISA, membar / fence.proxy): barriers hand its effect to the others."""
        self.wait(Place(op))
        self.wait(Place(op.next), op)

    def deallocate(self, op: Operation) -> None:
        """Once all threads have made their accesses."""
        self.wait(Place(op))

    # -- tokens --------------------------------------------------------------------------------------------------------

    def access(self, op: Any) -> None:
        """A memory operation: behind a barrier if its token asks for one."""
        token = getattr(op, "token", None)
        if token is not None:
            earlier = operations_before(token).items()
            if any(self.passed.get(s, 0) > self.barrier and self._conflicts.meet(s, op, c) for s, c in earlier):
                self.wait(Place(op))
        self.time += 1
        self.passed[op] = self.time
        if tileas.SCRATCH in op.attributes:
            self.exchange(op)
