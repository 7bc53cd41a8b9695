"""Issue cycles of an iteration: those of copies of tiles, and those of all other instructions.

Threads that only wait for asynchronous dots can copy as well as other warps.  Exponentials and `mma.sync` take issue
slots of the threads, which other warps use to copy.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from tileiras.analysis.dots_in_flight import is_of_tensor_memory
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.schedule.cost_model import nested_cost, operation_cost
from tileiras.schedule.resource_table import Resources, Unit, resources

if TYPE_CHECKING:
    from tileiras.ir import Operation
    from tileiras.schedule.staging import StagedLoad
    from tileiras.targets import Target


def issue_cycles(
    loop: scf.ForOp, staged_loads: Collection[StagedLoad], table: Resources, warps: int
) -> tuple[float, float]:
    """Cycles of an iteration in which threads issue copies of tiles, together with the operations that only their
    addresses need, and cycles in which they issue all others."""
    loads = {staged.load for staged in staged_loads}
    other_agents_ops = {leaf.convert for staged in staged_loads for leaf in staged.leaves}
    for_copies: set[Operation] = set(loads)
    copies = others = 0.0
    for op in reversed(list(loop.body.block.operations)):
        if isinstance(op, (scf.ForOp, scf.IfOp, scf.WhileOp)):
            # The issue slots of a loop without a known trip count are not known either; at least 0.
            others += (nested_cost(op, warps, table) or {}).get(Unit.ISSUE, 0.0)
            continue
        users = [user for value in op.results for user in value.users]
        if users and all(user in for_copies for user in users):
            for_copies.add(op)
        cycles = operation_cost(op, warps, table).busy.get(Unit.ISSUE, 0.0)
        if op in for_copies:
            copies += cycles
        elif op not in other_agents_ops:
            others += cycles
    return copies, others


def only_waits(loop: scf.ForOp, staged_loads: Collection[StagedLoad], target: Target, warps: int) -> bool:
    """Whether the threads of a loop issue little besides copies of tiles, and wait for dots into tensor memory."""
    dots = [op for op in loop.walk() if isinstance(op, tileas.DOTS)]
    if not dots or not all(map(is_of_tensor_memory, dots)):
        return False
    copies, others = issue_cycles(loop, staged_loads, resources(target), warps)
    return others < copies
