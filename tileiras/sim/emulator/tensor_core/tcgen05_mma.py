"""Dots of tensor cores, `tcgen05.mma` (PTX ISA, "tcgen05.mma", "Data Path Layout Organization", "Block Scaling").

A dot is issued by one thread and executes at the wait for a commit that tracks it; its operands are read then. D is a
float or integer per cell of tensor memory, rows along the lanes:

- 128 rows of a block: lane r;  64 rows (one block, not `.ws`): lane r % 16 + 32 (r / 16), from lane 0 or 16 on
- 64 rows of a block of a pair, or of `.ws`: lane r for the first half of the columns, r + 64 for the second
- 32 rows (`.ws`): lane r + 32 h for quarter h of the columns

A in tensor memory has the lanes of D, 8 columns of it; where columns of D are in several groups of lanes, each of them
has all of A's rows.  Scales of row or column i are in lane i % 32 of column i / 32, the same in every quarter (for B of
half a pair's columns: in every half of their lanes), each block having all those of B.

Dots are summed in binary64, including D, and rounded once: the ISA leaves order and precision open.

A row of A may be uninitialized in shared memory, or have uninitialized scales, if a tile has fewer rows than the
instruction's M. The row of D is then uninitialized as well, even if the dot adds to it; loads of it are faults.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..arithmetic import rounding
from ..launch.recording import Multiply
from ..memory.loads import address_slot, note_granule
from ..ptx.decoder import Decoder, Instruction, Modifiers, instruction
from ..ptx.module import Address, Group, Immediate
from ..ptx.types import B32, PRED, U32, U64
from .tcgen05 import take_cta_group, unit_of
from .tcgen05_copy import shift_down
from .tcgen05_descriptor import KINDS, SCALED, Shape, column_mask, decode_instruction
from .tcgen05_operands import FORMATS, Source, matrix_at, unpack, unpack_words
from .tcgen05_order import Operation
from .tensor_memory import ALL_LANES, LANES, QUARTER, Region, lane_bits, lanes_of, split_address, unwritten

if TYPE_CHECKING:
    from ..launch.warps import WarpGroup
    from .tcgen05 import Unit

_A_COLUMNS = 8
_SCALE_ADDRESS = 0x3FFFFFFF  # the upper two bits repeat the byte number of the instruction descriptor
#: (kind, scales along k) -> types of scales
_SCALES = {
    ("mxf8f6f4", 1): ("ue8m0",),
    ("mxf4", 2): ("ue8m0",),
    ("mxf4nvf4", 2): ("ue8m0",),
    ("mxf4nvf4", 4): ("ue8m0", "ue4m3"),
}
_VECTORS = {"scale_vec::1X": 1, "scale_vec::2X": 2, "scale_vec::4X": 4, "block16": 16, "block32": 32}


class Form(NamedTuple):
    """Decoded instruction: slots of its operands (None if absent), and modifiers. ``vector`` is the number of scales
    along k; ``collector`` is (buffer, its use)."""

    item: Instruction
    kind: str
    cta_group: int
    weights: bool
    vector: int
    shifted: bool
    collector: tuple[str, str]
    d: int
    a: int
    a_in_tensor_memory: bool
    b: int
    instruction: int
    disabled: list[int]
    scales: list[int]
    enabled: int
    exponent: int
    column_mask: int | None


@instruction("tcgen05.mma")
def decode_mma(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    weights = bool(modifiers.take("ws"))
    if modifiers.take("sp"):
        raise decoder.unsupported("a sparse product")
    cta_group = take_cta_group(decoder, modifiers)
    kind = modifiers.take(*(f"kind::{name}" for name in KINDS))
    if kind is None or weights and cta_group == 2:
        raise decoder.unsupported()
    kind = kind.removeprefix("kind::")
    vector = _vector(decoder, modifiers, kind)
    shifted = bool(modifiers.take("ashift"))
    collector = _collector(decoder, modifiers, weights)
    if shifted and (kind in SCALED or weights or collector[1] in ("use", "fill")):
        raise decoder.unsupported()
    form = _operands(decoder, item, kind, cta_group, weights, vector, shifted, collector)
    if shifted and not form.a_in_tensor_memory:
        raise decoder.unsupported()
    note_granule(decoder, "shared", 16)

    def step(group: WarpGroup) -> None:
        unit = unit_of(group)
        for thread in group.active().tolist():
            Product(unit, group, form, thread).issue()

    decoder.emit(step)


def _vector(decoder: Decoder, modifiers: Modifiers, kind: str) -> int:
    """Number of scales along k."""
    if (kind in SCALED) != bool(modifiers.take("block_scale")):
        raise decoder.unsupported()
    if kind not in SCALED:
        return 0
    name = modifiers.take(*_VECTORS)
    if name is None and kind == "mxf4nvf4":
        raise decoder.error("mxf4nvf4 has to say how many elements share a scale")
    number = _VECTORS[name] if name is not None else 32
    if number > 4:
        number = (32 if kind == "mxf8f6f4" else 64) // number
    if (kind, number) not in _SCALES:
        raise decoder.unsupported()
    return number


def _collector(decoder: Decoder, modifiers: Modifiers, weights: bool) -> tuple[str, str]:
    buffers = ("b0", "b1", "b2", "b3") if weights else ("a",)
    for buffer in buffers:
        for use in ("fill", "use", "lastuse", "discard"):
            if modifiers.take(f"collector::{buffer}::{use}"):
                return buffer, use
    return buffers[0], "discard"


def _operands(
    decoder: Decoder,
    item: Instruction,
    kind: str,
    cta_group: int,
    weights: bool,
    vector: int,
    shifted: bool,
    collector: Sequence[str],
) -> Form:
    operands = list(item.operands)
    least = 7 if vector else 5
    if len(operands) < least:
        raise decoder.error("the number of operands does not fit")
    d, a, b, instruction = operands[:4]
    rest = operands[4:]
    disabled: list[int] = []
    scales: list[int] = []
    exponent, mask = 0, None
    in_tensor_memory = isinstance(a, Address)
    if vector:
        scales = [address_slot(decoder, each, "tensor") for each in rest[:2]]
        rest = rest[2:]
    elif isinstance(rest[0], Group) and not weights:
        if len(rest[0].items) != 4 * cta_group:
            raise decoder.error(f"a mask of lanes has {4 * cta_group} registers")
        disabled = [decoder.src(each, B32) for each in rest.pop(0).items]
    enabled = decoder.src(rest.pop(0), PRED)
    if rest and weights:
        mask = decoder.src(rest.pop(0), U64)
    elif rest and kind in ("f16", "tf32"):
        scale = rest.pop(0)
        if not isinstance(scale, Immediate) or not 0 <= int(scale.value) <= 15:
            raise decoder.error("D is scaled by a constant from 0 to 15")
        exponent = int(scale.value)
    if rest:
        raise decoder.error("the number of operands does not fit")
    return Form(
        item, kind, cta_group, weights, vector, shifted, collector, address_slot(decoder, d, "tensor"),
        address_slot(decoder, a, "tensor") if in_tensor_memory else decoder.src(a, U64), in_tensor_memory,
        decoder.src(b, U64), decoder.src(instruction, U32), disabled, scales, enabled, exponent, mask,
    )  # fmt: skip


class Product:
    """One dot of ``thread``, with its operands' values at its issue."""

    def __init__(self, unit: Unit, group: WarpGroup, form: Form, thread: int) -> None:
        self.unit = unit
        self.group = group
        self.form = form
        self.thread = thread

        def value(slot: int) -> int:
            return int(group.full(slot)[thread])

        block = int(group.cta[thread])
        self.blocks = unit.memory.pair(group, form.item, block, form.cta_group, thread)
        self.shape = self._shape(value(form.instruction))
        self.d = self._address(value(form.d))
        self.enabled = bool(group.full(form.enabled)[thread])
        self.shift, self.columns = 0, None
        if form.column_mask is not None:
            try:
                self.shift, self.columns = column_mask(value(form.column_mask), self.shape)
            except ValueError as error:
                self._fault(str(error))
        self.rows = self.shape.m // form.cta_group  # of a block
        self.groups = self._groups()
        lane, column = self.d
        aligned = (0, 16) if self.half else (0,)
        if lane not in aligned:
            self._fault(f"D is at lane {lane} of tensor memory, not at {' or '.join(map(str, aligned))}")
        self.b_rows = self.shape.n // form.cta_group
        self.a_address = None
        if form.a_in_tensor_memory:
            self.a_address = self._address(value(form.a))
            if self.a_address[0] != lane:
                self._fault(f"A is at lane {self.a_address[0]} of tensor memory, D at {lane}")
            self.a: list[Source] = []
        else:
            self.a = self._sources(value(form.a), self.shape.a, self.rows, self.shape.transposed[0], partly=True)
        self.b = self._sources(value(form.b), self.shape.b, self.b_rows + self.shift, self.shape.transposed[1])
        self.scales = [self._address(value(slot) & _SCALE_ADDRESS) for slot in form.scales]
        words = [value(slot) for slot in form.disabled]
        self.disabled = [
            sum(word << 32 * place for place, word in enumerate(words[4 * number : 4 * number + 4]))
            for number in range(form.cta_group)
        ]
        self._collect(value(form.b if form.weights else form.a))

    def _fault(self, message: str) -> None:
        self.group.fault(message, self.form.item, self.thread)

    def _address(self, address: int) -> tuple[int, int]:
        return split_address(address & 0xFFFFFFFF)

    def _shape(self, word: int) -> Shape:
        form = self.form
        try:
            narrow = "tensor-columns" in self.group.launch.waived
            shape = decode_instruction(word, form.kind, form.cta_group, form.weights, narrow)
        except ValueError as error:
            self._fault(f"no instruction descriptor for kind::{form.kind}, {word:#x}: {error}")
        if form.shifted and shape.m == 64:
            self._fault(".ashift with 64 rows")
        if form.vector:
            if shape.scale not in _SCALES[form.kind, form.vector]:
                self._fault(f"scales of type {shape.scale} with {form.vector} along k")
            if any(identifier % form.vector or form.vector == 4 and identifier for identifier in shape.scale_ids):
                self._fault(f"scales from bytes {shape.scale_ids} on, {form.vector} along k")
        return shape

    # -- places ----------------------------------------------------------------------------------------------------

    @property
    def half(self) -> bool:
        """Whether D uses 16 lanes of each quarter."""
        return self.rows == 64 and self.form.cta_group == 1 and not self.form.weights

    def _groups(self) -> list[np.ndarray]:
        """The lanes of a block's rows, for each group of columns."""
        rows = np.arange(self.rows)
        if self.half:
            return [rows % 16 + QUARTER * (rows // 16)]
        return [rows + first for first in range(0, LANES, self.rows)]

    def _sources(self, word: int, name: str, rows: int, transposed: bool, partly: bool = False) -> list[Source]:
        form = self.form
        bits, _ = FORMATS[name]
        lines, units = (self.shape.k, -(-rows * bits // 128)) if transposed else (rows, 2)
        matrix = matrix_at(self.group, form.item, self.thread, word, lines, units, transposed)
        narrow = matrix.descriptor.atom == 32
        if transposed and narrow != (name == "tf32"):
            self._fault(f"a transposed matrix of {name} {'with' if narrow else 'without'} swizzling by 32 bytes")
        return [Source(self.group, form.item, self.thread, block, matrix, partly) for block in self.blocks]

    def _d_region(self, number: int) -> Region:
        lanes = lane_bits(np.concatenate(self.groups) + self.d[0]) & ~self.disabled_lanes(number)
        column = self.d[1]
        return Region(self.blocks[number], lanes, column, column + self.shape.n // len(self.groups))

    def disabled_lanes(self, number: int) -> int:
        return self.disabled[number] if self.form.disabled else 0

    def _a_region(self, number: int) -> Region:
        lanes = lane_bits(np.concatenate(self.groups) + self.d[0])
        column = self.a_address[1]
        return Region(self.blocks[number], lanes, column, column + _A_COLUMNS)

    def _scale_region(self, number: int, operand: int) -> Region:
        count = self.shape.n // len(self.groups) if operand else self.rows
        _, column = self.scales[operand]
        return Region(self.blocks[number], ALL_LANES, column, column + -(-count // QUARTER))

    # -- issue -----------------------------------------------------------------------------------------------------

    def issue(self) -> None:
        form = self.form
        numbers = range(len(self.blocks))
        reads = [self._scale_region(number, operand) for number in numbers for operand in range(len(self.scales))]
        writes = [self._d_region(number) for number in numbers]
        if self.a_address is not None:
            (writes if form.shifted else reads).extend(self._a_region(number) for number in numbers)
        accumulator = (form.kind, self.shape.m, self.shape.n, form.weights, self.d, tuple(self.blocks))
        operation = Operation(self.group, form.item, self.thread, "mma", reads, writes, self.run, accumulator)
        self.unit.order.issue(operation)
        for source in (*self.a, *self.b):
            source.begin()
        recorder = self.group.launch.recorder
        if recorder is not None:
            recorder.operation(self.group, form.item, self.thread, self._multiply())

    def _multiply(self) -> Multiply:
        shape = self.shape
        a_bits = 0 if self.a_address is not None else self.rows * FORMATS[shape.a][0]
        b_bits = self.b_rows * FORMATS[shape.b][0]
        return Multiply(
            "tcgen05", shape.m, shape.n, shape.k, shape.a, shape.d, a_bits * shape.k // 8, b_bits * shape.k // 8,
            len(self.blocks),
        )  # fmt: skip

    def _collect(self, matrix: int) -> None:
        """Check that a matrix used from a collector buffer has been put there."""
        buffer, use = self.form.collector
        key = (self.blocks[0], buffer)
        contents = self.unit.collectors.get(key)
        if use in ("use", "lastuse") and contents != matrix:
            why = "nothing has been filled in" if contents is None else "another matrix has been filled in"
            self._fault(f"collector::{buffer}::{use}, but {why}")
        if use in ("fill", "use"):
            self.unit.collectors[key] = matrix
        else:
            self.unit.collectors.pop(key, None)

    # -- the dot ---------------------------------------------------------------------------------------------------

    def run(self) -> None:
        shape = self.shape
        if not self.group.launch.multiply:
            for number in range(len(self.blocks)):
                self._mark_written(number)
            return
        b = np.concatenate([self._values(source, shape.b, self.b_rows + self.shift, shape.transposed[1])
                            for source in self.b])[self.shift :]  # fmt: skip
        b = b * shape.signs[1]
        if self.columns is not None:
            b[~self.columns] = 0.0
        factor, valid = self._a_values(), self._known_rows()
        if self.scales:
            factor, b = self._scale(factor, b)
            valid &= np.concatenate([self._known_scales(number) for number in range(len(self.blocks))])
        if not valid.all():
            factor = [np.where(valid[:, None], each, 0.0) for each in factor]
        if len(factor) == 1:
            result = factor[0] @ b.T
        else:  # the groups of lanes have different rows of A
            columns = shape.n // len(factor)
            result = np.concatenate(
                [each @ b[number * columns :][:columns].T for number, each in enumerate(factor)], axis=1
            )
        for number in range(len(self.blocks)):
            rows = slice(number * self.rows, (number + 1) * self.rows)
            self._accumulate(number, result[rows], valid[rows])
        if self.form.shifted:
            for block in self.blocks:
                shift_down(self.unit.memory.cells(block), self.a_address[1], _A_COLUMNS)

    def _values(self, source: Source, name: str, rows: int, transposed: bool) -> np.ndarray:
        values = unpack(source.read(), name)
        return values.T[:rows] if transposed else values

    def _a_values(self) -> list[np.ndarray]:
        """A, (m, k): once, or once for every group of lanes where these have different rows."""
        shape = self.shape
        if self.a_address is None:
            parts = [self._values(source, shape.a, self.rows, shape.transposed[0]) for source in self.a]
            return [np.concatenate(parts) * shape.signs[0]]
        result = []
        for number in range(len(self.blocks)):
            self.unit.memory.check_written(self.group, self.form.item, self._a_region(number), self.thread)
        for lanes in self.groups:
            words = [
                self.unit.memory.cells(block).words[lanes + self.d[0], self.a_address[1] :][:, :_A_COLUMNS]
                for block in self.blocks
            ]
            result.append(np.concatenate(words))
        if all(np.array_equal(each, result[0]) for each in result[1:]):
            result = result[:1]
        return [unpack_words(each, shape.a) * shape.signs[0] for each in result]

    def _known_rows(self) -> np.ndarray:
        """(m,): rows of A that are initialised."""
        if self.a_address is not None:
            return np.ones(self.rows * len(self.blocks), bool)
        return np.concatenate([source.known_rows(self.shape.a)[: self.rows] for source in self.a])

    def _known_scales(self, number: int) -> np.ndarray:
        """(rows of a block,): rows of A whose scales are initialised."""
        region = self._scale_region(number, 0)
        init_bits = self.unit.memory.cells(region.block).written[:, region.first : region.last]
        return self._of_rows(init_bits, 0, slice(None), self.rows).all((0, 2))

    def _of_rows(self, cells: np.ndarray, operand: int, halves: slice, count: int) -> np.ndarray:
        """(quarters, count, vector) of (lanes, columns, bytes) of scales."""
        first = self.shape.scale_ids[operand]
        bytes = cells.reshape(4, QUARTER, -1, 4)[halves, ..., first : first + self.form.vector]
        return bytes.swapaxes(1, 2).reshape(len(bytes), -1, self.form.vector)[:, :count]

    def _scale(self, matrices: list[np.ndarray], b: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
        run = self.shape.k // self.form.vector
        rows = np.concatenate([self._read_scales(number, 0, 0, self.rows) for number in range(len(self.blocks))])
        columns = self.shape.n // len(self.groups)
        parts = []
        for group in range(len(self.groups)):
            first = self._read_scales(0, 1, group, columns)
            for number in range(1, len(self.blocks)):
                if not np.array_equal(first, self._read_scales(number, 1, group, columns), equal_nan=True):
                    self._fault("the blocks of a pair have different scales of B")
            parts.append(first)
        factors = np.repeat(np.concatenate(parts), run, axis=1)
        return [each * np.repeat(rows, run, axis=1) for each in matrices], b * factors

    def _read_scales(self, number: int, operand: int, group: int, count: int) -> np.ndarray:
        """(count, vector) binary64: those of A's rows in a block, or of B's columns in a group of lanes."""
        region = self._scale_region(number, operand)
        cells = self.unit.memory.cells(region.block)
        words = np.ascontiguousarray(cells.words[:, region.first : region.last]).view(np.uint8)
        halves = slice(2 * group, 2 * group + 2) if operand and len(self.groups) == 2 else slice(None)
        init_bits = self._of_rows(cells.written[:, region.first : region.last], operand, halves, count)
        if operand and self.unit.memory.launch.check_uninitialised and not init_bits.all():
            quarter, row, _ = np.argwhere(~init_bits)[0].tolist()
            self._fault(unwritten(QUARTER * quarter + row % QUARTER, region.first + row // QUARTER))
        raw = self._of_rows(words, operand, halves, count)
        if ((raw != raw[:1]) & init_bits.all(0)).any():
            self._fault(f"the quarters of tensor memory have different scales of {'B' if operand else 'A'}")
        codes = np.ascontiguousarray(raw[0])
        if self.shape.scale == "ue4m3":
            return rounding.decode(codes & np.uint8(0x7F), "e4m3")
        return rounding.decode(codes, "ue8m0")

    def _mark_written(self, number: int) -> None:
        region = self._d_region(number)
        cells = self.unit.memory.cells(region.block)
        cells.written[np.concatenate(self.groups) + self.d[0], region.first : region.last] = True

    def _accumulate(self, number: int, result: np.ndarray, valid: np.ndarray) -> None:
        """Add a block's rows of the dot to D, or store them; rows with unknown results become uninitialised."""
        shape, memory = self.shape, self.unit.memory
        region = self._d_region(number)
        cells = memory.cells(region.block)
        columns = shape.n // len(self.groups)
        off = set(lanes_of(self.disabled_lanes(number)).tolist())
        for group, lanes in enumerate(self.groups):
            lanes, valued = lanes + self.d[0], valid
            part = result[:, group * columns : (group + 1) * columns]
            if off:
                array = np.array([lane not in off for lane in lanes.tolist()])
                lanes, part, valued = lanes[array], part[array], valid[array]
            where = slice(lanes[0], lanes[-1] + 1) if len(lanes) and lanes[-1] - lanes[0] == len(lanes) - 1 else lanes
            before = cells.words[where, region.first : region.last] if self.enabled else None
            cells.words[where, region.first : region.last] = self._encode(part, before)
            has_value = np.broadcast_to(valued[:, None, None], (*part.shape, 4))
            if self.enabled:
                has_value = has_value & cells.written[where, region.first : region.last]
            cells.written[where, region.first : region.last] = has_value

    def _encode(self, product: np.ndarray, before: np.ndarray | None) -> np.ndarray:
        """Words of D."""
        name = self.shape.d
        if name == "s32":
            total = product.astype(np.int64) + (0 if before is None else before.view(np.int32))
            if self.shape.saturate:
                total = np.clip(total, -(2**31), 2**31 - 1)
            return total.astype(np.int32).view(np.uint32)
        if before is not None:
            bits = before.astype(np.uint16) if name == "f16" else np.ascontiguousarray(before)
            product = product + rounding.decode(bits, name) * 2.0**-self.form.exponent
        return rounding.encode(product, name).astype(np.uint32)
