"""Concatenation, extraction and insertion.

Concatenation is free: the result's layout is the operands' with one more register bit, and so is the extraction of a
part whose number is a constant where each thread has its share of it.  Other slices start where only the run time
knows, or do not match the registers of a thread, so they go through an image of the slice in scratch memory: the
threads that hold a part of it write, then the threads of the slice's layout read.  A slice larger than the scratch
memory goes through it in windows, one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING

from tileiras.ir import FloatType, IntegerType, Value, VerifyError, i32
from tileiras.layout import LinearLayout
from tileiras.layout.encoding import slice_registers
from tileiras.layout.memory import register_groups, vector_registers
from tileiras.layout.scratch import box_of
from tileiras.support import gf2
from tileiras.support.named_tuple import NamedTuple

from ..emit.builder import Number
from ..emit.function import Area, FunctionLowering
from ..emit.types import element_of, vector_of
from ..memory.access import as_data, from_data, load_vector, store_vector

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileas as tileas


class _Place(NamedTuple):
    """Neighbouring registers, their place in the image, and whether they belong to it (None: surely)."""

    registers: tuple[int, ...]
    pointer: Value
    offset: int
    inside: Value | None


class _Image:
    """A row-major image in scratch memory of a box of `shape`, a part of some larger tile."""

    def __init__(
        self, shape: Sequence[int], element: FloatType | IntegerType, area: Area, lowering: FunctionLowering
    ) -> None:
        self._lowering = lowering
        self._shape = tuple(shape)
        self._element = element
        self._size = element.width // 8
        strides = [1]
        for n in reversed(self._shape[1:]):
            strides.insert(0, strides[0] * n)
        self._strides = strides[: len(self._shape)]
        self._base = area.base

    def _place(self, coordinates: Sequence[int]) -> int:
        """Elements from the start of the image to the place of a tile's element within its box."""
        return sum((c & n - 1) * s for c, n, s in zip(coordinates, self._shape, self._strides))

    def _vectors(self, layout: LinearLayout) -> tuple[tuple[int, ...], ...]:
        if not self._shape:
            return register_groups(layout.registers, ())
        last = len(self._shape) - 1
        run = self._shape[last]
        bits = 8 * self._size
        return register_groups(
            layout.registers, vector_registers(layout, last, bits, contiguous=run, divisibility=run * self._size)
        )

    def _places(self, layout: LinearLayout, box: Sequence[Number]) -> Iterator[_Place]:
        """The registers that may be in box number `box` (its coordinates in units of the box's shape)."""
        emit = self._lowering.emit
        lanes = [layout.coordinates(v) for v in layout.bases("lane")]
        warps = [layout.coordinates(v) for v in layout.bases("warp")]
        occupied = gf2.support(self._place(column) for column in (*lanes, *warps))
        thread = emit.linear([self._place(v) for v in lanes], [self._place(v) for v in warps])
        pointers: dict[int, Value] = {}
        conditions: dict[tuple[int, int], Value | bool] = {}

        def inside(d: int, register: int) -> Value | bool:
            """Whether a register with coordinate `register` along dimension `d` is in the box, in this thread."""
            shift = self._shape[d].bit_length() - 1
            is_same = conditions.get((d, register >> shift))
            if is_same is None:
                boxes = emit.linear([v[d] >> shift for v in lanes], [v[d] >> shift for v in warps])
                mine = emit.xor(boxes, register >> shift)
                origin = box[d] if isinstance(box[d], int) else emit.sext(box[d], i32)
                numbers = emit.number(mine), emit.number(origin)
                if None in numbers:
                    is_same = emit.icmp("eq", emit.value(mine), emit.value(origin))
                else:
                    is_same = numbers[0] == numbers[1]
                conditions[d, register >> shift] = is_same
            return is_same

        for group in self._vectors(layout):
            coordinates = layout.coordinates(layout.apply(register=group[0]))
            parts = [inside(d, c) for d, c in enumerate(coordinates) if layout.shape[d] > self._shape[d]]
            if any(part is False for part in parts):
                continue
            condition = None
            for part in parts:
                condition = emit.both(condition, None if part is True else part)
            offset = self._place(coordinates)
            mixed = offset & occupied
            if mixed not in pointers:
                pointers[mixed] = emit.gep(self._base, emit.mul(emit.xor(thread, mixed), self._size))
            yield _Place(group, pointers[mixed], (offset & ~occupied) * self._size, condition)

    def write(self, value: Value, layout: LinearLayout, box: Sequence[Number]) -> None:
        """Store the elements of box `box` of a tile."""
        lowering = self._lowering
        emit = lowering.emit
        free = layout.free_variable_masks()
        holder = emit.thread_is_elected(free["lane"], free["warp"])
        for place in self._places(layout, box):
            data = emit.shuffle(value, place.registers)
            store_vector(lowering, place.pointer, place.offset, data, emit.both(holder, place.inside))

    def read(self, old: Value, layout: LinearLayout, box: Sequence[Number]) -> Value:
        """`old` with the elements of box `box` replaced by the image's."""
        lowering = self._lowering
        emit = lowering.emit
        result: list[Value | None] = [None] * layout.registers
        groups, parts = [], []
        for place in self._places(layout, box):
            before = None if place.inside is None else emit.shuffle(old, place.registers)
            type = vector_of(self._element, len(place.registers))
            part = load_vector(lowering, place.pointer, place.offset, type, place.inside, before)
            groups.append(place.registers)
            parts.append(part)
        if sum(map(len, groups)) == layout.registers:
            return emit.assemble(groups, parts, layout.registers)
        for group, part in zip(groups, parts):
            for i, register in enumerate(group):
                result[register] = emit.extract(part, i)
        return emit.build([emit.extract(old, r) if value is None else value for r, value in enumerate(result)])


