"""Occupancy hints that a kernel's plan meets without them change nothing; remarks state the cost of others.

A hint is obeyed by other decisions: slices of tiles, fewer registers, fewer stages, copies that neighbours no longer
share.  Where the plan without the hint leaves an SM room for as many CTAs, all of these would cost time for nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tileiras import resources
from tileiras.diagnostics import CompileError, Diagnostic, DiagnosticEngine
from tileiras.diagnostics.remarks import Remark
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import Operation
from tileiras.ir.pass_manager import PassContext
from tileiras.reasons import Reason
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets import TARGETS, occupancy
from tileiras.targets.sm import WARP_SIZE


class Plan(NamedTuple):
    """Resources of a kernel's plan: CTAs that an SM surely holds, registers of a thread, bytes of shared memory."""

    ctas: int
    registers: int
    shared: int


class Trial(NamedTuple):
    """Plans without a hint, of the kernels that keep it, and the module without hints if no kernel keeps one."""

    plans: dict[str, Plan] = {}
    result: Operation | None = None
    diagnostics: list[Diagnostic] = []
    """The diagnostics of that module."""


def drop_needless_hints(
    source: Operation, lower: Callable[[Operation, PassContext], None], engine: DiagnosticEngine
) -> Trial:
    """Remove the occupancy from kernels of nv_tileaa, in place, whose plans meet it without.  `lower` makes a module's
    plans.  Where remarks are requested, the plans returned include those of kernels with several CTAs for each tile
    block, whose hint stays."""
    kernels = {op.sym_name.value: op for op in source.walk() if isinstance(op, aa.FuncOp)}
    for op in kernels.values():
        if op.kernel_spec.occupancy == 1:
            _without_hint(op)  # each plan meets it
    hinted = {name: op for name, op in kernels.items() if _hint(op, engine.remarks)}
    if not hinted:
        return Trial()
    trial, inner = source.clone(), DiagnosticEngine()
    inner.remarks = engine.remarks
    for op in trial.walk():
        if isinstance(op, aa.FuncOp) and op.sym_name.value in hinted:
            _without_hint(op)
    try:
        lower(trial, PassContext(inner))
    except CompileError:
        return Trial()
    plans = {op.sym_name.value: plan_of(op) for op in trial.walk() if isinstance(op, aa.FuncOp)}
    for name, op in list(hinted.items()):
        result = op.kernel_spec.occupancy
        if result and plans[name].ctas >= result:
            _without_hint(op)
            engine.emit(Remark(Reason("kernel.needless-hint", asked=result), op.location))
            del hinted[name]
    entry = {name: plan for name, plan in plans.items() if name in hinted}
    return Trial(entry, None if entry else trial, inner.diagnostics)


def emit_costs(source: Operation, plans: dict[str, Plan], engine: DiagnosticEngine) -> None:
    """Remarks on the plans of kernels with a hint, beside those without it."""
    for op in source.walk():
        if isinstance(op, aa.FuncOp) and (other := plans.get(op.sym_name.value)) is not None:
            own = plan_of(op)
            beside = Reason(
                "kernel.plan-without-hint", ctas=other.ctas, registers=other.registers, shared=other.shared
            )
            remark = Reason(
                "kernel.plan-with-hint",
                hint=_hint(op, True), ctas=own.ctas, registers=own.registers, shared=own.shared, cause=beside,
            )  # fmt: skip
            engine.emit(Remark(remark, op.location))


def _hint(func: aa.FuncOp, of_clusters: bool) -> str:
    """The hint that a plan obeys, as the front end spells it; empty without one."""
    spec = func.kernel_spec
    if spec.occupancy:
        return f"occupancy={spec.occupancy}"
    return f"num_ctas={spec.num_ctas}" if of_clusters and (spec.num_ctas or 1) > 1 else ""


def _without_hint(func: aa.FuncOp) -> None:
    spec = func.kernel_spec
    num_ctas = spec.num_ctas if spec.occupancy else 1
    func.attributes["kernel_spec"] = aa.KernelSpecAttr(spec.num_warps, num_ctas, None)


def plan_of(func: Any) -> Plan:
    """The resources of a function that is placed."""
    target = TARGETS[func.target_spec.value]
    threads, shared = WARP_SIZE * tileas.block_warps(func), func.attributes[tileas.SHARED_MEMORY].value
    least = tileas.number_of(func, tileas.MIN_CTAS)
    registers = resources.register_bounds.registers_alone(func)
    room = min(each.ctas for each in resources.launch_bounds.rooms(func, target, threads))
    ctas = occupancy(target, threads, registers, shared).ctas
    return Plan(max(min(room, ctas), min(room, least or 1)), registers, shared)
