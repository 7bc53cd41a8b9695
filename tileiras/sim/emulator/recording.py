"""What a launch tells of itself while it runs: the basic blocks that each warp executes, what it accesses, and what it
asks of asynchronous units and barriers.

A `Recorder` is given to `emulate`; without one nothing here is executed.  Barriers and places are named by the position
of their block in the batch and their offset in its shared memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from .program import Block
from .ptx_module import Instruction

if TYPE_CHECKING:
    from .warps import WarpGroup


class Place(NamedTuple):
    """Bytes of shared memory: position of the block in the batch, and offset there."""

    cta: int
    offset: int


class Copy(NamedTuple):
    """An asynchronous copy begins.

    ``kind``: `cp.async`, `bulk` or `tensor`; ``direction``: `load` (global to shared memory), `store` (shared to
    global), `shared` (to another block of the cluster).  ``bytes`` are what one destination gets, ``rows`` the runs of
    consecutive bytes in global memory that it is made of.  ``destinations`` are the blocks that get it, several with
    multicast; ``barriers`` what it completes on, one of each destination, none for a copy of a group.  ``addresses``
    are global, of the elements that exist (a box may reach out of its tensor), ``element`` bytes each.
    """

    kind: str
    direction: str
    bytes: int
    rows: int
    destinations: tuple[int, ...]
    barriers: tuple[Place, ...]
    addresses: np.ndarray | None
    element: int


class Multiply(NamedTuple):
    """A product of tensor cores, m x n x k, of elements of a type; ``kind``: `mma` (see `Recorder.product`), `wgmma` or
    `tcgen05`.

    ``a_bytes`` and ``b_bytes`` are what it reads of the shared memory of each block that takes part.  A `wgmma` is told
    of once a warp, with the shape that its whole warpgroup computes; ``blocks`` is 2 where a pair of blocks computes.
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
    """What the thread has begun becomes a group of ``kind`` (`cp.async`, `bulk`, `wgmma`), or, with ``barriers``, has
    an arrival at each of them once it is complete (`tcgen05`, `cp.async`)."""

    kind: str
    barriers: tuple[Place, ...] = ()


class WaitGroup(NamedTuple):
    """A wait until at most ``left`` groups of ``kind`` are in flight; ``reads``: until their sources have been read."""

    kind: str
    left: int
    reads: bool = False


class Transfer(NamedTuple):
    """`ld`, `st`, `cp` (between registers or shared memory and tensor memory) or a wait for those of a warp: `wait`."""

    kind: str
    bytes: int


class BarrierInit(NamedTuple):
    """A transaction barrier whose phases take ``count`` arrivals."""

    barrier: Place
    count: int


class Arrive(NamedTuple):
    """``count`` arrivals at a transaction barrier, after which the phase lacks ``expected`` bytes more."""

    barrier: Place
    count: int
    expected: int


class PhaseWait(NamedTuple):
    """A wait for the end of the phase of ``parity``; ``blocking`` unless the instruction only looks (`test_wait`)."""

    barrier: Place
    parity: int
    blocking: bool


class BlockBarrier(NamedTuple):
    """A barrier of the block: ``threads`` (0: all) have to come; without ``waits`` the warp only arrives."""

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
    """`nanosleep`: the warp does nothing for about `nanoseconds`."""

    nanoseconds: int


Operation = (
    Copy | Multiply | Commit | WaitGroup | Transfer | BarrierInit | Arrive | PhaseWait | BlockBarrier | ClusterBarrier
    | SetRegisters | Sleep
)  # fmt: skip


class Recorder(Protocol):
    """What a launch tells.  ``group`` is a `warps.WarpGroup`; threads and rows are numbered within it."""

    def visit(self, group: WarpGroup, block: Block) -> None:
        """The active warps begin a basic block; what follows of them belongs to it until their next one."""

    def access(self, group: WarpGroup, item: Instruction, space: str, addresses: np.ndarray, size: int,
               threads: np.ndarray, write: bool, atomic: bool = False) -> None:  # fmt: skip
        """Threads access ``size`` bytes each at ``addresses``, of ``space`` (generic ones of
        any)."""

    def product(self, item: Instruction, product: Multiply) -> None:
        """The active warps execute an `mma`, which is the same each time."""

    def operation(self, group: WarpGroup, item: Instruction, thread: int, operation: Operation) -> None:
        """The warp of a thread has done something; where several threads of a warp do, they are told of one by one
        unless the operation counts them."""


def each_warp(group: WarpGroup, item: Instruction, operation: Operation) -> None:
    """Tell of what every active warp does once."""
    recorder = group.launch.recorder
    for row in np.flatnonzero(group.active_lanes().any(1)).tolist():
        recorder.operation(group, item, row * 32, operation)


def place(group: WarpGroup, element: int) -> Place:
    """Where the 64-bit element of a batch's shared memory is that holds a barrier."""
    return Place(*divmod(element * 8, group.batch.shared_stride))


def count_by_warp(group: WarpGroup, elements: list[int], threads: list[int], amounts: Callable[[int], int]) -> dict:
    """(first thread of a warp, element) -> the sum of the amounts of its threads there."""
    counts: dict[tuple[int, int], int] = {}
    for element, thread in zip(elements, threads):
        key = (thread & ~31, element)
        counts[key] = counts.get(key, 0) + amounts(thread)
    return counts
