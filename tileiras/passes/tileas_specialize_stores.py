"""`tileas-specialize-stores`: an agent of its own stores tiles through tensor maps, in kernels with agents that have
such stores in loops over tiles.

Maps that the kernel builds itself (`tensor-maps=device`) are excluded: the computing warps release their memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras.analysis.function_pass import FunctionPass
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.nv_tileas import names
from tileiras.ir import remove_dead_operations
from tileiras.reasons import Reason
from tileiras.schedule import agents

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target


class SpecializeStores(FunctionPass):
    name = "tileas-specialize-stores"
    optional = True
    schedules = True
    requires = "SCHEDULED"
    needs = "agents with their warps; stores marked with the atom of a tensor map"
    establishes = "an agent that copies a tile to memory while the next one is computed, in loops over tiles"
    keeps = "values, other functions"

    tensor_maps: str = "none"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        if self.tensor_maps != "host":
            return
        switches = [op for op in func.body.blocks[0].operations if op.name == names.AGENT_SWITCH]
        if len(switches) == 1 and any(
            isinstance(op, tileas.TiledStoreOp) and tileas.AHEAD_ATOM in op.attributes for op in switches[0].walk()
        ):
            rules = (agents.rules.store.store_agent,)
            if agents.further.add_agent(switches[0], func, gpu, rules, _stay, context.engine):
                remove_dead_operations(func)


def _stay(cause: Reason) -> Reason:
    return Reason("agents.stores-stay", cause=cause)
