"""nv_tileas -> llvm and nvvm dialects -> LLVM IR text.

In: one function of nv_tileas with the globals that it uses.  Out: the bytes of NAME.ll; beside it NAME.llvm.mlir, a
gpu.module with its target.

With line or debug information, the LLVM IR has the locations of its instructions:

| | `!dbg` | subprograms | variables | optimized |
|---|---|---|---|---|
| neither | no | no | no | |
| `lineinfo` | yes | yes, for `.loc` only | no | unless at level 0 |
| `device-debug` | yes | yes | yes | no, level 0 only |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import tileiras
from tileiras import lowering
from tileiras.dialects.gpu import GPUModuleOp
from tileiras.ir import Operation, Pass, verify
from tileiras.ir.pass_manager import PassContext, PassManager, PassWhereFound
from tileiras.lowering.llvm_to_ir import translate_module
from tileiras.passes import PASSES, lookup_pass
from tileiras.stages import StageContext, StageOptions, StageResult, units
from tileiras.support.named_tuple import NamedTuple


class Lowering(NamedTuple):
    """A pass, and the reason for its position."""

    name: str
    """A name of the table `PASSES`.  Must be a literal: `build.store.fingerprint` reads it in the source to find the
    code of the stage."""
    why: str
    asked_by: tuple[str, ...] = ()
    """Any of these options enables the pass; without any it always runs."""
    untargeted: bool = False
    """Whether the pass is omitted for code that is in a gpu.module already: it has run there."""


DECISIONS: tuple[Lowering, ...] = (
    Lowering("tileir-insert-debug-scope", "while loops and branches have regions", ("lineinfo", "device-debug")),
    Lowering("tileir-verify-ops-analysis", "the last place where tiles and their layouts are visible"),
    Lowering("convert-tileas-to-llvm", "every thread's share of the tiles"),
    Lowering("cse", "fewer operations for every pass behind it", untargeted=True),
    Lowering("convert-tileas-to-nvgpu", "instructions, before anything else looks at them"),
    Lowering("host-device-assert-enable", "while the module of its declaration is the one around the kernel"),
    Lowering("tileir-gpu-module-prepare", "the sizes of clusters, while nv_tileas has them", untargeted=True),
    Lowering("test-convert-to-llvm", "arithmetic, before kernels get their ABI"),
    Lowering("tileir-legalize-llvm-kernel", "while the marks of nv_tileas say which functions are kernels"),
    Lowering("tileir-finalize-llvm-kernel", "behind the last reader of these marks"),
    Lowering("convert-to-llvm", "operations with one counterpart in llvm, before the rest is expanded"),
    Lowering("convert-nvgpu-to-nvvm", "intrinsics and assembly, with the registers that are there now"),
    Lowering("convert-vector-to-llvm", "before memory, whose addresses may be elements"),
    Lowering("convert-math-to-funcs", "approximations are instructions of nvvm"),
    Lowering("arith-expand", "the last operations of arith"),
    Lowering("convert-memref-to-llvm", "the last of the dialects that threads compute in"),
    Lowering("convert-debuginfo-to-llvm", "values have their registers", ("device-debug",)),
    Lowering("convert-target-to-nvvm", "the last conversion: the target is that of finished code", untargeted=True),
    Lowering("nvptx-peepholes", "chip and features are known, and the operations are those that are translated"),
    Lowering("tileir-post-nvvm-finalize", "nothing is lowered behind it"),
    Lowering("nvvm-ir-verifier", "the module that was checked is translated"),
)
"""The passes of the stage, in order."""

NVGPU = "convert-tileas-to-nvgpu"
"""After this pass the module contains llvm and nvgpu, and no nv_tileas."""


def passes(options: StageOptions, nvgpucomp: bool = False, ceiling: str = "") -> list[Pass]:
    """The passes of the stage, with a ceiling of parameters, by default the option's."""
    return [item.construct() for item in _items(options, _values(options, nvgpucomp, ceiling=ceiling))]


def to_nvgpu(passes: Sequence[Pass]) -> list[Pass]:
    """The first of the stage's passes, up to those that give llvm and nvgpu."""
    return list(passes[: next(number for number, item in enumerate(passes) if item.name == NVGPU) + 1])


class _Item(NamedTuple):
    name: str
    construct: Any
    names: tuple[str, ...]
    untargeted: bool


def _items(options: StageOptions, values: Mapping[str, Any]) -> list[_Item]:
    enabled = (row for row in DECISIONS if not row.asked_by or any(options[name] for name in row.asked_by))
    return [_Item(row.name, partial(create, row.name, values), PASSES[row.name].triggers, row.untargeted)
            for row in enabled]  # fmt: skip


def _values(
    options: StageOptions, nvgpucomp: bool = False, ptx_version: str = "", ceiling: str = ""
) -> dict[str, Any]:
    """Option of passes -> its value, for all passes that have it."""
    return {
        "compute_capability": options.gpu_name, "ftz": options.ftz, "approx": options.approx,
        "variables": options.device_debug, "device_debug": options.device_debug, "opt_level": options.opt_level,
        "use_nvgpucomp_libnvvm": nvgpucomp, "ptx_version": ptx_version,
        "parameter_ceiling": ceiling or options.parameter_ceiling, "index_bitwidth": options.index_bitwidth,
    }  # fmt: skip


def create(name: str, values: Mapping[str, Any]) -> Pass:
    """A pass with those of the values that are options of it."""
    result = lookup_pass(name)
    defaults = result.options()
    return result(**{option: value for option, value in values.items() if option in defaults})


def run(source: Operation, options: StageOptions, context: StageContext) -> StageResult:
    context.engine.remarks = options.emit_remarks
    debug = None
    if options.lineinfo or options.device_debug:
        debug = lowering.llvm_to_ir.debug_info.DebugLevel(
            lowering.llvm_to_ir.debug_info.FULL
            if options.device_debug
            else lowering.llvm_to_ir.debug_info.DIRECTIVES_ONLY,
            optimized=options.opt_level > 0,
        )
        tileiras.stages.locations.settle(source, context.source_name)
    # A source with a gpu.module is compiled for the target that the gpu.module names, or cannot be translated.
    targeted = any(isinstance(op, GPUModuleOp) for op in source.regions[0].operations)
    items = _items(options, _values(options, ptx_version=context.ptx_version))
    whole = [PassWhereFound(item.construct, item.names) for item in items if not (targeted and item.untargeted)]
    manager = PassManager(whole, verify_each=False, instrumentation=context.instrumentation)
    manager.run(source, PassContext(context.engine))
    context.check(lambda: verify(source))
    text = translate_module(source, options.gpu_name, debug, options.opt_level)
    return StageResult(text.encode(), {".llvm.mlir": lambda: units.module_text(source)})
