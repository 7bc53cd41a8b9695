"""Dots of warpgroups: registers in flight, matrix descriptors, fences, groups and waits.

A tile in flight is one LLVM vector of the words that the instructions take, in the order of its registers: pieces of an
instruction's own registers one after the other.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from tileiras.dialects import llvm, nvvm
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.nv_tileas.thread import THREAD
from tileiras.ir import DenseArrayAttr, IntegerAttr, Operation, StringAttr, UnitAttr, Value, VerifyError, i32
from tileiras.layout import LinearLayout
from tileiras.layout.encoding import is_in_shared, layout_of
from tileiras.layout.matrix_descriptor import ADDRESS_MASK, MatrixDescriptor, byte_offset, describe
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets import Fragment, MmaAtom, mma_atom

from ..collective.convert_layout import Place
from ..emit.emitter import FULL_WARP
from ..emit.function import FunctionLowering
from ..emit.types import count_of, element_of, in_flight_word, scalar_type, vector_of

WARP_BITS = 2
"""The low bits of a warp's number: its place in its warpgroup."""


# ---- registers in flight --------------------------------------------------------------------------------------------


def _words(value: Value, type: tileas.InFlightType, lowering: FunctionLowering) -> list[Value]:
    """A tile of this type as the words that instructions take."""
    emit, word = lowering.emit, in_flight_word(type.tile)
    packed = value if element_of(value.type) is word else emit.pack(value, word)
    return [emit.extract(packed, i) for i in range(count_of(packed.type))]


def _tile(words: Sequence[Value], type: tileas.InFlightType, lowering: FunctionLowering) -> Value:
    """The tile of these words."""
    emit, element = lowering.emit, scalar_type(type.tile.element_type)
    vector = emit.build(words)
    if element_of(vector.type) is element:
        return vector
    return emit.unpack(vector, vector_of(element, layout_of(type.tile).registers))


def _thread_words(
    op: Operation, words: Sequence[Value], lowering: FunctionLowering
) -> list[Value]:
    """The words that an operation returns in place of its input words."""
    result = lowering.emit.insert(op)
    return [lowering.emit.member(result, i) for i in range(len(words))] if len(words) > 1 else [result] * len(words)


def _struct(types: Sequence[Any]) -> Any:
    if not types:
        return None
    return types[0] if len(types) == 1 else llvm.LLVMStructType(list(types))


def _split(words: Sequence[Value], sizes: Sequence[int]) -> list[Sequence[Value]]:
    ends = [sum(sizes[: n + 1]) for n in range(len(sizes))]
    return [words[end - size : end] for end, size in zip(ends, sizes)]


def to_async(op: tileas.ToAsyncOp, args: Sequence[Value], lowering: FunctionLowering) -> list[Value]:
    types = [future.type for future in op.futures]
    parts = [_words(value, type, lowering) for value, type in zip(args, types)]
    words = [word for part in parts for word in part]
    if op.unused is not None:
        return [lowering.emit.build(part) for part in parts]
    fence = THREAD["warpgroup.fence"](words, res=_struct([word.type for word in words]))
    fenced = _thread_words(fence, words, lowering)
    return [lowering.emit.build(part) for part in _split(fenced, list(map(len, parts)))]


def create_none(op: tileas.CreateNoneOp, args: Sequence[Value], lowering: FunctionLowering) -> Value:
    tile = op.result.type.tile
    word = in_flight_word(tile)
    count = layout_of(tile).registers * tile.element_type.width // 32
    result = lowering.emit.insert(THREAD["warpgroup.fence"]([], res=_struct([word] * count)))
    return lowering.emit.build([lowering.emit.member(result, i) for i in range(count)] if count > 1 else [result])


def future_wait(op: tileas.FutureWaitOp, args: Sequence[Value], lowering: FunctionLowering) -> list[Value]:
    emit = lowering.emit
    parts = [[emit.extract(value, i) for i in range(count_of(value.type))] for value in args]
    if op.by_dot is not None:
        return [_tile(part, value.type, lowering) for part, value in zip(parts, op.futures)]
    words = [word for part in parts for word in part]
    wait = THREAD["warpgroup.wait"](words, group=op.pending, res=_struct([word.type for word in words]))
    results = _thread_words(wait, words, lowering) if words else []
    if not words:
        emit.insert(wait)
    tiles = _split(results, list(map(len, parts)))
    return [_tile(tile, value.type, lowering) for tile, value in zip(tiles, op.futures)]


