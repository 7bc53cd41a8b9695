"""`tileas-order-tile-blocks`: tile blocks with the longest loops start first, if trip counts grow along a grid axis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras import rewrites
from tileiras.analysis.function_pass import FunctionPass
from tileiras.dialects.scf import ForOp

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.ir import Value
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target


class OrderTileBlocks(FunctionPass):
    name = "tileas-order-tile-blocks"
    optional = True
    schedules = True
    of_nv_tileaa = True
    needs = "`nv_tileaa` functions"
    establishes = "numbers of tile blocks by which those with more work start first"
    keeps = "what the tile blocks of a grid do together; the order of those that may wait for each other"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        if any(isinstance(op, ForOp) and _depends_on_block(op.upper_bound) for op in func.walk()):
            rewrites.tile_block_order.start_longest_first(func, context.engine)


def _depends_on_block(value: Value) -> bool:
    """Whether a number is computed from the number of the tile block."""
    seen, waiting = {value}, [value]
    while waiting:
        op = waiting.pop().defining_op
        if op is None:
            continue
        if op.name == "nv_tileaa.get_program_id":
            return True
        fresh = [each for each in op.operands if each not in seen]
        seen.update(fresh)
        waiting += fresh
    return False
