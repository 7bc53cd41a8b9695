"""`nvptx-peepholes`: the rewrites that the target machine of a gpu.module's target has selected.

`targets/peepholes.py` is the table of rows, `codegen/peepholes` has their rewrites.  At level 0 no row is applied.
"""

from __future__ import annotations

from tileiras.analysis.llvm_functions import llvm_functions
from tileiras.codegen import peepholes
from tileiras.codegen.target_machine import PROCESSORS, llvm_ptx_feature, target_machine
from tileiras.dialects.gpu import GPUModuleOp
from tileiras.ir import ArrayAttr, Operation, Pass


class NVPTXPeepholes(Pass):
    name = "nvptx-peepholes"
    anchor = "builtin.module"
    optional = True
    needs = "functions of `llvm` in a gpu.module with one `#nvvm.target`"
    establishes = "in functions with loops, no pattern of the rows that the target has"
    keeps = "values that are not poison, effects, locations"
    introduces = ()

    def run(self, op: Operation, context: object) -> None:
        for module in op.regions[0].operations:
            targets = module.attributes.get("targets") if isinstance(module, GPUModuleOp) else None
            if not isinstance(targets, ArrayAttr) or len(targets) != 1:
                continue
            (target,) = targets
            row = PROCESSORS.get(target.chip)
            if row is None or target.O == 0:
                continue
            features = llvm_ptx_feature(max(row.ptx, target.ptx_version))
            rows = target_machine(row, features, target.O, target.triple).peepholes
            for function in llvm_functions(module):
                peepholes.apply(rows, function)
