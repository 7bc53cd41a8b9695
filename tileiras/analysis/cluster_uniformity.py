"""Which values the CTAs of a cluster have in common: none of what they are computed of is a CTA's rank, nor, where each
is a tile block of its own, the tile block's number along x."""

from __future__ import annotations

from typing import Any

from tileiras.analysis.incoming import incoming
from tileiras.dialects import arith, scf
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import BlockArgument, Operation, Pure, TensorType, Value

_OWN = (aa.GetCtaRankOp, aa.AtomicRMWOp, aa.AtomicCASOp, aa.TiledAtomicRMWOp, tileas.AllocaOp)
"""What gives each CTA a value of its own."""


class ClusterUniformity:
    """Answers for the values of a function whose work `tileas-plan-cta` has divided, or whose tile blocks may be a
    cluster: what a CTA loads, no other one writes before, so that two loads from the same place give the same."""

    def __init__(self, func: aa.FuncOp) -> None:
        self._of_blocks = tileas.CLUSTER_BLOCKS in func.attributes
        self._known: dict[Value, bool] = {}

    def is_common(self, value: Value) -> bool:
        """Whether all CTAs compute the same value."""
        found = self._known.get(value)
        if found is None:
            found = self._known[value] = self._reaches_no_rank(value)
        return found

    def is_reached_together(self, op: Operation) -> bool:
        """Whether all CTAs come to an operation equally often."""
        around = op.parent_op
        while around is not None and not isinstance(around, aa.FuncOp):
            if not all(map(self.is_common, _decides(around))):
                return False
            around = around.parent_op
        return True

    def _reaches_no_rank(self, value: Value) -> bool:
        pending, seen = [value], {value}
        while pending:
            current = pending.pop()
            if self._known.get(current) is False or self._is_own(current.defining_op):
                return False
            for source in _sources(current):
                if source not in seen and not isinstance(source.type, aa.MemTokenType):
                    seen.add(source)
                    pending.append(source)
        return True

    def _is_own(self, op: Operation | None) -> bool:
        if isinstance(op, aa.GetProgramIdOp):
            return self._of_blocks and op.axis.value == "x" and op.neighbor is None
        return isinstance(op, _OWN)

    def is_reached_alike(self, op: Operation) -> bool:
        """Whether all CTAs come to an operation equally often; or, of a loop that begins alike, as often as each tile
        block of a cluster can tell of the others."""
        if self.is_reached_together(op):
            return True
        loop = op.parent_op
        return isinstance(loop, scf.ForOp) and self.trips_are_known(loop) and self.is_common(loop.lower_bound)

    def trips_are_known(self, loop: scf.ForOp) -> bool:
        """Whether each tile block of a cluster can tell how often the others run a loop of the function's own block: it
        counts from one number to another, one by one."""
        if not self._of_blocks or not isinstance(loop.parent_op, aa.FuncOp) or loop.unsignedCmp is not None:
            return False
        step: Any = loop.step.defining_op
        if not isinstance(step, arith.ConstantOp) or step.value.value != 1:
            return False
        return all(slice_of_numbers(bound) is not None for bound in (loop.lower_bound, loop.upper_bound))


def slice_of_numbers(value: Value) -> list[Operation] | None:
    """The operations that a number is computed by, of arguments and the tile block's place in the grid, in an order in
    which each stands behind what it uses; None where anything else decides it."""
    found: dict[Operation, None] = {}

    def visit(current: Value) -> bool:
        op = current.defining_op
        if op is None:
            return isinstance(current.block.parent_op, aa.FuncOp)  # type: ignore[attr-defined]
        if op in found:
            return True
        if op.regions or not op.has_trait(Pure) or any(isinstance(each.type, TensorType) for each in op.operands):
            return False
        if not all(map(visit, op.operands)):
            return False
        found[op] = None
        return True

    return list(found) if visit(value) else None


def _sources(value: Value) -> list[Value]:
    """What a value is computed of, and what decides which of several it is."""
    is_argument = isinstance(value, BlockArgument)
    op: Any = value.block.parent_op if is_argument else value.defining_op  # type: ignore[attr-defined]
    if isinstance(op, (scf.ForOp, scf.IfOp, scf.WhileOp)):
        if isinstance(op, scf.ForOp) and value is op.induction_variable:
            return [op.lower_bound, op.step]  # in the same round: how many there are is another question
        return [*_decides(op), *(each.value for each in incoming(value) or ())]
    if is_argument:
        return [] if isinstance(op, aa.FuncOp) else list(op.operands)
    return [operand for inner in op.walk() for operand in inner.operands]


def _decides(op: Operation) -> list[Value]:
    """What says how often, or whether, the regions of an operation are executed."""
    if isinstance(op, scf.ForOp):
        return [op.lower_bound, op.upper_bound, op.step]
    if isinstance(op, scf.IfOp):
        return [op.condition]
    if isinstance(op, scf.WhileOp):
        return [op.before.block.last.condition]  # type: ignore[union-attr]
    return list(op.operands)
