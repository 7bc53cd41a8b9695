"""Elements of four bits in memory, two to a byte, the even one in the lower half; a thread holds each in a byte.

Addresses are numbers of half bytes.  Runs that start at a whole byte move as bytes.  A single element is a part of a
byte whose other part may be another thread's at the same time, so that it is stored by two atomic updates of the word
around it: one clears its bits, one sets them.
"""

from __future__ import annotations

from typing import Any

from tileiras.dialects import llvm, nvvm
from tileiras.dialects.vector import ShuffleOp
from tileiras.ir import DenseArrayAttr, Type, Value, i8, i32, i64

from ..emit.builder import Number
from ..emit.function import FunctionLowering
from ..emit.types import count_of, vector_of
from . import access
from .views import TileAddresses


class NibbleAddresses(TileAddresses):
    """As its base, in half bytes from address zero on: an i64 instead of a pointer."""

    def _element_units(self, type: Any) -> int:
        return 1

    def _base(self) -> Value:
        return half_byte_address(self._lowering.value(self._memref.base), self._lowering)

    def _advance(self, address: Value, units: Number) -> Value:
        return self._emit.value(self._emit.add(address, units, i64), i64)


def half_byte_address(pointer: Value, lowering: FunctionLowering) -> Value:
    """The address, in half bytes, of the lower half of a byte."""
    emit = lowering.emit
    address = emit.insert(llvm.PtrToIntOp(pointer, res=i64))
    return emit.value(emit.shl(address, 1, i64), i64)


def _pointer(address: Value, lowering: FunctionLowering) -> Value:
    """To the byte that holds an element."""
    emit = lowering.emit
    return emit.insert(llvm.IntToPtrOp(emit.lshr(address, 1, i64), res=llvm.LLVMPointerType(1)))


def _halves(values: Value, low: int) -> list[int]:
    return list(range(low, count_of(values.type), 2))


def load_vector(
    lowering: FunctionLowering, address: Value, offset: int, type: Type, predicate: Value | None = None,
    other: Value | None = None, ordering: str = "",
) -> Value:  # fmt: skip
    """As access.load_vector; runs of several elements start at a byte."""
    emit = lowering.emit
    count = count_of(type)
    four = emit.integer(4, i8)
    if count == 1:
        address = emit.value(emit.add(address, offset, i64), i64)
        byte = access.load_vector(lowering, _pointer(address, lowering), 0, i8, predicate, None, ordering)
        odd = emit.insert(llvm.TruncOp(emit.and_(address, 1, i64), res=i8))
        shift = emit.insert(llvm.MulOp(odd, four))
        result = emit.insert(llvm.AndOp(emit.insert(llvm.LShrOp(byte, shift)), emit.integer(15, i8)))
        return result if predicate is None or other is None else emit.select(predicate, result, other)
    whole = vector_of(i8, count // 2)
    packed = None if other is None else _pack(other, lowering)
    bytes_ = access.load_vector(
        lowering, _pointer(address, lowering), offset // 2, whole, predicate, packed, ordering
    )
    low = emit.insert(llvm.AndOp(bytes_, emit.integer(15, whole)))
    high = emit.insert(llvm.LShrOp(bytes_, emit.integer(4, whole)))
    if count == 2:
        return emit.build([low, high])
    order = DenseArrayAttr(i32, [n // 2 + n % 2 * (count // 2) for n in range(count)])
    return emit.insert(ShuffleOp(low, high, mask=order))


def _pack(values: Value, lowering: FunctionLowering) -> Value:
    """Two elements to a byte."""
    emit = lowering.emit
    low, high = (emit.shuffle(values, _halves(values, n)) for n in (0, 1))
    kind = low.type
    low = emit.insert(llvm.AndOp(low, emit.integer(15, kind)))
    return emit.insert(llvm.OrOp(low, emit.insert(llvm.ShlOp(high, emit.integer(4, kind)))))


def store_vector(
    lowering: FunctionLowering, address: Value, offset: int, value: Value, predicate: Value | None = None,
    ordering: str = "",
) -> None:  # fmt: skip
    """As access.store_vector; runs of several elements start at a byte."""
    emit = lowering.emit
    if count_of(value.type) > 1:
        packed = _pack(value, lowering)
        access.store_vector(lowering, _pointer(address, lowering), offset // 2, packed, predicate, ordering)
        return
    address = emit.value(emit.add(address, offset, i64), i64)
    # The word of 32 bits, and where in it the element lies: eight elements to a word.
    word = emit.insert(llvm.ShlOp(emit.lshr(address, 3, i64), emit.integer(2, i64)))
    pointer = emit.insert(llvm.IntToPtrOp(word, res=llvm.LLVMPointerType(1)))
    place = emit.insert(llvm.TruncOp(emit.and_(address, 7, i64), res=i32))
    shift = emit.insert(llvm.ShlOp(place, emit.integer(2)))
    bits = emit.and_(emit.insert(llvm.ZExtOp(value, res=i32)), 15)
    keep = emit.insert(llvm.XOrOp(emit.insert(llvm.ShlOp(emit.integer(15), shift)), emit.integer(-1)))
    order, _, scope = (ordering or ".relaxed.gpu").removeprefix(".").partition(".")
    for kind, operand in (("and", keep), ("or", emit.insert(llvm.ShlOp(bits, shift)))):
        op = nvvm.RedOp(
            pointer,
            operand,
            op=nvvm.AtomicOpAttr(kind),
            order=nvvm.MemOrderAttr(order),
            scope=nvvm.MemScopeAttr(scope),
        )
        access.guarded(lowering, op, predicate)
