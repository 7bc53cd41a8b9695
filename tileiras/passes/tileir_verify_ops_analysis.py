"""`tileir-verify-ops-analysis`: what no operation can see of itself, before tiles become threads.

Every function is for the GPU of the compilation; every tensor has a layout, for as many warps as the function has;
every atom is one of the target's.
"""

from __future__ import annotations

from typing import Any

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.nv_tileas import CopyAtomAttr, LinearLayoutAttr, MmaAtomAttr
from tileiras.ir import Operation, Pass, TensorType
from tileiras.ir.pass_manager import PassContext
from tileiras.passes import gpu_of
from tileiras.requirements import spelled
from tileiras.targets import COPY_ATOMS, MMA_ATOMS, SCALED_MMA_ATOMS, UNIVERSAL_FMA, Target


class VerifyOpsAnalysis(Pass):
    name = "tileir-verify-ops-analysis"
    anchor = "builtin.module"
    needs = "`nv_tileas`"
    establishes = "that functions are for the GPU, layouts have their warps, atoms are the target's"
    keeps = "the module"

    compute_capability: str = "sm_90"

    def run(self, op: Operation, context: PassContext) -> None:
        gpu = gpu_of(self.compute_capability)
        for func in op.regions[0].operations:
            if isinstance(func, aa.FuncOp):
                _verify(func, gpu, context)


def _verify(func: Any, gpu: Target, context: PassContext) -> None:
    engine = context.engine
    if func.target_spec.value != gpu.name:
        # What was chosen for one GPU may be wrong for another.
        engine.error(func.location, f"'{func.name}' op is for {func.target_spec.value}, the compilation for {gpu.name}")
        return
    warps = func.kernel_spec.num_warps
    # Types and attributes are interned: most operations ask again for what has been looked at.
    accepted: set[Any] = set()
    for op in func.walk():
        for result in op.results:
            type = result.type
            if type in accepted or not isinstance(type, TensorType):
                continue
            wrong = _layout_error(type, warps)
            if wrong:
                engine.error(op.location, f"'{op.name}' op {wrong}")
            else:
                accepted.add(type)
        atom = op.attributes.get("atom")
        if atom is None or atom in accepted:
            continue
        wrong = _atom_error(op, atom, gpu)
        if wrong:
            engine.error(op.location, f"'{op.name}' op {wrong}")
        else:
            accepted.add(atom)


def _layout_error(type: TensorType, warps: int | None) -> str:
    layout = type.encoding
    if not isinstance(layout, LinearLayoutAttr):
        return f"makes a tensor without a layout: {type}"
    if warps is not None and 1 << len(layout.warp) != warps:
        return f"makes a tensor for {1 << len(layout.warp)} warps in a function of {warps}"
    return ""


def _atom_error(op: Operation, attribute: Any, gpu: Target) -> str:
    name = attribute.atom
    if isinstance(attribute, CopyAtomAttr):
        atom = COPY_ATOMS.get(name)
        if atom is None:
            return f"unknown copy atom '{name}'"
    elif isinstance(attribute, MmaAtomAttr):
        if name == UNIVERSAL_FMA:
            return ""
        # A plain atom multiplies run by run; what it needs is what it needs for any product.
        scaled = isinstance(op, tileas.BlockScaledMmaOp) and name not in MMA_ATOMS
        if scaled and gpu.number < 100:
            return "mma block scale is not supported by compute capability < sm100"
        atom = (SCALED_MMA_ATOMS if scaled else MMA_ATOMS).get(name)
        if atom is None:
            return f"unknown mma atom '{name}'"
    else:
        return ""
    if gpu.meets(atom.requires):
        return ""
    return f"unsupported operation for target {gpu.name}: atom '{name}' needs {spelled(atom.requires)}"
