"""Overrides: edited artifacts, in a folder that the build names, that replace the products of stages.

    overrides/softmax.sm_90.tileas.mlir      replaces the product of `tileas` for the entry softmax on sm_90

A file is named after the entry, the target and the suffix of the artifact.  It is part of the key of the stage whose
product it replaces, is verified like that product, and is the input of the stages after it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import tileiras
from tileiras import pipeline
from tileiras.diagnostics import CompileError, ExitCode
from tileiras.stages import units
from tileiras.support.files import read_if_there

if TYPE_CHECKING:
    from tileiras.build.step import Step

BESIDE = "override"
"""Key of the override among the files that a stage reads besides its input."""

STAGES = ("tileaa", "tileas", "llvm", "ptx")
"""The stages whose product can be overridden: text for one entry."""

METADATA = "overridden"
"""Field of NAME.json: the stages whose products overrides have replaced."""


def find(folder: str, target: str, entry: str) -> dict[str, str]:
    """Stage -> the file that replaces its product, for one entry."""
    if not folder:
        return {}
    stem = os.path.join(folder, f"{units.file_stem(entry)}.{target}")
    paths = {name: stem + pipeline.stage(name).suffix for name in STAGES}
    return {name: path for name, path in paths.items() if os.path.isfile(path)}


def unused_files(folder: str, paths: Sequence[str]) -> list[str]:
    """The names of the files in a folder of overrides that no step has used."""
    suffixes = tuple(pipeline.stage(name).suffix for name in STAGES)
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    absolute = {os.path.abspath(path) for path in paths}
    edited = [name for name in names if name.endswith(suffixes)]
    return [name for name in edited if os.path.abspath(os.path.join(folder, name)) not in absolute]


def with_override(step: Step, data: bytes, artifacts: dict[str, bytes]) -> dict[str, bytes]:
    """The artifacts of a step with the override `data` as its product; `artifacts` are the artifacts of the stage's own
    run, if it ran.  Raises CompileError, located in the override where possible."""
    assert step.override is not None
    name = os.path.relpath(step.override).replace(os.sep, "/")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise CompileError.at(None, f"{name} is no text", ExitCode.INVALID_INPUT) from None
    stage = step.stage
    result = {**artifacts, stage.suffix: data}
    if stage.makes_module:
        result.update(_module(step, text, name))
    elif f"@{step.entry}" not in text and f'@"{step.entry}"' not in text and stage.name == "llvm":
        raise CompileError.at(None, f"{name} defines no function '{step.entry}'", ExitCode.INVALID_INPUT)
    elif stage.name == "ptx":
        result[".json"] = _metadata_of(text, name, step, artifacts[".json"])
    if stage.says_remarks(step.options):
        # The stage's remarks do not describe the override.
        result[stage.remark_suffix] = tileiras.diagnostics.remarks.remarks_json(())
    return result


def needs_stage(step: Step) -> bool:
    """Whether the stage runs despite the override, for its side artifacts."""
    return bool(step.stage.side_suffixes)


def _module(step: Step, text: str, name: str) -> dict[str, bytes]:
    """An override of MLIR, reprinted as the stage prints modules, and its location table, which names the override."""
    module = tileiras.ir.parse_module(text, name)
    tileiras.ir.verify(module)
    symbols = [op.attributes["sym_name"].value for op in module.walk() if "sym_name" in op.attributes]
    if step.entry not in symbols:
        raise CompileError.at(None, f"{name} has no function '{step.entry}'", ExitCode.INVALID_INPUT)
    table = tileiras.stages.locations.table_of(module, step.source_name, unit_name=step.entry)
    return {step.stage.suffix: units.module_text(module), step.stage.location_suffix: table.to_bytes()}


def _metadata_of(text: str, name: str, step: Step, metadata: bytes) -> bytes:
    """NAME.json for edited PTX, with the launch shape taken from the PTX directives."""
    module = tileiras.codegen.ptx.parse(text, tileiras.ir.FileLineColLoc(name, 1, 1))
    entry = next((each for each in module.entries if each.name == step.entry), None)
    if entry is None:
        raise CompileError.at(None, f"{name} has no entry '{step.entry}'", ExitCode.INVALID_INPUT)
    document = json.loads(metadata)
    document.update(target=module.target, ptx_version="{}.{}".format(*module.version))
    block = entry.dimensions("reqntid") or entry.dimensions("maxntid") or (1, 1, 1)
    cluster = entry.dimensions("reqnctapercluster") or (1, 1, 1)
    for kernel in document["kernels"]:
        if kernel["name"] == step.entry:
            kernel.update(block=list(block), cluster=list(cluster))
    return tileiras.codegen.kernel_metadata.to_json(document).encode()


def with_overrides(metadata: bytes, stages: Sequence[str]) -> bytes:
    """NAME.json with the list of the overridden stages added."""
    document = json.loads(metadata)
    if any(pipeline.stage(name).suffix in units.DECIDED for name in stages):
        document = tileiras.codegen.kernel_metadata.without_order(document)
    return tileiras.codegen.kernel_metadata.to_json({**document, METADATA: list(stages)}).encode()


def content(step: Step) -> bytes | None:
    """The present content of a step's override; None if missing."""
    return read_if_there(step.override) if step.override is not None else None
