"""Which values the CTAs of a cluster have in common: none of what they are computed of is a CTA's rank."""

from __future__ import annotations

from typing import Any

from tileiras.analysis.incoming import incoming
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.ir import BlockArgument, Operation, Value

_OWN = (aa.GetCtaRankOp, aa.AtomicRMWOp, aa.AtomicCASOp, aa.TiledAtomicRMWOp, tileas.AllocaOp)
"""What gives each CTA a value of its own."""


class ClusterUniformity:
    """Answers for the values of a function whose work `tileas-plan-cta` has divided: what a CTA loads, no other one
    writes before, so that two loads from the same place give the same."""

    def __init__(self) -> None:
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
            if self._known.get(current) is False or isinstance(current.defining_op, _OWN):
                return False
            for source in _sources(current):
                if source not in seen and not isinstance(source.type, aa.MemTokenType):
                    seen.add(source)
                    pending.append(source)
        return True


def _sources(value: Value) -> list[Value]:
    """What a value is computed of, and what decides which of several it is."""
    is_argument = isinstance(value, BlockArgument)
    op: Any = value.block.parent_op if is_argument else value.defining_op  # type: ignore[attr-defined]
    if isinstance(op, (scf.ForOp, scf.IfOp, scf.WhileOp)):
        counts = isinstance(op, scf.ForOp) and value is op.induction_variable
        passed = [] if counts else [each.value for each in incoming(value) or ()]
        return [*_decides(op), *passed]
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