def commit_dots(op: tileas.CommitDotsOp, args: Sequence[Value], lowering: FunctionLowering) -> None:
    if op.by_dot is None:
        lowering.emit.insert(THREAD["warpgroup.commit"]())


def fence_proxy_async(op: tileas.FenceProxyOp, args: Sequence[Value], lowering: FunctionLowering) -> None:
    everywhere = op.global_memory is not None
    lowering.emit.insert(THREAD["fence.proxy.async"]() if everywhere else THREAD["fence.proxy.async.shared"]())


# ---- dots -------------------------------------------------------------------------------------------------------


def uniform_warp(lowering: FunctionLowering) -> Value:
    """The warp's number as the result of a shuffle: ptxas then keeps values computed from it, such as descriptors, in
    uniform registers, as the instructions require."""
    emit = lowering.emit

    def make() -> Value:
        mask, first, last = (emit.integer(n) for n in (FULL_WARP, 0, 31))
        return emit.insert(nvvm.ShflOp(mask, emit.warp, first, last, kind=nvvm.ShflKindAttr("idx")))

    return emit.by_thread("uniform warp", make)


class _Shared:
    """An operand in shared memory: the lower words of descriptors of its parts."""

    def __init__(
        self, place: Place, old: Value, k_axis: int, accumulator: LinearLayout, lowering: FunctionLowering
    ) -> None:
        self._layout = layout_of(old.type)
        self._bits = old.type.element_type.width
        self._k_axis = k_axis
        result = describe(self._layout, k_axis, self._bits)
        if result is None:
            raise VerifyError(f"reads a tile that no matrix descriptor describes: {old.type}")
        self.descriptor: MatrixDescriptor = result
        self._base = self._first(place, accumulator, lowering)
        self._emit = lowering.emit

    @property
    def high(self) -> int:
        return self.descriptor.constant >> 32

    @property
    def transposed(self) -> int:
        return int(self.descriptor.major == "mn")

    def _first(self, place: Place, accumulator: LinearLayout, lowering: FunctionLowering) -> Value:
        """The lower word of the descriptor of the first part of the thread's warpgroup."""
        emit = lowering.emit
        address = emit.add(emit.insert(llvm.PtrToIntOp(place.base, res=i32)), place.start)
        warp_offsets = self._of_warps(accumulator)
        if any(warp_offsets):
            address = emit.add(address, emit.image(warp_offsets, uniform_warp(lowering)))
        if lowering.may_be_in_cluster:
            # In a cluster an address of the CTA's own memory may have its rank above these bits.
            address = emit.and_(emit.value(address), ADDRESS_MASK)
        low = emit.lshr(emit.value(address), 4)
        return emit.value(emit.add(low, self.descriptor.constant & 0xFFFFFFFF))

    def _of_warps(self, accumulator: LinearLayout) -> list[int]:
        """The bytes that each bit of a warp's number moves the first part by."""
        mn_axis = 1 - self._k_axis
        warps = []
        for bit, vector in enumerate(accumulator.bases("warp")):
            place = [0, 0]
            if bit >= WARP_BITS:
                # A has the accumulator's rows, B its columns.
                place[mn_axis] = accumulator.coordinates(vector)[mn_axis]
            warps.append(byte_offset(self._layout, place, self._bits))
        return warps

    def step(self, mn: int, k: int) -> int:
        """The addend of the lower word for the part at a row or column, and a place along K."""
        place = [0, 0]
        place[self._k_axis], place[1 - self._k_axis] = k, mn
        return byte_offset(self._layout, place, self._bits) >> 4

    def word(self) -> Value:
        return self._base


@functools.lru_cache(maxsize=256)
def _pieces(layout: LinearLayout, elements: int) -> tuple[tuple[int, ...], ...]:
    """The corners of the parts of a tile that an instruction's own registers hold, in the order of the registers."""
    return tuple(layout.coordinates(layout.apply(register=r)) for r in range(0, layout.registers, elements))


