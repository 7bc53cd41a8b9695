"""Dots: matrix instructions on the fragments that the layouts promise, or multiply-adds."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from tileiras.dialects import llvm
from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import FloatType, IntegerType, Value, element_type_of, f8E8M0FNU, f32, i32
from tileiras.layout import LinearLayout
from tileiras.targets import MMA_ATOMS, UNIVERSAL_FMA, Fragment, MmaAtom, ScaledMmaAtom, mma_atom, scaled_mma_atom

from ..elementwise.conversions import from_f32, to_f32
from ..emit.function import FunctionLowering
from ..emit.types import NATIVE_FLOATS, count_of, element_of, scalar_type, vector_of
from .atoms import atom_operands
from .atoms import multiply as execute

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa


def dot(op: tileas.DotOp, args: Sequence[Value], lowering: FunctionLowering) -> Value:
    name = op.atom.atom
    if name == UNIVERSAL_FMA:
        return _multiply_add(op, args, lowering)
    return _matrix(op, args, mma_atom(name), lowering)


@functools.lru_cache(maxsize=256)
def _positions(layout: LinearLayout) -> dict[tuple[int, ...], int]:
    """Register number by the register's part of the coordinates."""
    positions: dict[tuple[int, ...], int] = {}
    for register in range(layout.registers):
        positions.setdefault(layout.coordinates(layout.apply(register=register)), register)
    return positions


class _Steps(Protocol):
    """An operand that is read step by step."""

    def take(self, registers: Sequence[int]) -> Value: ...


def _registers_of(value: Value | _Steps, registers: Sequence[int], lowering: FunctionLowering) -> Value:
    """The elements of an operand, or of its scales, in these registers."""
    return lowering.emit.shuffle(value, registers) if isinstance(value, Value) else value.take(registers)


# ---- multiply-add ---------------------------------------------------------------------------------------------------


def _multiply_add(op: tileas.DotOp, args: Sequence[Value], lowering: FunctionLowering) -> Value:
    """One vector multiply-add for each k: every accumulator with its row of A and its column of B.

    Of a block-scaled dot, the sum over each run of K is scaled, then added.
    """
    emit = lowering.emit
    a, b, acc = args[:3]
    layout_a, layout_b, layout_c = (lowering.layout(v) for v in (op.a, op.b, op.c))
    where_a, where_b = _positions(layout_a), _positions(layout_b)
    depth = op.a.type.shape[-1]
    cells = [layout_c.coordinates(layout_c.apply(register=r)) for r in range(layout_c.registers)]
    element = element_type_of(op.c.type)
    wide = isinstance(element, FloatType) and element.keyword not in NATIVE_FLOATS
    if wide:
        acc = to_f32(element, acc, lowering)

    def spread(value: Value | _Steps, old: Value, signedness: aa.SignednessAttr | None, registers: list[int]) -> Value:
        """An operand's elements in these registers, in the accumulator's type."""
        distinct = list(dict.fromkeys(registers))
        part = _registers_of(value, distinct, lowering)
        part = _as_accumulator(part, old, signedness, op.c, lowering)
        return emit.shuffle(part, [distinct.index(register) for register in registers])

    def multiplied(k: int, acc: Value) -> Value:
        rows = spread(a, op.a, signed_a, [where_a[(*cell[:-1], k)] for cell in cells])
        columns = spread(b, op.b, signed_b, [where_b[(*cell[:-2], k, cell[-1])] for cell in cells])
        if isinstance(element, IntegerType):
            return emit.insert(llvm.AddOp(acc, emit.insert(llvm.MulOp(rows, columns))))
        return emit.intrinsic("fma", rows, columns, acc)

    signed_a, signed_b = getattr(op, "signedness_a", None), getattr(op, "signedness_b", None)
    if isinstance(op, tileas.BlockScaledMmaOp):
        scales = _Scales(op, args, lowering)
        for start in range(0, depth, scales.run):
            partial = emit.zeros(acc.type)
            for k in range(start, start + scales.run):
                partial = multiplied(k, partial)
            pairs = zip(*(scales.pair(cell, start) for cell in cells))
            acc = _scaled_sum(partial, *map(emit.build, pairs), acc, lowering)
        return acc
    for k in range(depth):
        acc = multiplied(k, acc)
    return from_f32(element, acc, lowering) if wide else acc


