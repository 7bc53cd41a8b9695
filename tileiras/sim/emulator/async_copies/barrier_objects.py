"""mbarrier objects in shared memory (PTX ISA, "mbarrier").

The 64 bits of a barrier object hold, from bit 0: the phase's parity, the pending arrivals (20 bits), the arrivals that
the next phase starts with (20), the pending transaction bytes plus 2**20 (21), and a mark (2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..memory.accesses import resolve
from ..order.memory_order import CLUSTER, Order
from ..order.waits import block_id
from ..ptx.decoder import Instruction

if TYPE_CHECKING:
    from ..launch.scheduler import Batch
    from ..launch.warps import WarpGroup
    from ..order.knowledge import Vector

_U64 = np.dtype(np.uint64)
#: Mask of a field of arrivals.
COUNT = (1 << 20) - 1
TX_BIAS = 1 << 20
_MARK = 1


class State:
    """A decoded barrier object."""

    __slots__ = ("expected", "parity", "pending", "transactions")

    def __init__(self, bits: int) -> None:
        self.parity = bits & 1
        self.pending = bits >> 1 & COUNT
        self.expected = bits >> 21 & COUNT
        self.transactions = (bits >> 41 & (1 << 21) - 1) - TX_BIAS

    @property
    def is_complete(self) -> bool:
        return self.pending == 0 and self.transactions == 0

    def bits(self) -> int:
        """The object's bits, after starting the next phase if this one is complete."""
        if self.is_complete:
            self.parity ^= 1
            self.pending = self.expected
        transactions = self.transactions + TX_BIAS
        return self.parity | self.pending << 1 | self.expected << 21 | transactions << 41 | _MARK << 62


def change_counts(
    group: WarpGroup, item: Instruction, thread: int, cell: int, pending: int = 0, transactions: int = 0
) -> None:
    """Add to the pending arrivals and transactions of a barrier, after what is released with them (`complete`)."""
    cells = group.batch.shared.view(np.uint64)
    state = State(int(cells[cell]))
    state.pending += pending
    state.transactions += transactions
    put_state(group, item, cells, cell, thread, state)


