"""Which intrinsics a module may use on a GPU: checked from our own tables before LLVM sees the module."""

from __future__ import annotations

import re

from tileiras.codegen import foreign_ir
from tileiras.codegen.ir_text import declarations_start, named_metadata, node
from tileiras.codegen.target_machine import Processor, PTXRequirement
from tileiras.diagnostics import CompileError, ExitCode, Locatable
from tileiras.dialects.llvm import intrinsics as llvm_intrinsics
from tileiras.dialects.nvvm import intrinsics as nvvm_intrinsics
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets.nvptx import REQUIREMENTS_METADATA
from tileiras.targets.requirements import FORMS, form, spell

_DECLARATION = re.compile(r"^declare [^\n@]*@llvm\.([-a-zA-Z$._0-9]+)\(", re.MULTILINE)


class Needs(NamedTuple):
    """Requirements of a module on the target: a form of its name, and PTX versions with an instruction for each."""

    letter: str
    ptx: tuple[PTXRequirement, ...]


def check(ir: str, row: Processor, location: Locatable | None = None) -> Needs:
    """The requirements of the module's intrinsics and inline assembly.

    Raises CompileError, one error per offending intrinsic, when one is unknown or the processor does not have it, or
    when the module is for another machine (`foreign_ir`).
    """
    foreign_ir.check(ir, row.number, location)
    errors: list[str] = []
    letters = [""]
    versions: dict[tuple[int, int], PTXRequirement] = {}

    def need(requirement: str, feature: str) -> None:
        letter = form(requirement, row.chip)
        if letter is None:
            errors.append(f"{feature} needs {spell(requirement)}, not {row.chip}")
        else:
            letters.append(letter)

    for name in dict.fromkeys(_DECLARATION.findall(ir, declarations_start(ir))):
        if name.startswith("nvvm."):
            entry = nvvm_intrinsics.INTRINSICS.get(name.removeprefix("nvvm."))
            if entry is None:
                errors.append(f"unknown intrinsic 'llvm.{name}'")
                continue
            need(entry.sm, f"intrinsic 'llvm.{name}'")
            versions.setdefault(entry.ptx, PTXRequirement(entry.ptx, f"intrinsic 'llvm.{name}'"))
        elif not llvm_intrinsics.admitted(name):
            errors.append(f"intrinsic 'llvm.{name}' has no NVPTX code: LLVM would end on it")
    for requirement in assembly_requirements(ir):
        need(requirement, "inline assembly")
    if errors:
        raise CompileError(
            [CompileError.at(location, text).diagnostics[0] for text in errors], ExitCode.COMPILE_FAILURE
        )
    return Needs(max(letters, key=FORMS.index), tuple(sorted(versions.values())))


def assembly_requirements(ir: str) -> list[str]:
    """The requirements of the module's inline assembly, in `!tileiras.requires`."""
    nodes = named_metadata(ir, REQUIREMENTS_METADATA)
    return re.findall(r'!"([^"]*)"', node(ir, nodes[0]) or "") if len(nodes) == 1 else []
