"""`tileas-insert-delays`: pseudo-random delays at the waits of warps and agents, so that a GPU executes them in orders
that do not otherwise occur."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras import rewrites
from tileiras.analysis.function_pass import FunctionPass

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target


class InsertDelays(FunctionPass):
    name = "tileas-insert-delays"
    optional = True
    requires = "PLACED"
    needs = "all that waits, arrives or copies as it will be"
    establishes = "`nv_tileas.delay` before it"
    keeps = "all other operations, and so what the function computes"
    accepts = {"nanoseconds": range(1, 1_000_001)}

    seed: int = 0
    nanoseconds: int = 1000

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        rewrites.delays.insert_delays(func, self.seed, self.nanoseconds)
