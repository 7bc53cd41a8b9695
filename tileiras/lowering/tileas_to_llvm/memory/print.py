"""Printing, through the `vprintf` of the driver (CUDA C++ Programming Guide, "Formatted Output").

A scalar is printed in the place of its conversion, a tile as its elements in nested brackets, `[[1, 2], [3, 4]]`, each
by the conversion.  One thread of the block prints.  Tiles of few elements are passed to it in registers and share a
call with the text around them; larger ones go through shared memory and are printed in a loop, a few elements a call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tileiras.dialects import llvm
from tileiras.dialects.nv_tileaa.print_format import MOST_ARGUMENTS, is_printed_at_once, pieces
from tileiras.ir import FloatType, IntegerType, TensorType, Value, VerifyError, f64, i1, i4, i8, i32, i64
from tileiras.layout.constructors import replicated

from ..collective.convert_layout import convert
from ..elementwise.conversions import i4_to_i8, to_f32
from ..emit.function import FunctionLowering
from ..emit.types import element_of
from .access import as_data, from_data, load_vector, store_vector
from .debug import GENERIC, continue_at, only_where, text_address

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileas as tileas


class _Printer:
    """Collects text and arguments until a call is full."""

    def __init__(self, lowering: FunctionLowering) -> None:
        self._lowering = lowering
        self._format = ""
        self._values: list[Value] = []

    def text(self, text: str) -> None:
        self._format += text

    def elements(self, spec: str, values: Sequence[Value], shape: Sequence[int]) -> None:
        """Scalars as a tile of this shape."""
        if len(self._values) + len(values) > MOST_ARGUMENTS:
            self.flush()
        for position, value in enumerate(values):
            self._format += _between(shape, position) + spec
            self._values.append(value)
        self._format += "]" * len(shape)

    def flush(self) -> None:
        if self._format:
            emit = self._lowering.emit
            after = only_where(emit.icmp("eq", emit.thread, emit.integer(0)), self._lowering)
            _call(text_address(self._format, self._lowering), self._values, self._lowering)
            continue_at(after, self._lowering)
        self._format, self._values = "", []


def _between(shape: Sequence[int], position: int) -> str:
    """The text before the element at a row-major position."""
    if position == 0:
        return "[" * len(shape)
    closed, size = 0, 1
    for extent in reversed(shape[1:]):
        size *= extent
        closed += position % size == 0
    return "]" * closed + ", " + "[" * closed


def _call(format: Value, values: Sequence[Value], lowering: FunctionLowering) -> None:
    """One call: the arguments lie in local memory, each aligned to its size."""
    emit = lowering.emit
    buffer = emit.null(GENERIC)
    if values:
        size = emit.integer(MOST_ARGUMENTS * 8)
        buffer = emit.once(
            "print buffer", lambda: emit.insert(llvm.AllocaOp(size, elem_type=i8, alignment=8, res=GENERIC))
        )
        offset = 0
        for value in values:
            width = value.type.width // 8
            offset = -(-offset // width) * width
            emit.insert(llvm.StoreOp(value, emit.gep(buffer, offset), alignment=width))
            offset += width
    lowering.external_call("vprintf", (format, buffer), i32)


def _promote(type: FloatType | IntegerType, value: Value, lowering: FunctionLowering) -> Value:
    """A scalar as C passes it to a variadic: integers of at least 32 bits, signed, truth values not; floats as f64."""
    emit = lowering.emit
    if isinstance(value.type, llvm.LLVMPointerType):
        return emit.insert(llvm.PtrToIntOp(value, res=i64))
    if isinstance(type, FloatType):
        return value if type is f64 else emit.insert(llvm.FPExtOp(to_f32(type, value, lowering), res=f64))
    if type is i4:
        value = i4_to_i8(value, True, lowering)
    if isinstance(value.type, IntegerType) and value.type.width < 32:
        return emit.insert((llvm.ZExtOp if value.type is i1 else llvm.SExtOp)(value, res=i32))
    return value


# ---- large tiles -----------------------------------------------------------------------------------------------------


def _repeat(count: int, body: Callable[[Value], None], lowering: FunctionLowering) -> None:
    """`body` for 0 to count - 1, given as i32."""
    emit = lowering.emit
    head, after = lowering.new_block([i32]), lowering.new_block()
    emit.insert(llvm.BrOp([emit.integer(0)], dest=head))
    emit.block = head
    (number,) = head.arguments
    body(number)
    following = emit.value(emit.add(number, 1))
    more = emit.icmp("ult", following, emit.integer(count))
    emit.insert(llvm.CondBrOp(more, [following], [], trueDest=head, falseDest=after))
    emit.block = after


def _print_large(spec: str, old: Value, lowering: FunctionLowering) -> None:
    """Print the elements of a tile and the text between them, without the outermost brackets."""
    emit = lowering.emit
    layout = lowering.layout(old)
    shape, total = layout.shape, layout.size
    value = lowering.value(old)
    scalar = element_of(value.type)
    data = as_data(value, lowering)
    size = element_of(data.type).width // 8
    area = lowering.area()
    base, staged = area.base, area.scratch.bytes // size
    called = min(MOST_ARGUMENTS, total)
    free = layout.free_variable_masks()
    holder = emit.thread_is_elected(free["lane"], free["warp"])
    thread = emit.linear(layout.bases("lane"), layout.bases("warp"))
    separators = _separators(shape, lowering)

    def stage(number: Value) -> None:
        """All threads store their elements of one part of the tile to shared memory, and one of them prints it."""
        lowering.before_stores(area)
        for register in range(layout.registers):
            if register & free["register"]:
                continue
            position = emit.value(emit.xor(thread, layout.apply(register=register)))
            predicate = holder
            if staged < total:
                part = emit.lshr(position, staged.bit_length() - 1)
                predicate = emit.both(holder, emit.icmp("eq", part, number))
                position = emit.and_(position, staged - 1)
            store_vector(lowering, emit.gep(base, emit.mul(position, size)), 0, emit.extract(data, register), predicate)
        lowering.before_loads(area)
        after = only_where(emit.icmp("eq", emit.thread, emit.integer(0)), lowering)
        _repeat(staged // called, lambda row: call(number, row), lowering)
        continue_at(after, lowering)

    def call(number: Value, row: Value) -> None:
        values = []
        start = emit.gep(base, emit.mul(row, called * size))
        for position in range(called):
            loaded = from_data(load_vector(lowering, start, position * size, element_of(data.type)), scalar, lowering)
            values.append(_promote(old.type.element_type, loaded, lowering))
        format = "".join((_between(shape, n) if n else "") + spec for n in range(called))
        _call(text_address(format, lowering), values, lowering)
        end = emit.add(emit.mul(number, staged), emit.mul(emit.add(row, 1), called))
        more = emit.icmp("ne", emit.value(end), emit.integer(total))
        after = only_where(more, lowering)
        _call(separators(emit.value(end)), (), lowering)
        continue_at(after, lowering)

    _repeat(total // staged, stage, lowering)


def _separators(shape: Sequence[int], lowering: FunctionLowering) -> Callable[[Value], Value]:
    """The text in front of an element other than the first: one of a table, by how many rows begin there."""
    emit = lowering.emit
    width = 2 * len(shape) + 1
    texts = ["]" * closed + ", " + "[" * closed for closed in range(len(shape))]
    table = text_address("\0".join(text.ljust(width - 1, "\0") for text in texts), lowering)

    def before(position: Value) -> Value:
        offset: Any = 0
        rows = 1
        for extent in reversed(shape[1:]):
            rows *= extent
            begins = emit.icmp("eq", emit.and_(position, rows - 1), emit.integer(0))
            offset = emit.add(offset, emit.mul(emit.zext(begins, i32), width))
        return emit.gep(table, offset)

    return before


# ---- the operation ---------------------------------------------------------------------------------------------------


def print(op: tileas.PrintOp, args: Sequence[Any], lowering: FunctionLowering) -> list[Any]:
    emit = lowering.emit
    parts = list(pieces(op.format.value))
    conversions = sum(not isinstance(piece, str) for piece in parts)
    if conversions > len(op.args):
        raise VerifyError(f"has {conversions} conversions in its format for {len(op.args)} values")
    small: dict[int, list[Value]] = {}
    for number, old in enumerate(op.args):
        if is_printed_at_once(old.type):
            everywhere = replicated(old.type.shape, lowering.num_warps)
            whole = convert(args[number], lowering.layout(old), everywhere, lowering)
            small[number] = [emit.extract(whole, n) for n in range(old.type.num_elements)]
    printer = _Printer(lowering)
    for piece in parts:
        if isinstance(piece, str):
            printer.text(piece)
            continue
        old = op.args[piece.operand]
        if not isinstance(old.type, TensorType):
            printer.elements(piece.spec, [_promote(old.type, args[piece.operand], lowering)], ())
        elif piece.operand in small:
            element = old.type.element_type
            values = [_promote(element, value, lowering) for value in small[piece.operand]]
            printer.elements(piece.spec, values, old.type.shape)
        else:
            printer.text("[" * old.type.rank)
            printer.flush()
            _print_large(piece.spec, old, lowering)
            printer.text("]" * old.type.rank)
    printer.flush()
    return [None]
