"""Dots into tensor memory: one thread issues a series of tcgen05.mma for each part of the result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tileiras.dialects import llvm, nvvm
from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import DenseArrayAttr, IntegerAttr, StringAttr, Value, VerifyError, i32
from tileiras.layout import LinearLayout
from tileiras.layout.encoding import layout_of
from tileiras.layout.matrix_descriptor import ADDRESS_MASK, MatrixDescriptor, byte_offset, describe
from tileiras.layout.tensor_memory import column_of
from tileiras.named_tuple import NamedTuple
from tileiras.targets import MmaAtom, mma_atom

from .convert_layout import Place
from .function import FunctionLowering
from .tensor_memory import issuing

_RESULTS = {"f16": 0, "f32": 1, "i32": 2}
_FACTORS = {
    "f16": 0, "bf16": 1, "tf32": 2, "f8E4M3FN": 0, "f8E5M2": 1, "u8": 0, "s8": 1,
}  # fmt: skip
"""PTX ISA, "Instruction descriptor" of tcgen05: types of D in bits 5-4, of A and B in bits 9-7 and 12-10."""

SATURATES = 1 << 3
"""Of integers, likewise."""


class _Operand(NamedTuple):
    """An operand in shared memory: the lower word of the descriptor of its first part, and what describes the rest."""

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
        """What is added to the lower word for the part at a row or column, and a place along K."""
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


def _operand(place: Place, type: Any, k_axis: int, lowering: FunctionLowering) -> _Operand:
    emit = lowering.emit
    found = describe(layout_of(type), k_axis, type.element_type.width)
    if found is None:
        raise VerifyError(f"reads a tile that no matrix descriptor describes: {type}")
    address = emit.value(emit.add(emit.insert(llvm.PtrToIntOp(place.base, res=i32)), place.start))
    if lowering.num_ctas > 1:
        # In a cluster an address of the CTA's own memory may have its rank above these bits.
        address = emit.value(emit.and_(address, ADDRESS_MASK))
    low = emit.value(emit.add(emit.lshr(address, 4), found.tcgen05_constant & 0xFFFFFFFF))
    return _Operand(low, found, type, k_axis)


def _instruction_descriptor(atom: MmaAtom, a: _Operand | _OperandInColumns, b: _Operand | _OperandInColumns) -> int:
    """PTX ISA, "Instruction descriptor" of tcgen05; `a` and `b` are the instruction's."""
    m, n, _ = atom.shape
    word = _RESULTS[atom.c_type] << 4 | _FACTORS[atom.a_type] << 7 | _FACTORS[atom.b_type] << 10
    word |= a.transposed << 15 | b.transposed << 16 | n >> 3 << 17 | m >> 4 << 24
    return word | SATURATES if atom.c_type == "i32" else word


def dot(op: tileas.TensorDotOp, args: Sequence[Any], lowering: FunctionLowering) -> None:
    """A series of instructions along K for each part of the result that one of them has."""
    emit = lowering.emit
    atom = mma_atom(op.atom.atom)
    exchanged = op.exchanged is not None
    tile = op.buffer.type.tile
    layout = layout_of(tile)
    a: _Operand | _OperandInColumns
    if isinstance(op.a.type, tileas.TensorBufferType):
        a = _OperandInColumns(args[0], layout_of(op.a.type.tile))
    else:
        a = _operand(args[0], op.a.type, 1, lowering)
    b: _Operand | _OperandInColumns = _operand(args[1], op.b.type, 0, lowering)
    if exchanged:
        a, b = b, a
    m, n = tile.shape[::-1] if exchanged else tile.shape
    rows, columns, depth = atom.shape
    steps = range(0, op.b.type.shape[0], depth)
    word = _instruction_descriptor(atom, a, b)
    with issuing(lowering):
        if op.fenced is not None:
            emit.insert(nvvm.Tcgen05FenceAfterOp())
        for row in range(0, m, rows):
            for column in range(0, n, columns):
                place = (column, row) if exchanged else (row, column)
                emit.insert(
                    nvvm.Tcgen05MmaOp(
                        emit.value(emit.add(args[2], column_of(layout, place))),
                        a.low,
                        b.low,
                        args[3],
                        instruction=StringAttr(atom.instruction),
                        syntax=StringAttr(atom.syntax),
                        requires=StringAttr(atom.requires),
                        descriptor=IntegerAttr(word, i32),
                        a_steps=DenseArrayAttr(i32, [a.step(row, k) for k in steps]),
                        a_high=IntegerAttr(a.high, i32),
                        b_steps=DenseArrayAttr(i32, [b.step(column, k) for k in steps]),
                        b_high=IntegerAttr(b.high, i32),
                    )
                )
