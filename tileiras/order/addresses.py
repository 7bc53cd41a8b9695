"""Whether the place of an element in memory says from where it was computed.

A tile block reads `a[row]` and writes `b[row]`: whichever number it has, and however `row` follows from that, the
element `b[r]` is made of `a[r]`.  An access's coordinates are taken apart as far as they can be solved for what they
are computed of; what is read follows from the element's place if it is computed of nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tileiras.analysis.incoming import Incoming, incoming
from tileiras.dialects import arith, scf
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.arith import constant_integer
from tileiras.ir import BlockArgument, DenseElementsAttr, Operation, Value

from .facts import NONE, Quantities
from .memory import LOADS, UPDATES, places_of
from .shapes import SHAPES

if TYPE_CHECKING:
    from .flow import Flow

_SAME = (*SHAPES, aa.SplatOp, aa.UnsplatOp, aa.AssumeOp, arith.ExtSIOp, arith.ExtUIOp, arith.TruncIOp)
"""Operations whose result says what the operand is."""

Coefficient = tuple[int, ...]


class Addresses:
    """What is known of an element by the place to which `op` writes it."""

    def __init__(self, flow: Flow, op: Any) -> None:
        self._flow = flow
        self._op = op
        self._known: set[Value] = set()
        self.solved: set[str] = set()
        """The numbers of the tile block that the place says."""
        self._loops: set[Operation] = set()
        self._around = _around(op)
        self._left: dict[Value, Quantities] = {}
        self._loop: dict[Value, Operation | None] = {}
        self._numbered: dict[Value, bool] = {}
        for place in places_of(op):
            if hasattr(op, "view"):
                self._solve(place)
            else:
                self._solve_pointer(place, set())

    def uncovered(self, places: Iterable[Value]) -> Quantities:
        """The quantities of a launch that decide what is read at these places, beyond the element's own place."""
        return NONE.union(*(self._of(place) for place in places))

    # -- what the element's place says ---------------------------------------------------------------------------------

    def _solve(self, value: Value) -> None:
        """Of a number that is known."""
        while value not in self._known:
            self._known.add(value)
            op: Any = value.defining_op
            if op is None:
                owner = value.block.parent_op  # type: ignore[attr-defined]
                if isinstance(owner, (scf.ForOp, scf.WhileOp)):
                    self._loops.add(owner)  # each iteration has another one
            elif isinstance(op, _SAME):
                value = op.operands[0]
            elif isinstance(op, aa.GetProgramIdOp):
                self.solved |= self._flow.of(value).value
            elif isinstance(op, (arith.AddIOp, arith.SubIOp, arith.MulIOp)):
                fixed = [self._is_fixed(v) for v in op.operands]
                if not any(fixed):
                    return
                value = op.operands[fixed.index(True) - 1]

    def _is_fixed(self, value: Value) -> bool:
        """Whether a number is the same in all tile blocks and launches; elements of a tile say which they are."""
        facts = self._flow.of(value)
        return not (facts.quantities or facts.reads) and self._loop_of(value) is None

    def _loop_of(self, value: Value) -> Operation | None:
        """The loop around the access whose iterations have other values each."""
        if value not in self._loop:
            if isinstance(value, BlockArgument):
                owner = value.block.parent_op
                self._loop[value] = owner if owner in self._around else None
            else:
                operands = value.defining_op.operands  # type: ignore[union-attr]
                self._loop[value] = next(filter(None, map(self._loop_of, operands)), None)
        return self._loop[value]

    def _solve_pointer(self, pointer: Value, seen: set[Value]) -> None:
        """Of pointers that are known: `base + i * stride + j` says i and j where the strides differ."""
        while pointer not in seen:
            seen.add(pointer)
            self._known.add(pointer)
            handed_on = incoming(pointer)
            if handed_on is not None:
                owner = pointer.defining_op or pointer.block.parent_op  # type: ignore[attr-defined]
                if owner in self._around:
                    self._loops.add(owner)
                for each in handed_on[:1]:
                    self._solve_pointer(each.value, seen)
                return
            op: Any = pointer.defining_op
            if op is None or not op.operands:
                return
            if isinstance(op, aa.AddPtrOp):
                terms: dict[Coefficient, list[Value]] = {}
                self._terms(op.offset, (), terms)
                for alike in terms.values():
                    if len(alike) == 1:
                        self._solve(alike[0])
            pointer = op.operands[0]

    def _terms(self, value: Value, stride: Coefficient, found: dict[Coefficient, list[Value]]) -> None:
        """The numbers that an offset is the sum of, by what they are multiplied with."""
        self._known.add(value)
        op: Any = value.defining_op
        if isinstance(op, _SAME):
            self._terms(op.operands[0], stride, found)
        elif isinstance(op, arith.AddIOp):
            for operand in op.operands:
                self._terms(operand, stride, found)
        elif isinstance(op, arith.MulIOp) and any(map(self._is_stride, op.operands)):
            number = 1 if self._is_stride(op.operands[1]) else 0
            self._terms(op.operands[1 - number], (*stride, self._identity(op.operands[number])), found)
        elif not self._is_fixed(value):
            found.setdefault(tuple(sorted(stride)), []).append(value)

    def _is_stride(self, value: Value) -> bool:
        """Whether a number is a constant, or follows from arguments alone."""
        facts = self._flow.of(value)
        given = all(quantity[0] == "p" for quantity in facts.quantities)
        return given and not facts.reads and self._loop_of(value) is None and not self._counts(value)

    def _counts(self, value: Value) -> bool:
        """Whether a value's elements are numbered, so that it is no stride."""
        if value not in self._numbered:
            op = value.defining_op
            found = op is not None and (isinstance(op, aa.MakeRangeOp) or any(map(self._counts, op.operands)))
            self._numbered[value] = found
        return self._numbered[value]

    @staticmethod
    def _identity(value: Value) -> int:
        """The same for equal strides, as far as is seen."""
        while isinstance(value.defining_op, _SAME):
            value = value.defining_op.operands[0]
        number = constant_integer(value)
        op = value.defining_op
        if isinstance(op, arith.ConstantOp) and isinstance(op.value, DenseElementsAttr) and op.value.is_splat:
            number = op.value.stored_bits()[0]
        return hash(("stride", number)) if number is not None else id(value)

    # -- what it does not say ------------------------------------------------------------------------------------------

    def _of(self, value: Value) -> Quantities:
        if value not in self._left:
            self._left[value] = NONE  # of what a loop carries around
            self._left[value] = self._find(value)
        return self._left[value]

    def _find(self, value: Value) -> Quantities:
        owner: Any = value.block.parent_op if isinstance(value, BlockArgument) else value.defining_op
        if value in self._known or _is_counter(value) and owner in self._loops:
            return NONE
        facts = self._flow.of(value)
        if isinstance(owner, aa.FuncOp):
            return facts.value
        if isinstance(owner, (aa.GetProgramIdOp, aa.GetNumProgramsOp)):
            return facts.value - self.solved
        handed_on = None if _is_counter(value) else incoming(value)
        if isinstance(owner, UPDATES):
            return facts.value
        if isinstance(owner, LOADS):
            changing = frozenset(quantity for quantity in facts.value if quantity[0] in "@&")
            return changing.union(*map(self._of, places_of(owner)))
        if handed_on is None and not _is_counter(value):
            return NONE.union(*map(self._of, owner.operands))
        return NONE.union(*map(self._of, self._sources(owner, handed_on or ())), self._of_trips(owner))

    @staticmethod
    def _sources(owner: Any, handed_on: Sequence[Incoming]) -> list[Value]:
        found = [each.value for each in handed_on]
        if isinstance(owner, scf.ForOp):
            found += [owner.lower_bound, owner.step]
        elif isinstance(owner, scf.IfOp):
            found.append(owner.condition)
        return found

    def _of_trips(self, owner: Operation) -> Quantities:
        """Where each iteration writes to the same place, the last one's element stays."""
        if owner not in self._around or owner in self._loops:
            return NONE
        ends = owner.upper_bound if isinstance(owner, scf.ForOp) else owner.before.block.last.condition  # type: ignore[attr-defined]
        return self._flow.of(ends).quantities


def _around(op: Operation) -> set[Operation]:
    """The loops that an operation is in."""
    return set(scf.loops_around(op))


def _is_counter(value: Value) -> bool:
    """Whether a value is what a loop counts."""
    owner = value.block.parent_op if isinstance(value, BlockArgument) else None
    return isinstance(owner, scf.ForOp) and value is owner.induction_variable

