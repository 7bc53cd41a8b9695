"""`tileir-insert-debug-scope`: a lexical block for every region inside a function that has a debug scope.

    scf.for ... {                                         every location inside becomes
      ... loc(#cuda_tile.di_loc<... in #subprogram>)  ->    #cuda_tile.di_loc<... in #di_lexical_block>, a block in
    } loc("k.py":3:5 in #subprogram)                        the subprogram, at the line and column of the loop

Blocks made here are parented to the subprogram, however deep the region lies.  Locations that are in a block already,
one of the input's or of an earlier run, keep it, and unknown ones stay unknown.
"""

from __future__ import annotations

from tileiras.dialects.cuda_tile import DILexicalBlockAttr, DILoc, DISubprogramAttr
from tileiras.dialects.cuda_tile.debug_info import debug_location, subprogram_of
from tileiras.ir import Block, CallSiteLoc, FusedLoc, IsolatedFromAbove, Location, NameLoc, Operation, Pass


class InsertDebugScope(Pass):
    name = "tileir-insert-debug-scope"
    needs = "functions with a debug scope"
    establishes = "a lexical block for every region; the same when run again"
    keeps = "operations"

    def run(self, op: Operation, context: object) -> None:
        for function in op.walk():
            if not function.has_trait(IsolatedFromAbove) or not function.regions:
                continue
            subprogram = subprogram_of(function.location)
            if subprogram is not None:
                for region in function.regions:
                    for block in region.blocks:
                        _enter(block, subprogram, None, {})


def _enter(
    block: Block, subprogram: DISubprogramAttr, scope: DILexicalBlockAttr | None, cache: dict[tuple, Location]
) -> None:
    for op in block.operations:
        result = debug_location(op.location) if op.regions else None
        inner = scope
        if result is not None:
            # Before the operation gets its own block, whose position is another one.
            at = result.source
            inner = DILexicalBlockAttr(subprogram, subprogram.file, at.line, at.column)  # type: ignore[assignment]
        if scope is not None:
            key = (op.location, scope)
            place = cache.get(key)
            if place is None:
                place = cache[key] = _in_block(op.location, subprogram, scope)
            op.location = place
        for region in op.regions:
            for nested in region.blocks:
                _enter(nested, subprogram, inner, cache)


def _in_block(location: Location, subprogram: DISubprogramAttr, block: DILexicalBlockAttr) -> Location:
    if isinstance(location, DILoc):
        return DILoc(location.source, block) if location.scope is subprogram else location
    if isinstance(location, CallSiteLoc):
        # The callee location of inlined code is in its own function; the caller location is in this function's block.
        return CallSiteLoc(location.callee, _in_block(location.caller, subprogram, block))
    if isinstance(location, FusedLoc):
        return FusedLoc([_in_block(part, subprogram, block) for part in location.locations], location.metadata)
    if isinstance(location, NameLoc):
        return NameLoc(location.name, _in_block(location.child, subprogram, block))
    return location
