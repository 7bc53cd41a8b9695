"""Dots into tensor memory: one thread issues a series of tcgen05.mma for each part of the result."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tileiras.dialects import llvm, nvvm
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.nv_tileas.thread import THREAD
from tileiras.ir import DenseArrayAttr, IntegerAttr, StringAttr, UnitAttr, Value, VerifyError, i32
from tileiras.layout import LinearLayout
from tileiras.layout.encoding import layout_of
from tileiras.layout.matrix_descriptor import ADDRESS_MASK, ROWS, MatrixDescriptor, byte_offset, describe
from tileiras.layout.tensor_memory import LANES, SCALES_IN_WORD, column_of, scale_columns, scale_places, word_columns
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets import MmaAtom, ScaledMmaAtom, mma_atom

from ..collective.convert_layout import Place
from ..emit.function import FunctionLowering
from ..pipes.agents import by_thread_of_pair

_RESULTS = {"f16": 0, "f32": 1, "i32": 2}
_FACTORS = {
    "f16": 0, "bf16": 1, "tf32": 2, "f8E4M3FN": 0, "f8E5M2": 1, "u8": 0, "s8": 1,
    "f4E2M1FN": 1,
}  # fmt: skip
"""PTX ISA, "Instruction descriptor" of tcgen05: types of D in bits 5-4, of A and B in bits 9-7 and 12-10."""

SATURATES = 1 << 3
"""The bit for saturating integers, likewise."""


class _Operand(NamedTuple):
    """An operand in shared memory: the lower word of the descriptor of its first part, and the fields for the
    others."""

    low: Value
    descriptor: MatrixDescriptor
    type: Any
    k_axis: int

    @property
    def high(self) -> int:
        return self.descriptor.tcgen05_constant >> 32

    @property
    def transposed(self) -> bool:
        return self.descriptor.major == "mn"

    def step(self, mn: int, k: int) -> int:
        """The addend of the lower word for the part at a row or column, and a place along K."""
        place = [0, 0]
        place[self.k_axis], place[1 - self.k_axis] = k, mn
        return byte_offset(layout_of(self.type), place, self.type.element_type.width) >> 4


class _OperandInColumns(NamedTuple):
    """A in tensor memory: the address of its first column."""

    low: Value
    layout: LinearLayout

    @property
    def high(self) -> int:
        return 0

    @property
    def transposed(self) -> bool:
        return False

    def step(self, row: int, k: int) -> int:
        """Columns from the first one."""
        return column_of(self.layout, (row, k))


_AnyOperand = _Operand | _OperandInColumns


def _shared_address(place: Place, lowering: FunctionLowering) -> Value:
    """The address of a tile as descriptors have it."""
    emit = lowering.emit
    address = emit.value(emit.add(emit.insert(llvm.PtrToIntOp(place.base, res=i32)), place.start))
    if lowering.may_be_in_cluster:
        # In a cluster an address of the CTA's own memory may have its rank above these bits.
        address = emit.value(emit.and_(address, ADDRESS_MASK))
    return address


def _operand(place: Place, type: Any, k_axis: int, spread: bool, lowering: FunctionLowering) -> _Operand:
    emit = lowering.emit
    operand = describe(layout_of(type), k_axis, type.element_type.width, spread)
    if operand is None:
        raise VerifyError(f"reads a tile that no matrix descriptor describes: {type}")
    address = _shared_address(place, lowering)
    low = emit.value(emit.add(emit.lshr(address, 4), operand.tcgen05_constant & 0xFFFFFFFF))
    return _Operand(low, operand, type, k_axis)


def _instruction_descriptor(atom: MmaAtom, a: _AnyOperand, b: _AnyOperand) -> int:
    """PTX ISA, "Instruction descriptor" of tcgen05; `a` and `b` are the instruction's."""
    m, n, _ = atom.shape
    word = _RESULTS[atom.c_type] << 4 | _FACTORS[atom.a_type] << 7 | _FACTORS[atom.b_type] << 10
    word |= a.transposed << 15 | b.transposed << 16 | n >> 3 << 17 | m >> 4 << 24
    return word | SATURATES if atom.c_type == "i32" else word


_SCALES_OF_EXPONENTS = 1 << 23
"""Bits of the descriptor of kinds with block scales, likewise: that these are ue8m0, the byte of the word of A's and of
B's, and M in units of 128."""

_SCALED_M, _SCALE_A, _SCALE_B = 27, 29, 4


def _scaled_descriptor(atom: ScaledMmaAtom, a: _AnyOperand, b: _AnyOperand, byte: int) -> int:
    """PTX ISA, "Instruction descriptor" of tcgen05 for kinds with block scales; `byte`: the position of the first
    scales in their words."""
    m, n, _ = atom.shape
    if atom.is_spread:
        m = LANES
    word = _FACTORS[atom.a_type] << 7 | _FACTORS[atom.b_type] << 10 | a.transposed << 15 | b.transposed << 16
    word |= n >> 3 << 17 | m >> 7 << _SCALED_M | byte << _SCALE_A | byte << _SCALE_B
    return word | (_SCALES_OF_EXPONENTS if atom.scale_type == "f8E8M0FNU" else 0)


