"""Relation between the place of a written element and the places it was computed from.

A tile block that reads `a[row]` and writes `b[row]` computes `b[r]` from `a[r]`, whichever tile block it is and however
`row` is computed.  The coordinates of a write are solved for the scalars they are computed from, as far as possible.  A
read at a place computed from solved scalars alone depends on no launch quantity beyond the element's own place.

Pointer arithmetic `base + i * stride + j` is solved for i and j on the assumption that each element of the array has
one pair (i, j), which holds for arrays whose rows do not overlap.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tileiras.analysis.derivations import settle
from tileiras.analysis.incoming import Incoming, incoming
from tileiras.dialects import arith, scf
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.arith import constant_integer
from tileiras.ir import BlockArgument, DenseElementsAttr, IntegerType, Operation, Value, element_type_of

from .facts import NONE, Quantities, is_argument, marks_of_run
from .memory import LOADS, UPDATES, places_of
from .shapes import SHAPES

if TYPE_CHECKING:
    from .flow import Flow

TRANSPARENT = (*SHAPES, aa.SplatOp, aa.UnsplatOp, aa.AssumeOp, arith.ExtSIOp, arith.ExtUIOp, arith.TruncIOp)
"""Operations whose result determines the operand."""

Strides = tuple[Value, ...]
"""Factors of a term of an offset."""


class Addresses:
    """The scalars that the place of an element written by `op` determines."""

    def __init__(self, flow: Flow, op: Any) -> None:
        self.solved: set[str] = set()
        """Tile block numbers among them."""
        self._flow = flow
        self._known: set[Value] = set()
        self._iterations: set[Operation] = set()
        """Loops with a known iteration."""
        self._around = set(scf.loops_around(op))
        self._unsolved: dict[Value, Quantities] = {}
        self._loop: dict[Value, Operation | None] = {}
        self._numbered: dict[Value, bool] = {}
        self._solve_access(op)

    def unsolved(self, values: Iterable[Value]) -> Quantities:
        """The quantities that values depend on and that the place does not determine."""
        return NONE.union(*map(self._of, values))

    # -- solving -------------------------------------------------------------------------------------------------------

    def _solve_access(self, op: Any) -> None:
        for place in places_of(op):
            element = element_type_of(place.type)
            if isinstance(element, aa.PtrType):
                self._solve_pointer(place, set())
            elif isinstance(element, IntegerType):
                self._solve(place)

    def _solve(self, value: Value) -> None:
        """Add a known number and the numbers that follow from it."""
        while value not in self._known:
            self._known.add(value)
            op: Any = value.defining_op
            if op is None:
                if _advances(value):
                    self._iterations.add(value.block.parent_op)  # type: ignore[attr-defined]
            elif isinstance(op, TRANSPARENT):
                value = op.operands[0]
            elif isinstance(op, aa.GetProgramIdOp):
                self.solved |= self._flow.of(value).value
            elif isinstance(op, (arith.AddIOp, arith.SubIOp, arith.MulIOp)):
                fixed = [self._is_fixed(v) for v in op.operands]
                if not any(fixed):
                    return
                value = op.operands[fixed.index(True) - 1]

    def _is_fixed(self, value: Value) -> bool:
        """Whether a number is the same in all tile blocks, iterations and launches."""
        facts = self._flow.of(value)
        return not (facts.quantities or facts.reads) and self._loop_of(value) is None

    def _loop_of(self, value: Value) -> Operation | None:
        """A loop around the access in which the value varies."""
        return settle(value, self._loop, None, _operands_of, self._own_loop)

    def _own_loop(self, value: Value, operands: Sequence[Value]) -> Operation | None:
        if isinstance(value, BlockArgument):
            owner = value.block.parent_op
            return owner if owner in self._around else None
        return next((loop for each in operands if (loop := self._loop[each]) is not None), None)

    def _solve_pointer(self, pointer: Value, seen: set[Value]) -> None:
        """Solve `base + i * stride + j` for i and j if the strides differ."""
        while pointer not in seen:
            seen.add(pointer)
            self._known.add(pointer)
            incoming_values = incoming(pointer)
            if incoming_values is not None:
                if _advances(pointer):
                    self._iterations.add(pointer.block.parent_op)  # type: ignore[attr-defined]
                pointer = incoming_values[0].value
                continue
            op: Any = pointer.defining_op
            if op is None or not op.operands:
                return
            if isinstance(op, aa.AddPtrOp):
                self._solve_offset(op.offset)
            pointer = op.operands[0]

    def _solve_offset(self, offset: Value) -> None:
        terms: dict[tuple[int, ...], list[Value]] = {}
        for value, strides, is_term in self._parts(offset):
            if not is_term:
                self._known.add(value)
            elif not self._is_fixed(value):
                terms.setdefault(tuple(sorted(map(_identity, strides))), []).append(value)
        for alike in terms.values():
            if len(alike) == 1:
                self._solve(alike[0])

    def _parts(self, offset: Value) -> Iterator[tuple[Value, Strides, bool]]:
        """The parts of an offset, with the strides they are multiplied by: partial sums, and, last field, its terms.

        A part that occurs more than once is given twice, since its occurrences may double with each sum.
        """
        pending: list[tuple[Value, Strides]] = [(offset, ())]
        times: dict[tuple[Value, Strides], int] = {}
        while pending:
            value, strides = part = pending.pop()
            times[part] = times.get(part, 0) + 1
            if times[part] > 2:
                continue
            op: Any = value.defining_op
            products: list[tuple[Value, Strides]] = []
            if isinstance(op, TRANSPARENT):
                products = [(op.operands[0], strides)]
            elif isinstance(op, arith.AddIOp):
                products = [(operand, strides) for operand in op.operands]
            elif isinstance(op, arith.MulIOp) and any(map(self._is_stride, op.operands)):
                number = 1 if self._is_stride(op.operands[1]) else 0
                products = [(op.operands[1 - number], (*strides, op.operands[number]))]
            yield value, strides, not products
            pending += reversed(products)

    def _is_stride(self, value: Value) -> bool:
        """Whether a number is computed from constants and scalar arguments alone."""
        facts = self._flow.of(value)
        result = all(map(is_argument, facts.quantities))
        return result and not facts.reads and self._loop_of(value) is None and not self._counts(value)

    def _counts(self, value: Value) -> bool:
        """Whether the elements of a value are numbered by an iota."""
        return settle(value, self._numbered, False, _operands_of, self._is_numbered)

    def _is_numbered(self, value: Value, operands: Sequence[Value]) -> bool:
        return isinstance(value.defining_op, aa.MakeRangeOp) or any(self._numbered[each] for each in operands)

    # -- remaining dependences -----------------------------------------------------------------------------------------

    def _of(self, value: Value) -> Quantities:
        # Carried values have no quantities until those of their sources are known.
        return settle(value, self._unsolved, NONE, self._places, self._quantities)

    def _places(self, value: Value) -> Sequence[Value]:
        """The values whose quantities are those of `value`."""
        owner = _owner(value)
        is_counter = _is_counter(value, owner)
        if value in self._known or is_counter and owner in self._iterations or isinstance(owner, _ENDS):
            return ()
        if isinstance(owner, LOADS):
            return places_of(owner)
        incoming_values = incoming(value)
        if incoming_values is None and not is_counter:
            return owner.operands
        return _sources(owner, incoming_values or ())

    def _quantities(self, value: Value, places: Sequence[Value]) -> Quantities:
        owner = _owner(value)
        is_counter = _is_counter(value, owner)
        if value in self._known or is_counter and owner in self._iterations:
            return NONE
        facts = self._flow.of(value)
        if isinstance(owner, (aa.GetProgramIdOp, aa.GetNumProgramsOp)):
            return facts.value - self.solved
        if isinstance(owner, _ENDS):
            return facts.value
        result = NONE.union(*(self._unsolved[each] for each in places))
        if isinstance(owner, LOADS):
            return marks_of_run(facts.value).union(result)
        if incoming(value) is None and not is_counter:
            return result
        return result.union(self._of_trips(owner))

    def _of_trips(self, owner: Operation) -> Quantities:
        """The trip count of a loop whose iterations all write the same place: the last one remains."""
        if owner not in self._around or owner in self._iterations:
            return NONE
        end = owner.upper_bound if isinstance(owner, scf.ForOp) else owner.before.block.last.condition  # type: ignore[attr-defined]
        return self._flow.of(end).quantities


_ENDS = (aa.FuncOp, aa.GetProgramIdOp, aa.GetNumProgramsOp, *UPDATES)
"""Operations whose quantities do not come from their operands."""


def _owner(value: Value) -> Any:
    op = value.defining_op
    return value.block.parent_op if op is None else op  # type: ignore[attr-defined]


def _is_counter(value: Value, owner: Any) -> bool:
    return value.defining_op is None and isinstance(owner, scf.ForOp) and value is owner.induction_variable


def _operands_of(value: Value) -> Sequence[Value]:
    op = value.defining_op
    return () if op is None else op.operands


def _advances(value: Value) -> bool:
    """Whether a value of a loop body differs in each iteration: the counter, or a sum that the loop carries."""
    owner = value.block.parent_op if isinstance(value, BlockArgument) else None
    if not isinstance(owner, scf.ForOp):
        return False
    if value is owner.induction_variable:
        return True
    step = owner.yield_op.operands[value.index - 1].defining_op  # type: ignore[attr-defined]
    return isinstance(step, (arith.AddIOp, aa.AddPtrOp)) and value in step.operands


def _identity(stride: Value) -> int:
    """Equal for strides that are the same value or the same constant."""
    stride = _scalar(stride)
    number = constant_of(stride)
    return hash(("stride", number)) if number is not None else id(stride)


def _scalar(value: Value) -> Value:
    """The value that a tile repeats, before conversions."""
    while isinstance(value.defining_op, TRANSPARENT):
        value = value.defining_op.operands[0]
    return value


def constant_of(value: Value) -> int | None:
    """The constant that a value is or repeats."""
    value = _scalar(value)
    op = value.defining_op
    if isinstance(op, arith.ConstantOp) and isinstance(op.value, DenseElementsAttr) and op.value.is_splat:
        bits, width = op.value.stored_bits()[0], op.value.type.element_type.width
        return bits - (bits >> width - 1 << width)
    return constant_integer(value)


def _sources(owner: Any, incoming_values: Sequence[Incoming]) -> list[Value]:
    """The operands that a result or argument of control flow depends on."""
    sources = [each.value for each in incoming_values]
    if isinstance(owner, scf.ForOp):
        sources += [owner.lower_bound, owner.step]
    elif isinstance(owner, scf.IfOp):
        sources.append(owner.condition)
    return sources
