"""Bytecode or text -> a verified cuda_tile module."""

from __future__ import annotations

from typing import Any

import tileiras
from tileiras import bytecode
from tileiras.diagnostics import CompileError, DiagnosticEngine, ExitCode
from tileiras.stages import StageContext, StageOptions, StageResult


def run(source: bytes, options: StageOptions, context: StageContext) -> StageResult:
    """Raise CompileError (code 3) with a place in the text, or a section and byte offset in the bytecode."""
    module = read(source, context.source_name)
    engine = DiagnosticEngine()
    tileiras.ir.verify(module, engine)
    engine.raise_if_errors(ExitCode.INVALID_INPUT)
    for warning in engine.diagnostics:
        context.engine.emit(warning)
    return StageResult(module)


def read(source: bytes, name: str) -> Any:
    """The cuda_tile module in `source`, not verified; an enclosing builtin module is removed."""
    if bytecode.is_bytecode(source):
        return bytecode.read_module(source, name)
    try:
        text = bytes(source).decode("utf-8")
    except UnicodeDecodeError:
        # Neither text nor bytecode: the reader reports the wrong magic number.
        return bytecode.read_module(source, name)
    if "\0" in text:
        return bytecode.read_module(source, name)
    module = tileiras.ir.parse_module(text.removeprefix("\ufeff"), name)
    if module.name == "builtin.module":
        blocks = module.regions[0].blocks
        inner = [op for block in blocks for op in block.operations if op.name == "cuda_tile.module"]
        if len(inner) != 1:
            result = f"{len(inner)} of them" if inner else "none"
            message = f"expected one cuda_tile.module, found {result}"
            raise CompileError.at(module.location, message, ExitCode.INVALID_INPUT)
        module = inner[0].detach()
    return module
