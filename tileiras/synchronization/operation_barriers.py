"""Barriers that each operation of nv_tileas needs: for scratch memory, buffers, tensor memory, and along tokens.

`memory_conflicts.py` decides which token edges need a barrier; `function_barriers.py` handles agents, loops and
branches.
"""

from __future__ import annotations

from typing import Any

from tileiras.analysis.barrier_needs import is_of_pair, is_read_by_threads
from tileiras.analysis.dots import feeds_dots, joined_conversions
from tileiras.analysis.dots_in_flight import buffers_read
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.nv_tileas import names
from tileiras.ir import Operation, Value, VerifyError
from tileiras.layout.encoding import is_in_shared
from tileiras.targets.sm import WARP_SIZE, WARPGROUP

from .barrier_times import BarrierTimes, Place, Range
from .memory_conflicts import MemoryConflicts, operations_before

_FIRST_COLUMN = 1 << 32
"""Columns of tensor memory are represented as ranges behind all bytes of shared memory."""


class OperationBarriers(BarrierTimes):
    """Times at which operations of a function, or of one of its agents, use memory, and the barriers that they need."""

    def __init__(self, func: aa.FuncOp, num_warps: int) -> None:
        super().__init__(any(isinstance(op, tileas.TensorReserveOp) and op.pair is not None for op in func.walk()))
        self.exchanging: list[Operation] = []
        """The operations with scratch areas."""
        self.buffers: dict[Value, Range] = {}
        self.num_warps = num_warps
        self._staged: dict[Value, Range] = {}
        """Tiles whose dots read them from their buffers; removed at the first such dot."""
        self._unfenced: list[Range] = []
        """Ranges written by threads since the last fence for the asynchronous proxy."""
        self.under_way: dict[Range, None] = {}
        """Ranges read by asynchronous dots that a wait completes."""
        self._conflicts = MemoryConflicts(func, num_warps)

    # -- scratch memory ------------------------------------------------------------------------------------------------

    def exchange(self, op: Operation) -> None:
        """Process an operation that exchanges elements between threads, through one area after the other."""
        areas = tileas.scratch_areas(op)
        self.exchanging.append(op)
        group: list[Range] = []
        for number, area in enumerate(areas):
            group.append(self.scratch_range(area))
            if area.rounds > 1 and isinstance(op, tileas.PrintOp):
                self.wait(Place(op, number))  # the stores are at the head of a loop
            else:
                self.before_stores(Place(op, number), group[-1])
            if number + 1 < len(areas) and areas[number + 1].joins:
                continue
            self._handed_on(group, area.rounds)
            group = []

    def _handed_on(self, ranges: list[Range], rounds: int) -> None:
        """Record, behind the first stores to areas, a barrier and the loads; later rounds also begin with a barrier."""
        for _ in range(rounds):
            self.wait()
            for each in ranges:
                self.read(each)

    def conversions(self, op: Operation) -> None:
        """Process a conversion, with those that share its barrier."""
        areas = tileas.scratch_areas(op)
        if not areas or areas[0].joins:
            return
        group = [op, *joined_conversions(op)]
        self.exchanging += group
        result = [tileas.scratch_areas(each)[0] for each in group]
        ranges = [self.scratch_range(area) for area in result]
        for each, area in zip(group, ranges):
            self.before_stores(Place(each, 0), area)
        self._handed_on(ranges, result[0].rounds)

    def barrier_op(self, op: tileas.BarrierOp) -> None:
        """Record an existing barrier if all threads reach it."""
        if op.relaxed is not None:
            return  # a relaxed barrier makes no accesses visible to other threads
        if op.cluster is not None:
            self.wait()
            self.cluster = self.barrier
        elif op.threads is None or op.threads.value == WARP_SIZE * self.num_warps:
            self.wait()

    # -- buffers -------------------------------------------------------------------------------------------------------

    def allocate(self, op: Any) -> None:
        """Order an allocation after earlier uses of its place, since copies into the buffer may start from here on."""
        if op.offset is None:
            if tileas.SCRATCH in op.attributes:
                self.exchange(op)
            return
        size = op.result.type.bytes if isinstance(op, tileas.AllocTensorOp) else op.bytes
        result = self.buffers[op.result] = self.new_range(op.offset.value, op.offset.value + size)
        result.piped = any(user.name == names.CREATE_PIPELINE for user in op.result.users)
        # Stages of a pipe are filled behind the barrier that makes its mbarriers visible.
        self.before_stores(Place(op), result)

    def _buffer(self, op: Any) -> Range:
        entry = self.buffers.get(op.buffer)
        if entry is None:
            raise VerifyError("expects a buffer that is allocated here, and not one of several", location=op.location)
        return entry

    def store_tensor(self, op: Any) -> None:
        buffer = self._buffer(op)
        if op.buffer.type.is_of_registers:
            # No other thread reads it. Later buffers in its place have to wait for stores as well.
            self.read(buffer)
            return
        self.before_stores(Place(op), buffer)
        self.write(buffer)
        self._unfenced.append(buffer)

    def copy(self, op: Any) -> None:
        if is_in_shared(op.result.type):
            return  # no data is moved; asynchronous dots read it in place
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
        """Order a copy after the loads of threads from a buffer of one stage.  In rings, the wait for another stage
        orders them; reads of asynchronous dots are ordered by the wait for the dots."""
        if op.buffer in self.buffers and op.buffer.type.stages == 1 and is_read_by_threads(op.buffer):
            self.before_stores(Place(op), self.buffers[op.buffer])
        self.access(op)

    def async_wait(self, op: tileas.AsyncWaitOp) -> None:
        """Place a barrier after a wait: each thread waits for its own copies, and the barrier makes them visible to the
        other threads."""
        self.access(op)
        if op.own is not None:
            return
        behind = op.next
        while behind.name == names.FENCE_PROXY:
            behind = behind.next
        self.wait(Place(behind), op, self.joint and any(map(is_of_pair, op.parent.operations)))

    def fence_proxy(self, op: Operation) -> None:
        """Count the writes since the last fence as made here: no barrier before the fence orders them for the
        asynchronous proxy."""
        self.time += 1
        for each in self._unfenced:
            each.last_written = self.time
        self._unfenced.clear()

    def async_dot(self, op: tileas.AsyncDotOp | tileas.TensorDotOp) -> None:
        """Require that a dot's operands in shared memory are visible here; they are in use until a wait."""
        for buffer in self.read_in_place(op):
            self.before_loads(Place(op), buffer, is_of_pair(op))
            self.read(buffer)
            self.under_way[buffer] = None

    def future_wait(self, op: tileas.FutureWaitOp | tileas.TensorWaitOp) -> None:
        """Record a wait for all or some of the earlier dots: their reads end here at the earliest."""
        for buffer in self.under_way:
            self.read(buffer)

    def read_in_place(self, dot: tileas.AsyncDotOp | tileas.TensorDotOp) -> list[Range]:
        return [self.buffers[buffer] for buffer in buffers_read(dot) if buffer in self.buffers]

    def tma_store(self, op: Any) -> None:
        """Process a copy to memory: one thread issues it after all have written the buffer, and by default continues
        only after the buffer has been read."""
        buffer = self._buffer(op)
        self.before_loads(Place(op), buffer)
        self.access(op)
        if not op.leaves_all:
            self.read(buffer)

    def tma_store_tail(self, op: Any) -> None:
        """Record that the last copies have read their buffer, which only one thread has waited for."""
        self.read(self._buffer(op))

    # -- tensor memory -------------------------------------------------------------------------------------------------

    def reserve(self, op: tileas.TensorReserveOp | tileas.MapReserveOp | tileas.MapAssembleOp) -> None:
        """Process a reservation: the address of columns and the mbarriers, or the number of a map's slot, are visible
        to all threads only behind a barrier."""
        if op.offset is None:
            return
        result = self.new_range(op.offset.value, op.offset.value + op.bytes)
        self.before_stores(Place(op), result)
        self.write(result)
        self.buffers[op.result] = result

    def assemble(self, op: tileas.MapAssembleOp) -> None:
        """Process an assembled map: the warp that copies it to its slot sees it behind a barrier."""
        if op.warp is not None:
            self.reserve(op)

    def build(self, op: tileas.MapBuildOp) -> None:
        if op.image in self.buffers:
            self.before_loads(Place(op), self.buffers[op.image])

    def reserved(
        self, op: tileas.TensorOpenOp | tileas.TensorCommitOp | tileas.TensorWaitOp | tileas.MapOpenOp
    ) -> None:
        """Require a barrier between a reservation and the first use of it."""
        if op.memory in self.buffers:
            # The reservation of the other CTA is used from here as well.
            self.before_loads(Place(op), self.buffers[op.memory], self.joint)
        if isinstance(op, tileas.TensorWaitOp):
            self.future_wait(op)

    def tensor_alloc(self, op: tileas.TensorAllocOp) -> None:
        if op.column is not None:
            start = _FIRST_COLUMN + op.column.value
            self.buffers[op.result] = result = self.new_range(start, start + op.result.type.columns)
            result.piped = any(user.name == names.CREATE_PIPELINE for user in op.result.users)

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
        """Order a store after loads from other buffers in its columns.  A thread has the same elements of a buffer in
        all loads and stores, so other threads' loads of these elements are from other buffers.  No barrier is needed if
        each of four warps accesses its own lanes only (PTX ISA, "Access restrictions" of tensor memory), or each group
        of warps of a pipe has its own columns."""
        buffer = self._buffer(op)
        if self.num_warps == WARPGROUP or any(getattr(user, "groups", None) is not None for user in op.buffer.users):
            self.write(buffer)
            return
        alloc = op.buffer.defining_op
        if any(r.last_read > self.barrier for r in self.ranges if r.overlaps(buffer) and r is not buffer):
            self.wait(Place(op))
        else:
            # If each iteration allocates its own buffer, an earlier one may have loaded from another in its place.
            for loop in self.loops:
                if self.barrier <= loop.entered and loop.op.is_ancestor_of(alloc):
                    loop.pending.append((Place(op), buffer, False))
        self.write(buffer)

    def tensor_dot(self, op: tileas.TensorDotOp) -> None:
        """Order a dot, which one thread issues, after the stores and loads of all threads in its columns."""
        buffer, cluster = self._buffer(op), is_of_pair(op)
        self.before_loads(Place(op), buffer, cluster)
        self.before_stores(Place(op), buffer, cluster)
        if op.a in self.buffers:
            self.before_loads(Place(op), self.buffers[op.a], cluster)
        self.async_dot(op)

    def release(self, op: tileas.TensorReleaseOp) -> None:
        """Order the release after the accesses of all threads to tensor memory."""
        columns = [each for each in self.ranges if each.start >= _FIRST_COLUMN]
        if not columns or any(max(each.last_read, each.last_written) > self.barrier for each in columns):
            self.wait(Place(op))

    def fence(self, op: Operation) -> None:
        """Place barriers around a fence or a call by each thread: it orders only its own thread's accesses (PTX ISA,
        membar / fence.proxy), and barriers extend the order to the other threads."""
        self.wait(Place(op))
        self.wait(Place(op.next), op)

    def deallocate(self, op: Operation) -> None:
        """Order the deallocation after the accesses of all threads."""
        self.wait(Place(op))

    # -- tokens --------------------------------------------------------------------------------------------------------

    def access(self, op: Any) -> None:
        """Process a memory operation; a barrier precedes it if its token requires one."""
        token = getattr(op, "token", None)
        if token is not None:
            earlier = operations_before(token).items()
            if any(self.passed.get(s, 0) > self.barrier and self._conflicts.meet(s, op, c) for s, c in earlier):
                self.wait(Place(op))
        self.time += 1
        self.passed[op] = self.time
        if tileas.SCRATCH in op.attributes:
            self.exchange(op)
