"""`synthesize-debug-info-scopes`: debug scopes for modules of front ends that record only file positions.

    entry @k() { ... loc("a.py":3:1) }   ->   every location becomes #cuda_tile.di_loc<... in #di_subprogram>,
                                              a subprogram "k" in the file and line of the kernel

Kernels that already have a scope stay as they are.  An operation without a file position gets the kernel's, and a
kernel without one line 1 of the module's file.  Enough for line tables; no replacement for the scopes of a front end.
"""

from __future__ import annotations

import posixpath

from tileiras.dialects.cuda_tile import DICompileUnitAttr, DIFileAttr, DILoc, DISubprogramAttr, FunctionOp, ModuleOp
from tileiras.dialects.cuda_tile.debug_info import debug_location
from tileiras.ir import (
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    Location,
    NameLoc,
    OpaqueLoc,
    Operation,
    Pass,
    SourceLoc,
)


class SynthesizeDebugInfoScopes(Pass):
    name = "synthesize-debug-info-scopes"
    anchor = "cuda_tile.module"
    needs = "`cuda_tile` with locations"
    establishes = "a scope for every kernel and its operations"
    keeps = "operations"
    located_only: bool = False
    """Skip kernels without a file position, such as those read from bytecode without debug information."""

    def run(self, op: ModuleOp, context: object) -> None:  # type: ignore[override]
        position = file_position(op.location)
        unit = DICompileUnitAttr(_file(position) if position is not None else DIFileAttr("<unknown>", ""))
        for inner in op.body.block.operations:
            if not isinstance(inner, FunctionOp) or debug_location(inner.location) is not None:
                continue
            if not self.located_only or file_position(inner.location) is not None:
                _give_scope(inner, unit)


def file_position(location: Location) -> FileLineColLoc | None:
    """The position in a file that a location is, names, or was called from; of several, the first."""
    if isinstance(location, SourceLoc):
        return location.file_line_col()
    if isinstance(location, FileLineColLoc):
        return location
    if isinstance(location, NameLoc):
        return file_position(location.child)
    if isinstance(location, OpaqueLoc):
        return file_position(location.fallback)
    if isinstance(location, CallSiteLoc):
        return file_position(location.caller)
    if isinstance(location, FusedLoc):
        return next((file_position(x) for x in location.locations if isinstance(x, (FileLineColLoc, SourceLoc))), None)
    return None


def _file(position: FileLineColLoc) -> DIFileAttr:
    directory, name = posixpath.split(position.filename)
    return DIFileAttr(name, directory)


def _give_scope(entry: Operation, unit: DICompileUnitAttr) -> None:
    name = entry.attributes["sym_name"].value  # type: ignore[attr-defined]
    position = file_position(entry.location)
    file = _file(position) if position is not None else unit.file
    if position is None:
        position = FileLineColLoc(file.filename, 1, 1)
    scope = DISubprogramAttr(file, position.line, name, name, unit, position.line)
    for op in entry.walk():
        op.location = DILoc(file_position(op.location) or position, scope)
