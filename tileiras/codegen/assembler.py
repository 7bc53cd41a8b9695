"""Which assembler makes cubins: part of the key of what it makes.

A build asks for it even when nothing is to be done, so that nothing is loaded here that telling it does not need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras.diagnostics import CompileError

if TYPE_CHECKING:
    from tileiras.stages import StageOptions

NVJITLINK = "nvjitlink"
"""The value of the option `assembler` with which no program runs."""


def tool_identity(options: StageOptions) -> str:
    """The assembler that the options of the cubin stage name, with its release.  A missing one is told as such, not as
    an error: the stage itself reports it."""
    from tileiras.codegen import ptxas

    if options.assembler != NVJITLINK:
        return ptxas.tool_identity(options)
    from tileiras.codegen import nvjitlink

    try:
        found = f"nvjitlink-{nvjitlink.version(nvjitlink.find())}"
    except CompileError:
        found = "nvjitlink-missing"
    return found + ptxas.host_identity(options)
