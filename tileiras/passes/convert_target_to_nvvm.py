"""`convert-target-to-nvvm`: a single `#nvvm.target` for every gpu.module, in the place of what it had.

The chip is the option's, else the module's `compute_capability` (a string such as `sm_90` or a number), else the
`target_spec` of the functions inside.  Functions and globals that stand in the builtin.module itself are moved into a
gpu.module first, named after it.  Read by the translation to LLVM IR, by the verifier and by the stages behind them.
"""

from __future__ import annotations

from typing import Any

from tileiras.diagnostics import CompileError, ExitCode
from tileiras.dialects import llvm
from tileiras.dialects.gpu import GPUModuleOp
from tileiras.dialects.nvvm import NVVMTargetAttr
from tileiras.ir import ArrayAttr, Block, IntegerAttr, Operation, Pass, Region, StringAttr
from tileiras.ir.pass_manager import PassContext
from tileiras.targets import TARGETS

MODULE_NAME = "kernels"


class ConvertTargetToNVVM(Pass):
    name = "convert-target-to-nvvm"
    anchor = "builtin.module"
    needs = "kernels in `llvm`; a GPU from the option, `compute_capability` or `target_spec`"
    establishes = "a gpu.module with one `#nvvm.target`; the same when run again"
    keeps = "functions"

    compute_capability: str = ""
    opt_level: int = 3
    device_debug: bool = False
    use_nvgpucomp_libnvvm: bool = False

    def run(self, op: Operation, context: PassContext) -> None:
        _lift(op)
        for module in op.regions[0].operations:
            if isinstance(module, GPUModuleOp):
                self._attach(module)

    def _attach(self, module: Any) -> None:
        chip = self.compute_capability or _capability(module) or _target_spec(module)
        if chip not in TARGETS:
            raise CompileError.at(module.location, "failed to get compute capability.", ExitCode.COMPILE_FAILURE)
        made = NVVMTargetAttr.of(
            chip, self.opt_level, debug=self.device_debug, nvgpucomp=self.use_nvgpucomp_libnvvm
        )
        module.attributes["targets"] = ArrayAttr([made])


def _capability(module: Operation) -> str:
    value = module.attributes.get("compute_capability")
    if isinstance(value, IntegerAttr):
        return f"sm_{value.value}"
    return value.value if isinstance(value, StringAttr) else ""


def _target_spec(module: Operation) -> str:
    for function in module.regions[0].operations:
        value = function.attributes.get("target_spec")
        if isinstance(value, StringAttr):
            return value.value
    return ""


def _lift(op: Operation) -> None:
    """Moves kernels and what they use into a gpu.module; raises CompileError when one of its name has a target."""
    loose = [inner for inner in op.regions[0].operations if isinstance(inner, (llvm.LLVMFuncOp, llvm.GlobalOp))]
    if not loose:
        return
    given = op.attributes.get("sym_name")
    name = given.value if isinstance(given, StringAttr) else MODULE_NAME
    for inner in op.regions[0].operations:
        if isinstance(inner, GPUModuleOp) and inner.sym_name.value == name:
            raise CompileError.at(inner.location, "gpu.module already carries a conflicting target")
    block = Block()
    first = loose[0]
    module = GPUModuleOp(sym_name=StringAttr(name), bodyRegion=Region([block]), location=op.location)
    op.regions[0].block.insert_before(module, first)
    for inner in loose:
        block.append(inner.detach())
    # What the translation reads of a module goes with its functions.
    for key in [key for key in op.attributes if key.startswith("nvvm.") or key == "blobLinkedLib"]:
        module.attributes[key] = op.attributes.pop(key)