def dot(op: tileas.AsyncDotOp, args: Sequence[Any], lowering: FunctionLowering) -> Value:
    """A series of instructions along K for each part of the warpgroup's share of the result."""
    emit = lowering.emit
    atom = mma_atom(op.atom.atom)
    tile = op.c.type.tile
    accumulator = layout_of(tile)
    exchanged = op.exchanged is not None
    assert isinstance(atom.c, Fragment), "accumulators are in registers"
    words = [emit.extract(args[2], i) for i in range(count_of(args[2].type))]
    each = atom.c.operands
    depth, step = op.a_tile.shape[1], atom.shape[2]
    steps = range(0, depth, step)

    def side(number: int, k_axis: int) -> _Shared | _Registers:
        old = op.operands[number]
        if is_in_shared(old.type):
            return _Shared(args[number], old, k_axis, accumulator, lowering)
        return _Registers(args[number], old, k_axis, atom, lowering)

    b, a = side(1, 0), side(0, 1)

    def operands(row: int, column: int, along: range) -> tuple[_Operand, _Operand]:
        first, second = _operand(a, row, along), _operand(b, column, along)
        return (second, first) if exchanged else (first, second)

    results: list[Value] = []
    for number, (row, column) in enumerate(_pieces(accumulator, atom.c.elements)):
        part = words[number * each : (number + 1) * each]
        if op.promoted is None:
            results += _series(atom, part, *operands(row, column, steps), op.overwrites, lowering)
            continue
        for start in range(0, depth, op.promoted.value):
            stop = min(depth, start + op.promoted.value)
            sums = _complete(atom, operands(row, column, range(start, stop, step)), part, lowering)
            added = op.overwrites is None or start
            part = [emit.insert(llvm.FAddOp(*pair)) for pair in zip(part, sums)] if added else sums
        results += part
    return emit.build(results)


def _complete(
    atom: MmaAtom, operands: tuple[_Operand, _Operand], like: list[Value], lowering: FunctionLowering
) -> list[Value]:
    """The sums of a series of instructions that begins with zero, once they are complete."""
    types = _struct([word.type for word in like])
    fence = lowering.emit.insert(THREAD["warpgroup.fence"]([], res=types))
    begin = [lowering.emit.member(fence, i) for i in range(len(like))]
    sums = _series(atom, begin, *operands, UnitAttr(), lowering)
    lowering.emit.insert(THREAD["warpgroup.commit"]())
    return _thread_words(THREAD["warpgroup.wait"](sums, group=IntegerAttr(0, i32), res=types), sums, lowering)


class _Operand(NamedTuple):
    """An operand of a series: registers, or the lower word of a descriptor; the addend of each step, the descriptor's
    upper word, and whether K is not contiguous."""

    values: list[Value]
    steps: list[int] | None
    high: int = 0
    transposed: int = 0


def _operand(side: _Shared | _Registers, mn: int, steps: range) -> _Operand:
    if isinstance(side, _Registers):
        return _Operand([word for k in steps for word in side.at(mn, k)], None)
    return _Operand([side.word()], [side.step(mn, k) for k in steps], side.high, side.transposed)


class _Registers:
    """The instruction's A in registers."""

    def __init__(self, value: Value, old: Value, k_axis: int, atom: MmaAtom, lowering: FunctionLowering) -> None:
        assert isinstance(atom.a, Fragment), "an atom with A in registers has a fragment"
        emit, layout = lowering.emit, layout_of(old.type.tile)
        words = [emit.extract(value, i) for i in range(count_of(value.type))]
        each = atom.a.operands
        self._at = {
            (corner[1 - k_axis], corner[k_axis]): words[number * each : (number + 1) * each]
            for number, corner in enumerate(_pieces(layout, atom.a.elements))
        }

    def at(self, mn: int, k: int) -> list[Value]:
        return self._at[mn, k]


def _series(
    atom: MmaAtom,
    accumulator: list[Value],
    a: _Operand,
    b: _Operand,
    overwrites: UnitAttr | None,
    lowering: FunctionLowering,
) -> list[Value]:
    emit = lowering.emit
    op = THREAD["warpgroup.mma"](
        accumulator,
        a.values,
        b.values,
        atom=StringAttr(atom.name),
        a_steps=None if a.steps is None else DenseArrayAttr(i32, a.steps),
        a_high=None if a.steps is None else IntegerAttr(a.high, i32),
        b_steps=DenseArrayAttr(i32, b.steps or []),
        b_high=IntegerAttr(b.high, i32),
        transposed=DenseArrayAttr(i32, (a.transposed, b.transposed)),
        overwrites=overwrites,
        res=_struct([word.type for word in accumulator]),
    )
    result = emit.insert(op)
    return [emit.member(result, i) for i in range(len(accumulator))]
