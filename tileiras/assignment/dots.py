"""Which atom executes each dot, and the layouts in which it takes its operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tileiras import assignment
from tileiras.analysis.function_pass import FunctionPass
from tileiras.diagnostics import DiagnosticEngine
from tileiras.diagnostics.remarks import Remark
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import ArrayAttr, UnitAttr
from tileiras.layout.encoding import encode
from tileiras.reasons import Reason
from tileiras.targets import SCALED_MMA_ATOMS, UNIVERSAL_FMA, Target, known_mma_atom, product_types, why_no_better_atom

from .asynchronous_limits import leave_what_does_not_fit
from .dot_plans import DotPlan, DotPlans

if TYPE_CHECKING:
    from tileiras.ir.pass_manager import PassContext


class AssignDotLayouts(FunctionPass):
    name = "tileas-assign-dot-layouts"
    requires = "NO_LAYOUTS"
    leaves = "DOT_ATOMS"
    needs = "`nv_tileas` operations and a number of warps"
    establishes = "`atom` and `operand_layouts` on every dot"
    keeps = "types, other operations except loads of four-bit elements, which are loaded in pairs"

    warpgroups: bool = True

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        dots = [op for op in func.walk() if isinstance(op, tileas.DOTS) and op.atom is None]
        if dots:
            assign_dot_layouts(dots, func, gpu, context.engine, self.warpgroups)
        if any(isinstance(op, tileas.BlockScaledMmaOp) for op in dots):
            assignment.packed_operands.pack_operands(func)


def assign_dot_layouts(
    dots: Sequence[tileas.Dot],
    func: aa.FuncOp,
    target: Target,
    engine: DiagnosticEngine | None = None,
    asynchronous: bool = True,
) -> None:
    """Give dots of nv_tileas their `atom` and `operand_layouts`: of A, B, the accumulator, and scales.

    `asynchronous`: whether they may be asynchronous ones (wgmma, tcgen05.mma).
    """
    plans = DotPlans(target, func.kernel_spec.num_warps, func if asynchronous else None)
    if asynchronous:
        leave_what_does_not_fit(dots, plans, func)
    for op in dots:
        plan = plans.plan(op)
        op.attributes["atom"] = tileas.MmaAtomAttr(plan.atom)
        op.attributes["operand_layouts"] = ArrayAttr(map(encode, (plan.a, plan.b, plan.c, *plan.scales)))
        if plan.exchanged:
            op.attributes["exchanged"] = UnitAttr()
        if engine is not None and engine.remarks:
            _remark(op, plan, target, func.sym_name.value, engine)


def _remark(op: tileas.DotOp, plan: DotPlan, target: Target, function: str, engine: DiagnosticEngine) -> None:
    """Say which instruction multiplies, and why none that does more at once."""
    a, c, name = op.a.type, op.c.type, plan.atom
    atom = SCALED_MMA_ATOMS.get(name) or known_mma_atom(name)
    arguments = {
        "Instruction": "FMA" if atom is None else atom.instruction,
        "Shape": [1, 1, 1] if atom is None else list(atom.shape),
        "Atom": name,
    }
    cause = plan.reason
    if cause is None and not isinstance(op, aa.BlockScaledMmaOp) and (atom is None or atom.executor == "warp"):
        cause = why_no_better_atom(target, *product_types(op), c.shape[-2], c.shape[-1], a.shape[-1])
    elif isinstance(op, aa.BlockScaledMmaOp) and not hasattr(atom, "scale_type") and cause is None:
        cause = Reason("dots.scales-by-runs", target=target.name)
    reason = Reason("dots.fma" if name == UNIVERSAL_FMA else "dots.tensor-cores", cause=cause)
    engine.emit(Remark(reason, op.location, arguments=arguments, function=function))