def complete(group: WarpGroup, thread: int, cell: int, knowledge: Vector | None = None) -> None:
    """Release the copy of ``thread``, and the clocks of ``knowledge``, to threads that observe the completion."""
    races, batch = group.launch.races, group.batch
    if races is not None:
        block = races.clocks.first // races.clocks.per_block + cell * 8 // batch.shared_stride
        races.clocks.complete(int(group.numbers[thread]), block, -1 - cell * 8 // races.granule, knowledge)


def barrier_cell(
    group: WarpGroup, item: Instruction, space: str, address: int, thread: int, asynchronous: bool = False
) -> int:
    """The element of shared memory that holds a barrier, which the asynchronous proxy signals with ``asynchronous``."""
    (access,) = resolve(group, item, space, np.array([address], np.uint64), _U64, True, np.array([thread]), 8)
    element = int(access.index[0])
    check_initialised(group, item, [element], [thread])
    state_at(group, item, group.batch.shared.view(np.uint64), element, thread)  # the operation may signal at once
    hidden = group.batch.unfenced_barriers.get(element) if asynchronous else None
    if hidden is not None:
        group.fault(
            f"this barrier was initialised at line {hidden.item.line} ({hidden.item.text}), and no "
            "fence.mbarrier_init or fence.proxy.async between", item, thread,
        )  # fmt: skip
    return element


def barriers_at(
    group: WarpGroup, item: Instruction, address: int, space: str
) -> tuple[np.ndarray, list[int], list[int]]:
    """(shared memory as 64-bit elements, element numbers, threads) for the active threads."""
    threads = group.active()
    elements, numbers = [], []
    for access in resolve(group, item, space, group.full(address)[threads], _U64, True, threads, 8):
        if not access.shared:
            group.fault("a transaction barrier outside shared memory", item, int(access.threads[0]))
        elements += access.index.tolist()
        numbers += access.threads.tolist()
    return group.batch.shared.view(np.uint64), elements, numbers


def state_at(group: WarpGroup, item: Instruction, cells: np.ndarray, element: int, thread: int) -> State:
    bits = int(cells[element])
    if bits >> 62 != _MARK:
        group.fault("a transaction barrier that is not initialised", item, thread)
    return State(bits)


def put_state(group: WarpGroup, item: Instruction, cells: np.ndarray, element: int, thread: int, state: State) -> None:
    if state.pending < 0:
        group.fault("more arrivals at a transaction barrier than it was initialised for", item, thread)
    if abs(state.transactions) >= TX_BIAS:
        group.fault("the transaction count of a barrier overflows", item, thread)
    if state.is_complete and group.launch.races is not None:
        group.launch.races.clocks.end_phase(-1 - element * 8 // group.launch.races.granule)
    cells[element] = state.bits()


class Initialised(NamedTuple):
    """Initialisation of a barrier: thread, its clock, the instruction, and the phase of the cluster's barrier at
    which the thread next arrives after its `fence.mbarrier_init`, None without a fence."""

    thread: int
    clock: int
    item: Instruction
    released: int | None = None


def note_init(group: WarpGroup, item: Instruction, element: int, thread: int) -> None:
    races = group.launch.races
    if races is None:
        return
    number = int(group.numbers[thread])
    clock = int(races.clocks.own[(number >> 5) - races.clocks.first])
    group.batch.initialised[element] = Initialised(number, clock, item)
    group.batch.unfenced_barriers[element] = group.batch.initialised[element]
    group.batch.known_initialised = {key for key in group.batch.known_initialised if key[0] != element}


def check_free(group: WarpGroup, item: Instruction, cells: np.ndarray, element: int, thread: int) -> None:
    """Check that an initialised place does not hold a barrier (PTX ISA, "mbarrier.init")."""
    if element in group.batch.initialised and int(cells[element]) >> 62 == _MARK:
        group.fault("a transaction barrier is there already, and no mbarrier.inval since", item, thread)


def note_inval(group: WarpGroup, elements: list[int]) -> None:
    for element in elements:
        group.batch.initialised.pop(element, None)
        group.batch.unfenced_barriers.pop(element, None)


def show_initialised(group: WarpGroup) -> None:
    """The active threads run a fence that makes their initialised barriers visible to the asynchronous proxy (PTX
    ISA, "membar, fence": `.mbarrier_init`, `.proxy.async`)."""
    hidden = group.batch.unfenced_barriers
    if hidden:
        own = set(group.numbers[group.active()].tolist())
        for element in [element for element, entry in hidden.items() if entry.thread in own]:
            del hidden[element]


def release_initialised(group: WarpGroup) -> None:
    """The active threads run `fence.mbarrier_init.release.cluster`: their next arrival at the cluster's barrier,
    even a relaxed one, releases the barriers that they have initialised (PTX ISA, "membar, fence"), but no other
    writes."""
    batch = group.batch
    if group.launch.races is not None:
        threads = group.active().tolist()
        by_number = dict(zip(group.numbers[threads].tolist(), threads))
        for element, entry in batch.initialised.items():
            if entry.released is None and entry.thread in by_number:
                phase = batch.cluster_barriers.next_arrival(group, by_number[entry.thread])
                batch.initialised[element] = entry._replace(released=phase)
    show_initialised(group)


def check_initialised(group: WarpGroup, item: Instruction, elements: list[int], threads: list[int]) -> None:
    """Check that the initialisation of barriers happens before their use; the cluster's barrier orders it even with
    relaxed arrivals, as `fence.mbarrier_init` releases it to threads that have waited there."""
    races, batch = group.launch.races, group.batch
    if races is None or not batch.initialised:
        return
    result: dict[int, list[int]] = {}
    for element, thread in zip(elements, threads):
        key = (element, group, thread)
        if key not in batch.known_initialised:
            batch.known_initialised.add(key)
            result.setdefault(element, []).append(thread)
    for element, those in result.items():
        entry = batch.initialised.get(element)
        if entry is None:
            continue
        late = np.array(those)[group.numbers[those] != entry.thread]
        if group.cluster_waited is not None and entry.released is not None:
            late = late[group.cluster_waited[late] < entry.released]
        init = (np.full(late.size, each) for each in (entry.thread, entry.clock))
        bad = races.clocks.unordered(group.numbers[late], *init)
        if bad.any():
            group.fault(
                f"this barrier was initialised at line {entry.item.line} ({entry.item.text}) by another thread, and no "
                "barrier between", item, int(late[bad.argmax()]),
            )  # fmt: skip


def synchronise(
    group: WarpGroup, elements: list[int], threads: list[int], order: Order, arrives: bool, waited: bool = False
) -> None:
    """Arrivals release to a barrier object, successful waits (`waited`) acquire from it, up to the last complete phase;
    a relaxed arrival releases the accesses covered by an earlier fence."""
    races = group.launch.races
    if races is not None:
        if "barrier-scope" in group.launch.waived:
            order = order._replace(scope=max(order.scope, CLUSTER))
        keys = [-1 - element * 8 // races.granule for element in elements]
        numbers = group.numbers[threads].tolist()
        # As read-modify-writes: each continues earlier releases.
        races.clocks.synchronise(numbers, keys, order, True, arrives, waited)


class FarArrival(NamedTuple):
    """The last arrival of a thread at a barrier of another block, or the fence before it if it is relaxed, at the clock
    of its warp."""

    group: WarpGroup
    item: Instruction
    thread: int
    clock: int


def check_arrivals_seen(batch: Batch, ended: np.ndarray) -> None:
    """Blocks have ended, and with them their barriers: they have to have waited for all arrivals of other blocks."""
    races = batch.launch.races
    if races is None or "ended-block" in batch.launch.waived:
        return
    own = races.clocks.first // races.clocks.per_block
    for (block, number), arrival in batch.far_arrivals.items():
        if block in ended and not races.clocks.block_knows(own + block, number, arrival.clock):
            text = f"block {block_id(batch, block)} may have ended before this arrival, which it has not waited for"
            arrival.group.fault(text, arrival.item, arrival.thread)


def note_arrivals(
    group: WarpGroup, item: Instruction, elements: list[int], threads: list[int], order: Order | None = None
) -> None:  # fmt: skip
    """Remember who arrives at barriers, for the report of a deadlock, and with an ``order`` for the end of other
    blocks."""
    batch, races = group.batch, group.launch.races
    for element, thread in zip(elements, threads) if races is not None and order is not None else ():
        block = element * 8 // batch.shared_stride
        if block != group.cta[thread]:
            if batch.live_threads[block] == 0 and "ended-block" not in group.launch.waived:
                group.fault(f"an arrival at a barrier of block {block_id(batch, block)}, which has ended", item, thread)
            number = int(group.numbers[thread])
            clock = races.clocks.released(number, order)
            if clock is not None:
                batch.far_arrivals[block, number] = FarArrival(group, item, thread, clock)
    numbers, ctas = group.thread[threads] // 32, group.cta[threads]
    result: dict[int, set[tuple[int, int]]] = {}
    for element, cta, warp in zip(elements, ctas.tolist(), numbers.tolist()):
        result.setdefault(element, set()).add((cta, warp))
    for element, warps in result.items():
        group.batch.arrivals.note(element, item, warps)
