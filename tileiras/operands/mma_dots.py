"""Large dots by matrix instructions become loops over K where both operands are in shared memory already.

They need no memory of their own, and their additions keep their order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras.analysis.function_pass import FunctionPass
from tileiras.dialects import nv_tileaa as aa
from tileiras.resources.large_dots import is_multiply_add
from tileiras.targets import Target

from .dot_k_loops import dot_of, make_loop

if TYPE_CHECKING:
    from tileiras.ir.pass_manager import PassContext


class RollMmaDot(FunctionPass):
    name = "tileas-roll-mma-dot"
    optional = True
    requires = "LAYOUTS"
    needs = "layouts and atoms; operands in the buffers in which they will be"
    establishes = "loops over K for dots of more matrix instructions than are written out"
    keeps = "values, the order of additions, buffers, other dots"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        loop_mma_dots(func, gpu)


def loop_mma_dots(func: aa.FuncOp, target: Target) -> None:
    """Rewrite the dots of a function of nv_tileas, in place."""
    for dot in [result for op in func.walk() if (result := dot_of(op, target)) is not None]:
        if not is_multiply_add(dot.op):
            make_loop(dot, {})
