"""Which atom executes each dot, and the layouts in which it takes its operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tileiras.diagnostics import DiagnosticEngine
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import ArrayAttr
from tileiras.layout.encoding import encode
from tileiras.remarks import Remark
from tileiras.targets import MMA_ATOMS, SCALED_MMA_ATOMS, UNIVERSAL_FMA, Target, product_types, why_no_better_atom

from .dot_plans import DotPlans


def assign_dot_layouts(
    dots: Sequence[Any], func: aa.FuncOp, target: Target, engine: DiagnosticEngine | None = None
) -> None:
    """Gives dots of nv_tileas their `atom` and `operand_layouts`: of A, B, the accumulator, and scales."""
    plans = DotPlans(target, func.kernel_spec.num_warps)
    for op in dots:
        plan = plans.plan(op)
        op.attributes["atom"] = tileas.MmaAtomAttr(plan.atom)
        op.attributes["operand_layouts"] = ArrayAttr(map(encode, (plan.a, plan.b, plan.c, *plan.scales)))
        if engine is not None and engine.remarks:
            _remark(op, plan.atom, target, func.sym_name.value, engine)


def _remark(op: tileas.DotOp, name: str, target: Target, function: str, engine: DiagnosticEngine) -> None:
    """Says which instruction multiplies, and why none that does more at once."""
    a, c = op.a.type, op.c.type
    atom = SCALED_MMA_ATOMS.get(name) or MMA_ATOMS.get(name)
    arguments = {
        "Instruction": "FMA" if atom is None else atom.instruction,
        "Shape": [1, 1, 1] if atom is None else list(atom.shape),
        "Atom": name,
    }
    reason = ""
    if not isinstance(op, aa.BlockScaledMmaOp):
        reason = why_no_better_atom(target, *product_types(op), c.shape[-2], c.shape[-1], a.shape[-1])
    elif name not in SCALED_MMA_ATOMS:
        reason = f"{target.name} has no instruction that takes these scales: each run of K is scaled by itself"
    kind, title = ("failed", "RemarkTensorCoreFMA") if name == UNIVERSAL_FMA else ("passed", "RemarkTensorCoreMMA")
    engine.emit(Remark(kind, title, op.location, arguments=arguments, reason=reason, function=function))
