"""Functions of nv_tileaa through the decisions of TileAS, in the order in which the compiler takes them, to LLVM and
PTX."""

from __future__ import annotations

from typing import Any

from tileiras.codegen import admission, kernel_metadata, llvm_pipeline
from tileiras.codegen import ptx as ptx_text
from tileiras.codegen.target_machine import processor
from tileiras.diagnostics import DiagnosticEngine
from tileiras.driver.tileir_pipeline import tileas_passes
from tileiras.ir import Operation, parse_module, print_op, verify
from tileiras.ir.pass_manager import PassContext, PassManager
from tileiras.lowering.llvm_to_ir import translate_module
from tileiras.stages import llvm as llvm_stage

LAYOUTS = "tileas-remove-layout-conversions"
"""The row after which every tile has a layout."""

PIPELINED = "tileas-spill-loop-carried"
"""The row after which all schedules of loops are materialized."""

AFTER_LAYOUTS = "tileas-lower-occupancy"
"""The first row that requires layouts."""

NOT_LOWERING = (
    "tileir-verify-ops-analysis", "convert-target-to-nvvm", "tileir-post-nvvm-finalize", "nvvm-ir-verifier",
)  # fmt: skip
"""Rows of the stage `llvm` that check, or attach the target."""


def through(
    module: Operation, to: str = "", gpu: str = "sm_90", engine: DiagnosticEngine | None = None, **options: Any
) -> Operation:
    """The module after the rows up to `to`, of `from_` on if that is given; `options` are those of `tileas{...}`."""
    result = {"compute-capability": gpu.rstrip("af"), **({"to": to} if to else {})}
    result.update((name.rstrip("_").replace("_", "-"), value) for name, value in options.items() if value is not None)
    passes = tileas_passes(" ".join(f"{name}={value}" for name, value in result.items()))
    # Texts may be for another GPU than the one that they are compiled for here, which verifiers do not let pass.
    PassManager(passes, verify_each=False).run(module, PassContext(engine))
    verify(module)
    return module


def pipelined(text: str, stages: int | None = None, gpu: str = "sm_80") -> Operation:
    """A module of nv_tileaa after the rows up to those that materialize schedules."""
    return through(parse_module(text, "test.mlir"), PIPELINED, gpu, num_stages=stages)


def lower(text: str, gpu: str = "sm_90", stages: int = 1, strategy: str | None = None, **options: Any) -> Operation:
    """The module, of nv_tileaa or of nv_tileas with layouts, in the llvm dialect and verified: after all rows of TileAS
    that follow its state, with at most `stages` of the loads that run ahead, under the pipeline strategy."""
    module = parse_module(text, "test.mlir")
    rest = {"from_": AFTER_LAYOUTS} if "tensor<" not in text or "nv_tileas.linear" in text else {}
    through(module, gpu=gpu, num_stages=stages, pipeline_strategy=strategy, **rest)
    return to_llvm(module, gpu, **options)


def to_llvm(module: Operation, gpu: str, to: str = "", **options: Any) -> Operation:
    """A module of nv_tileas after the rows of the stage `llvm` but those for its target, up to the row `to`; functions
    stay where they are."""
    named = {"flush_to_zero": "ftz", "approximate": "approx"}
    values = {"compute_capability": gpu.rstrip("af"), **{named.get(name, name): each for name, each in options.items()}}
    rows = [row.name for row in llvm_stage.DECISIONS if not row.asked_by and row.name not in NOT_LOWERING]
    names = rows[: rows.index(to) + 1] if to else rows
    PassManager([llvm_stage.create(name, values) for name in names], verify_each=False).run(module, PassContext())
    body = module.regions[0].block
    for around in [op for op in body.operations if op.name == "gpu.module"]:
        module.attributes.update((name, value) for name, value in around.attributes.items() if name != "sym_name")
        for op in list(around.regions[0].operations):
            op.move_before(around)
        around.erase()
    verify(module)
    return module


def llvm_text(text: str, gpu: str = "sm_90") -> str:
    return print_op(lower(text, gpu))


def ptx(text: str, gpu: str = "sm_90", **options: Any) -> str:
    """PTX for a module whose functions need no libdevice."""
    return _assembled(translate_module(lower(text, gpu, **options), gpu), gpu)


def compiled(module: Operation, gpu: str) -> str:
    """PTX for a module that all rows of TileAS have been through."""
    to_llvm(module, gpu)
    return _assembled(translate_module(module, gpu), gpu)


def described(text: str, gpu: str = "sm_90", **options: Any) -> tuple[str, dict[str, Any]]:
    """PTX for a module whose functions need no libdevice, and the content of its NAME.json."""
    return _described(translate_module(lower(text, gpu, **options), gpu), gpu)


def compiled_and_described(module: Operation, gpu: str) -> tuple[str, dict[str, Any]]:
    """The same for a module that all rows of TileAS have been through."""
    to_llvm(module, gpu)
    return _described(translate_module(module, gpu), gpu)


def _described(ir: str, gpu: str) -> tuple[str, dict[str, Any]]:
    code = _assembled(ir, gpu)
    return code, kernel_metadata.describe(ptx_text.parse(code), kernel_metadata.from_ir(ir))


def _assembled(ir: str, gpu: str) -> str:
    needs = admission.check(ir, processor(gpu))
    row = processor(gpu if gpu[-1] in "af" else gpu + needs.letter)
    return llvm_pipeline.compile_to_ptx(ir, row, opt_level=3, required_ptx=needs.ptx).text
