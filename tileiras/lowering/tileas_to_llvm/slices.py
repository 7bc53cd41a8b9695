"""Concatenation, extraction and insertion: through a row-major image of the larger tile in scratch memory.

Slices may start where only the run time knows, and seldom match the registers of a thread, so the general way is taken:
write what there is, barrier, read what is wanted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tileiras.dialects import llvm
from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import Value, i1, i8, i32, i64
from tileiras.layout import LinearLayout

from .access import load_vector, store_vector
from .emitter import Number
from .function import FunctionLowering
from .types import count_of, element_of, vector_of


class _Image:
    """A row-major tile of `shape` in scratch memory."""

    def __init__(self, shape: Sequence[int], element: Any, lowering: FunctionLowering) -> None:
        self._lowering = lowering
        self._held = element
        self._stored = i8 if element is i1 else i64 if isinstance(element, llvm.LLVMPointerType) else element
        self._size = self._stored.width // 8
        self.strides = []
        step = 1
        for n in reversed(shape):
            self.strides.insert(0, step)
            step *= n
        self._base, self._region = lowering.scratch(step * self._size)
        lowering.synchronization.before_scratch(self._region)

    def corner(self, coordinates: Sequence[Number], shape: Sequence[int]) -> Number:
        """Elements from the image's start to the slice at `coordinates`, counted in slices of `shape`."""
        emit = self._lowering.emit
        place: Number = 0
        for coordinate, size, stride in zip(coordinates, shape, self.strides):
            place = emit.add(place, emit.mul(emit.sext(coordinate, i32), size * stride))
        return place

    def _addresses(self, layout: LinearLayout, corner: Number) -> list[tuple[Value, int]]:
        """The place of every register of a part of the image that starts at `corner`."""
        emit = self._lowering.emit

        def place(flat: int) -> int:
            return sum(c * s for c, s in zip(layout.coordinates(flat), self.strides))

        lanes = [place(v) for v in layout.bases("lane")]
        warps = [place(v) for v in layout.bases("warp")]
        occupied = 0
        for column in (*lanes, *warps):
            occupied |= column
        thread = emit.linear(lanes, warps)
        bases: dict[int, Value] = {}
        result = []
        for register in range(layout.registers):
            offset = place(layout.apply(register=register))
            mixed = offset & occupied
            if mixed not in bases:
                start = emit.add(corner, emit.xor(thread, mixed))
                bases[mixed] = emit.gep(self._base, emit.mul(start, self._size))
            result.append((bases[mixed], (offset & ~occupied) * self._size))
        return result

    def write(self, value: Value, layout: LinearLayout, corner: Number = 0) -> None:
        emit = self._lowering.emit
        free = layout.free_variable_masks()
        predicate = emit.thread_is_representative(free["lane"], free["warp"])
        if self._held is i1:
            value = emit.insert(llvm.ZExtOp(value, res=vector_of(i8, count_of(value.type))))
        elif self._stored is not self._held:
            value = emit.insert(llvm.PtrToIntOp(value, res=vector_of(i64, count_of(value.type))))
        for register, (pointer, offset) in enumerate(self._addresses(layout, corner)):
            store_vector(self._lowering, pointer, offset, emit.extract(value, register), predicate)

    def barrier(self) -> None:
        self._lowering.synchronization.barrier()

    def read(self, layout: LinearLayout, corner: Number = 0) -> Value:
        emit = self._lowering.emit
        value = emit.build(
            [load_vector(self._lowering, p, offset, self._stored) for p, offset in self._addresses(layout, corner)]
        )
        self._lowering.synchronization.scratch_read(self._region)
        held = vector_of(self._held, count_of(value.type))
        if self._held is i1:
            return emit.insert(llvm.TruncOp(value, res=held))
        return value if self._stored is self._held else emit.insert(llvm.IntToPtrOp(value, res=held))


def cat(op: Any, args: Sequence[Value], lowering: FunctionLowering) -> Value:
    image = _Image(op.result.type.shape, element_of(args[0].type), lowering)
    image.write(args[0], lowering.layout(op.lhs))
    dim = op.dim.value
    image.write(args[1], lowering.layout(op.rhs), op.lhs.type.shape[dim] * image.strides[dim])
    image.barrier()
    return image.read(lowering.layout(op.result))


def extract_slice(op: Any, args: Sequence[Value], lowering: FunctionLowering) -> Value:
    image = _Image(op.source.type.shape, element_of(args[0].type), lowering)
    image.write(args[0], lowering.layout(op.source))
    image.barrier()
    return image.read(lowering.layout(op.result), image.corner(args[1:], op.result.type.shape))


def insert_slice(op: Any, args: Sequence[Value], lowering: FunctionLowering) -> Value:
    image = _Image(op.dest.type.shape, element_of(args[1].type), lowering)
    image.write(args[1], lowering.layout(op.dest))
    image.barrier()
    image.write(args[0], lowering.layout(op.source), image.corner(args[2:], op.source.type.shape))
    image.barrier()
    return image.read(lowering.layout(op.result))


PATTERNS: dict[type, Any] = {
    tileas.CatOp: cat,
    tileas.ExtractSliceOp: extract_slice,
    tileas.InsertSliceOp: insert_slice,
}
