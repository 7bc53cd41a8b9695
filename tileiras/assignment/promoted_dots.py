"""Which dots of 8-bit floats add partial sums in f32, since the instruction's own sum has fewer bits.

    %d = dot %a, %b, %c {atom = wgmma ...f8...}     ->     %d = dot %a, %b, %c {atom = wgmma ..., promoted = 128}

The products of an f8 instruction of sm_89 and sm_90 are aligned to the largest one with 13 fraction bits, the rest is
cut off, and the sum has as many (Xie et al., "MMA-Sim", arXiv 2511.10909; Khattak and Mikaitis, arXiv 2512.07004).
`mmaf` of the language sums in the accumulator's type unless it has `fast_acc`.  A promoted dot begins each sum of
`DEPTH` products with zero and adds it to the accumulator by an instruction of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tileiras.analysis.function_pass import FunctionPass
from tileiras.diagnostics.remarks import Remark
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import IntegerAttr, f32, i32
from tileiras.layout.encoding import layout_of
from tileiras.reasons import Reason
from tileiras.targets import MmaAtom, Target, find_warpgroup_atom, known_mma_atom

from .warpgroup_dots import MOST_ACCUMULATORS

if TYPE_CHECKING:
    from tileiras.ir.pass_manager import PassContext

DEPTH = 128
"""Products of an element in a sum of fewer bits: as many as in the reference compiler's code (13.5), DeepGEMM's, and
DeepSeek-V3's training (arXiv 2412.19437, section 3.3.2)."""

NARROW = ("f8E4M3FN", "f8E5M2")


class PromoteAccumulators(FunctionPass):
    name = "tileas-promote-accumulators"
    requires = "DOT_ATOMS"
    needs = "an atom for every dot"
    establishes = "`promoted` on dots of 8-bit floats whose instruction sums in fewer bits than f32"
    keeps = "types, other operations"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        if not gpu.has("narrow_f8_sums"):
            return
        for op in func.walk():
            atom = known_mma_atom(op.atom.atom) if isinstance(op, tileas.DotOp) else None
            if atom is None or not sums_narrowly(atom, gpu):
                continue
            fast = aa.FAST_ACCUMULATION in op.attributes
            if not fast:
                _promote(op, atom, gpu)
            if context.engine.remarks:
                depth = op.a.type.shape[-1] if fast else min(DEPTH, op.a.type.shape[-1])
                reason = Reason("dots.fast-accumulation" if fast else "dots.promoted", depth=depth)
                context.engine.emit(Remark(reason, op.location, function=func.sym_name.value))


def sums_narrowly(atom: MmaAtom, target: Target) -> bool:
    """Whether the sums of an instruction have fewer bits than its accumulator on a target."""
    by_halves = bool(atom.halves) and not target.has("fp8_products")
    return target.has("narrow_f8_sums") and atom.a_type in NARROW and atom.c_type == "f32" and not by_halves


def _promote(op: Any, atom: MmaAtom, target: Target) -> None:
    """Mark a dot, with a narrower instruction where a warpgroup has no registers for the sums of a wide one."""
    assert op.c.type.element_type is f32, "the atom's accumulator"
    op.attributes["promoted"] = IntegerAttr(DEPTH, i32)
    if atom.executor != "warpgroup":
        return
    columns = atom.shape[1]
    accumulator = layout_of(op.c.type.with_encoding(op.operand_layouts.elements[2])).registers
    while accumulator + columns // 2 > MOST_ACCUMULATORS and columns > 8:
        columns //= 2
    in_registers = op.atom.atom.endswith("_rs")
    narrower = find_warpgroup_atom(target, atom.a_type, atom.b_type, atom.c_type, columns, a_in_registers=in_registers)
    assert narrower is not None, "a power of two from 8 columns"
    op.attributes["atom"] = tileas.MmaAtomAttr(narrower.name)
