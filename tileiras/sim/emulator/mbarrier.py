"""Transaction barriers in shared memory and what completes on them (PTX ISA, "mbarrier", "Async Copy and mbarrier").

The 64 bits of a barrier object hold, from bit 0: the phase's parity, the pending arrivals (20 bits), the arrivals that
the next phase starts with (20), the transaction bytes still to come plus 2**20 (21), and a mark (2).

What is in flight to a barrier lands when somebody looks for the second time for the end of the phase, and not before.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from . import proxies
from .accesses import RANK, RANK_BIT, Access, merged, resolve
from .decoder import Decoder, Instruction, Modifiers, instruction
from .happens_before import CLUSTER, CTA, GPU, Order
from .loads import address_slot, note_granule, take_order
from .ptx_module import Immediate, Sink
from .recording import Arrive, BarrierInit, PhaseWait, count_by_warp, place
from .types import PRED, U32, U64
from .waits import block_id, suspend

#: The order of the single updates of a reduction by a bulk copy (PTX ISA, "cp.reduce.async.bulk").
RELAXED = Order("relaxed", GPU)
_U64 = np.dtype(np.uint64)
_BYTE = np.dtype(np.uint8)
_COUNT = (1 << 20) - 1
_TX_BIAS = 1 << 20
_MARK = 1
#: Looks at barriers that found nothing, without any arrival in between, after which nobody is coming any more.
_PATIENCE = 20_000


class State:
    """A barrier object taken apart."""

    __slots__ = ("expected", "parity", "pending", "transactions")

    def __init__(self, bits: int) -> None:
        self.parity = bits & 1
        self.pending = bits >> 1 & _COUNT
        self.expected = bits >> 21 & _COUNT
        self.transactions = (bits >> 41 & (1 << 21) - 1) - _TX_BIAS

    def bits(self) -> int:
        """The object's bits, after starting the next phase when this one is complete."""
        if self.pending == 0 and self.transactions == 0:
            self.parity ^= 1
            self.pending = self.expected
        transactions = self.transactions + _TX_BIAS
        return self.parity | self.pending << 1 | self.expected << 21 | transactions << 41 | _MARK << 62


