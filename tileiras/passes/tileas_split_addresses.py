"""`tileas-split-addresses`: marks accesses through pointers that compute addresses and conditions for a few elements at
a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras import rewrites
from tileiras.analysis.function_pass import FunctionPass

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target


class SplitAddresses(FunctionPass):
    name = "tileas-split-addresses"
    optional = True
    requires = "ALLOCATED"
    needs = "accesses with their layouts, and what computes their addresses as it will be"
    establishes = "`nv_tileas.parts` on accesses through pointers"
    keeps = "operations"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        rewrites.split_addresses.split_addresses(func, context.engine)
