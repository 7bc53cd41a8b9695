"""Overrides: artifacts that a person has edited, in a folder that the build names, take the place of what stages make.

    overrides/softmax.sm_90.tileas.mlir      instead of what `tileas` makes of the entry softmax for sm_90

A file is called by the entry, the target, and the suffix of the artifact.  It is part of the key of the stage whose
place it takes, is verified as what the stage makes is, and everything behind that stage is made of it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tileiras import pipeline, units
from tileiras.diagnostics import CompileError, ExitCode
from tileiras.files import read_if_there

if TYPE_CHECKING:
    from tileiras.build.step import Step

BESIDE = "override"
"""What an override is called among the files that a stage is given besides its input."""

STAGES = ("tileaa", "tileas", "llvm", "ptx")
"""Whose place an override can take: what one entry becomes, as text."""

METADATA = "overridden"
"""In NAME.json: the stages whose places overrides have taken."""


def find(folder: str, target: str, entry: str) -> dict[str, str]:
    """Stage -> the file that takes its place, for one entry."""
    if not folder:
        return {}
    stem = os.path.join(folder, f"{units.file_stem(entry)}.{target}")
    paths = {name: stem + pipeline.stage(name).suffix for name in STAGES}
    return {name: path for name, path in paths.items() if os.path.isfile(path)}


def unused(folder: str, used: Sequence[str]) -> list[str]:
    """The files of a folder of overrides that no step has taken, by name."""
    suffixes = tuple(pipeline.stage(name).suffix for name in STAGES)
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    known = {os.path.abspath(path) for path in used}
    edited = [name for name in names if name.endswith(suffixes)]
    return [name for name in edited if os.path.abspath(os.path.join(folder, name)) not in known]


def taken(step: Step, data: bytes, made: dict[str, bytes]) -> dict[str, bytes]:
    """The artifacts of a step with an override of `data` in the place of its product; `made` are those that its stage
    has made, if it ran.  Raises CompileError at the line of the override that is wrong."""
    assert step.override is not None
    name = os.path.relpath(step.override).replace(os.sep, "/")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise CompileError.at(None, f"{name} is no text", ExitCode.INVALID_INPUT) from None
    stage = step.stage
    found = {**made, stage.suffix: data}
    if stage.makes_module:
        found.update(_module(step, text, name))
    elif f"@{step.entry}" not in text and f'@"{step.entry}"' not in text and stage.name == "llvm":
        raise CompileError.at(None, f"{name} defines no function '{step.entry}'", ExitCode.INVALID_INPUT)
    elif stage.name == "ptx":
        found[".json"] = _described(text, name, step, made[".json"])
    if stage.says_remarks(step.options):
        from tileiras.remarks import remarks_json

        # What the stage chose is not what is there now.
        found[stage.remark_suffix] = remarks_json(())
    return found


def needs_stage(step: Step) -> bool:
    """Whether the stage runs all the same, for what lies beside its product."""
    return bool(step.stage.side_suffixes)


def _module(step: Step, text: str, name: str) -> dict[str, bytes]:
    """The artifact of an override of MLIR, printed as the stage prints its own, and its places: those of the file."""
    from tileiras import locations
    from tileiras.ir import parse_module, verify

    module = parse_module(text, name)
    verify(module)
    symbols = [op.attributes["sym_name"].value for op in module.walk() if "sym_name" in op.attributes]
    if step.entry not in symbols:
        raise CompileError.at(None, f"{name} has no function '{step.entry}'", ExitCode.INVALID_INPUT)
    table = locations.table_of(module, step.source_name, unit_name=step.entry)
    return {step.stage.suffix: units.module_text(module), step.stage.location_suffix: table.to_bytes()}


def _described(text: str, name: str, step: Step, made: bytes) -> bytes:
    """NAME.json for edited PTX: the launch's shape is that of its directives."""
    from tileiras.codegen import kernel_metadata
    from tileiras.codegen.ptx import parse
    from tileiras.ir import FileLineColLoc

    module = parse(text, FileLineColLoc(name, 1, 1))
    entry = next((each for each in module.entries if each.name == step.entry), None)
    if entry is None:
        raise CompileError.at(None, f"{name} has no entry '{step.entry}'", ExitCode.INVALID_INPUT)
    document = json.loads(made)
    document.update(target=module.target, ptx_version="{}.{}".format(*module.version))
    block = entry.dimensions("reqntid") or entry.dimensions("maxntid") or (1, 1, 1)
    cluster = entry.dimensions("reqnctapercluster") or (1, 1, 1)
    for kernel in document["kernels"]:
        if kernel["name"] == step.entry:
            kernel.update(block=list(block), cluster=list(cluster))
    return kernel_metadata.to_json(document).encode()


def noted(metadata: bytes, stages: Sequence[str]) -> bytes:
    """NAME.json that says which stages' places overrides have taken."""
    from tileiras.codegen import kernel_metadata

    if not set(stages).isdisjoint(STAGES[STAGES.index("tileas") :]):
        metadata = kernel_metadata.without_order(metadata)
    return kernel_metadata.to_json({**json.loads(metadata), METADATA: list(stages)}).encode()


def content(step: Step) -> bytes | None:
    """The override of a step as it is now."""
    return read_if_there(step.override) if step.override is not None else None
