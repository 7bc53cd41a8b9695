"""The arena of shared memory: its allocations, and the offsets of buffers and scratch areas."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Any

from tileiras import resources
from tileiras.analysis.function_pass import FunctionPass
from tileiras.analysis.places import shared_limit
from tileiras.diagnostics import DiagnosticEngine
from tileiras.diagnostics.remarks import Remark
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.llvm.layout import SHARED
from tileiras.dialects.nv_tileaa import PtrType
from tileiras.dialects.nv_tileas import ScratchAttr, names
from tileiras.ir import (
    ArrayAttr,
    Attribute,
    Block,
    IntegerAttr,
    Operation,
    Region,
    TensorType,
    Value,
    element_type_of,
    i32,
)
from tileiras.layout.arena import (
    AREA_ALIGNMENT,
    ARENA_ALIGNMENT,
    SCRATCH_LIMIT,
    WORD_ALIGNMENT,
    aligned,
    aligned_to,
)
from tileiras.layout.encoding import is_in_shared
from tileiras.layout.scratch import EXCHANGING, Conversion, Exchange, Slice, Warps, exchanges
from tileiras.reasons import Reason
from tileiras.resources.shared_memory import shared_share
from tileiras.targets import Target

if TYPE_CHECKING:
    from tileiras.dialects.nv_tileas.pipes import CreatePipelineOp
    from tileiras.ir.pass_manager import PassContext

SHARED_BYTES = 16 * 1024
"""Maximum of all `alloca`s of a function: shared memory limits the CTAs of an SM."""

# Operations whose result points to the same memory as their operand.
_MOVES = (
    tileas.AddPtrOp,
    tileas.AssumeOp,
    tileas.BroadcastOp,
    tileas.ConvertLayoutOp,
    tileas.PermuteOp,
    tileas.PtrBitcastOp,
    tileas.SplatOp,
    tileas.ViewOp,
)
_ACCESSES = (tileas.LoadOp, tileas.StoreOp, tileas.AtomicRMWOp, tileas.AtomicCASOp)
_TILED = (tileas.TiledLoadOp, tileas.TiledStoreOp)


def _pointers(value: Value, pointers: dict[Value, None]) -> bool:
    """Collect the pointers derived from `value`; False if one of them has other uses than accesses."""
    if value in pointers:
        return True
    if _points_to_half_bytes(value.type):
        return False  # their addresses are numbers
    pointers[value] = None
    for user in value.users:
        if isinstance(user, _MOVES) and user.operands[0] is value:
            fine = _pointers(user.results[0], pointers)
        elif isinstance(user, tileas.MakeMemRefOp) and user.base is value:
            views = [view for cut in user.result.users for view in cut.results]
            fine = all(isinstance(access, _TILED) for view in views for access in view.users)
        else:
            # The pointer is the first operand; a pointer that is stored escapes.
            is_address = user.operands[0] is value and value not in user.operands[1:]
            fine = isinstance(user, tileas.DeallocOp) or isinstance(user, _ACCESSES) and is_address
        if not fine:
            return False
    return True


class OptimizeAllocTensor(FunctionPass):
    name = "tileas-optimize-alloc-tensor"
    requires = "ASYNCHRONOUS"
    leaves = "ALLOCATED"
    needs = "layouts; all buffers and conversions, where they will be"
    establishes = (
        "`offset` on every buffer in shared memory, `nv_tileas.scratch` on every operation that needs scratch memory, "
        "`nv_tileas.shared_memory` on the function, columns for every buffer in tensor memory; nothing overlaps a "
        "buffer that lives with it"
    )
    keeps = "operations, except the address space of allocations that are not visible elsewhere"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        place_in_shared(func)
        place(func, gpu, context.engine)
        if gpu.has("tcgen05"):
            resources.tensor_columns.place_columns(func, context.engine)


def place_in_shared(func: aa.FuncOp) -> None:
    """Move the `alloca`s of a function of nv_tileas to shared memory where possible, by changing the types of their
    pointers."""
    available = SHARED_BYTES
    for op in [op for op in func.walk() if isinstance(op, tileas.AllocaOp)]:
        pointers: dict[Value, None] = {}
        size = aligned(op.bytes)
        if op.global_ is not None or op.alignment.value > AREA_ALIGNMENT or size > available:
            continue
        if not _pointers(op.result, pointers):
            continue
        available -= size
        for value in pointers:
            element = PtrType(element_type_of(value.type).pointee, SHARED)
            is_tensor = isinstance(value.type, TensorType)
            value.type = TensorType(value.type.shape, element, value.type.encoding) if is_tensor else element


def _points_to_half_bytes(type: PtrType | TensorType) -> bool:
    element = element_type_of(type)
    return isinstance(element, PtrType) and getattr(element.pointee, "width", 64) == 4


def place(func: aa.FuncOp, target: Target, engine: DiagnosticEngine) -> None:
    """Assign `offset` to every buffer of a function of nv_tileas and to the mbarriers of every pipe, scratch areas to
    every exchange between threads, and the total bytes to the function.

    A buffer is placed after all that are live at its allocation; mbarriers, and the areas where maps are assembled, are
    live to the end of the function, and an agent's buffers until all agents have ended.  After `consumer_tail`, an
    agent's buffers reuse the memory of the pipe, as far as it reaches.  A scratch area is placed after the buffers, and
    after earlier areas while these are small together, so that the barrier of one exchange also separates the uses of
    another; beyond that, and where an SM would hold fewer CTAs than the kernel asks for, the memory is reused.

    The size of exchanges depends on the memory left, in which they go in rounds.  If the agents before an agent leave
    it no memory, the agents with the smallest exchanges get their areas first.
    """
    failed: _Exhausted | None = None
    for small_agents_first in (False, True):
        arena = _Arena(target, func, small_agents_first)
        try:
            arena.to_the_end(func)
            arena.block(func.body.blocks[0])
        except _Exhausted as error:
            failed = failed or error
            continue
        func.attributes[tileas.SHARED_MEMORY] = IntegerAttr(arena.bytes, i32)
        for op, result in arena.remarks:
            engine.emit(Remark(result, op.location))
        return
    assert failed is not None
    text = f"needs {failed.size} bytes of shared memory, {target.name} has {shared_limit(func, target)}"
    engine.error(failed.op.location, text)


class _Exhausted(Exception):
    """An operation needs more shared memory than the target has."""

    def __init__(self, op: Operation, size: int) -> None:
        self.op = op
        self.size = size


class _GivenBack:
    """A released range of shared memory, in which an agent's buffers are placed one after the other."""

    def __init__(self, start: int, end: int) -> None:
        self._start, self._end = start, end
        self.ends: dict[Value, int] = {}
        """The end of each live buffer in the range."""

    def take(self, op: Any, size: int) -> int | None:
        """The offset of a buffer; None if it does not fit."""
        start = aligned_to(max((self._start, *self.ends.values())), _alignment(op))
        if start + size > self._end:
            return None
        self.ends[op.results[0]] = start + size
        return start


