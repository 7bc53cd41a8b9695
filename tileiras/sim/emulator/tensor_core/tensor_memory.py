"""Tensor memory (PTX ISA, "Tensor Memory", "Tensor Memory Allocation"): 128 lanes of 512 columns of 32 bits per block.

Columns are allocated by one warp, in powers of two from 32 to 512, with all their lanes. An address has the lane in its
upper and the column in its lower half. A block's allocations do not grow from one to the next, and no allocation
follows `relinquish_alloc_permit`; both warps of a pair of blocks allocate and free together.

Columns are allocated from the last one down, to expose code that assumes column 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..errors import EmulationError
from ..order.waits import block_id
from ..ptx.module import Instruction

if TYPE_CHECKING:
    from ..launch.scheduler import Batch
    from ..launch.warps import WarpGroup

LANES, COLUMNS = 128, 512
#: Lanes that each warp of a warpgroup can access with `ld` and `st`.
QUARTER = 32
_UNIT = 32


class Region(NamedTuple):
    """Cells of one block (its position in the batch): a bit per lane, and columns from ``first`` to before ``last``."""

    block: int
    lanes: int
    first: int
    last: int

    def overlaps(self, other: Region) -> bool:
        return self.first < other.last and other.first < self.last and self.lanes & other.lanes != 0

    def covers(self, other: Region) -> bool:
        return self.first <= other.first and other.last <= self.last and not other.lanes & ~self.lanes


ALL_LANES = (1 << LANES) - 1


def lane_bits(lanes: np.ndarray) -> int:
    """The bits of lane numbers."""
    mask = np.zeros(LANES, np.uint8)
    mask[lanes] = 1
    return int.from_bytes(np.packbits(mask, bitorder="little").tobytes(), "little")


def split_address(address: int) -> tuple[int, int]:
    """(lane, column)."""
    return address >> 16 & 0xFFFF, address & 0xFFFF


class Cells:
    """The tensor memory of one block: ``words`` and which of their bytes are ``written``; ``owners`` is the number
    of a column's allocation, 0 for free columns."""

    __slots__ = ("allocations", "largest", "owners", "relinquished", "words", "written")

    def __init__(self) -> None:
        self.words = np.full((LANES, COLUMNS), 0xCDCDCDCD, np.uint32)
        self.written = np.zeros((LANES, COLUMNS, 4), bool)
        self.owners = np.zeros(COLUMNS, np.int32)
        self.allocations: dict[int, int] = {}  # first column -> columns
        self.largest = COLUMNS  # most columns of the next allocation
        self.relinquished = False

    def free_columns(self, count: int) -> list[int]:
        """First columns of free ranges of ``count`` columns, the last first."""
        places = range(COLUMNS - count, -1, -count)
        return [first for first in places if not self.owners[first : first + count].any()]

    def allocate(self, first: int, count: int) -> None:
        self.owners[first : first + count] = first + 1
        self.written[:, first : first + count] = False
        self.words[:, first : first + count] = 0xCDCDCDCD
        self.allocations[first] = count
        self.largest = count

    def free(self, first: int) -> None:
        count = self.allocations.pop(first)
        self.owners[first : first + count] = 0


class Request(NamedTuple):
    """A pending request of a warp of ``block``: `alloc` or `dealloc` of ``count`` columns, from ``first`` on."""

    kind: str
    first: int
    count: int


