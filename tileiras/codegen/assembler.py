"""Identity of the assembler: part of the key of cubins.

A build computes it even when all targets are up to date, so this module imports as little as possible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras import codegen
from tileiras.diagnostics import CompileError

if TYPE_CHECKING:
    from tileiras.stages import StageOptions

NVJITLINK = "nvjitlink"
"""The value of the option `assembler` with which no program runs."""


def tool_identity(options: StageOptions) -> str:
    """The assembler that the options of the cubin stage name, with its release.  A missing one is part of the
    identity, not an error: the stage itself reports it."""
    libraries = codegen.llvm_identity.device_libraries(options)
    if options.assembler != NVJITLINK:
        return codegen.ptxas.tool_identity(options) + libraries
    try:
        text = f"nvjitlink-{codegen.nvjitlink.version(codegen.nvjitlink.find())}"
    except CompileError:
        text = "nvjitlink-missing"
    return text + codegen.ptxas.host_identity(options) + libraries
