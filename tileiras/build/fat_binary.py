"""One file for all GPUs (`--emit fatbin`): a source compiled for each target, and the images in one container."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tileiras
from tileiras import pipeline
from tileiras.build import library
from tileiras.diagnostics import CompileError, ExitCode
from tileiras.driver.compilation import Artifact, Kernel
from tileiras.options import CompileOptions
from tileiras.stages import fatbin, units
from tileiras.targets.cpu import is_cpu


def named_targets(gpu_names: str) -> list[str]:
    """The targets of `--gpu-name` with commas, each once and in order.

    Raises CompileError (code 2) for a CPU.
    """
    result = list(dict.fromkeys(gpu_names.split(",")))
    for name in filter(is_cpu, result):
        message = f"invalid value for emit: {pipeline.FATBIN.name}; a fat binary has no code for target {name}"
        raise CompileError.at(None, message, ExitCode.CONFIGURATION)
    return result


def compile_for(source: units.Source, targets: Sequence[CompileOptions], entry: str | None = None) -> Artifact:
    """Compile a source for each target, through the artifact store; cubins are in the order of the targets.

    The bytecode is part of it where the cubins are for tile launches: the driver's own compilation of it is launched
    that way.  Each kernel of the result has NAME.fatbin.json among its artifacts.  Raises CompileError: code 3 for an
    artifact of a later stage.
    """
    if source.kind not in (units.TEXT, units.BYTECODE, units.PYTHON):
        message = f"unable to make a fat binary of '{source.name}': accepted are Tile IR text, bytecode, cuTile Python"
        raise CompileError.at(None, message, ExitCode.INVALID_INPUT)
    result = Artifact(b"", pipeline.FATBIN.suffix, [], [])
    compiled: list[fatbin.Compiled] = []
    for options in targets:
        value = library.compile_with(source, options, "cubin", entry=entry)
        if not value.kernels:
            raise CompileError.at(None, f"{source.name} has no entry to compile")
        result.diagnostics.extend(each for each in value.diagnostics if each not in result.diagnostics)
        result.dependencies += [path for path in value.dependencies if path not in result.dependencies]
        text = tileiras.driver.compilation.join([kernel.artifacts[".ptx"] for kernel in value.kernels], ".ptx")
        documents = [kernel.artifacts[".json"] for kernel in value.kernels]
        compiled.append(fatbin.Compiled(value.data, text, documents))
        result.kernels = [Kernel(kernel.name, {}) for kernel in value.kernels]
    bytecode = None
    if all(options["tile-launch"] for options in targets):
        bytecode = library.compile_with(source, targets[-1], "bytecode").data
    debug = any(options["device-debug"] for options in targets)
    result.data, document = fatbin.pack(compiled, bytecode, debug)
    for kernel in result.kernels:
        kernel.artifacts[fatbin.DESCRIPTION] = document
    return result


def compile_any_for(
    targets: Sequence[CompileOptions], source: Any, options: CompileOptions, emit: str, *, entry: str | None = None,
    source_name: str | None = None,
) -> Artifact:  # fmt: skip
    """`compile_for` with the arguments of `library.compile_with`, whose options and product the targets replace."""
    opened = source if isinstance(source, units.Source) else tileiras.api.open_source(source, source_name)
    return compile_for(opened, targets, entry)