class _Arena:
    """The state of the arena during the walk of a function: live buffers, and the end of the scratch areas."""

    def __init__(self, target: Target, func: aa.FuncOp, small_agents_first: bool) -> None:
        self._limit = shared_limit(func, target)
        self._share = shared_share(target, func.kernel_spec.occupancy or 1)
        """The limit where an SM holds as many CTAs as the kernel asks for."""
        self.remarks: list[tuple[Operation, Reason]] = []
        self._warps = Warps.of(func, target.name)
        self._inherited = func.kernel_spec.num_warps
        """The warps of an agent without a number of its own."""
        self._small_agents_first = small_agents_first
        self._ends: dict[Value, int] = {}
        """The end of each live buffer."""
        self._floor = 0
        """The end of the memory of other agents, which run at the same time."""
        self._reserved = 0
        self._top = 0
        """The end of the last scratch area; `_reserved` is that of the buffers."""
        self._given_back: list[_GivenBack] = []
        """Ranges that pipes have released to the agent."""
        self._joined: set[Operation] = set()
        """Conversions whose area was assigned with an earlier one."""
        self.bytes = 0

    def to_the_end(self, func: aa.FuncOp) -> None:
        """Place allocations that live to the end of the function first, so that they do not block memory after buffers:
        mbarriers, also those of agents for their dots, and areas where maps are assembled.  Maps that the first warp of
        a program assembles and builds one after the other share an area."""
        together: dict[Block | None, Attribute] = {}
        for op in [op for op in func.walk() if op.name == names.MAP_ASSEMBLE]:
            program = program_around(op) if op.warp is None else None
            if op.warp is None and program in together:
                op.attributes["offset"] = together[program]
                continue
            self._allocate(op, op.bytes)
            if op.warp is None:
                together[program] = op.attributes["offset"]
        for op in [op for op in func.walk() if op.name in _OF_WORDS]:
            self._allocate(op, op.mbarrier_bytes if op.name == names.CREATE_PIPELINE else op.bytes)

    def block(self, block: Block) -> None:
        for op in block.operations:
            if isinstance(op, (tileas.AllocTensorOp, tileas.AllocaOp)) and (size := shared_bytes(op)):
                self._allocate(op, size)
            elif op.name in (*_OF_WORDS, names.MAP_ASSEMBLE):
                pass  # placed already
            elif isinstance(op, (tileas.DeallocTensorOp, tileas.DeallocOp)):
                self._release(op.operands[0])
            elif type(op) in EXCHANGING:
                self._exchange(op)
            elif op.name == names.AGENT_SWITCH:
                self._agents(op)
            elif op.name == names.CONSUMER_TAIL:
                self._give_back(op.consumer.defining_op)
            else:
                for region in op.regions:
                    for inner in region.blocks:
                        self.block(inner)

    def _agents(self, switch: Any) -> None:
        """Place the allocations of agents, which run at the same time and share no memory."""
        warps, floor = self._warps, self._floor
        agents = list(zip(switch.agents, switch.warps(self._inherited)))
        if self._small_agents_first:
            agents.sort(key=lambda agent: _largest_exchange(agent[0], warps._replace(count=agent[1])))
        for region, count in agents:
            self._warps, outside, self.bytes = warps._replace(count=count), self.bytes, 0
            # The agent may reuse buffers that it deallocates itself, after the last use of others.
            given_back = {op.buffer for outer in region.operations for op in outer.walk()
                          if isinstance(op, tileas.DeallocTensorOp)}  # fmt: skip
            result = [end for buffer, end in self._ends.items() if buffer not in given_back]
            self._floor = max((self._floor, *result))
            self._reserved = self._top = self._behind_buffers()
            self.block(region.block)
            self._given_back = []
            self._floor = max(self._floor, self.bytes)
            self.bytes = max(self.bytes, outside)
        self._warps, self._floor = warps, floor
        self._reserved = self._top = self._behind_buffers()

    # -- buffers -------------------------------------------------------------------------------------------------------

    def _behind_buffers(self) -> int:
        """The end of all that is live."""
        return max((self._floor, *self._ends.values()))

    def _give_back(self, pipe: CreatePipelineOp) -> None:
        """Release the memory of a pipe's buffers to the agent, if they are adjacent."""
        places = sorted((b.defining_op.offset.value, self._ends[b]) for b in pipe.buffers if b in self._ends)
        if all(a[1] + ARENA_ALIGNMENT > b[0] for a, b in zip(places, places[1:])):
            self._given_back.append(_GivenBack(places[0][0], places[-1][1]))

    def _allocate(self, op: Any, size: int) -> None:
        for each in self._given_back:
            if (place := each.take(op, size)) is not None:
                op.attributes["offset"] = IntegerAttr(place, i32)
                return
        start = aligned_to(self._behind_buffers(), _alignment(op))
        op.attributes["offset"] = IntegerAttr(start, i32)
        self._ends[op.results[0]] = self._reserved = self._top = start + size
        self._take(op, start + size)

    def _release(self, buffer: Value) -> None:
        for each in self._given_back:
            each.ends.pop(buffer, None)
        if self._ends.pop(buffer, None) is not None:
            self._reserved = self._top = self._behind_buffers()

    def _take(self, op: Operation, end: int) -> None:
        if end > self._limit:
            raise _Exhausted(op, end)
        self.bytes = max(self.bytes, end)

    # -- scratch areas -------------------------------------------------------------------------------------------------

    @property
    def _free_bytes(self) -> int:
        """Bytes of shared memory beside the live buffers."""
        return self._limit - aligned(self._reserved)

    @property
    def _scratch_limit(self) -> int:
        """Limit for all scratch areas together."""
        return min(SCRATCH_LIMIT, self._free_bytes)

    def _fits(self, size: int) -> bool:
        """Whether `size` bytes fit after the last area, without a CTA less on an SM."""
        end, start = aligned(self._top) + size, aligned(self._reserved)
        return end <= start + self._scratch_limit and (end <= self._share or start + size > self._share)

    def _area(self, op: Operation, size: int, apart: bool = True) -> int:
        """Allocate an area and return its start: after earlier areas if `apart` and it fits, else at their start."""
        start = aligned(self._top if apart and self._fits(size) else self._reserved)
        self._top = start + size
        self._take(op, start + size)
        return start

    def _exchange(self, op: Any) -> None:
        if op in self._joined:
            return
        result = exchanges(op, self._warps)
        if not result:
            op.attributes.pop(tileas.SCRATCH, None)
            return
        if self._free_bytes <= 0:
            raise _Exhausted(op, aligned(self._reserved) + result[0].bytes)
        if isinstance(op, tileas.ConvertLayoutOp) and result[0].bytes <= self._scratch_limit:
            self._conversions(op, result[0].bytes)
            return
        areas: list[ScratchAttr] = []
        for number, exchange in enumerate(result):
            size, rounds = exchange.within(self._scratch_limit, self._free_bytes)
            if exchange.joins:
                # Its elements are live together with those of the exchange before.
                start = aligned(areas[-1].offset + areas[-1].bytes)
                self._top = start + size
                self._take(op, self._top)
            else:
                joined = takewhile(lambda other: other.joins, result[number + 1 :])
                together = sum(aligned(each.bytes) for each in joined)
                start = self._area(op, size, rounds == 1 and self._fits(aligned(size) + together))
            areas.append(ScratchAttr(start, size, rounds, exchange.joins))
            self._remark(op, exchange, size, rounds)
        _set_areas(op, areas)

    def _conversions(self, op: Operation, size: int) -> None:
        """Assign areas to a conversion and those that follow it immediately and fit beside it: they share a barrier."""
        group: list[Operation] = []
        following: Operation | None = op
        while isinstance(following, tileas.ConvertLayoutOp) and following.operand.defining_op not in group:
            result = exchanges(following, self._warps)
            if not result or group and not self._fits(result[0].bytes):
                break
            size = result[0].bytes
            _set_areas(following, [ScratchAttr(self._area(following, size), size, joins=bool(group))])
            group.append(following)
            following = following.next
        self._joined.update(group)

    def _remark(self, op: Any, exchange: Exchange, size: int, rounds: int) -> None:
        if rounds == 1 or not isinstance(exchange, (Conversion, Slice)) or exchange.bytes <= self._free_bytes:
            return
        self.remarks.append((op, Reason("memory.exchange-rounds", bytes=size, rounds=rounds)))


