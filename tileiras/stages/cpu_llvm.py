"""nv_tileaa -> LLVM IR text for a CPU.

In: one function of nv_tileaa with the globals that it uses.  Out: the bytes of NAME.cpu.ll, whose first line is the
description of a launch.
"""

from __future__ import annotations

from tileiras.codegen import cpu_object
from tileiras.diagnostics import CompileError, ExitCode
from tileiras.ir import Operation
from tileiras.lowering import tileaa_to_cpu
from tileiras.stages import StageContext, StageOptions, StageResult


def run(source: Operation, options: StageOptions, context: StageContext) -> StageResult:
    target = cpu_object.require_target(options.gpu_name, context.location)
    if options.deterministic == "require":
        message = f"deterministic=require: kernels for {options.gpu_name} have no certificate of order"
        raise CompileError.at(context.location, message, ExitCode.CONFIGURATION)
    features = tileaa_to_cpu.Features(
        target.lanes, target.registers, target.long_double, target.processor == "x86-64-v4"
    )
    text, description = tileaa_to_cpu.lower(source, features)
    description["target"] = target.name
    return StageResult(tileaa_to_cpu.describe(f'target triple = "{target.triple}"\n{text}', description).encode())
