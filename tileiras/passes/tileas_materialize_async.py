"""`tileas-materialize-async`: dots of warpgroups, and those into tensor memory, become asynchronous, with buffers,
fences, groups and waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras import analysis, rewrites, schedule
from tileiras.analysis.function_pass import FunctionPass

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target


class MaterializeAsync(FunctionPass):
    name = "tileas-materialize-async"
    requires = "SCHEDULED"
    leaves = "ASYNCHRONOUS"
    needs = "schedules; loops as they will be"
    establishes = (
        "`async.dot` for dots of warpgroups, `tensor_memory.dot` for those into tensor memory, buffers for what these "
        "read and add to, proxy fences, groups and waits"
    )
    keeps = "values, other dots"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        dots = [op for op in func.walk() if analysis.dots_in_flight.is_asynchronous(op)]
        if not dots:
            return
        rewrites.in_place_operands.copy_in_place(func, gpu)
        schedule.materialize.shared_tiles.put_into_shared(func)
        if analysis.dots_in_flight.is_of_tensor_memory(dots[0]):
            schedule.materialize.tensor_dots.materialize_tensor_dots(func)
            rewrites.reducing_loads.reduce_in_loads(func, gpu)
        else:
            schedule.materialize.async_dots.materialize_async_dots(func)
