"""The compiler as a library, in this process.

    artifact = tileiras.compile("kernel.mlir", gpu_name="sm_90")

Modules are passed from stage to stage in memory.  A build with one node per stage (`tileiras.build`) writes and reads
them, and produces the same bytes.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tileiras import pipeline, stages
from tileiras.diagnostics import CompileError, Handler, offer, with_lines
from tileiras.driver.compilation import Artifact, Kernel, compile_with, join, open_source
from tileiras.options import CompileOptions, lookup, missing_gpu
from tileiras.stages import StageContext, units

if TYPE_CHECKING:
    from typing import Unpack

    from tileiras.ir import Operation
    from tileiras.support.option_types import CompileKeywords

__all__ = [
    "Artifact", "Kernel", "checked_options", "compile", "compile_any", "compile_with", "handled", "join", "open_source",
    "parse",
]  # fmt: skip


def compile(
    source: str | bytes | os.PathLike | Operation,
    *,
    gpu_name: str,
    opt_level: int = 3,
    emit: str | None = None,
    entry: str | None = None,
    source_name: str | None = None,
    handlers: Sequence[Handler] = (),
    signature: object = None,
    **options: Unpack[CompileKeywords],
) -> Artifact:
    """Compile one source for one GPU.

    source: a path (`.mlir`, `.tileirbc`, cuTile Python `.py`), Tile IR text, bytecode, a cuda_tile module, which is
        not modified, or a cuTile Python function.  A str is text if it has a line break, or a brace and not the suffix
        of a source; otherwise it is a path.
    signature: the signature of a function: its parameters in order, as after the kernel in TILEIRAS_EXPORT
        (`("f32[?]", "f32[?]", 1024)`), the front end's KernelSignature, or a dictionary of these by kernels' names.
    emit: `bytecode`, `cuda_tile`, `tileaa`, `tileas`, `llvm`, `ptx`, `cubin` or `sass`; for a CPU `obj` behind
        `llvm`.  PTX, or an object, when absent.
    entry: compile only this entry.
    source_name: the name of the source in messages, instead of its path.
    handlers: called in order with each diagnostic; one that returns True accepts it: it is not passed on or collected.
    options: further options of `tileiras.options`, with underscores.

    Raises CompileError with located diagnostics and the driver's exit code.
    """
    values = checked_options(gpu_name, opt_level, options)
    with handled(handlers) as context:
        emit = emit or pipeline.default_emit(gpu_name)
        context.append(compile_any(compile_with, source, signature, values, emit, entry, source_name))
    return context[0]


def compile_any(
    compile_with: Callable[..., Artifact], source: Any, signature: object, options: CompileOptions, emit: str,
    entry: str | None, source_name: str | None,
) -> Artifact:  # fmt: skip
    """`compile_with` for any source that `compile` accepts.  A function is exported each time, as it may have changed.

    Raises TypeError for a function without a signature, and for a signature with any other source.
    """
    if signature is None and not callable(source):
        return compile_with(source, options, emit, entry=entry, source_name=source_name)
    if signature is None or not callable(source):
        raise TypeError(
            "signature= goes with a cuTile Python function, and a function with signature=: "
            'compile(kernel, signature=("f32[?]", 1024), ...)'
        )
    exported = stages.export.function.export(source, signature, pipeline.stage("export").select(options), source_name)
    bytecode = units.Source(exported.bytecode, exported.name, None, units.BYTECODE)
    try:
        result = compile_with(bytecode, options, emit, entry=entry)
    except CompileError as error:
        error.diagnostics = with_lines(error.diagnostics, exported.name, exported.text)
        raise
    result.diagnostics = with_lines(result.diagnostics, exported.name, exported.text)
    return result


@contextlib.contextmanager
def handled(handlers: Sequence[Handler]) -> Iterator[list[Artifact]]:
    """Pass the diagnostics of the block to handlers: those of artifacts added to the list, or of a CompileError."""
    artifacts: list[Artifact] = []
    try:
        yield artifacts
    except CompileError as error:
        if handlers:
            error.diagnostics = offer(error.diagnostics, handlers)
        raise
    for artifact in artifacts if handlers else ():
        artifact.diagnostics = offer(artifact.diagnostics, handlers)


def checked_options(gpu_name: str, opt_level: int, options: dict[str, Any]) -> CompileOptions:
    """Check the options of `compile`; raises CompileError (code 2)."""
    by_name = {lookup(name).name: value for name, value in options.items()}
    values = CompileOptions({"gpu-name": gpu_name, "opt-level": opt_level, **by_name})
    if values["gpu-name"] is None:
        raise missing_gpu()
    return values


def parse(source: str | bytes | os.PathLike, *, source_name: str | None = None) -> Operation:
    """The verified cuda_tile module of a source; raises CompileError (code 3)."""
    opened = open_source(source, source_name)
    context = StageContext(source_name=opened.name, source_path=opened.path)
    options = CompileOptions()
    data = opened.data
    if opened.kind == units.PYTHON:
        data = pipeline.run_stage(pipeline.stage("export"), data, options, context).output
    return pipeline.run_stage(pipeline.stage("read"), data, options, context).output