def _largest_exchange(agent: Region, warps: Warps) -> int:
    """Bytes of the largest exchange of an agent's threads, all of it at once."""
    every = (op for outer in agent.block.operations for op in outer.walk() if type(op) in EXCHANGING)
    return max((exchange.bytes for op in every for exchange in exchanges(op, warps)), default=0)


def program_around(op: Operation) -> Block | None:
    """The program of the agent that an operation is part of; None outside of agents."""
    while op.parent_op is not None:
        if op.parent_op.name == names.AGENT_SWITCH:
            return op.parent
        op = op.parent_op
    return None


def _set_areas(op: Operation, areas: list[ScratchAttr]) -> None:
    op.attributes[tileas.SCRATCH] = ArrayAttr(areas)


_OF_WORDS = (names.CREATE_PIPELINE, names.TENSOR_RESERVE, names.MAP_RESERVE)
"""Operations with mbarriers, or with a number that one thread writes."""


def _alignment(op: Operation) -> int:
    """Alignment of an allocation: matrix descriptors and copies of boxes derive the row of a swizzle from address bits,
    threads from the offset in the buffer.  The buffer's type aligns each further stage."""
    if op.name in _OF_WORDS:
        return WORD_ALIGNMENT
    by_address = isinstance(op, tileas.AllocTensorOp) and any(map(_goes_by_address, op.result.users))
    return ARENA_ALIGNMENT if by_address else AREA_ALIGNMENT


def _goes_by_address(user: Any) -> bool:
    """Whether the hardware locates elements by address bits in an operation on a buffer."""
    if isinstance(user, tileas.CopyOp):
        return is_in_shared(user.result.type)
    if user.name == names.CREATE_PIPELINE:
        return user.kinds[0] == "bulk_load" or user.kinds[1] == "bulk_store"
    return user.name == names.TMA_STORE


def shared_bytes(op: tileas.AllocTensorOp | tileas.AllocaOp) -> int:
    """Bytes of shared memory that an operation allocates; 0 for an `alloca` on the heap."""
    if isinstance(op, tileas.AllocTensorOp):
        return op.result.type.bytes
    return op.bytes if element_type_of(op.result.type).address_space == SHARED else 0
