"""Clusters that take over the work of clusters that have not started (PTX ISA, "clusterlaunchcontrol").

A request is answered in shared memory, at the time at which a bulk copy completes; the answer is opaque to programs,
and in the emulator has the first block's id in its first three words and a mark in the fourth. A launch of a program
with requests runs one cluster after the other, so that some clusters have not started.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..async_copies.barrier_objects import barrier_cell
from ..async_copies.landing import BulkCopy, begin_landing, check_places, in_block
from ..memory.accesses import resolve
from ..memory.loads import address_slot, note_granule
from ..ptx.decoder import Decoder, Instruction, Modifiers, instruction
from ..ptx.module import Group
from ..ptx.types import B32, PRED, TYPES

if TYPE_CHECKING:
    from .warps import WarpGroup

_RESPONSE = np.dtype(np.complex128)
_BYTES = 16
_CANCELLED, _NONE = 0xC1C1C1C1, 0x0FA11ED0


class Request(BulkCopy):
    """A request of ``thread``, whose answer goes to the block of each target."""

    __slots__ = ("answer",)

    def __init__(self, group: WarpGroup, item: Instruction, thread: int, target: list, cell: int, answer: list) -> None:
        super().__init__(group, item, thread, [], target, cell)
        self.answer = answer  # one for all blocks that receive a request's answer: empty until the first completes

    def read(self) -> None:
        if self.data is not None:
            return
        launch = self.group.launch
        if not self.answer:
            self.answer.append(launch.cancel())
        first = self.answer[0]
        words = [*first, _CANCELLED] if first is not None else [0, 0, 0, _NONE]
        self.data = np.array(words, np.uint32).view(_RESPONSE)
        if first is None:
            batch = self.group.batch
            batch.units.setdefault("refused requests", set()).add(self.cell * 8 // batch.shared_stride)


@instruction("clusterlaunchcontrol.try_cancel.async")
def decode_request(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    if not modifiers.take("b128") or not modifiers.take("mbarrier::complete_tx::bytes"):
        raise decoder.unsupported()
    decoder.program.bulk_copies = decoder.program.cancels = True
    space = "shared" if modifiers.take("shared::cta") else "generic"
    multicast = bool(modifiers.take("multicast::cluster::all"))
    target, barrier = decoder.operands(2)
    address, place = address_slot(decoder, target, space), address_slot(decoder, barrier, space)
    note_granule(decoder, space, 8)

    def step(group: WarpGroup) -> None:
        for thread in group.active().tolist():
            cta = int(group.cta[thread])
            if cta in group.batch.units.get("refused requests", ()):
                group.fault("a request to cancel a launch after one of this block was refused", item, thread)
            base, bar = int(group.full(address)[thread]), int(group.full(place)[thread])
            if base % _BYTES:
                group.fault(f"address {base:#x} is not aligned to 16 bytes", item, thread, base)
            answer: list = []
            for rank in range(group.launch.members) if multicast else [None]:
                addresses = np.array([in_block(base, rank)], np.uint64)
                places = resolve(group, item, space, addresses, _RESPONSE, True, np.array([thread]), _BYTES)
                cell = barrier_cell(group, item, space, in_block(bar, rank), thread, asynchronous=True)
                check_places(group, item, places, cell, thread)
                begin_landing(group, item, places)
                group.batch.bulk_copies.append(Request(group, item, thread, places, cell, answer))

    decoder.emit(step)


@instruction("clusterlaunchcontrol.query_cancel")
def decode_query(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    if not modifiers.take("b128"):
        raise decoder.unsupported()
    wide = TYPES["b128"]
    asks = modifiers.take("is_canceled")
    axis = modifiers.take("get_first_ctaid::x", "get_first_ctaid::y", "get_first_ctaid::z")
    every = modifiers.take("get_first_ctaid")
    result, response = decoder.operands(2)
    source = decoder.src(response, wide)

    def words(group: WarpGroup) -> np.ndarray:
        """(threads or 1, 4): the answer of each active thread, checked to be valid."""
        value = group.R[source]
        rows = np.ascontiguousarray(value).view(np.uint32).reshape(value.size, 4)
        marks = np.broadcast_to(rows[:, 3], (group.n,))[group.active()]
        if (bad := ~np.isin(marks, (_CANCELLED, _NONE))).any():
            group.fault("no answer to a request to cancel a launch", item, int(group.active()[bad.argmax()]))
        return rows

    if asks:
        modifiers.take("pred")
        flag = decoder.dst(result, PRED)
        decoder.emit(lambda group: group.write(flag, words(group)[:, 3] == _CANCELLED))
        return
    if not modifiers.take("b32") or axis is None and not (every and modifiers.take("v4") and isinstance(result, Group)):
        raise decoder.unsupported()
    if axis is not None:
        fields = [("xyz".index(axis[-1]), decoder.dst(result, B32))]
    else:
        fields = list(enumerate(decoder.dst(each, B32) for each in result.items[:3]))

    def step(group: WarpGroup) -> None:
        rows = words(group)
        refused = np.broadcast_to(rows[:, 3] == _NONE, (group.n,))[group.active()]
        if refused.any():
            thread = int(group.active()[refused.argmax()])
            group.fault("the block of a launch that was not cancelled", item, thread)
        for column, slot in fields:
            if slot is not None:
                group.write(slot, np.ascontiguousarray(rows[:, column]))

    decoder.emit(step)
