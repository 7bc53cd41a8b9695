"""Accumulators that stay in tensor memory until the users of the dot read them, slice by slice."""

from __future__ import annotations

from collections.abc import Mapping

from tileiras.analysis.copied_loads import is_zero
from tileiras.assignment.asynchronous_limits import leave_what_does_not_fit
from tileiras.assignment.dot_plans import DotPlan, DotPlans
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import scf
from tileiras.ir import Operation, Value
from tileiras.layout.accumulators import accumulated_in_place
from tileiras.layout.tensor_memory import slice_fragment
from tileiras.targets import mma_atom


class HeldAccumulators:
    """The tiles of a function of nv_tileaa that are accumulators in tensor memory when their users run: results of
    dots, of loops around dots that nothing else in the loop uses, and slices of these.

    The initial value of an accumulator would come through registers, which do not hold it, unless that is zero."""

    def __init__(self, func: aa.FuncOp, num_warps: int, plans: DotPlans) -> None:
        self._num_warps = num_warps
        self.plans = _plans_of(func, plans)
        """The plans of the dots whose accumulators are there."""
        self._found: dict[Value, DotPlan | None] = {}

    def __contains__(self, value: object) -> bool:
        return isinstance(value, Value) and self._plan(value) is not None

    def can_read(self, value: Value, dim: int, parts: int) -> bool:
        """Whether threads can load a slice of a tile held, one of `parts` along a dimension."""
        plan = self._plan(value)
        assert plan is not None, "a tile that is held"
        shape = tuple(n // parts if d == dim else n for d, n in enumerate(value.type.shape))
        rows = mma_atom(plan.atom).cta_rows
        bits = value.type.element_type.width
        return slice_fragment(value.type.shape, shape, rows, plan.exchanged, self._num_warps, bits) is not None

    def _plan(self, value: Value) -> DotPlan | None:
        if value not in self._found:
            self._found[value] = self._find(value)
        return self._found[value]

    def _find(self, value: Value) -> DotPlan | None:
        op = value.defining_op
        if isinstance(op, aa.ExtractSliceOp):
            return self._plan(op.source)
        if isinstance(op, scf.ForOp):
            dots = accumulated_in_place(op, lambda dot: dot in self.plans).get(value.index)  # type: ignore[attr-defined]
            return self.plans[dots[-1]] if dots and is_zero(op.init_args[value.index]) else None  # type: ignore[attr-defined]
        if op is None or op not in self.plans:
            return None
        return self.plans[op] if is_zero(op.c) or op.c in self else None  # type: ignore[attr-defined]


def _plans_of(func: aa.FuncOp, plans: DotPlans) -> Mapping[Operation, DotPlan]:
    """The plans of the dots into tensor memory that all fit there at a time, with their operands in shared memory."""
    if not plans.target.has("tcgen05"):
        return {}
    dots = [op for op in func.walk() if isinstance(op, (aa.DotOp, aa.BlockScaledMmaOp))]
    leave_what_does_not_fit(dots, plans, func)
    result = {op: plans.plan(op) for op in dots}
    return {op: plan for op, plan in result.items() if plan.atom.startswith("tcgen05_")}