def _as_accumulator(
    value: Value, old: Value, signedness: aa.SignednessAttr | None, c: Value, lowering: FunctionLowering
) -> Value:
    """An operand's elements in the accumulator's type, exactly."""
    emit = lowering.emit
    source, target = element_type_of(old.type), element_type_of(c.type)
    count = count_of(value.type)
    if isinstance(source, IntegerType):
        element_type = scalar_type(target)
        if element_of(value.type) is element_type:
            return value
        signed = signedness is None or signedness.value == "signed"
        return emit.insert((llvm.SExtOp if signed else llvm.ZExtOp)(value, res=vector_of(element_type, count)))
    if source is target and source.keyword in NATIVE_FLOATS:
        return value
    if target.keyword == "f64":
        return from_f32(target, to_f32(source, value, lowering), lowering) if source.keyword != "f64" else value
    wide = to_f32(source, value, lowering)
    return from_f32(target, wide, lowering) if target.keyword in ("f16", "bf16") else wide


# ---- matrix instructions --------------------------------------------------------------------------------------------


class _Operand:
    """Fragments of an operand, or of its scales, each made once."""

    def __init__(
        self,
        old: Value,
        value: Value | _Steps,
        fragment: Fragment,
        lowering: FunctionLowering,
        prepare: Callable[[list[Value]], list[Value]] = lambda words: words,
    ) -> None:
        self._value = value
        self._prepare = prepare
        self._fragment = fragment
        self._elements = _elements(fragment)
        self._lowering = lowering
        self._shape = old.type.shape
        self._where = _positions(lowering.layout(old))
        self._made: dict[tuple[int, ...], list[Value]] = {}

    def at(self, *corner: int) -> list[Value]:
        """The operands of the instruction for the fragment that begins at `corner`."""
        result = self._made.get(corner)
        if result is None:
            registers = [self._where[_element_at(corner, basis, self._shape)] for basis in self._elements]
            words = _operands(self._value, registers, self._fragment, self._lowering)
            result = self._made[corner] = self._prepare(words)
        return result


Multiply = Callable[[tuple[int, ...], int, list[Value]], list[Value]]
"""Multiplies the pieces of the operands at (corner of the result, k) and adds them to the accumulator's registers."""


def _multiplier(op: tileas.Dot, args: Sequence[Value], atom: MmaAtom, lowering: FunctionLowering) -> Multiply:
    a = _Operand(op.a, args[0], atom.a, lowering, lambda words: atom_operands(atom, atom.a_type, words, lowering))
    b = _Operand(op.b, args[1], atom.b, lowering, lambda words: atom_operands(atom, atom.b_type, words, lowering))

    def multiply(piece: tuple[int, ...], k: int, acc: list[Value]) -> list[Value]:
        *lead, m, n = piece
        rows, columns = a.at(*lead, m, k), b.at(*lead, k, n)
        return execute(atom, (rows, columns, acc), lowering)

    return multiply


def _matrix(op: tileas.DotOp, args: Sequence[Value], atom: MmaAtom, lowering: FunctionLowering) -> Value:
    plain = _multiplier(op, args, atom, lowering)
    if op.promoted is None:
        return _accumulate(op, args[2], atom, plain, lowering)
    emit, whole = lowering.emit, min(op.promoted.value, op.a.type.shape[-1])
    zero = emit.floating(0.0, element_of(args[2].type))

    def multiply(piece: tuple[int, ...], k: int, acc: list[Value]) -> list[Value]:
        partial = [zero] * len(acc)
        for depth in range(k, k + whole, atom.shape[2]):
            partial = plain(piece, depth, partial)
        return [emit.insert(llvm.FAddOp(*pair)) for pair in zip(acc, partial)]

    return _accumulate(op, args[2], atom, multiply, lowering, whole)


def _run_by_run(op: tileas.BlockScaledMmaOp, args: Sequence[Value], atom: MmaAtom, lowering: FunctionLowering) -> Value:
    """A block-scaled dot by a plain instruction: the sum over each run of K is scaled, then added."""
    emit = lowering.emit
    plain = _multiplier(op, args, atom, lowering)
    scales = _Scales(op, args, lowering)
    shape = lowering.layout(op.c).shape
    elements = _elements(atom.c)
    zero = emit.floating(0.0, element_of(args[2].type))

    def multiply(piece: tuple[int, ...], k: int, acc: list[Value]) -> list[Value]:
        partial = [zero] * len(acc)
        for depth in range(k, k + scales.run, atom.shape[2]):
            partial = plain(piece, depth, partial)
        return [
            _scaled_sum(value, *scales.pair(_element_at(piece, basis, shape), k), old, lowering)
            for value, old, basis in zip(partial, acc, elements)
        ]

    return _accumulate(op, args[2], atom, multiply, lowering, scales.run)


