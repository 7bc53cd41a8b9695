"""`mbarrier`: arrivals and waits for phases (PTX ISA, "mbarrier", "Async Copy and mbarrier").

Asynchronous operations on a barrier complete as late as possible: at the second query of the end of the phase.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..launch.recording import Arrive, BarrierInit, PhaseWait, count_by_warp, place
from ..memory.loads import address_slot, note_granule, take_order
from ..order.memory_order import CTA, Order
from ..order.waits import block_id, suspend
from ..ptx.decoder import Decoder, Instruction, Modifiers, instruction
from ..ptx.module import Immediate
from ..ptx.types import PRED, U32, U64
from ..ptx.verbs import Verb, verbs
from .barrier_objects import (
    COUNT,
    TX_BIAS,
    State,
    barriers_at,
    check_free,
    check_initialised,
    note_arrivals,
    note_init,
    note_inval,
    put_state,
    state_at,
    synchronise,
)  # fmt: skip
from .landing import describe

if TYPE_CHECKING:
    from ..launch.scheduler import Batch
    from ..launch.warps import WarpGroup

#: Most unsuccessful queries of barriers without an arrival in between before the launch counts as deadlocked.
_PATIENCE = 20_000


def _space(modifiers: Modifiers) -> str:
    return "shared" if modifiers.take("shared", "shared::cta", "shared::cluster") else "generic"


class _Operation(NamedTuple):
    """An operation on barriers: the instruction, its order, and slots of the address and the amount."""

    item: Instruction
    order: Order
    space: str
    address: int
    amount: int

    def places(self, group: WarpGroup) -> tuple[np.ndarray, list[int], list[int], np.ndarray]:
        """Cells of barriers; element and number of each active thread; amounts of all threads."""
        return *barriers_at(group, self.item, self.address, self.space), group.full(self.amount)


def _operation(decoder: Decoder, item: Instruction, modifiers: Modifiers, operands: list) -> _Operation:
    order = take_order(modifiers, Order("release", CTA))
    modifiers.take("b64")
    space = _space(modifiers)
    note_granule(decoder, "shared", 8)
    address = address_slot(decoder, operands[0], space)
    amount = decoder.src(operands[1] if len(operands) > 1 else Immediate(1), U32)
    return _Operation(item, order, space, address, amount)


@instruction("mbarrier.init")
def decode_init(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    operation = _operation(decoder, item, modifiers, item.operands)

    def step(group: WarpGroup) -> None:
        cells, elements, threads, amounts = operation.places(group)
        synchronise(group, elements, threads, operation.order, operation.order.releases)
        for element, thread in zip(elements, threads):
            value = int(amounts[thread])
            if group.launch.recorder is not None:
                group.launch.recorder.operation(group, item, thread, BarrierInit(place(group, element), value))
            if "mbarrier-inval" not in group.launch.waived:
                check_free(group, item, cells, element, thread)
            note_init(group, item, element, thread)
            put_state(group, item, cells, element, thread, State(value << 1 | value << 21 | TX_BIAS << 41))
        group.launch.fruitless_waits = 0

    decoder.emit(step)


@instruction("mbarrier.inval")
def decode_inval(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    operation = _operation(decoder, item, modifiers, item.operands)

    def step(group: WarpGroup) -> None:
        cells, elements, threads, _ = operation.places(group)
        synchronise(group, elements, threads, operation.order, operation.order.releases)
        if "mbarrier-inval" not in group.launch.waived:
            for element, thread in zip(elements, threads):
                state_at(group, item, cells, element, thread)
        cells[elements] = 0
        note_inval(group, elements)
        group.launch.fruitless_waits = 0

    decoder.emit(step)


class _Change(NamedTuple):
    """Changes of a barrier for an amount of 1; ``expects``: the amount is of bytes, and one thread arrives."""

    arrivals: int
    bytes_: int
    count_change: int = 0
    expects: bool = False

    def of(self, amount: int) -> tuple[int, int]:
        """(arrivals, bytes) of an operation with an amount."""
        return self.arrivals * (1 if self.expects else amount), self.bytes_ * amount


_CHANGES = {
    "arrive": _Change(1, 0),
    "arrive_drop": _Change(1, 0, count_change=-1),
    "expect_tx": _Change(0, 1, expects=True),
    "complete_tx": _Change(0, -1),
}


@instruction(*(f"mbarrier.{name}" for name in _CHANGES))
def decode_change(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    change = _CHANGES[item.modifiers[0]]
    arrives = bool(change.arrivals)
    if modifiers.take("expect_tx"):
        change = change._replace(bytes_=1, expects=True)
    open_ended = modifiers.take("noComplete")
    operands = list(item.operands)
    slot = decoder.dst(operands.pop(0), U64) if arrives else None
    operation = _operation(decoder, item, modifiers, operands)
    order = operation.order

    def step(group: WarpGroup) -> None:
        cells, elements, threads, amounts = operation.places(group)
        if not arrives:
            synchronise(group, elements, threads, order, order.releases)
        check_initialised(group, item, elements, threads)
        note_arrivals(group, item, elements, threads, order)
        if group.launch.recorder is not None:
            _record(group, item, change, elements, threads, amounts)
        tokens = np.zeros(group.n, np.uint64)
        synchronised = 0
        for number, (element, thread) in enumerate(zip(elements, threads), 1):
            state = state_at(group, item, cells, element, thread)
            tokens[thread] = int(cells[element]) & (1 << 21) - 1  # parity and pending arrivals
            if open_ended and state.pending <= int(amounts[thread]) and not state.transactions:
                group.fault("an arrival with .noComplete completes the phase of the barrier", item, thread)
            arrivals, bytes_ = change.of(int(amounts[thread]))
            state.pending -= arrivals
            state.transactions += bytes_
            state.expected += change.count_change
            if arrives and (state.is_complete or number == len(threads)):
                # Later arrivals, of the next phase, are released by its end.
                last = slice(synchronised, number)
                synchronise(group, elements[last], threads[last], order, True)
                synchronised = number
            put_state(group, item, cells, element, thread, state)
        group.launch.fruitless_waits = 0
        if slot is not None:
            group.write(slot, tokens)

    decoder.emit(step)


def _record(
    group: WarpGroup, item: Instruction, change: _Change, elements: list[int], threads: list[int], amounts: np.ndarray
) -> None:
    """Give the recorder the changes of barriers, those of a warp together."""
    arrivals = count_by_warp(group, elements, threads, lambda thread: change.of(int(amounts[thread]))[0])
    bytes_ = count_by_warp(group, elements, threads, lambda thread: change.of(int(amounts[thread]))[1])
    for (thread, element), count in arrivals.items():
        arrival = Arrive(place(group, element), count, bytes_[thread, element])
        group.launch.recorder.operation(group, item, thread, arrival)


verbs(Verb("mbarrier.pending_count.{b64}", "u32 u64", lambda token: (token >> 1 & COUNT).astype(np.uint32)))


@instruction("mbarrier.test_wait", "mbarrier.try_wait")
def decode_wait(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    """`test_wait` queries once. `try_wait` may fail at any time: the first query of an incomplete phase by a thread
    does, to expose code that does not retry; the next one waits until the phase completes."""
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
    look = _Look(item, space, address, phase, slot, order, bool(parity))
    if not waits:
        decoder.emit(look.once)
        return

    def terminate(group: WarpGroup) -> None:
        again = look.once(group)
        if again is None:
            group.goto(following.index)
            return
        outer = group.mask
        threads = np.ones(group.n, bool) if outer is None else outer
        if group.pcs is None:
            group.goto(following.index)
        else:
            group.pcs[threads & ~again] = following.index
        group.mask = again
        suspend(group, following.index, item, look.poll, look.reason)
        group.mask = outer

    following = decoder.end_block(terminate)


class _Look:
    """An instruction that queries whether a phase of a barrier is complete, with the slots of its operands."""

    __slots__ = ("address", "item", "order", "parity", "phase", "slot", "space")

    def __init__(
        self, item: Instruction, space: str, address: int, phase: int, slot: int | None, order: Order, parity: bool
    ) -> None:
        self.item = item
        self.parity = parity
        self.space = space
        self.address = address
        self.phase = phase
        self.slot = slot
        self.order = order

    def once(self, group: WarpGroup) -> np.ndarray | None:
        """Query for the active threads. Returns those that have queried this phase unsuccessfully before, or None."""
        cells, elements, threads = barriers_at(group, self.item, self.address, self.space)
        waits = self.item.modifiers[0] == "try_wait"
        if group.launch.recorder is not None:
            self._tell(group, elements, threads, waits)
        complete = self._complete(group, cells, elements, threads)
        again = None
        if not complete.all():
            failed = [(element, thread) for element, thread in zip(elements, threads) if not complete[thread]]
            for element, thread in failed:
                sought = (element, int(cells[element]) & 1)
                if group.sought.get(thread) == sought or group.launch.recorder is not None and waits:
                    again = np.zeros(group.n, bool) if again is None else again
                    again[thread] = True
                group.sought[thread] = sought
        if self.slot is not None:
            group.write(self.slot, complete)
        if complete.any() or waits:
            group.launch.fruitless_waits = 0
        else:
            group.penalty += 200  # yield to the others
            group.launch.fruitless_waits += 1
            if group.launch.fruitless_waits > _PATIENCE:
                lines = self.reason(group, threads[0])
                text = "\n    ".join(["deadlock: no further arrival at this transaction barrier is possible", *lines])
                group.fault(text, self.item, threads[0])
        return again

    def _tell(self, group: WarpGroup, elements: list[int], threads: list[int], waits: bool) -> None:
        phases = group.full(self.phase)
        first: dict[tuple[int, int], int] = {}
        for element, thread in zip(elements, threads):
            first.setdefault((thread >> 5, element), thread)
        for (_, element), thread in first.items():
            phase_wait = PhaseWait(place(group, element), int(phases[thread]) & 1, waits)
            group.launch.recorder.operation(group, self.item, thread, phase_wait)

    def _complete(self, group: WarpGroup, cells: np.ndarray, elements: list[int], threads: list[int]) -> np.ndarray:
        """bool per thread of the group: those of ``threads`` whose phase is complete after completing due copies."""
        phases = group.full(self.phase)
        if self.parity and (bad := phases[threads] > 1).any():
            # PTX ISA, "mbarrier.test_wait": "the valid values of phaseParity operand are 0 and 1".
            thread = threads[int(bad.argmax())]
            group.fault(f"the parity of a phase is 0 or 1, and not {int(phases[thread])}", self.item, thread)
        values = (phases[threads] & 1).tolist()
        phase_parities = dict(zip(elements, values))
        _deliver(group.batch, cells, phase_parities)
        check_initialised(group, self.item, elements, threads)
        parities = {each: state_at(group, self.item, cells, each, threads[0]).parity for each in phase_parities}
        complete = np.zeros(group.n, bool)
        complete[threads] = [parities[element] != parity for element, parity in zip(elements, values)]
        completions = [(element, thread) for element, thread in zip(elements, threads) if complete[thread]]
        if completions:
            synchronise(group, *(list(each) for each in zip(*completions)), self.order, False, True)
        return complete

    def poll(self, group: WarpGroup, lanes: np.ndarray) -> np.ndarray:
        outer, group.mask = group.mask, lanes
        complete = self._complete(group, *barriers_at(group, self.item, self.address, self.space))
        if self.slot is not None and complete.any():
            group.R[self.slot] = np.where(complete, True, group.R[self.slot])
        group.mask = outer
        return complete

    def reason(self, group: WarpGroup, thread: int) -> list[str]:
        outer, group.mask = group.mask, np.arange(group.n) == thread
        cells, (element,), _ = barriers_at(group, self.item, self.address, self.space)
        group.mask = outer
        return missing(group, cells, element, int(group.full(self.phase)[thread]) & 1)


def missing(group: WarpGroup, cells: np.ndarray, element: int, parity: int) -> list[str]:
    """Missing arrivals of a phase of a barrier, and the warps that could arrive."""
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
        lines[0] += f", and {-state.transactions} bytes more have come than expected"
    arrived = batch.arrivals.describe(batch, element)
    flying = [copy for copy in batch.bulk_copies if copy.cell == element]
    for copy in flying[:2]:
        lines.append(f"in flight to it: {describe(copy)}")
    if not arrived and not flying:
        lines.append("nothing has ever arrived there or is in flight to it")
    return lines + arrived


def _deliver(batch: Batch, cells: np.ndarray, phases: dict[int, int]) -> None:
    """Complete operations on barriers whose ``phases``, by element, are queried, except at the first query, which
    may fail, and no more of them than end the phase."""
    if not any(copy.cell in phases for copy in batch.bulk_copies):
        return
    rest = []
    for copy in batch.bulk_copies:
        if copy.cell in phases and int(cells[copy.cell]) & 1 == phases[copy.cell]:
            batch.moved = True
            if copy.seen:
                later = getattr(copy, "later", None)
                waiting = later(State(int(cells[copy.cell])).pending) if later is not None else None
                copy.land(batch)
                rest += [waiting] if waiting is not None else []
                continue
            copy.seen = True
        rest.append(copy)
    batch.bulk_copies = rest
