"""Images of one source for C++ programs (`tileiras-embed`): one image for each entry, target and form."""

from __future__ import annotations

from collections.abc import Sequence

from tileiras import pipeline
from tileiras.build import library
from tileiras.diagnostics import CompileError, Diagnostic, ExitCode
from tileiras.options import CompileOptions
from tileiras.stages import embed, units
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets.cpu import is_cpu

EMITS = ("ptx", "cubin")
"""The forms of an image."""


class Images(NamedTuple):
    """The compiled images of a source."""

    images: list[embed.Image]
    """Ordered by form, then target, then entry, as in `env.TileObject`."""
    diagnostics: list[Diagnostic]
    dependencies: list[str]
    """Files and folders that modules of cuTile Python read."""


def images(source: units.Source, targets: Sequence[CompileOptions], emits: Sequence[str]) -> Images:
    """Compile a source for each target, through the artifact store.

    Raises CompileError: code 3 for an artifact of a later stage, whose kernels are not described.
    """
    if source.kind not in (units.TEXT, units.BYTECODE, units.PYTHON):
        message = f"unable to embed '{source.name}': accepted are Tile IR text, bytecode and cuTile Python"
        raise CompileError.at(None, message, ExitCode.INVALID_INPUT)
    for name in (options["gpu-name"] for options in targets):
        if is_cpu(name):
            message = f"the code of target {name} is linked, not embedded: env.TileObject and env.TileLibrary do that"
            raise CompileError.at(None, message, ExitCode.CONFIGURATION)
    made = Images([], [], [])
    parameters: dict[bytes, None] = {}
    found: dict[str, list[embed.Image]] = {emit: [] for emit in emits}
    pipeline.start_ahead(*(pipeline.emit_stage(emit)[0] for emit in emits))
    for options in targets:
        opened = source
        if source.kind == units.PYTHON:
            exported = library.exported(source, options)
            opened = exported.source
            parameters[exported.parameters] = None
            made.diagnostics.extend(exported.diagnostics)
            made.dependencies.extend(exported.dependencies)
        ptx = library.compile_with(opened, options, "ptx")
        made.diagnostics.extend(ptx.diagnostics)
        for kernel in ptx.kernels:
            description = kernel.artifacts[".json"]
            if "ptx" in found:
                found["ptx"].append(embed.Image.of(kernel.artifacts[".ptx"], description))
            if "cubin" in found:
                cubin = library.compile_with(opened, options, "cubin", entry=kernel.name)
                made.diagnostics.extend(cubin.diagnostics)
                found["cubin"].append(embed.Image.of(cubin.data, description))
    everything = [image for emit in emits for image in found[emit]]
    return made._replace(images=embed.named(everything, list(parameters)))
