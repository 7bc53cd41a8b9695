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
        if value not in self._loop:
            if isinstance(value, BlockArgument):
                owner = value.block.parent_op
                self._loop[value] = owner if owner in self._around else None
            else:
                operands = value.defining_op.operands  # type: ignore[union-attr]
                self._loop[value] = next(filter(None, map(self._loop_of, operands)), None)
        return self._loop[value]

    def _solve_pointer(self, pointer: Value, seen: set[Value]) -> None:
        """Solve `base + i * stride + j` for i and j if the strides differ."""
        while pointer not in seen:
            seen.add(pointer)
            self._known.add(pointer)
            passed = incoming(pointer)
            if passed is not None:
                if _advances(pointer):
                    self._iterations.add(pointer.block.parent_op)  # type: ignore[attr-defined]
                pointer = passed[0].value
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

    def _parts(self, value: Value, strides: Strides = ()) -> Iterator[tuple[Value, Strides, bool]]:
        """The parts of an offset, with the strides they are multiplied by: partial sums, and, last field, its terms."""
        op: Any = value.defining_op
        products = []
        if isinstance(op, TRANSPARENT):
            products = [(op.operands[0], strides)]
        elif isinstance(op, arith.AddIOp):
            products = [(operand, strides) for operand in op.operands]
        elif isinstance(op, arith.MulIOp) and any(map(self._is_stride, op.operands)):
            number = 1 if self._is_stride(op.operands[1]) else 0
            products = [(op.operands[1 - number], (*strides, op.operands[number]))]
        yield value, strides, not products
        for product in products:
            yield from self._parts(*product)

    def _is_stride(self, value: Value) -> bool:
        """Whether a number is computed from constants and scalar arguments alone."""
        facts = self._flow.of(value)
        result = all(map(is_argument, facts.quantities))
        return result and not facts.reads and self._loop_of(value) is None and not self._counts(value)

    def _counts(self, value: Value) -> bool:
        """Whether the elements of a value are numbered by an iota."""
        if value not in self._numbered:
            op = value.defining_op
            counts = op is not None and (isinstance(op, aa.MakeRangeOp) or any(map(self._counts, op.operands)))
            self._numbered[value] = counts
        return self._numbered[value]

    # -- remaining dependences -----------------------------------------------------------------------------------------

    def _of(self, value: Value) -> Quantities:
        if value not in self._unsolved:
            self._unsolved[value] = NONE  # ends the recursion at carried values
            self._unsolved[value] = self._find(value)
        return self._unsolved[value]

    def _find(self, value: Value) -> Quantities:
        owner: Any = value.block.parent_op if isinstance(value, BlockArgument) else value.defining_op
        is_counter = isinstance(owner, scf.ForOp) and value is owner.induction_variable
        if value in self._known or is_counter and owner in self._iterations:
            return NONE
        facts = self._flow.of(value)
        if isinstance(owner, aa.FuncOp):
            return facts.value
        if isinstance(owner, (aa.GetProgramIdOp, aa.GetNumProgramsOp)):
            return facts.value - self.solved
        if isinstance(owner, UPDATES):
            return facts.value
        if isinstance(owner, LOADS):
            of_run = marks_of_run(facts.value)
            return of_run.union(*map(self._of, places_of(owner)))
        passed = incoming(value)
        if passed is None and not is_counter:
            return NONE.union(*map(self._of, owner.operands))
        return NONE.union(*map(self._of, _sources(owner, passed or ())), self._of_trips(owner))

    def _of_trips(self, owner: Operation) -> Quantities:
        """The trip count of a loop whose iterations all write the same place: the last one remains."""
        if owner not in self._around or owner in self._iterations:
            return NONE
        end = owner.upper_bound if isinstance(owner, scf.ForOp) else owner.before.block.last.condition  # type: ignore[attr-defined]
        return self._flow.of(end).quantities


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


def _sources(owner: Any, passed: Sequence[Incoming]) -> list[Value]:
    """The operands that a result or argument of control flow depends on."""
    sources = [each.value for each in passed]
    if isinstance(owner, scf.ForOp):
        sources += [owner.lower_bound, owner.step]
    elif isinstance(owner, scf.IfOp):
        sources.append(owner.condition)
    return sources
