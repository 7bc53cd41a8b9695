"""nvdisasm's listing of a cubin, read back: instructions, control words, blocks, lines."""

from __future__ import annotations

from tileiras.codegen.machine_code.instructions import MachineCode
from tileiras.diagnostics import Locatable


def read(cubin: bytes, entry: str, location: Locatable | None = None) -> MachineCode:
    """The machine code of an entry.

    Raises CompileError without nvdisasm, for what is no cubin, and for an entry that the cubin does not have.
    """
    raise NotImplementedError
