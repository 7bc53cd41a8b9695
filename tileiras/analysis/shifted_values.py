"""Whether a tile is another one shifted along a dimension: element i of the one is element i + n of the other.

    %a = load %p[j]          %b = load %p[j - 1]          %p[j - 1] is %p[j] shifted by -1

The shift follows from the computations of the tiles: a constant added to numbers with equal differences between
neighbours shifts them, and elementwise functions are shifted as their operands are.  Integers may wrap: both tiles then
wrap at the same number.
"""

from __future__ import annotations

from tileiras.dialects import arith
from tileiras.dialects import nv_tileaa as aa
from tileiras.ir import DenseElementsAttr, IntegerAttr, IntegerType, Operation, TensorType, Value, element_type_of

_ELEMENTWISE = (
    arith.AddIOp, arith.SubIOp, arith.MulIOp, arith.ShLIOp, arith.ShRSIOp, arith.ShRUIOp, arith.AndIOp, arith.OrIOp,
    arith.XOrIOp, arith.MinSIOp, arith.MinUIOp, arith.MaxSIOp, arith.MaxUIOp, arith.CmpIOp, arith.SelectOp,
    arith.ExtSIOp, arith.ExtUIOp, arith.TruncIOp, aa.AddPtrOp,
)  # fmt: skip
_DEEPEST = 48
"""Longest chain of operations that is followed."""
_POINTER_BITS = 64


class Moved:
    """A tile is another one shifted by `by` elements; by any number of them if `by` is None."""

    __slots__ = ("by",)

    def __init__(self, by: int | None) -> None:
        self.by = by


_ANY = Moved(None)


