"""Which atom executes each dot, and the layouts in which it takes its operands."""

from __future__ import annotations

from collections.abc import Sequence

from tileiras.diagnostics import DiagnosticEngine
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import ArrayAttr, Operation, UnitAttr, Value
from tileiras.layout.encoding import encode
from tileiras.layout.linear_layout import SHARED_DIMS
from tileiras.remarks import Remark
from tileiras.resources.shared_memory import SCRATCH_BYTES, shared_budget
from tileiras.targets import SCALED_MMA_ATOMS, UNIVERSAL_FMA, Target, known_mma_atom, product_types, why_no_better_atom

from .dot_plans import DotPlan, DotPlans
from .tensor_columns import keep_within_tensor_memory


def assign_dot_layouts(
    dots: Sequence[tileas.Dot],
    func: aa.FuncOp,
    target: Target,
    engine: DiagnosticEngine | None = None,
    asynchronous: bool = True,
) -> None:
    """Gives dots of nv_tileas their `atom` and `operand_layouts`: of A, B, the accumulator, and scales.

    `asynchronous`: whether they may be asynchronous ones (wgmma, tcgen05.mma).
    """
    plans = DotPlans(target, func.kernel_spec.num_warps, func if asynchronous else None)
    if asynchronous and (target.has("wgmma") or target.has("tcgen05")):
        _keep_within_shared_memory(dots, plans, func, target)
    if asynchronous and target.has("tcgen05"):
        keep_within_tensor_memory(dots, plans, func)
    for op in dots:
        plan = plans.plan(op)
        op.attributes["atom"] = tileas.MmaAtomAttr(plan.atom)
        op.attributes["operand_layouts"] = ArrayAttr(map(encode, (plan.a, plan.b, plan.c, *plan.scales)))
        if plan.exchanged:
            op.attributes["exchanged"] = UnitAttr()
        if engine is not None and engine.remarks:
            _remark(op, plan, target, func.sym_name.value, engine)


def _keep_within_shared_memory(dots: Sequence[tileas.Dot], plans: DotPlans, func: aa.FuncOp, target: Target) -> None:
    """Leaves dots to warps where shared memory does not hold the operands of all that would be in it at a time: those
    of one operation of the function's block, loops with what is in them."""
    groups: dict[Operation, list[tileas.Dot]] = {}
    for op in dots:
        if _in_shared(op, plans):
            groups.setdefault(func.body.blocks[0].find_ancestor_op(op), []).append(op)
    limit = shared_budget(func, target) - SCRATCH_BYTES[0]
    for group in groups.values():
        while group:
            held = {value: None for op in group for value in _in_shared(op, plans)}
            needed = sum(map(_bytes, held))
            if needed <= limit:
                break
            largest = max(group, key=lambda op: sum(map(_bytes, _in_shared(op, plans))))
            reader = "wgmma" if target.has("wgmma") else "tcgen05.mma"
            reason = f"{needed} bytes of operands do not fit into the {limit} of shared memory that {reader} reads"
            plans.refuse_asynchronous(largest, reason)
            group.remove(largest)


def _in_shared(op: tileas.Dot, plans: DotPlans) -> list[Value]:
    """The operands of a dot that its instruction reads from shared memory."""
    plan = plans.plan(op)
    return [value for value, layout in ((op.a, plan.a), (op.b, plan.b)) if layout.dims == SHARED_DIMS]


def _bytes(value: Value) -> int:
    return value.type.num_elements * value.type.element_type.width // 8


def _remark(op: tileas.DotOp, plan: DotPlan, target: Target, function: str, engine: DiagnosticEngine) -> None:
    """Says which instruction multiplies, and why none that does more at once."""
    a, c, name = op.a.type, op.c.type, plan.atom
    atom = SCALED_MMA_ATOMS.get(name) or known_mma_atom(name)
    arguments = {
        "Instruction": "FMA" if atom is None else atom.instruction,
        "Shape": [1, 1, 1] if atom is None else list(atom.shape),
        "Atom": name,
    }
    reason = plan.reason
    if not reason and not isinstance(op, aa.BlockScaledMmaOp) and (atom is None or atom.executor == "warp"):
        reason = why_no_better_atom(target, *product_types(op), c.shape[-2], c.shape[-1], a.shape[-1])
    elif isinstance(op, aa.BlockScaledMmaOp) and name not in SCALED_MMA_ATOMS:
        reason = f"{target.name} has no instruction that takes these scales: each run of K is scaled by itself"
    kind, title = ("failed", "RemarkTensorCoreFMA") if name == UNIVERSAL_FMA else ("passed", "RemarkTensorCoreMMA")
    engine.emit(Remark(kind, title, op.location, arguments=arguments, reason=reason, function=function))