def _move(
    source: tuple[Value, LinearLayout, Sequence[Number]],
    target: tuple[Value, LinearLayout, Sequence[Number]],
    shape: Sequence[int],
    lowering: FunctionLowering,
) -> Value:
    """The target with its slice of `shape` replaced by the source's; each is (value, layout, number of the slice)."""
    emit = lowering.emit
    data = as_data(source[0], lowering)
    result = as_data(target[0], lowering)
    element = element_of(data.type)
    area = lowering.area()
    window = box_of(shape, element.width // 8, area.scratch.bytes)
    image = _Image(window, element, area, lowering)
    parts = [n // w for n, w in zip(shape, window)]
    for number, part in enumerate(product(*map(range, parts))):

        def box(numbers: Sequence[Number], part: tuple[int, ...] = part) -> list[Number]:
            return [emit.add(emit.mul(emit.sext(n, i32), p), w) for n, p, w in zip(numbers, parts, part)]

        lowering.before_stores(area, number)
        image.write(data, source[1], box(source[2]))
        lowering.before_loads(area)
        result = image.read(result, target[1], box(target[2]))
    return from_data(result, element_of(target[0].type), lowering)


def extract_slice(op: tileas.ExtractSliceOp, args: Sequence[Value], lowering: FunctionLowering) -> Value:
    registers = slice_registers(op)
    if registers is not None:
        return lowering.emit.shuffle(args[0], registers)
    layout = lowering.layout(op.result)
    shape = op.result.type.shape
    nothing = lowering.emit.poison(vector_of(element_of(args[0].type), layout.registers))
    source = (args[0], lowering.layout(op.source), args[1:])
    return _move(source, (nothing, layout, [0] * len(shape)), shape, lowering)


def insert_slice(op: tileas.InsertSliceOp, args: Sequence[Value], lowering: FunctionLowering) -> Value:
    shape = op.source.type.shape
    source = (args[0], lowering.layout(op.source), [0] * len(shape))
    return _move(source, (args[1], lowering.layout(op.dest), args[2:]), shape, lowering)


def cat(op: tileas.CatOp, args: Sequence[Value], lowering: FunctionLowering) -> Value:
    """The layouts are such that the registers of one follow those of the other."""
    result_layout = lowering.layout(op.lhs).doubled(op.dim.value)
    if lowering.layout(op.rhs) != lowering.layout(op.lhs) or lowering.layout(op.result) != result_layout:
        raise VerifyError("expects equal layouts, and for the result theirs with one more register")
    return lowering.emit.concat(args)
