"""`convert-target-to-nvvm`: a single `#nvvm.target` for every gpu.module, which replaces its previous targets.

The chip is the option's, else `nv_tileaa.compute_capability` (90 for sm_90) or `nv_tileaa.target_spec` ("sm_90") of
the gpu.module, of the builtin.module around it, else the `target_spec` of the functions inside.
`nv_tileaa.libnvvm_use_nvgpucomp` of either module adds a flag, as the option does.  Functions and globals directly in
the builtin.module are first moved into a gpu.module that is named after it.  The target is read by the translation to
LLVM IR, by the verifier and by the later stages.
"""

from __future__ import annotations

from tileiras.analysis.module_attributes import NVGPUCOMP, module_chip
from tileiras.diagnostics import CompileError, ExitCode
from tileiras.dialects.gpu import GPUModuleOp
from tileiras.dialects.nvvm import NVVMTargetAttr
from tileiras.ir import ArrayAttr, IntegerAttr, Operation, Pass, StringAttr, i1
from tileiras.ir.pass_manager import PassContext
from tileiras.passes.tileir_gpu_module_prepare import lift
from tileiras.targets import TARGETS


class ConvertTargetToNVVM(Pass):
    name = "convert-target-to-nvvm"
    anchor = "builtin.module"
    needs = "kernels in `llvm`; a GPU from the option, `nv_tileaa.compute_capability` or `nv_tileaa.target_spec`"
    establishes = "a gpu.module with one `#nvvm.target`; the same when run again"
    keeps = "functions"
    introduces = ("gpu.module",)
    accepts = {"opt_level": range(4)}

    compute_capability: str = ""
    opt_level: int = 3
    device_debug: bool = False
    use_nvgpucomp_libnvvm: bool = False

    def run(self, op: Operation, context: PassContext) -> None:
        lift(op)
        for module in op.regions[0].operations:
            if isinstance(module, GPUModuleOp):
                self._attach(module, op)

    def _attach(self, module: GPUModuleOp, around: Operation) -> None:
        chip = self.compute_capability or module_chip(module) or module_chip(around) or _target_spec(module)
        if chip not in TARGETS:
            raise CompileError.at(module.location, "failed to get compute capability.", ExitCode.COMPILE_FAILURE)
        # Both are read: an invalid value is an error regardless of the other one.
        nvgpucomp = [_uses_nvgpucomp(module), _uses_nvgpucomp(around), self.use_nvgpucomp_libnvvm]
        result = NVVMTargetAttr.of(chip, self.opt_level, debug=self.device_debug, nvgpucomp=any(nvgpucomp))
        module.attributes["targets"] = ArrayAttr([result])


def _uses_nvgpucomp(module: Operation) -> bool:
    value = module.attributes.get(NVGPUCOMP)
    if value is not None and not (isinstance(value, IntegerAttr) and value.type is i1):
        raise CompileError.at(module.location, f"'{NVGPUCOMP}' must be true or false, got {value}")
    return value is not None and bool(value.value)


def _target_spec(module: Operation) -> str:
    for function in module.regions[0].operations:
        value = function.attributes.get("target_spec")
        if isinstance(value, StringAttr):
            return value.value
    return ""
