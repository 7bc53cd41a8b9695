"""`mbarrier`: arrivals and waits for phases (PTX ISA, "mbarrier", "Async Copy and mbarrier").

Asynchronous operations on a barrier complete as late as possible: at the second query of the end of the phase.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..launch.recording import Arrive, BarrierInit, PhaseWait, count_by_warp, place
from ..memory.loads import address_slot, note_granule, take_order
from ..order.memory_order import CTA, Order
from ..order.waits import block_id, suspend
from ..ptx.decoder import Decoder, Instruction, Modifiers, instruction
from ..ptx.module import Immediate, Sink
from ..ptx.types import PRED, U32, U64
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


@instruction("mbarrier")
def decode_mbarrier(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    operation = modifiers.take(
        "init", "inval", "arrive", "arrive_drop", "expect_tx", "complete_tx", "test_wait", "try_wait", "pending_count"
    )
    if operation in ("test_wait", "try_wait"):
        _decode_wait(decoder, item, modifiers)
        return
    if operation == "pending_count":
        _decode_pending_count(decoder, modifiers)
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

    def step(group: WarpGroup) -> None:
        cells, elements, threads = barriers_at(group, item, address, space)
        arrives = operation in ("arrive", "arrive_drop")
        if not arrives:
            synchronise(group, elements, threads, order, order.releases)
        if operation not in ("init", "inval"):
            check_initialised(group, item, elements, threads)
            note_arrivals(group, item, elements, threads)
        amounts = group.full(amount)
        if group.launch.recorder is not None:
            _record(group, item, operation, expect, elements, threads, amounts)
        tokens = np.zeros(group.n, np.uint64)
        synchronised = 0
        for number, (element, thread) in enumerate(zip(elements, threads), 1):
            if operation == "inval":
                if "mbarrier-inval" not in group.launch.waived:
                    state_at(group, item, cells, element, thread)
                continue
            if operation == "init":
                if "mbarrier-inval" not in group.launch.waived:
                    check_free(group, item, cells, element, thread)
                note_init(group, item, element, thread)
            state = None if operation == "init" else state_at(group, item, cells, element, thread)
            if state is not None:
                tokens[thread] = int(cells[element]) & (1 << 21) - 1  # parity and pending arrivals
                if open_ended and state.pending <= int(amounts[thread]) and not state.transactions:
                    group.fault("an arrival with .noComplete completes the phase of the barrier", item, thread)
            state = _changed(state, operation, expect, int(amounts[thread]))
            if arrives and (state.is_complete or number == len(threads)):
                # Later arrivals, of the next phase, are released by its end.
                last = slice(synchronised, number)
                synchronise(group, elements[last], threads[last], order, True)
                synchronised = number
            put_state(group, item, cells, element, thread, state)
        if operation == "inval":
            cells[elements] = 0
            note_inval(group, elements)
        group.launch.fruitless_waits = 0
        if slot is not None:
            group.write(slot, tokens)

    decoder.emit(step)


def _record(
    group: WarpGroup, item: Instruction, operation: str, expect: bool, elements: list[int], threads: list[int],
    amounts: np.ndarray,
) -> None:
    """Give the recorder the operations of threads on barriers; `expect` as for `_changed`."""
    recorder = group.launch.recorder
    if operation == "init":
        for element, thread in zip(elements, threads):
            recorder.operation(group, item, thread, BarrierInit(place(group, element), int(amounts[thread])))
    elif operation != "inval":
        counts = count_by_warp(group, elements, threads, lambda thread: int(amounts[thread]))
        here = count_by_warp(group, elements, threads, lambda thread: 1)
        for (thread, element), total in counts.items():
            arrives = operation in ("arrive", "arrive_drop")
            bytes_ = total if expect else -total if operation == "complete_tx" else 0
            count = (here[thread, element] if expect else total) if arrives else 0
            recorder.operation(group, item, thread, Arrive(place(group, element), count, bytes_))


def _changed(state: State | None, operation: str, expect: bool, value: int) -> State:
    """The state of a barrier after an operation with the operand `value`; `expect`: `arrive.expect_tx` and its like."""
    if state is None:
        return State(value << 1 | value << 21 | TX_BIAS << 41)  # init
    if operation == "complete_tx":
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


def _decode_pending_count(decoder: Decoder, modifiers: Modifiers) -> None:
    modifiers.take("b64")
    target, token = decoder.operands(2)
    state_slot = decoder.src(token, U64)
    decoder.put(target, U32, lambda R: (R[state_slot] >> np.uint64(1) & np.uint64(COUNT)).astype(np.uint32),
                raw=True)  # fmt: skip


def _decode_wait(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
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
            group.penalty += 200  # yield to the others
            group.launch.fruitless_waits += 1
            if group.launch.fruitless_waits > _PATIENCE:
                lines = self.reason(group, threads[0])
                text = "\n    ".join(["deadlock: nobody arrives at this transaction barrier any more", *lines])
                group.fault(text, self.item, threads[0])
        return again

    def _tell(self, group: WarpGroup, elements: list[int], threads: list[int], waits: bool) -> None:
        phases = group.full(self.phase)
        for thread, element in count_by_warp(group, elements, threads, lambda thread: 1):
            first = next(each for each, where in zip(threads, elements) if where == element and each & ~31 == thread)
            told = PhaseWait(place(group, element), int(phases[first]) & 1, waits)
            group.launch.recorder.operation(group, self.item, thread, told)

    def _complete(self, group: WarpGroup, cells: np.ndarray, elements: list[int], threads: list[int]) -> np.ndarray:
        """bool per thread of the group: those of ``threads`` whose phase is complete after completing due copies."""
        phases = group.full(self.phase)
        if self.parity and (bad := phases[threads] > 1).any():
            # PTX ISA, "mbarrier.test_wait": "the valid values of phaseParity operand are 0 and 1".
            thread = threads[int(bad.argmax())]
            group.fault(f"the parity of a phase is 0 or 1, and not {int(phases[thread])}", self.item, thread)
        wanted = {element: int(phases[thread]) & 1 for element, thread in zip(elements, threads)}
        _deliver(group.batch, cells, wanted)
        check_initialised(group, self.item, elements, threads)
        parities = {element: state_at(group, self.item, cells, element, threads[0]).parity for element in wanted}
        done = np.zeros(group.n, bool)
        done[threads] = [parities[element] != int(phases[thread]) & 1 for element, thread in zip(elements, threads)]
        passed = [(element, thread) for element, thread in zip(elements, threads) if done[thread]]
        if passed:
            synchronise(group, *(list(each) for each in zip(*passed)), self.order, False, True)
        return done

    def poll(self, group: WarpGroup, lanes: np.ndarray) -> np.ndarray:
        outer, group.mask = group.mask, lanes
        done = self._complete(group, *barriers_at(group, self.item, self.address, self.space))
        if self.slot is not None and done.any():
            group.R[self.slot] = np.where(done, True, group.R[self.slot])
        group.mask = outer
        return done

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
        lines[0] += f", and {-state.transactions} bytes more have come than it was told to expect"
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
