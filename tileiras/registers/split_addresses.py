"""Accesses through pointers whose addresses and conditions take many registers: some elements at a time.

    %o = muli %rows, %stride                     registers 0 to 7:   %o, %p, store
    %p = addptr %base, %o             ->         registers 8 to 15:  %o, %p, store
    store %p, %x mask = %m                       ...
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras.analysis.function_pass import FunctionPass
from tileiras.diagnostics import DiagnosticEngine
from tileiras.diagnostics.remarks import Remark
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import IntegerAttr, i32
from tileiras.layout.encoding import layout_of
from tileiras.reasons import Reason
from tileiras.resources.address_parts import can_be_in_parts, made_for, words_of_element

if TYPE_CHECKING:
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target

PART_WORDS = 64
"""Registers for the operands that are computed for an access, at a time.  Scatters of TileGym's convolutions take 0 to
8 bytes of local memory with 4 or 8 elements of 6 or 7 registers, and 80 to 312 with 64 (ptxas 13.5)."""


class SplitAddresses(FunctionPass):
    name = "tileas-split-addresses"
    optional = True
    requires = "ALLOCATED"
    needs = "accesses with their layouts, and the final computation of their addresses"
    establishes = "`nv_tileas.parts` on accesses through pointers"
    keeps = "operations"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        split_addresses(func, context.engine)


def split_addresses(func: aa.FuncOp, engine: DiagnosticEngine | None = None) -> None:
    """Mark the accesses of a function of nv_tileas that are made in parts, in place; a remark says in how many."""
    for access in func.walk():
        if not can_be_in_parts(access):
            continue
        registers = layout_of(access.operands[0].type).registers
        words = words_of_element(access, made_for(access))
        parts = 1
        while parts < registers and registers // parts * words > PART_WORDS:
            parts *= 2
        if parts == 1:
            continue
        access.attributes[tileas.PARTS] = IntegerAttr(parts, i32)
        if engine is not None:
            reason = Reason(
                "memory.addresses-in-parts", elements=registers // parts, all=registers, registers=registers * words
            )
            engine.emit(Remark(reason, access.location))
