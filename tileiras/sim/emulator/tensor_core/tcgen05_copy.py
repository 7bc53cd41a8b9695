"""Copies from shared to tensor memory, `tcgen05.cp`, and `tcgen05.shift` (PTX ISA, "Data Movement Shape", "Optional
Decompression").

Row r of the source is a lane of tensor memory, several with `.multicast`:

- 128x256b, 128x128b: r;  4x256b: 32 r, from the address's lane on
- 64x128b.warpx2::02_13: r and r + 64;  64x128b.warpx2::01_23: r + 32 (r / 32) and 32 after it
- 32x128b.warpx4: r in every quarter

A shift moves 8 columns one lane down, in every quarter: lane i receives the value of lane i + 1, and the last keeps
its value. With `.cta_group::2` each block of a pair copies from its own shared memory.

Unwritten cells are copied as unwritten: the places of scales beyond those of a tile's rows have no value, and a read of
them from tensor memory is a fault.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..launch.recording import Transfer
from ..memory.loads import address_slot, note_granule
from ..ptx.decoder import Decoder, Instruction, Modifiers, instruction
from ..ptx.types import U64
from .tcgen05 import take_cta_group, unit_of
from .tcgen05_operands import Source, matrix_at, narrow_codes
from .tcgen05_order import Operation
from .tensor_memory import ALL_LANES, LANES, QUARTER, Region, lane_bits, split_address

if TYPE_CHECKING:
    from ..launch.warps import WarpGroup
    from .tensor_memory import Cells

_ROWS = np.arange(128)
#: (shape, multicast) -> (lanes of each row, units of 16 bytes of a row)
_SHAPES = {
    ("128x256b", None): (_ROWS[:, None], 2),
    ("128x128b", None): (_ROWS[:, None], 1),
    ("4x256b", None): (QUARTER * _ROWS[:4, None], 2),
    ("64x128b", "warpx2::02_13"): (_ROWS[:64, None] + np.array([0, 64]), 1),
    ("64x128b", "warpx2::01_23"): ((_ROWS[:64] + 32 * (_ROWS[:64] // 32))[:, None] + np.array([0, 32]), 1),
    ("32x128b", "warpx4"): (_ROWS[:32, None] + np.array([0, 32, 64, 96]), 1),
}
#: Source formats that are expanded to containers of 8 bits -> (bits, bits of padding below)
_DECOMPRESSED = {"b6x16_p32": (6, 0), "b4x16_p64": (4, 2)}
_SHIFTED = 8  # columns


@instruction("tcgen05.cp")
def decode_copy(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    cta_group = take_cta_group(decoder, modifiers)
    shape = modifiers.take(*(name for name, _ in _SHAPES))
    multicast = modifiers.take("warpx2::02_13", "warpx2::01_23", "warpx4")
    packed = None
    if modifiers.take("b8x16"):
        packed = _DECOMPRESSED.get(modifiers.take(*_DECOMPRESSED))
        if packed is None:
            raise decoder.unsupported()
    if (shape, multicast) not in _SHAPES:
        raise decoder.unsupported()
    lanes, units = _SHAPES[shape, multicast]
    target, source = decoder.operands(2)
    note_granule(decoder, "shared", 16)
    address, descriptor = address_slot(decoder, target, "tensor"), decoder.src(source, U64)

    def step(group: WarpGroup) -> None:
        unit = unit_of(group)
        for thread in group.active().tolist():
            first, column = split_address(int(group.full(address)[thread]) & 0xFFFFFFFF)
            places = lanes + first
            if places.max() >= LANES:
                group.fault(f"lane {int(places.max())} is outside of tensor memory", item, thread)
            matrix = matrix_at(group, item, thread, int(group.full(descriptor)[thread]), len(lanes), units, False)
            bits = lane_bits(places.reshape(-1))
            blocks = unit.memory.pair(group, item, int(group.cta[thread]), cta_group, thread)
            sources = [Source(group, item, thread, block, matrix, packed is None) for block in blocks]
            regions = [Region(block, bits, column, column + 4 * units) for block in blocks]

            def run(sources: Sequence[Source] = sources, places: np.ndarray = places, column: int = column) -> None:
                for each in sources:
                    raw = each.read()
                    if packed is not None:
                        raw = narrow_codes(raw, packed[0], 16) << packed[1]
                    init_bits = each.init_bits().reshape(len(raw), 4 * units, 4) if packed is None else True
                    cells = unit.memory.cells(each.block)
                    for copy in places.T:
                        cells.words[copy, column : column + 4 * units] = np.ascontiguousarray(raw).view(np.uint32)
                        cells.written[copy, column : column + 4 * units] = init_bits

            unit.order.issue(Operation(group, item, thread, "cp", [], regions, run))
            if group.launch.recorder is not None:
                transfer = Transfer("cp", 16 * units * len(lanes))
                group.launch.recorder.operation(group, item, thread, transfer)
            for each in sources:
                each.begin()

    decoder.emit(step)


@instruction("tcgen05.shift")
def decode_shift(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    cta_group = take_cta_group(decoder, modifiers)
    if not modifiers.take("down"):
        raise decoder.unsupported()
    (target,) = decoder.operands(1)
    address = address_slot(decoder, target, "tensor")

    def step(group: WarpGroup) -> None:
        unit = unit_of(group)
        for thread in group.active().tolist():
            first, column = split_address(int(group.full(address)[thread]) & 0xFFFFFFFF)
            if first % QUARTER or first >= LANES:
                group.fault(f"a shift from lane {first} on, not a multiple of {QUARTER}", item, thread)
            blocks = unit.memory.pair(group, item, int(group.cta[thread]), cta_group, thread)
            regions = [Region(block, ALL_LANES, column, column + _SHIFTED) for block in blocks]

            def run(regions: Sequence[Region] = regions, thread: int = thread) -> None:
                for region in regions:
                    unit.memory.check_written(group, item, region, thread)
                    shift_down(unit.memory.cells(region.block), region.first, _SHIFTED)

            unit.order.issue(Operation(group, item, thread, "shift", [], regions, run))

    decoder.emit(step)


def shift_down(cells: Cells, column: int, count: int) -> None:
    """Every lane of a quarter but the last receives the value of the next lane, in ``count`` columns."""
    words = cells.words[:, column : column + count].reshape(4, QUARTER, count)
    words[:, :-1] = words[:, 1:].copy()
