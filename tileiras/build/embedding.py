"""Images of one source for C++ programs (`tileiras-embed`): one image for each entry, target and form."""

from __future__ import annotations

from collections.abc import Sequence

from tileiras import pipeline
from tileiras.build import fat_binary, library
from tileiras.diagnostics import CompileError, Diagnostic, ExitCode
from tileiras.options import CompileOptions
from tileiras.stages import embed, units
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets.cpu import is_cpu

FATBIN = pipeline.FATBIN.name
EMITS = ("ptx", "cubin", FATBIN)
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
    value = Images([], [], [])
    parameters: dict[bytes, None] = {}
    result: dict[str, list[embed.Image]] = {emit: [] for emit in emits}
    pipeline.start_ahead(*(pipeline.emit_stage("cubin" if emit == FATBIN else emit)[0] for emit in emits))
    entries: list[str] = []
    for options in targets:
        opened = source
        if source.kind == units.PYTHON:
            exported = library.exported(source, options)
            opened = exported.source
            parameters[exported.parameters] = None
            value.diagnostics.extend(exported.diagnostics)
            value.dependencies.extend(exported.dependencies)
        ptx = library.compile_with(opened, options, "ptx")
        value.diagnostics.extend(ptx.diagnostics)
        entries = [kernel.name for kernel in ptx.kernels]
        for kernel in ptx.kernels:
            description = kernel.artifacts[".json"]
            if "ptx" in result:
                result["ptx"].append(embed.Image.of(kernel.artifacts[".ptx"], description))
            if "cubin" in result:
                cubin = library.compile_with(opened, options, "cubin", entry=kernel.name)
                value.diagnostics.extend(cubin.diagnostics)
                result["cubin"].append(embed.Image.of(cubin.data, description))
    for entry in entries if FATBIN in result else ():
        packed = fat_binary.compile_for(source, targets, entry)
        value.diagnostics.extend(each for each in packed.diagnostics if each not in value.diagnostics)
        result[FATBIN] += embed.Image.all_of(packed.data, packed.kernels[0].artifacts[pipeline.FATBIN.side_suffixes[0]])
    everything = [image for emit in emits for image in result[emit]]
    return value._replace(images=embed.with_file_names(everything, list(parameters)))
