"""Which intrinsics a module may use on a GPU: checked from our own tables before LLVM sees the module."""

from __future__ import annotations

import re

from tileiras.codegen.target_machine import Processor
from tileiras.diagnostics import CompileError, Diagnostic, ExitCode, Locatable
from tileiras.dialects.llvm import intrinsics as llvm_intrinsics
from tileiras.dialects.nvvm import intrinsics as nvvm_intrinsics

_DECLARATION = re.compile(r"^declare [^\n@]*@llvm\.([-a-zA-Z$._0-9]+)\(", re.MULTILINE)


def check(ir: str, row: Processor, location: Locatable | None = None) -> list[tuple[int, int]]:
    """The PTX versions that the module's intrinsics need.

    Raises CompileError, one error per offending intrinsic, when one is unknown or the processor does not have it.
    """
    errors: list[Diagnostic] = []
    versions: list[tuple[int, int]] = []
    for name in dict.fromkeys(_DECLARATION.findall(ir)):
        if name.startswith("nvvm."):
            entry = nvvm_intrinsics.INTRINSICS.get(name.removeprefix("nvvm."))
            if entry is None:
                errors.append(CompileError.at(location, f"unknown intrinsic 'llvm.{name}'").diagnostics[0])
            elif not nvvm_intrinsics.admits(entry.sm, row.chip):
                needs = nvvm_intrinsics.spelled(entry.sm)
                errors.append(
                    CompileError.at(location, f"intrinsic 'llvm.{name}' needs {needs}, not {row.chip}").diagnostics[0]
                )
            else:
                versions.append(entry.ptx)
        elif not llvm_intrinsics.admitted(name):
            errors.append(
                CompileError.at(
                    location, f"intrinsic 'llvm.{name}' has no NVPTX code: LLVM would end on it"
                ).diagnostics[0]
            )
    if errors:
        raise CompileError(errors, ExitCode.COMPILE_FAILURE)
    return sorted(set(versions))
