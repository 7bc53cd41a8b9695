"""Loads and stores of tensor memory, `tcgen05.ld` and `tcgen05.st` (PTX ISA, "Data Movement Shape").

A warp accesses the quarter of the lanes with its number modulo 4.  With l the lane of the warp and r the register,
the fragments contain (lane, column) relative to the address

- 32x32b:    (l, r)
- 16x64b:    (l / 4 + 8 (l % 2), l / 2 % 2 + 2 r)
- 16x128b:   (l / 4 + 8 (r % 2), l % 4 + 4 (r / 2))
- 16x256b:   (l / 4 + 8 (r / 2 % 2), 2 (l % 4) + r % 2 + 8 (r / 4))
- 16x32bx2:  (l % 16, r), plus the immediate column offset for the upper half of the lanes

With `.pack::16b` and `.unpack::16b` a register has the lower halves of two columns next to each other, and there are
twice as many columns.

A load takes effect at its issue: a write of the cells before its wait is an error.  Its registers may be
used before the wait (ISA, "Register dependencies, same thread"), the cells may not be written.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np

from ..arithmetic.rounding import canonical_nan
from ..launch.recording import Transfer
from ..memory.loads import address_slot
from ..ptx.decoder import Decoder, Instruction, Modifiers, instruction
from ..ptx.module import Group, Immediate
from ..ptx.types import B32, TYPES
from .tcgen05 import first_lanes, of_warp, unit_of
from .tcgen05_order import Operation
from .tensor_memory import QUARTER, Region, lane_bits, split_address

if TYPE_CHECKING:
    from ..launch.warps import WarpGroup

#: shape -> (registers per repetition, columns per repetition, most repetitions)
_SHAPES = {"32x32b": (1, 1, 128), "16x64b": (1, 2, 128), "16x128b": (2, 4, 64), "16x256b": (4, 8, 32),
           "16x32bx2": (1, 1, 128)}  # fmt: skip
_REPETITIONS = tuple(f"x{1 << power}" for power in range(8))


@functools.cache
def positions(shape: str, registers: int, split: int) -> tuple[np.ndarray, np.ndarray]:
    """(lanes, columns) of a fragment's registers, each (registers, 32), from the address on."""
    r, lane = np.arange(registers)[:, None], np.arange(32)
    rows = lane // 4
    if shape == "32x32b":
        places = lane, r
    elif shape == "16x64b":
        places = rows + 8 * (lane % 2), lane // 2 % 2 + 2 * r
    elif shape == "16x128b":
        places = rows + 8 * (r % 2), lane % 4 + 4 * (r // 2)
    elif shape == "16x256b":
        places = rows + 8 * (r // 2 % 2), 2 * (lane % 4) + r % 2 + 8 * (r // 4)
    else:
        places = lane % 16, r + np.where(lane < 16, 0, split)
    lanes, columns = np.broadcast_arrays(*places)
    return np.ascontiguousarray(lanes), np.ascontiguousarray(columns)


class _Form:
    """Decoded load or store: its shape, ``registers``, ``columns`` from each address on, and whether it packs."""

    def __init__(self, decoder: Decoder, item: Instruction, modifiers: Modifiers, packing: str, operands: list) -> None:
        """``operands`` are the address and optionally the distance of the halves."""
        if not modifiers.take("sync") or not modifiers.take("aligned"):
            raise decoder.error("expected .sync.aligned")
        self.item = item
        self.shape = modifiers.take(*_SHAPES)
        number = modifiers.take(*_REPETITIONS)
        if self.shape is None or number is None:
            raise decoder.unsupported()
        per_repetition, columns, most = _SHAPES[self.shape]
        repetitions = int(number[1:])
        if repetitions > most:
            raise decoder.error(f".{self.shape} has at most .x{most}")
        self.packed = bool(modifiers.take(packing))
        self.registers = per_repetition * repetitions
        self.columns = columns * repetitions * (1 + self.packed)
        split = self.shape == "16x32bx2"
        if len(operands) != 1 + split or split and not isinstance(operands[1], Immediate):
            raise decoder.error("the number of operands does not fit")
        self.split = int(operands[1].value) if split else 0
        decoder.begin_collective(None)
        self.address = address_slot(decoder, operands[0], "tensor")

    def places(self, address: int) -> tuple[np.ndarray, np.ndarray]:
        """Lanes and columns of the registers, (halves, registers, 32)."""
        first, column = split_address(address)
        step = 1 + self.packed
        # The distance of the halves counts columns, packed or not.
        lanes, columns = positions(self.shape, self.registers, 0)
        columns = columns * step
        if self.split:
            columns = columns + np.where(np.arange(32) < 16, 0, self.split)
        halves = np.arange(step)[:, None, None]
        return np.broadcast_to(lanes + first, (step, *lanes.shape)), columns + column + halves

    def regions(self, group: WarpGroup, thread: int, address: int) -> list[Region]:
        """The cells of the warp of ``thread``; an error if they are not in its quarter."""
        first, column = split_address(address)
        warp = int(group.thread[thread]) // 32
        window = warp % 4 * QUARTER
        height = 32 if self.shape == "32x32b" else 16
        if not window <= first <= window + QUARTER - height or first % 16:
            group.fault(f"warp {warp} reaches lanes {window} to {window + QUARTER - 1} of tensor memory, "
                        f"not {height} from lane {first} on", self.item, thread)  # fmt: skip
        lanes = lane_bits(np.arange(first, first + height))
        starts = (column, column + self.split) if self.shape == "16x32bx2" else (column,)
        return [Region(int(group.cta[thread]), lanes, start, start + self.columns) for start in starts]


def _each_warp(group: WarpGroup, form: _Form):
    """(first thread, address) of the active warps."""
    group.check_whole_warps(form.item)
    addresses = of_warp(group, form.item, form.address, "addresses")
    for thread in first_lanes(group):
        yield thread, int(addresses[thread]) & 0xFFFFFFFF


def _registers(decoder: Decoder, form: _Form, operand: Group) -> list:
    items = operand.items if isinstance(operand, Group) else [operand]
    if len(items) != form.registers:
        raise decoder.error(f".{form.shape} with these repetitions has {form.registers} registers")
    return items


@instruction("tcgen05.ld")
def decode_load(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    reduction = _reduction(decoder, modifiers) if modifiers.take("red") else None
    operands = list(item.operands)
    target = operands.pop(0)
    reduced = operands.pop(0) if reduction is not None else None
    form = _Form(decoder, item, modifiers, "pack::16b", operands)
    if reduction is not None and (form.shape not in ("32x32b", "16x32bx2") or form.registers < 2 or form.packed):
        raise decoder.unsupported()
    modifiers.take("b32")
    slots = [decoder.dst(each, B32) for each in _registers(decoder, form, target)]
    slot = decoder.dst(reduced, B32) if reduced is not None else None

    def step(group: WarpGroup) -> None:
        unit = unit_of(group)
        words = np.zeros((form.registers, group.n), np.uint32)
        for thread, address in _each_warp(group, form):
            if group.launch.recorder is not None:
                transfer = Transfer("ld", 128 * form.registers)
                group.launch.recorder.operation(group, item, thread, transfer)
            regions = form.regions(group, thread, address)
            operation = Operation(group, item, thread, "ld", regions, [])
            unit.order.issue(operation)
            for region in regions:
                unit.memory.check_written(group, item, region, thread)
            lanes, columns = form.places(address)
            result = unit.memory.cells(operation.block).words[lanes, columns]
            if form.packed:
                result = result[:1] & np.uint32(0xFFFF) | result[1:] << np.uint32(16)
            words[:, thread & ~31 : (thread & ~31) + 32] = result[0]
        for number, each in enumerate(slots):
            if each is not None:
                group.write(each, words[number])
        if slot is not None:
            group.write(slot, reduction(words))

    decoder.emit(step)


def _reduction(decoder: Decoder, modifiers: Modifiers):
    """Function that reduces the registers of a load, (registers, threads)."""
    operation = modifiers.take("min", "max")
    magnitude, keep_nan = modifiers.take("abs"), modifiers.take("NaN")
    types = modifiers.types()
    if operation is None or len(types) != 1 or types[0].name not in ("f32", "u32", "s32"):
        raise decoder.unsupported()
    (type_,) = types
    if type_.name != "f32":
        if magnitude or keep_nan:
            raise decoder.unsupported()
        combine = np.minimum if operation == "min" else np.maximum
        return lambda words: combine.reduce(words.view(type_.value), axis=0).view(np.uint32)
    if operation == "min":
        combine = np.minimum if keep_nan else np.fmin
    else:
        combine = np.maximum if keep_nan else np.fmax

    def reduce(words: np.ndarray) -> np.ndarray:
        values = words.view(TYPES["f32"].value)
        result = combine.reduce(np.abs(values) if magnitude else values, axis=0)
        return canonical_nan(result.view(np.uint32), np.isnan(result), "f32")

    return reduce


@instruction("tcgen05.st")
def decode_store(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    *operands, source = item.operands
    form = _Form(decoder, item, modifiers, "unpack::16b", list(operands))
    modifiers.take("b32")
    slots = [decoder.src(each, B32) for each in _registers(decoder, form, source)]

    def step(group: WarpGroup) -> None:
        unit = unit_of(group)
        values = np.stack([group.full(slot) for slot in slots])
        for thread, address in _each_warp(group, form):
            if group.launch.recorder is not None:
                transfer = Transfer("st", 128 * form.registers)
                group.launch.recorder.operation(group, item, thread, transfer)
            regions = form.regions(group, thread, address)
            operation = Operation(group, item, thread, "st", [], regions)
            unit.order.issue(operation)
            lanes, columns = form.places(address)
            words = values[:, thread & ~31 : (thread & ~31) + 32]
            if form.packed:
                words = np.stack([words & np.uint32(0xFFFF), words >> np.uint32(16)])
            cells = unit.memory.cells(operation.block)
            cells.words[lanes, columns] = words
            cells.written[lanes, columns] = True

    decoder.emit(step)