def dot(op: tileas.TensorDotOp, args: Sequence[Any], lowering: FunctionLowering) -> None:
    """A series of instructions along K for each part of the result that one of them has."""
    emit = lowering.emit
    atom = mma_atom(op.atom.atom)
    exchanged = op.exchanged is not None
    tile = op.buffer.type.tile
    layout = layout_of(tile)
    a: _AnyOperand
    if isinstance(op.a.type, tileas.TensorBufferType):
        a = _OperandInColumns(args[0], layout_of(op.a.type.tile))
    else:
        a = _operand(args[0], op.a.type, 1, atom.is_spread and not exchanged, lowering)
    b: _AnyOperand = _operand(args[1], op.b.type, 0, atom.is_spread and exchanged, lowering)
    if exchanged:
        a, b = b, a
    m, n = tile.shape[::-1] if exchanged else tile.shape
    rows, (_, columns, depth) = atom.cta_rows, atom.shape
    steps = range(0, op.b.type.shape[0], depth)
    scales = _Scales(op, atom, args[4:], lowering) if op.scales else None
    word = _instruction_descriptor(atom, a, b) if scales is None else 0
    with by_thread_of_pair(lowering, atom.ctas > 1):
        if op.fenced is not None:
            emit.insert(THREAD["tcgen05.fence.after"]())
        if scales is not None:
            scales.copy(atom.ctas > 1)
        for row in range(0, m, rows) if op.group is None else (op.group.value * rows,):
            for column in range(0, n, columns):
                place = (column, row) if exchanged else (row, column)
                d = emit.value(emit.add(args[2], column_of(layout, place)))
                fields = {
                    "atom": StringAttr(atom.name),
                    "a_steps": DenseArrayAttr(i32, [a.step(row, k) for k in steps]),
                    "a_high": IntegerAttr(a.high, i32),
                    "b_steps": DenseArrayAttr(i32, [b.step(column, k) for k in steps]),
                    "b_high": IntegerAttr(b.high, i32),
                }
                if scales is not None:
                    fields |= scales.steps(atom, a, b, (row, column), steps)
                    emit.insert(THREAD["tcgen05.mma.block_scale"](d, a.low, b.low, *scales.columns, args[3], **fields))
                else:
                    fields["descriptor"] = IntegerAttr(word, i32)
                    emit.insert(THREAD["tcgen05.mma"](d, a.low, b.low, args[3], **fields))


class _Scales:
    """The scales of a dot: tiles in shared memory, and the columns to which the thread that issues it copies them."""

    def __init__(
        self, op: tileas.TensorDotOp, atom: MmaAtom | ScaledMmaAtom, args: Sequence[Any], lowering: FunctionLowering
    ) -> None:
        self._lowering = lowering
        (m, self._runs), (_, n) = op.scales[0].type.shape, op.scales[1].type.shape
        # The instruction's A is the transposed B of an exchanged dot.
        exchanged = op.exchanged is not None
        order = slice(None, None, -1 if exchanged else 1)
        self._counts = scale_places((m, n), atom.is_spread, exchanged)[order]
        self._sources = [_shared_address(place, lowering) for place in args[:2][order]]
        self.columns: list[Value] = list(args[2:])[order]

    def copy(self, pair: bool) -> None:
        """The tensor core reads them after these copies, which the same thread issues before, for both CTAs where it
        multiplies for a `pair`."""
        emit = self._lowering.emit
        constant = MatrixDescriptor("k", 16, 16, ROWS * 16).tcgen05_constant
        for count, source, columns in zip(self._counts, self._sources, self.columns):
            low = emit.value(emit.add(emit.lshr(source, 4), constant & 0xFFFFFFFF))
            runs = scale_columns(count, self._runs) // nvvm.Tcgen05CopyOp.RUN_COLUMNS
            high, group = IntegerAttr(constant >> 32, i32), UnitAttr() if pair else None
            emit.insert(THREAD["tcgen05.cp"](columns, low, runs=IntegerAttr(runs, i32), high=high, pair=group))

    def steps(
        self, atom: ScaledMmaAtom, a: _AnyOperand, b: _AnyOperand, place: tuple[int, int], steps: Iterable[int]
    ) -> dict[str, DenseArrayAttr]:
        """The instruction descriptors and the columns of a series along K for the part of the result at a place."""
        first = [step // atom.block for step in steps]
        words = [_scaled_descriptor(atom, a, b, run % SCALES_IN_WORD) for run in first]
        attributes = {"descriptors": DenseArrayAttr(i32, words)}
        for name, at, count in zip(("scale_a_steps", "scale_b_steps"), place, self._counts):
            of_word = word_columns(count)
            columns = [at // 32 + run // SCALES_IN_WORD * of_word for run in first]
            attributes[name] = DenseArrayAttr(i32, columns)
        return attributes
