"""LLVM IR -> object code of a CPU: the bytes of NAME.cpu.o, NAME.json and NAME.h."""

from __future__ import annotations

import json

from tileiras.codegen import c_header, cpu_object
from tileiras.lowering import tileaa_to_cpu
from tileiras.stages import StageContext, StageOptions, StageResult


def run(source: bytes, options: StageOptions, context: StageContext) -> StageResult:
    target, ir = cpu_object.require_target(options.gpu_name, context.location), source.decode()
    result = cpu_object.compile_object(ir, target, options.opt_level, context.location, context.meanwhile)
    document = tileaa_to_cpu.to_json(ir, target.name)
    return StageResult(result, {".json": document.encode(), ".h": c_header.header(json.loads(document)).encode()})