def _scaled_sum(value: Value, first: Value, second: Value, old: Value, lowering: FunctionLowering) -> Value:
    return lowering.emit.intrinsic("fma", lowering.emit.insert(llvm.FMulOp(value, first)), second, old)


class _Scales:
    """The scales of a block-scaled dot that multiplies one run of K at a time."""

    def __init__(self, op: tileas.BlockScaledMmaOp, args: Sequence[Value], lowering: FunctionLowering) -> None:
        self.run = op.block
        self._lowering = lowering
        self._sides = [(args[3 + n], _positions(lowering.layout(v))) for n, v in enumerate((op.scale_a, op.scale_b))]
        self._kind = element_type_of(op.scale_a.type)
        self._are_exponents = self._kind is f8E8M0FNU
        self._made: dict[tuple[int, int], tuple[Value, ...]] = {}

    def pair(self, cell: tuple[int, ...], k: int) -> tuple[Value, Value]:
        """The two numbers by which the sum over the run at k is multiplied for an element of the result.

        One after the other they must not leave the range of f32 unless both together do.  So each is about the root of
        the product: half of A's exponent and half of B's.
        """
        *lead, m, n = cell
        a, b = self._scale(0, (*lead, m, k // self.run)), self._scale(1, (*lead, k // self.run, n))
        if not self._are_exponents:
            return a[0], b[0]
        multiply = self._lowering.emit.insert
        return multiply(llvm.FMulOp(a[0], b[1])), multiply(llvm.FMulOp(a[1], b[0]))

    def _scale(self, side: int, place: tuple[int, ...]) -> tuple[Value, ...]:
        """A scale, or two whose product it is: of half its exponent, rounded up and down."""
        value, where = self._sides[side]
        register = where[place]
        result = self._made.get((side, register))
        if result is None:
            scale = _registers_of(value, [register], self._lowering)
            result = self._halves(scale) if self._are_exponents else (to_f32(self._kind, scale, self._lowering),)
            self._made[side, register] = result
        return result

    def _halves(self, scale: Value) -> tuple[Value, Value]:
        emit = self._lowering.emit
        exponent = emit.insert(llvm.ZExtOp(scale, res=i32))
        # 2^n has the exponent n + 127 in both formats, and 255 is NaN in f8E8M0FNU.
        up, down = (
            emit.bitcast(emit.shl(emit.lshr(emit.value(emit.add(exponent, bias)), 1), 23), f32) for bias in (128, 127)
        )
        nan = emit.bits([0x7FC00000], f32)
        return emit.select(emit.icmp("eq", exponent, emit.integer(255)), nan, up), down


def block_scaled_mma(op: tileas.BlockScaledMmaOp, args: Sequence[Value], lowering: FunctionLowering) -> Value:
    if op.atom.atom == UNIVERSAL_FMA:
        return _multiply_add(op, args, lowering)
    if op.atom.atom in MMA_ATOMS:
        return _run_by_run(op, args, mma_atom(op.atom.atom), lowering)
    atom = scaled_mma_atom(op.atom.atom)
    a = _Operand(op.a, args[0], atom.a, lowering)
    b = _Operand(op.b, args[1], atom.b, lowering)
    scale_a = _Operand(op.scale_a, args[3], atom.scale_a, lowering)
    scale_b = _Operand(op.scale_b, args[4], atom.scale_b, lowering)

    def multiply(piece: tuple[int, ...], k: int, acc: list[Value]) -> list[Value]:
        *lead, m, n = piece
        rows, columns = a.at(*lead, m, k), b.at(*lead, k, n)
        left, right = scale_a.at(*lead, m, k // atom.block), scale_b.at(*lead, k // atom.block, n)
        return execute(atom, (rows, columns, acc, left, right), lowering)

    return _accumulate(op, args[2], atom, multiply, lowering)


def _accumulate(
    op: tileas.Dot,
    c: Value,
    atom: MmaAtom | ScaledMmaAtom,
    multiply: Multiply,
    lowering: FunctionLowering,
    step: int | None = None,
) -> Value:
    """Each atom-sized piece of this warp's share, `step` of K at a time (the atom's depth unless it is given); k is the
    outermost loop, so that consecutive instructions have different accumulators."""
    layout = lowering.layout(op.c)
    where = _positions(layout)
    elements = _elements(atom.c)
    accumulators = {}
    for piece in in_order(_pieces(layout, atom.c), atom):
        registers = [where[_element_at(piece, basis, layout.shape)] for basis in elements]
        accumulators[piece] = _operands(c, registers, atom.c, lowering)
    for k in range(0, op.a.type.shape[-1], step or atom.shape[2]):
        for piece, acc in accumulators.items():
            accumulators[piece] = multiply(piece, k, acc)
    return _gather(accumulators, where, atom.c, layout, lowering)


def _elements(fragment: Fragment) -> list[tuple[int, int]]:
    """Coordinates of a thread's elements inside the atom, in operand order."""
    bases = fragment.bases["register"]
    elements = []
    for number in range(1 << len(bases)):
        selection = [bases[i] for i in range(len(bases)) if number >> i & 1]
        elements.append((sum(b[0] for b in selection), sum(b[1] for b in selection)))
    return elements


def _element_at(corner: tuple[int, ...], basis: tuple[int, int], shape: tuple[int, ...]) -> tuple[int, ...]:
    """`corner` plus `basis`; a tile smaller than the atom wraps."""
    return (*corner[:-2], (corner[-2] + basis[0]) % shape[-2], (corner[-1] + basis[1]) % shape[-1])


def _pieces(layout: LinearLayout, fragment: Fragment) -> list[tuple[int, ...]]:
    """Corners of the atom-sized pieces that a warp's registers cover, relative to the warp's own place."""
    rows, columns = fragment.shape
    places = (layout.coordinates(layout.apply(register=r)) for r in range(layout.registers))
    return [place for place in places if not (place[-2] % rows or place[-1] % columns)]


def in_order(places: list[tuple[int, ...]], atom: MmaAtom | ScaledMmaAtom) -> list[tuple[int, ...]]:
    """Rows after rows or columns after columns, so that fewer registers hold fragments of operands: those of the inner
    dimension are used repeatedly, those of the outer one once."""
    rows, columns = (len({place[axis] for place in places}) for axis in (-2, -1))
    outer, inner = (-2, -1) if columns * atom.b.operands <= rows * atom.a.operands else (-1, -2)
    return sorted(places, key=lambda place: (*place[:-2], place[outer], place[inner]))


def _operands(
    value: Value | _Steps, registers: list[int], fragment: Fragment, lowering: FunctionLowering
) -> list[Value]:
    """A fragment's elements as the instruction's operands."""
    operands = []
    for start in range(0, len(registers), fragment.packing):
        part = _registers_of(value, registers[start : start + fragment.packing], lowering)
        operands.append(_word(part, fragment.packing, lowering) if fragment.operand_type == "i32" else part)
    return operands


def _word(part: Value, count: int, lowering: FunctionLowering) -> Value:
    """Elements in 32 bits, the first lowest; 4-bit ones, which travel as bytes, without their upper halves."""
    if 32 // count < element_of(part.type).width and count > 1:
        part = _pairs(part, lowering)
    return lowering.emit.pack(part, IntegerType(32))


def _pairs(part: Value, lowering: FunctionLowering) -> Value:
    """4-bit elements of a vector of bytes, two to a byte.

    As arithmetic: LLVM reinterprets vectors of types that no register holds, such as <8 x i4>, through a slot of the
    stack, which stays reserved when the accesses to it are gone.
    """
    emit, count = lowering.emit, count_of(part.type)
    even, odd = (emit.shuffle(part, range(first, count, 2)) for first in (0, 1))
    lower = emit.insert(llvm.AndOp(even, emit.integer(15, even.type)))
    return emit.insert(llvm.OrOp(lower, emit.insert(llvm.ShlOp(odd, emit.integer(4, odd.type)))))


def _gather(
    accumulators: dict,
    where: Mapping[Sequence[int], int],
    fragment: Fragment,
    layout: LinearLayout,
    lowering: FunctionLowering,
) -> Value:
    emit = lowering.emit
    elements = _elements(fragment)
    scalars: list[Value | None] = [None] * layout.registers
    for piece, operands in accumulators.items():
        for i, basis in enumerate(elements):
            operand = operands[i // fragment.packing]
            scalar = emit.extract(operand, i % fragment.packing) if fragment.packing > 1 else operand
            scalars[where[_element_at(piece, basis, layout.shape)]] = scalar
    return emit.build([s for s in scalars if s is not None])
