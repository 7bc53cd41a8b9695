"""Recording interface of a launch: the basic blocks that each warp executes, its accesses, and its operations on
asynchronous units and barriers.

A `Recorder` is passed to `emulate`; without one, none of this code runs. Barriers and places are identified by the
position of their block in the batch and their offset in its shared memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from ..ptx.module import Instruction
from ..ptx.program import Block

if TYPE_CHECKING:
    from .warps import WarpGroup


class Place(NamedTuple):
    """Place in shared memory: position of the block in the batch, and byte offset."""

    cta: int
    offset: int


class Copy(NamedTuple):
    """Start of an asynchronous copy.

    ``kind``: `cp.async`, `bulk` or `tensor`; ``direction``: `load` (global to shared memory), `store` (shared to
    global), `shared` (to another block of the cluster). ``bytes`` is the size at one destination, ``rows`` the number
    of its contiguous runs in global memory. ``destinations`` are the receiving blocks, several with multicast;
    ``barriers`` signal completion, one at each destination, empty for a copy of a group. ``addresses`` are the global
    addresses of existing elements (a box may exceed its tensor), ``element`` bytes each.  ``targets``: of `cp.async`,
    the shared addresses that each of ``lanes`` writes ``element`` bytes to.
    """

    kind: str
    direction: str
    bytes: int
    rows: int
    destinations: tuple[int, ...]
    barriers: tuple[Place, ...]
    addresses: np.ndarray | None
    element: int
    targets: np.ndarray | None = None
    lanes: np.ndarray | None = None


class Multiply(NamedTuple):
    """A dot of tensor cores, m x n x k, of elements of a type; ``kind``: `mma` (see `Recorder.product`), `wgmma` or
    `tcgen05`.

    ``a_bytes`` and ``b_bytes`` are its reads from the shared memory of each participating block. A `wgmma` is recorded
    once per warp, with the shape of its whole warpgroup; ``blocks`` is 2 if a pair of blocks computes.
    """

    kind: str
    m: int
    n: int
    k: int
    type: str
    accumulator: str
    a_bytes: int
    b_bytes: int
    blocks: int


class Commit(NamedTuple):
    """Pending operations of the thread become a group of ``kind`` (`cp.async`, `bulk`, `wgmma`), or, with
    ``barriers``, arrive ``count`` times at each of them on completion (`tcgen05`, `cp.async`)."""

    kind: str
    barriers: tuple[Place, ...] = ()
    count: int = 1


class WaitGroup(NamedTuple):
    """A wait until at most ``pending`` groups of ``kind`` are in flight; ``reads``: until their sources have been read;
    ``uncommitted``: and operations that are in no group yet (`cp.async.wait_all`)."""

    kind: str
    pending: int
    reads: bool = False
    uncommitted: bool = False


class Transfer(NamedTuple):
    """`ld`, `st`, `cp` (between registers or shared memory and tensor memory) or a wait for those of a warp: `wait`."""

    kind: str
    bytes: int


class BarrierInit(NamedTuple):
    """Initialisation of an mbarrier whose phases take ``count`` arrivals."""

    barrier: Place
    count: int


class Arrive(NamedTuple):
    """``count`` arrivals at an mbarrier, which also add ``bytes`` to the pending bytes of the phase."""

    barrier: Place
    count: int
    bytes: int


class PhaseWait(NamedTuple):
    """A wait for the end of the phase of ``parity``; ``blocking`` except for `test_wait`."""

    barrier: Place
    parity: int
    blocking: bool


class BlockBarrier(NamedTuple):
    """A barrier of the block for ``threads`` (0: all); without ``waits`` the warp only arrives."""

    number: int
    threads: int
    waits: bool


class ClusterBarrier(NamedTuple):
    """The barrier of the cluster: an arrival, or the wait for the phase of the last arrival."""

    waits: bool


class SetRegisters(NamedTuple):
    """`setmaxnreg`: registers of each thread from here on."""

    count: int
    increases: bool


class Sleep(NamedTuple):
    """`nanosleep`: the warp is idle for about `nanoseconds`."""

    nanoseconds: int


Operation = (
    Copy | Multiply | Commit | WaitGroup | Transfer | BarrierInit | Arrive | PhaseWait | BlockBarrier | ClusterBarrier
    | SetRegisters | Sleep
)  # fmt: skip


class Recorder(Protocol):
    """Receiver of the events of a launch. ``group`` is a `warps.WarpGroup`; threads and rows are numbered within it."""

    def visit(self, group: WarpGroup, block: Block) -> None:
        """The active warps enter a basic block; their later events belong to it until they enter the next one."""

    def access(self, group: WarpGroup, item: Instruction, space: str, addresses: np.ndarray, size: int,
               threads: np.ndarray, write: bool, atomic: bool = False) -> None:  # fmt: skip
        """Threads access ``size`` bytes each at ``addresses``, of ``space`` (generic ones of any)."""

    def product(self, item: Instruction, product: Multiply) -> None:
        """The active warps execute an `mma`, which is equal at each execution."""

    def operation(self, group: WarpGroup, item: Instruction, thread: int, operation: Operation) -> None:
        """The warp of a thread executes an operation; if several threads of a warp do, each is reported separately
        unless the operation counts them."""


def each_warp(group: WarpGroup, item: Instruction, operation: Operation) -> None:
    """Report an operation that every active warp executes once."""
    recorder = group.launch.recorder
    for row in np.flatnonzero(group.active_lanes().any(1)).tolist():
        recorder.operation(group, item, row * 32, operation)


def warp_parts(threads: np.ndarray) -> Iterator[tuple[int, slice]]:
    """(number of a warp in its group, the part of ``threads``, which are in order, that are its own)."""
    count = threads.size
    if count and count == threads[-1] - threads[0] + 1 and not (threads[0] % 32 or count % 32):  # whole warps
        first = int(threads[0]) // 32
        for number in range(count // 32):
            yield first + number, slice(32 * number, 32 * (number + 1))
        return
    warps = threads // 32
    cuts = (np.flatnonzero(warps[1:] != warps[:-1]) + 1).tolist()
    if warps.size:
        for start, end in zip([0, *cuts], [*cuts, warps.size]):
            yield int(warps[start]), slice(start, end)


def place(group: WarpGroup, element: int) -> Place:
    """Place of the 64-bit element of a batch's shared memory that holds a barrier."""
    return Place(*divmod(element * 8, group.batch.shared_stride))


def count_by_warp(group: WarpGroup, elements: list[int], threads: list[int], amounts: Callable[[int], int]) -> dict:
    """(first thread of a warp, element) -> the sum of the amounts of its threads there."""
    counts: dict[tuple[int, int], int] = {}
    for element, thread in zip(elements, threads):
        key = (thread & ~31, element)
        counts[key] = counts.get(key, 0) + amounts(thread)
    return counts