class BulkCopy:
    """Bytes from ``source`` to ``target`` that ``thread`` of ``group`` copies; ``cell`` is the element of shared memory
    that holds the barrier, or None for a copy of the thread's bulk group ``number``."""

    __slots__ = (
        "cell", "combine", "convert", "data", "generic", "group", "item", "missing", "number", "seen", "source",
        "target", "thread",
    )  # fmt: skip

    def __init__(
        self, group, item: Instruction, thread: int, source: list[Access], target: list[Access], cell: int | None,
        convert=None, combine=None, generic: bool = False,
    ) -> None:  # fmt: skip
        """``convert`` makes what is written of what was read; without it both are the same bytes.  ``combine``: from
        what is there and what comes to what is there then, for reductions.  ``generic``: what writes is not the
        asynchronous proxy."""
        self.group = group
        self.item = item
        self.thread = thread
        self.number = int(group.bulk_groups[thread])
        self.source = source
        self.target = target
        self.cell = cell
        self.convert = convert
        self.combine = combine
        self.generic = generic
        self.missing = 0  # bytes that are counted without being copied
        self.seen = False
        self.data: np.ndarray | None = None

    def read(self, checked: bool = False) -> None:
        """``checked``: `read_together` has been there."""
        if self.data is None:
            if self.group.launch.races is not None and not checked:
                for access in self.source:
                    self.group.launch.races.read(self.group, self.item, access, generic=False)
            pieces = [each.data[each.index] for each in self.source]
            data = np.concatenate(pieces) if pieces else np.zeros(0, _BYTE)
            self.data = data if self.convert is None else self.convert(data)

    def uses(self, stride: int) -> set[int]:
        """The blocks whose shared memory it still reads or writes; ``stride``: bytes from one to the next."""
        accesses = [*self.target, *(self.source if self.data is None else ())]
        return {
            int(block) for access in accesses if access.shared
            for block in np.unique(access.index * access.data.itemsize // stride)
        }  # fmt: skip

    def land(self, batch) -> None:
        self.read()
        at = 0
        races = self.group.launch.races
        for each in self.target:
            raw = self.data[at : at + each.index.size]
            if self.combine is not None:
                raw = self.combine(each.data[each.index], raw)
                if races is not None:
                    turns = np.arange(each.index.size)
                    races.update(self.group, self.item, each, RELAXED, turns, generic=self.generic)
                each.data[each.index] = raw
            elif races is not None:
                races.write(self.group, self.item, each, raw, generic=self.generic)
            else:
                each.data[each.index] = raw
            at += each.index.size
            if each.shared and batch.shared_written is not None:
                batch.shared_written.reshape(-1, raw.itemsize)[each.index] = True
        if self.cell is not None:
            change_counts(self.group, self.item, self.thread, self.cell, transactions=-self.data.nbytes - self.missing)
            complete(self.group, self.thread, self.cell)


def read_together(copies: list[BulkCopy]) -> None:
    """Have copies of one thread or several read what they copy, those of one instruction looked at as one."""
    by_item: dict[tuple[object, int], list[BulkCopy]] = {}
    for copy in copies:
        if copy.data is None:
            by_item.setdefault((copy.group, id(copy.item)), []).append(copy)
    for those in by_item.values():
        group, item = those[0].group, those[0].item
        if group.launch.races is not None:
            for access in merged([access for copy in those for access in copy.source]):
                group.launch.races.read(group, item, access, generic=False)
        for copy in those:
            copy.read(checked=True)


def change_counts(group, item: Instruction, thread: int, cell: int, pending: int = 0, transactions: int = 0) -> None:
    """Adds to the arrivals and transactions that a barrier waits for."""
    cells = group.batch.shared.view(np.uint64)
    state = State(int(cells[cell]))
    state.pending += pending
    state.transactions += transactions
    _put(group, item, cells, cell, thread, state)


def complete(group, thread: int, cell: int, known=None) -> None:
    """A thread that sees the phase of a barrier complete sees what was copied by ``thread``, and what is ``known``."""
    races, batch = group.launch.races, group.batch
    if races is not None:
        block = races.clocks.first // races.clocks.per_block + cell * 8 // batch.shared_stride
        races.clocks.complete(int(group.numbers[thread]), block, -1 - cell * 8 // races.granule, known)


def barrier_cell(group, item: Instruction, space: str, address: int, thread: int) -> int:
    """The element of shared memory that holds a barrier."""
    (access,) = resolve(group, item, space, np.array([address], np.uint64), _U64, True, np.array([thread]), 8)
    check_initialised(group, item, [int(access.index[0])], [thread])
    return int(access.index[0])


def begin_landing(group, item: Instruction, stored: list[Access], reads: bool = False, generic: bool = False) -> None:
    """From now on an asynchronous copy may write, and with ``reads`` change what is there; ``generic``: not through the
    asynchronous proxy."""
    written = group.batch.shared_written
    for access in stored:
        if access.shared and written is not None and not reads:
            written.reshape(-1, access.data.itemsize)[access.index] = False
        if group.launch.races is not None:
            group.launch.races.begin_copy(group, item, access)
            if access.shared and not generic:
                proxies.check_overwrite(group.launch.races, group, item, access)


def check_places(group, item: Instruction, stored: list[Access], cell: int, thread: int, other: bool = False,
                 pair: bool = False) -> None:  # fmt: skip
    """A barrier is in the shared memory that is written, or with ``pair`` in that of either block of the pair;
    ``other``: that memory has to be another block's (PTX ISA, cp.async.bulk)."""
    stride = group.batch.shared_stride
    own, block = int(group.cta[thread]), cell * 8 // stride
    for access in stored:
        if not access.shared or not access.index.size:
            continue
        target = int(access.index[0]) * access.data.itemsize // stride
        if target != block and not (pair and target // 2 == block // 2):
            group.fault("the barrier of a copy is in another block's shared memory than what it writes", item, thread)
        if other and target == own:
            group.fault("a bulk copy from shared::cta to shared::cluster within one block", item, thread)


def begin_reading(group, item: Instruction, loaded: list[Access]) -> None:
    """What the asynchronous proxy reads has to be visible to it by now."""
    races = group.launch.races
    for access in loaded:
        if races is not None and access.index.size:
            races.read(group, item, access, generic=False)
            proxies.check_read(races, group, item, access)


def in_block(address: int, rank: int | None) -> int:
    """A shared address in the block of a rank of the cluster."""
    return address if rank is None else rank << RANK_BIT | address & RANK - 1


def ranks_of(mask: int | None) -> list[int | None]:
    return [None] if mask is None else [rank for rank in range(16) if mask >> rank & 1]


def _cells(group, item: Instruction, address: int, space: str) -> tuple[np.ndarray, list[int], list[int]]:
    """(shared memory as 64-bit elements, element numbers, threads) for the active threads."""
    threads = group.active()
    elements, numbers = [], []
    for access in resolve(group, item, space, group.full(address)[threads], _U64, True, threads, 8):
        if not access.shared:
            group.fault("a transaction barrier outside shared memory", item, int(access.threads[0]))
        elements += access.index.tolist()
        numbers += access.threads.tolist()
    return group.batch.shared.view(np.uint64), elements, numbers


def _state(group, item: Instruction, cells: np.ndarray, element: int, thread: int) -> State:
    bits = int(cells[element])
    if bits >> 62 != _MARK:
        group.fault("a transaction barrier that is not initialised", item, thread)
    return State(bits)


def _put(group, item: Instruction, cells: np.ndarray, element: int, thread: int, state: State) -> None:
    if state.pending < 0:
        group.fault("more arrivals at a transaction barrier than it was initialised for", item, thread)
    if abs(state.transactions) >= _TX_BIAS:
        group.fault("the transaction count of a barrier overflows", item, thread)
    cells[element] = state.bits()


class Initialised(NamedTuple):
    """Who initialised a barrier: thread, its clock, the instruction, and the phase of the cluster's barrier then."""

    thread: int
    clock: int
    item: Instruction
    phase: int


def _note_init(group, item: Instruction, element: int, thread: int) -> None:
    races = group.launch.races
    if races is None:
        return
    number = int(group.numbers[thread])
    clock = int(races.clocks.own[(number >> 5) - races.clocks.first])
    barriers = group.batch.cluster_barriers
    phase = int(barriers.phase[int(group.cta[thread]) // barriers.members])
    group.batch.initialised[element] = Initialised(number, clock, item, phase)
    group.batch.known_initialised = {key for key in group.batch.known_initialised if key[0] != element}


def check_initialised(group, item: Instruction, elements: list[int], threads: list[int]) -> None:
    """Barriers are used by threads that are after their initialisation; by way of the cluster's barrier even where
    arrivals are relaxed, as `fence.mbarrier_init` releases it."""
    races, batch = group.launch.races, group.batch
    if races is None or not batch.initialised:
        return
    asked: dict[int, list[int]] = {}
    for element, thread in zip(elements, threads):
        key = (element, group, thread)
        if key not in batch.known_initialised:
            batch.known_initialised.add(key)
            asked.setdefault(element, []).append(thread)
    barriers = batch.cluster_barriers
    for element, those in asked.items():
        known = batch.initialised.get(element)
        if known is None:
            continue
        late = np.array(those)[group.numbers[those] != known.thread]
        if group.cluster_phase is not None:
            met, phase = group.cluster_phase[late], barriers.phase[group.cta[late] // barriers.members]
            late = late[~((known.phase <= met) & (met < phase))]
        init = (np.full(late.size, each) for each in (known.thread, known.clock))
        bad = races.clocks.unordered(group.numbers[late], *init)
        if bad.any():
            group.fault(
                f"this barrier was initialised at line {known.item.line} ({known.item.text}) by another thread, and no "
                "barrier between", item, int(late[bad.argmax()]),
            )  # fmt: skip


def _synchronise(group, elements: list[int], threads: list[int], order: Order) -> None:
    """Arrivals release to a barrier object, waits that succeed acquire from it."""
    races = group.launch.races
    if races is not None:
        if "barrier-scope" in group.launch.waived:
            order = order._replace(scope=max(order.scope, CLUSTER))
        keys = [-1 - element * 8 // races.granule for element in elements]
        numbers = group.numbers[threads].tolist()
        # As read-modify-writes: each continues what was released before.
        races.clocks.synchronise(numbers, keys, order, True, order.releases)


def _space(modifiers: Modifiers) -> str:
    return "shared" if modifiers.take("shared", "shared::cta", "shared::cluster") else "generic"


@instruction("mbarrier")
def decode_mbarrier(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    operation = modifiers.take(
        "init", "inval", "arrive", "arrive_drop", "expect_tx", "complete_tx", "test_wait", "try_wait", "pending_count"
    )
    if operation in ("test_wait", "try_wait"):
        _decode_wait(decoder, item, modifiers)
        return
    if operation == "pending_count":
        modifiers.take("b64")
        target, token = decoder.operands(2)
        state_slot = decoder.src(token, U64)
        decoder.put(target, U32, lambda R: (R[state_slot] >> np.uint64(1) & np.uint64(_COUNT)).astype(np.uint32),
                    raw=True)  # fmt: skip
        return
    expect = modifiers.take("expect_tx") or operation == "expect_tx"
    open_ended = modifiers.take("noComplete")
    if operation is None:
        raise decoder.unsupported()
    order = take_order(modifiers, Order("release", CTA))
    modifiers.take("b64")
    space = _space(modifiers)
    note_granule(decoder, "shared", 8)
    operands = list(item.operands)
    result = operands.pop(0) if operation in ("arrive", "arrive_drop") else Sink()
    slot = decoder.dst(result, U64)
    address = address_slot(decoder, operands[0], space)
    amount = decoder.src(operands[1] if len(operands) > 1 else Immediate(1), U32)

    def change(state: State | None, value: int) -> State:
        if operation == "init":
            state = State(value << 1 | value << 21 | _TX_BIAS << 41)
        elif operation == "complete_tx":
            state.transactions -= value
        elif operation == "expect_tx":
            state.transactions += value
        else:
            if expect:
                state.transactions += value
            if operation == "arrive_drop":
                state.expected -= 1
            state.pending -= 1 if expect else value
        return state

    def tell(group, elements: list[int], threads: list[int], amounts: np.ndarray) -> None:
        recorder = group.launch.recorder
        if operation == "init":
            for element, thread in zip(elements, threads):
                told = BarrierInit(place(group, element), int(amounts[thread]))
                recorder.operation(group, item, thread, told)
        elif operation != "inval":
            counts = count_by_warp(group, elements, threads, lambda thread: int(amounts[thread]))
            here = count_by_warp(group, elements, threads, lambda thread: 1)
            for (thread, element), total in counts.items():
                arrives = operation in ("arrive", "arrive_drop")
                bytes_ = total if expect else -total if operation == "complete_tx" else 0
                count = (here[thread, element] if expect else total) if arrives else 0
                recorder.operation(group, item, thread, Arrive(place(group, element), count, bytes_))

    def step(group) -> None:
        cells, elements, threads = _cells(group, item, address, space)
        _synchronise(group, elements, threads, order)
        if operation not in ("init", "inval"):
            check_initialised(group, item, elements, threads)
            note_arrivals(group, item, elements, threads)
        amounts = group.full(amount)
        if group.launch.recorder is not None:
            tell(group, elements, threads, amounts)
        tokens = np.zeros(group.n, np.uint64)
        for element, thread in zip(elements, threads):
            if operation == "inval":
                if "mbarrier-inval" not in group.launch.waived:
                    _state(group, item, cells, element, thread)
                continue
            if operation == "init":
                _note_init(group, item, element, thread)
            state = None if operation == "init" else _state(group, item, cells, element, thread)
            if state is not None:
                tokens[thread] = int(cells[element]) & (1 << 21) - 1  # parity and pending arrivals
                if open_ended and state.pending <= int(amounts[thread]) and not state.transactions:
                    group.fault("an arrival with .noComplete completes the phase of the barrier", item, thread)
            _put(group, item, cells, element, thread, change(state, int(amounts[thread])))
        if operation == "inval":
            cells[elements] = 0
        group.launch.fruitless_waits = 0
        if slot is not None:
            group.write(slot, tokens)

    decoder.emit(step)


def _decode_wait(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    """`test_wait` looks once.  `try_wait` may give up at any time: the first look of a thread at a phase that is not
    complete does, so that code that does not look again is found out; the next waits until the phase completes."""
    waits = item.modifiers[0] == "try_wait"
    parity = modifiers.take("parity")
    order = take_order(modifiers, Order("acquire", CTA))
    modifiers.take("b64")
    space = _space(modifiers)
    note_granule(decoder, "shared", 8)
    if len(item.operands) not in (3, 4):
        raise decoder.error("expected a predicate, a barrier and a phase")
    slot = decoder.dst(item.operands[0], PRED)
    address = address_slot(decoder, item.operands[1], space)
    phase = decoder.src(item.operands[2], U32 if parity else U64)
    look = _Look(item, space, address, phase, slot, order)
    if not waits:
        decoder.emit(look.once)
        return

    def terminate(group) -> None:
        again = look.once(group)
        if again is None:
            group.goto(following.index)
            return
        outer = group.mask
        chosen = np.ones(group.n, bool) if outer is None else outer
        if group.pcs is None:
            group.goto(following.index)
        else:
            group.pcs[chosen & ~again] = following.index
        group.mask = again
        suspend(group, following.index, item, look.poll, look.reason)
        group.mask = outer

    following = decoder.end_block(terminate)


class _Look:
    """An instruction that looks whether a phase of a barrier is complete, and the slots of what it names."""

    __slots__ = ("address", "item", "order", "phase", "slot", "space")

    def __init__(self, item: Instruction, space: str, address: int, phase: int, slot: int | None, order: Order) -> None:
        self.item = item
        self.space = space
        self.address = address
        self.phase = phase
        self.slot = slot
        self.order = order

    def once(self, group) -> np.ndarray | None:
        """Look for the active threads.  Gives those that have looked at this phase in vain before, None for none."""
        cells, elements, threads = _cells(group, self.item, self.address, self.space)
        waits = self.item.modifiers[0] == "try_wait"
        if group.launch.recorder is not None:
            self._tell(group, elements, threads, waits)
        done = self._complete(group, cells, elements, threads)
        again = None
        if not done.all():
            failed = [(element, thread) for element, thread in zip(elements, threads) if not done[thread]]
            for element, thread in failed:
                sought = (element, int(cells[element]) & 1)
                if group.sought.get(thread) == sought or group.launch.recorder is not None and waits:
                    again = np.zeros(group.n, bool) if again is None else again
                    again[thread] = True
                group.sought[thread] = sought
        if self.slot is not None:
            group.write(self.slot, done)
        if done.any() or waits:
            group.launch.fruitless_waits = 0
        else:
            group.penalty += 200  # let the others have a turn
            group.launch.fruitless_waits += 1
            if group.launch.fruitless_waits > _PATIENCE:
                lines = self.reason(group, threads[0])
                text = "\n    ".join(["deadlock: nobody arrives at this transaction barrier any more", *lines])
                group.fault(text, self.item, threads[0])
        return again

    def _tell(self, group, elements: list[int], threads: list[int], waits: bool) -> None:
        phases = group.full(self.phase)
        for thread, element in count_by_warp(group, elements, threads, lambda thread: 1):
            first = next(each for each, where in zip(threads, elements) if where == element and each & ~31 == thread)
            told = PhaseWait(place(group, element), int(phases[first]) & 1, waits)
            group.launch.recorder.operation(group, self.item, thread, told)

    def _complete(self, group, cells: np.ndarray, elements: list[int], threads: list[int]) -> np.ndarray:
        """bool per thread of the group: those of ``threads`` whose phase is complete, having let copies land."""
        phases = group.full(self.phase)
        wanted = {element: int(phases[thread]) & 1 for element, thread in zip(elements, threads)}
        _deliver(group.batch, cells, wanted)
        check_initialised(group, self.item, elements, threads)
        parities = {element: _state(group, self.item, cells, element, threads[0]).parity for element in wanted}
        done = np.zeros(group.n, bool)
        done[threads] = [parities[element] != int(phases[thread]) & 1 for element, thread in zip(elements, threads)]
        passed = [(element, thread) for element, thread in zip(elements, threads) if done[thread]]
        if passed:
            _synchronise(group, *(list(each) for each in zip(*passed)), self.order)
        return done

    def poll(self, group, lanes: np.ndarray) -> np.ndarray:
        outer, group.mask = group.mask, lanes
        done = self._complete(group, *_cells(group, self.item, self.address, self.space))
        if self.slot is not None and done.any():
            group.R[self.slot] = np.where(done, True, group.R[self.slot])
        group.mask = outer
        return done

    def reason(self, group, thread: int) -> list[str]:
        outer, group.mask = group.mask, np.arange(group.n) == thread
        cells, (element,), _ = _cells(group, self.item, self.address, self.space)
        group.mask = outer
        return missing(group, cells, element, int(group.full(self.phase)[thread]) & 1)


def missing(group, cells: np.ndarray, element: int, parity: int) -> list[str]:
    """What a phase of a barrier lacks, and who would have to bring it."""
    batch, state = group.batch, State(int(cells[element]))
    cta, offset = divmod(element * 8, batch.shared_stride)
    text = f"the phase of parity {parity} of the barrier at shared address {offset:#x} of block {block_id(batch, cta)}"
    lacking = []
    if state.pending:
        lacking.append(f"{state.pending} of {state.expected} arrivals")
    if state.transactions > 0:
        lacking.append(f"{state.transactions} bytes of transactions")
    lines = [f"{text} lacks {' and '.join(lacking) or 'no arrival'}"]
    if state.transactions < 0:
        lines[0] += f", and {-state.transactions} bytes more have come than it was told to expect"
    arrived = batch.arrivals.describe(batch, element)
    flying = [copy for copy in batch.bulk_copies if copy.cell == element]
    for copy in flying[:2]:
        lines.append(f"in flight to it: {describe(copy)}")
    if not arrived and not flying:
        lines.append("nothing has ever arrived there or is in flight to it")
    return lines + arrived


def check_end(batch, ended: np.ndarray) -> None:
    """Blocks have ended, and with them their shared memory: nothing may be in flight from or to it."""
    gone = set(ended.tolist())
    # What has nothing left to do but to arrive at its own block's barrier ends with the block.
    batch.bulk_copies = [copy for copy in batch.bulk_copies if not gone & getattr(copy, "settled_in", set())]
    for copy in batch.bulk_copies:
        blocks = copy.uses(batch.shared_stride) if isinstance(copy, BulkCopy) else set()
        if copy.cell is not None:
            blocks.add(copy.cell * 8 // batch.shared_stride)
        for block in sorted(blocks & gone):
            where = f"shared memory of block {block_id(batch, block)}, which has ended"
            copy.group.fault(f"this was not waited for, and is in flight from or to {where}", copy.item, copy.thread)


def describe(flying) -> str:
    """What is in flight, of one of the batch's ``bulk_copies``."""
    own = getattr(flying, "describe", None)
    return own() if own is not None else f"line {flying.item.line}: {flying.item.text}"


def note_arrivals(group, item: Instruction, elements: list[int], threads: list[int]) -> None:
    """Remember who arrives at barriers, for the report of a deadlock."""
    numbers, ctas = group.thread[threads] // 32, group.cta[threads]
    found: dict[int, set[tuple[int, int]]] = {}
    for element, cta, warp in zip(elements, ctas.tolist(), numbers.tolist()):
        found.setdefault(element, set()).add((cta, warp))
    for element, warps in found.items():
        group.batch.arrivals.note(element, item, warps)


def _deliver(batch, cells: np.ndarray, phases: dict[int, int]) -> None:
    """Somebody looks for the end of ``phases`` of barriers, by element: what completes on them lands, but not at the
    first look, which may find nothing, and no more of it than ends the phase."""
    if not any(copy.cell in phases for copy in batch.bulk_copies):
        return
    rest = []
    for copy in batch.bulk_copies:
        if copy.cell in phases and int(cells[copy.cell]) & 1 == phases[copy.cell]:
            batch.moved = True
            if copy.seen:
                copy.land(batch)
                continue
            copy.seen = True
        rest.append(copy)
    batch.bulk_copies = rest
