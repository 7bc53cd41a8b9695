"""The decisions of slicing: functions whose tiles, dots and loop steps may have to be cut.

The tests here are cheap; the modules that cut, which are many, are loaded for functions that pass them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras import assignment, resources, slicing
from tileiras.analysis.function_pass import FunctionPass, check_num_warps
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa import BlockScaledMmaOp, DotOp
from tileiras.ir import Operation, TensorType
from tileiras.resources.limits import SMALL_TILE
from tileiras.schedule.strategy import Strategy

if TYPE_CHECKING:
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target

WANTED_STAGES = 3
"""Steps of a loop of dots for which there should be shared memory, one that is read and two in flight: as many as a
loop without a hint requests."""


class PlanCta(FunctionPass):
    name = "tileas-plan-cta"
    optional = True
    of_nv_tileaa = True
    needs = "`nv_tileaa` functions"
    establishes = "a slice of the stored tiles for each CTA of a cluster, by its rank"
    keeps = "the values that the cluster stores"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        if (func.kernel_spec.num_ctas or 1) > 1 and gpu.has("cluster"):
            slicing.plan_cta.plan_cta(func, context.engine)


class SliceBatches(FunctionPass):
    name = "tileas-slice-batches"
    optional = True
    of_nv_tileaa = True
    needs = "`nv_tileaa` functions"
    establishes = "loops over matrices in the place of batches whose matrices wgmma or tcgen05.mma multiplies"
    keeps = "values, the order of writes"

    warpgroups: bool = True

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        if not self.warpgroups or not gpu.has("wgmma") and not gpu.has("tcgen05"):
            return
        ranks = (op.result.type.shape[:-2] for op in func.walk() if type(op) in (DotOp, BlockScaledMmaOp))
        if any(batch and batch != (1,) for batch in ranks):
            slicing.batches.slice_batches(func, gpu, context.engine)


class SplitLoopSteps(FunctionPass):
    name = "tileas-split-loop-steps"
    optional = True
    schedules = True
    of_nv_tileaa = True
    needs = "a number of warps"
    establishes = "loops of dots whose stages fit into shared memory"
    keeps = "values, the order of additions"

    strategy: Strategy = Strategy()
    warpgroups: bool = True

    def verify_input(self, op: Operation, context: PassContext) -> None:
        check_num_warps(self.name, op, context)

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        stages = self.strategy.stages or WANTED_STAGES
        budget = resources.shared_memory.shared_budget(func, gpu)
        if stages > 1 and has_large_steps(func, budget // stages):
            plans = assignment.dot_plans.DotPlans(gpu, func.kernel_spec.num_warps, func if self.warpgroups else None)
            slicing.loop_steps.split_loop_steps(func, plans, stages, context.engine)


class SliceDots(FunctionPass):
    name = "tileas-slice-dots"
    optional = True
    of_nv_tileaa = True
    needs = "a number of warps"
    establishes = "loops over K around dots with large operands"
    keeps = "values, the order of additions"

    warpgroups: bool = True

    def verify_input(self, op: Operation, context: PassContext) -> None:
        check_num_warps(self.name, op, context)

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        warps = func.kernel_spec.num_warps
        if has_large_operands(func, 32 * warps):
            plans = assignment.dot_plans.DotPlans(gpu, warps, func if self.warpgroups else None)
            slicing.dot_k_slices.slice_dots(func, warps, plans, context.engine)


class Slicing(FunctionPass):
    name = "tileas-slicing"
    optional = True
    of_nv_tileaa = True
    needs = "a number of warps"
    establishes = "loops over slices of tiles that take too many registers"
    keeps = "values, the order of writes"

    warpgroups: bool = True
    tensor_maps: str = "none"

    def verify_input(self, op: Operation, context: PassContext) -> None:
        check_num_warps(self.name, op, context)

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        warps = func.kernel_spec.num_warps
        if has_large_tiles(func, 32 * warps):
            plans = assignment.dot_plans.DotPlans(gpu, warps, func if self.warpgroups else None)
            slicing.tile_slices.slice_tiles(func, warps, plans, context.engine, in_boxes=self.tensor_maps != "none")


def has_large_tiles(func: Operation, threads: int) -> bool:
    """Whether an operation defines a tile that may be sliced."""
    types = (value.type for op in func.walk() for value in op.results)
    return any(isinstance(type, TensorType) and type.num_elements > SMALL_TILE * threads for type in types)


def has_large_operands(func: Operation, threads: int) -> bool:
    """Whether a dot has operands that may be cut along K: more words of 32 bits for a thread than this."""
    dots = (op for op in func.walk() if isinstance(op, (aa.DotOp, aa.BlockScaledMmaOp)))
    types = ([v.type for v in op.operands[:2]] for op in dots)
    return any(sum(t.num_elements * t.element_type.width for t in pair) > 32 * SMALL_TILE * threads for pair in types)


def has_large_steps(func: Operation, limit: int) -> bool:
    """Whether the tiles that are loaded beside a dot, in a loop, take more bytes than `limit`."""
    blocks = {op.parent: None for op in func.walk() if isinstance(op, aa.DotOp) and op.parent_op is not func}
    loads = ([op for op in block.operations if isinstance(op, aa.TiledLoadOp)] for block in blocks if block is not None)
    types = ([op.results[0].type for op in each] for each in loads)
    return any(sum(t.num_elements * t.element_type.width for t in each) > 8 * limit for each in types)
