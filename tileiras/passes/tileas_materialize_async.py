"""`tileas-materialize-async`: dots of warpgroups, and those into tensor memory, become asynchronous, with buffers,
fences, groups and waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras.passes import FunctionPass

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
        from tileiras.analysis.dots_in_flight import is_asynchronous, is_of_tensor_memory

        dots = [op for op in func.walk() if is_asynchronous(op)]
        if not dots:
            return
        # Loaded for such kernels only.
        from tileiras.rewrites.in_place_operands import copy_in_place
        from tileiras.schedule.materialize.shared_tiles import put_into_shared

        copy_in_place(func, gpu)
        put_into_shared(func)
        if is_of_tensor_memory(dots[0]):
            from tileiras.rewrites.reducing_loads import reduce_in_loads
            from tileiras.schedule.materialize.tensor_dots import materialize_tensor_dots

            materialize_tensor_dots(func)
            reduce_in_loads(func, gpu)
        else:
            from tileiras.schedule.materialize.async_dots import materialize_async_dots

            materialize_async_dots(func)