class TensorMemory:
    """The tensor memory of the blocks of a batch."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.launch = batch.launch
        self._cells: dict[int, Cells] = {}
        self.requests: dict[tuple[int, int], Request] = {}  # (block, warp) -> its pending request
        self.granted: dict[tuple[int, int], int] = {}  # (block, warp) -> first column of its allocation

    def cells(self, block: int) -> Cells:
        if block not in self._cells:
            self._cells[block] = Cells()
        return self._cells[block]

    def peer(self, block: int) -> int | None:
        """The other block of the pair (PTX ISA, "CTA Pair"); None in a cluster of an odd number."""
        members = self.launch.members
        other = block // members * members + (block % members ^ 1)
        return other if block % members ^ 1 < members else None

    def pair(self, group: WarpGroup, item: Instruction, block: int, cta_group: int, thread: int) -> list[int]:
        """The blocks that an instruction operates on, the even one first."""
        if cta_group == 1:
            return [block]
        other = self.peer(block)
        if other is None:
            group.fault(".cta_group::2 needs a cluster with an even number of blocks", item, thread)
        if not self.batch.live_threads[other]:
            group.fault("the other block of the pair has ended", item, thread)
        return sorted((block, other))

    # -- allocation ------------------------------------------------------------------------------------------------

    def check_count(self, group: WarpGroup, item: Instruction, count: int, thread: int) -> None:
        if count not in (32, 64, 128, 256, 512):
            group.fault(f"{count} columns of tensor memory are no power of two from 32 to 512", item, thread)

    def check_permit(self, group: WarpGroup, item: Instruction, block: int, count: int, thread: int) -> None:
        cells = self.cells(block)
        if cells.relinquished:
            group.fault("the block has given up its permit to allocate tensor memory", item, thread)
        if count > cells.largest:
            group.fault(f"{count} columns of tensor memory after {cells.largest}, and allocations may not grow", item,
                        thread)  # fmt: skip

    def check_allocated(self, group: WarpGroup, item: Instruction, region: Region, thread: int) -> None:
        """Check that every column is allocated, and all of one region by one allocation."""
        if region.last > COLUMNS:
            group.fault(f"column {region.last - 1} is outside of tensor memory", item, thread)
        owners = self.cells(region.block).owners[region.first : region.last]
        if not owners.all():
            column = region.first + int((owners == 0).argmax())
            group.fault(f"column {column} of tensor memory is not allocated", item, thread)
        if (owners != owners[0]).any():
            span = f"columns {region.first} to {region.last - 1}"
            group.fault(f"{span} of tensor memory are of several allocations", item, thread)

    def request(self, group: WarpGroup, item: Instruction, thread: int, kind: str, first: int, count: int) -> None:
        """The warp of ``thread`` begins to wait for an allocation or a deallocation."""
        key = (int(group.cta[thread]), int(group.thread[thread]) // 32)
        for (block, warp), request in self.requests.items():
            if block == key[0] and kind == request.kind == "dealloc" and first == request.first:
                text = f"{count} columns of tensor memory from {first:#x} on are being freed by warp {warp} already"
                group.fault(text, item, thread)
            if group.program.cta_group == 2 and block == self.peer(key[0]) and request.kind == kind:
                if request != Request(kind, first, count):
                    group.fault(f"the blocks of a pair {kind} {request.count} and {count} columns", item, thread)
        self.requests[key] = Request(kind, first, count)

    def poll(self, key: tuple[int, int], cta_group: int) -> bool:
        """Whether the request of the warp ``key`` is granted; with a pair, both blocks make the same request."""
        block, _ = key
        if key in self.granted:
            return True
        own_request = self.requests[key]
        blocks = [block]
        keys = [key]
        if cta_group == 2:
            other = self.peer(block)
            match = [each for each, request in self.requests.items()
                     if each[0] == other and request == own_request and each not in self.granted]  # fmt: skip
            if not match:
                return False
            blocks.append(other)
            keys.append(match[0])
        if own_request.kind == "alloc":
            places = [self.cells(each).free_columns(own_request.count) for each in blocks]
            common = [first for first in places[0] if all(first in each for each in places)]
            if not common:
                return False
            first = common[0]
            for each in blocks:
                self.cells(each).allocate(first, own_request.count)
        else:
            first = own_request.first
            for each in blocks:
                self.cells(each).free(first)
        for each in keys:
            self.granted[each] = first
        return True

    def waits_for(self, key: tuple[int, int]) -> str:
        """Condition that a request waits for."""
        request = self.requests[key]
        other = self.peer(key[0])
        columns = ", ".join(f"{count} from {first}" for first, count in sorted(self.cells(key[0]).allocations.items()))
        if request.kind == "alloc" and columns:
            return f"{request.count} free columns of tensor memory; allocated are {columns}"
        return f"block {block_id(self.batch, other)}, to {request.kind} the same columns of tensor memory"

    def finish(self, key: tuple[int, int]) -> int:
        """Remove the granted request of a warp and return its first column."""
        del self.requests[key]
        return self.granted.pop(key)

    def check_end(self, blocks: np.ndarray) -> None:
        """Check that ended blocks have freed all columns. Raises EmulationError."""
        for block in blocks.tolist():
            if block in self._cells and (allocations := self._cells[block].allocations):
                first, count = next(iter(allocations.items()))
                rest = f"{count} columns of tensor memory allocated, from column {first} on"
                raise EmulationError(f"block {block_id(self.batch, block)} ends with {rest}")

    # -- cells -----------------------------------------------------------------------------------------------------

    def check_written(self, group: WarpGroup, item: Instruction, region: Region, thread: int) -> None:
        if not self.launch.check_uninitialised:
            return
        lanes = lanes_of(region.lanes)
        init_bits = self.cells(region.block).written[lanes, region.first : region.last]
        if not init_bits.all():
            lane, column, _ = np.argwhere(~init_bits)[0].tolist()
            group.fault(unwritten(lanes[lane], region.first + column), item, thread)


def unwritten(lane: int, column: int) -> str:
    """Message of a read of unwritten memory."""
    return f"lane {lane}, column {column} of tensor memory is read before it is written"


_LANES_OF: dict[int, np.ndarray] = {}


def lanes_of(bits: int) -> np.ndarray:
    """The lane numbers of a mask, ascending."""
    lanes = _LANES_OF.get(bits)
    if lanes is None:
        raw = np.frombuffer(bits.to_bytes(LANES // 8, "little"), np.uint8)
        lanes = _LANES_OF[bits] = np.flatnonzero(np.unpackbits(raw, bitorder="little"))
    return lanes
