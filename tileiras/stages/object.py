"""LLVM IR -> object code of a CPU: the bytes of NAME.cpu.o, and NAME.json."""

from __future__ import annotations

from tileiras.codegen import cpu_object
from tileiras.lowering import tileaa_to_cpu
from tileiras.stages import StageContext, StageOptions, StageResult


def run(source: bytes, options: StageOptions, context: StageContext) -> StageResult:
    target, ir = cpu_object.require_target(options.gpu_name, context.location), source.decode()
    made = cpu_object.compile_object(ir, target, options.opt_level, context.location, context.meanwhile)
    return StageResult(made, {".json": lambda: tileaa_to_cpu.to_json(ir).encode()})