class ShiftedValues:
    """Shifts between the tiles of a function, memoized."""

    def __init__(self) -> None:
        self._steps: dict[tuple[Value, int | None], int | None] = {}
        self._shifts: dict[tuple[Value, Value, int | None], Moved | None] = {}

    def shift(self, first: Value, second: Value, dim: int | None, depth: int = _DEEPEST) -> Moved | None:
        """The shift of ``second`` against ``first`` along a dimension, or None if unknown; `dim` is None for tiles of
        equal elements."""
        key = first, second, dim
        if key not in self._shifts:
            self._shifts[key] = self._compare(first, second, dim, depth) if depth else None
        return self._shifts[key]

    def _compare(self, first: Value, second: Value, dim: int | None, depth: int) -> Moved | None:
        if first is second:
            return _ANY if self.step(first, dim) == 0 else Moved(0)
        if not isinstance(first.type, TensorType):
            one, other = _number(first), _number(second)
            return _ANY if one is not None and one == other else None
        (base, added), (other_base, other_added) = _parts(first), _parts(second)
        if base is other_base:
            step = self.step(base, dim)
            if step == 0:
                return _ANY if added == other_added else None
            if step is not None and (other_added - added) % step == 0:
                return Moved((other_added - added) // step)
        return self._by_operands(first.defining_op, second.defining_op, dim, depth)

    def _by_operands(
        self, first: Operation | None, second: Operation | None, dim: int | None, depth: int
    ) -> Moved | None:
        """The shift of results of the same function, from those of its operands."""
        if first is None or second is None or type(first) is not type(second):
            return None
        if first.attributes != second.attributes or len(first.operands) != len(second.operands):
            return None
        if isinstance(first, arith.ConstantOp):
            return _ANY if isinstance(first.value, DenseElementsAttr) and first.value.is_splat else None
        if isinstance(first, (aa.BroadcastOp, aa.ViewOp)):
            if first.operands[0].type != second.operands[0].type or not _keeps_dimensions(first):
                return None
            dim = _dimension(first, dim)
        elif isinstance(first, aa.SplatOp):
            dim = None
        elif not isinstance(first, _ELEMENTWISE):
            return None
        whole: Moved | None = _ANY
        for one, other in zip(first.operands, second.operands):
            whole = _both(whole, self.shift(one, other, dim, depth - 1))
            if whole is None:
                return None
        return whole

    def step(self, value: Value, dim: int | None) -> int | None:
        """The difference between neighbours along a dimension, as numbers that may wrap; pointers are counted in
        elements.  None if it is not known to be the same everywhere."""
        if dim is None or not isinstance(value.type, TensorType) or value.type.shape[dim] == 1:
            return 0
        key = value, dim
        if key not in self._steps:
            self._steps[key] = None  # for a value that depends on itself
            op = value.defining_op
            self._steps[key] = None if op is None else self._step(op, dim)
        return self._steps[key]

    def _step(self, op: Operation, dim: int) -> int | None:
        if isinstance(op, aa.MakeRangeOp):
            return 1
        if isinstance(op, aa.SplatOp):
            return 0
        if isinstance(op, arith.ConstantOp):
            return None if _splat(op) is None else 0
        if isinstance(op, (aa.BroadcastOp, aa.ViewOp)):
            return self.step(op.operands[0], _dimension(op, dim)) if _keeps_dimensions(op) else None
        if not isinstance(op, _ELEMENTWISE):
            return None
        steps = [self.step(operand, dim) for operand in op.operands]
        if not any(steps) and None not in steps:
            return 0
        if None in steps or not isinstance(op, (arith.AddIOp, arith.SubIOp, arith.MulIOp, aa.AddPtrOp)):
            return None
        one, other = (step or 0 for step in steps)
        if isinstance(op, arith.SubIOp):
            return one - other
        if isinstance(op, arith.MulIOp):
            factor = _constant(op.operands[1])
            return None if factor is None else one * factor
        if isinstance(op, aa.AddPtrOp) and _width(op.operands[1]) < _POINTER_BITS:
            return None  # offsets that wrap do not lead to the next element
        return one + other


def _both(one: Moved | None, other: Moved | None) -> Moved | None:
    if one is None or other is None:
        return None
    if one.by is None or other.by is None:
        return one if other.by is None else other
    return one if one.by == other.by else None


def _keeps_dimensions(op: Operation) -> bool:
    """Whether a broadcast or a view keeps the dimensions of more than one element, in their order."""
    return isinstance(op, aa.BroadcastOp) or _long(op.operands[0]) == _long(op.results[0])


def _long(value: Value) -> list[int]:
    return [n for n in value.type.shape if n > 1]


def _dimension(op: Operation, dim: int | None) -> int | None:
    """The operand's dimension that becomes dimension `dim` of a broadcast or view; None if it has one element."""
    source, target = op.operands[0].type.shape, op.results[0].type.shape
    if dim is None or target[dim] == 1:
        return None
    if isinstance(op, aa.BroadcastOp):
        return dim if source[dim] > 1 else None
    place = sum(n > 1 for n in target[:dim])
    return [d for d, n in enumerate(source) if n > 1][place]


def _parts(value: Value) -> tuple[Value, int]:
    """A tile and the number that is added to each of its elements."""
    added = 0
    op = value.defining_op
    while isinstance(op, (arith.AddIOp, arith.SubIOp, aa.AddPtrOp)):
        number = _constant(op.operands[1])
        if number is None:
            break
        added += -number if isinstance(op, arith.SubIOp) else number
        value = op.operands[0]
        op = value.defining_op
    return value, added


def _constant(value: Value) -> int | None:
    """The integer to which all elements of a tile are equal; None if unknown."""
    op = value.defining_op
    if isinstance(op, arith.ConstantOp):
        return _splat(op)
    return _number(op.operand) if isinstance(op, aa.SplatOp) else None


def _splat(op: arith.ConstantOp) -> int | None:
    if not isinstance(op.value, DenseElementsAttr) or not op.value.is_splat:
        return None
    width, bits = _width(op.result), op.value.stored_bits()[0]
    return bits - (1 << width) if width and bits >> width - 1 else bits


def _number(value: Value) -> int | None:
    op = value.defining_op
    if isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr):
        return op.value.value
    return None


def _width(value: Value) -> int:
    type = element_type_of(value.type)
    return type.width if isinstance(type, IntegerType) else 0
