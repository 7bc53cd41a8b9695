"""nv_tileaa -> nv_tileas: layouts, atoms, schedules, memory.

In: one function of nv_tileaa with the globals that it uses.  Out: the same in nv_tileas; every tensor has a layout,
every loop a schedule.

`DECISIONS` is the stage: a decision a row, in order, each a pass of its own in `tileiras/passes/`.  What a later row
needs from an earlier one stands in nv_tileas itself (types, attributes, operations), never beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tileiras.ir import Operation, Pass, verify
from tileiras.ir.pass_manager import PassContext, PassManager
from tileiras.named_tuple import NamedTuple
from tileiras.passes.convert_tileaa_to_tileas import ConvertTileAAToTileAS
from tileiras.passes.cse import CommonSubexpressionElimination
from tileiras.passes.dce import DeadCodeElimination
from tileiras.passes.lower_tma_load_store_to_async import LowerTmaLoadStoreToAsync
from tileiras.passes.tileas_assign_dot_layouts import AssignDotLayouts
from tileiras.passes.tileas_assign_launch_bounds import AssignLaunchBounds
from tileiras.passes.tileas_assign_load_store_layouts import AssignLoadStoreLayouts
from tileiras.passes.tileas_assign_num_warps import AssignNumWarps
from tileiras.passes.tileas_attach_tma_desc_args import AttachTmaDescArgs
from tileiras.passes.tileas_fit_tensor_memory import FitTensorMemory
from tileiras.passes.tileas_fold_unit_batches import FoldUnitBatches
from tileiras.passes.tileas_generate_schedule import GenerateSchedule
from tileiras.passes.tileas_insert_barriers import InsertBarriers
from tileiras.passes.tileas_legalize_fma_dot import LegalizeFmaDot
from tileiras.passes.tileas_legalize_scaled_dot import LegalizeScaledDot
from tileiras.passes.tileas_lower_occupancy import LowerOccupancy
from tileiras.passes.tileas_mark_short_loops import MarkShortLoops
from tileiras.passes.tileas_materialize_async import MaterializeAsync
from tileiras.passes.tileas_materialize_convert_layout import MaterializeConvertLayout
from tileiras.passes.tileas_materialize_schedule import MaterializeSchedule
from tileiras.passes.tileas_optimize_alloc_tensor import OptimizeAllocTensor
from tileiras.passes.tileas_order_tile_blocks import OrderTileBlocks
from tileiras.passes.tileas_order_warpgroups import OrderWarpgroups
from tileiras.passes.tileas_pair_dots import PairDots
from tileiras.passes.tileas_plan_cta import PlanCta
from tileiras.passes.tileas_rematerialize import Rematerialize
from tileiras.passes.tileas_remove_layout_conversions import RemoveLayoutConversions
from tileiras.passes.tileas_resolve_agent_boundary import ResolveAgentBoundary
from tileiras.passes.tileas_reuse_loads import ReuseLoads
from tileiras.passes.tileas_roll_mma_dot import RollMmaDot
from tileiras.passes.tileas_round_in_boxes import RoundInBoxes
from tileiras.passes.tileas_sink_loads import SinkLoads
from tileiras.passes.tileas_slice_dots import SliceDots
from tileiras.passes.tileas_slicing import Slicing
from tileiras.passes.tileas_smem_operands import SharedMemoryOperands
from tileiras.passes.tileas_specialize_mma import SpecializeMma
from tileiras.passes.tileas_specialize_stores import SpecializeStores
from tileiras.passes.tileas_spill_loop_carried import SpillLoopCarried
from tileiras.passes.tileas_split_loop_steps import SplitLoopSteps
from tileiras.passes.tileas_unspecialized_pipeline import UnspecializedPipeline
from tileiras.stages import StageContext, StageOptions, StageResult


class Decision(NamedTuple):
    """One row: a pass, why it stands where it stands, and the values of its options that the row fixes.

    `optional`: without it the result is as right, but slower.  `schedules`: left out where loads are not to run ahead.
    `after`: skipped when that pass failed softly.
    """

    made: type[Pass]
    why: str
    options: Mapping[str, str] = {}
    optional: bool = False
    schedules: bool = False
    after: str = ""


REGISTERS, SHARED_MEMORY = {"resource": "registers"}, {"resource": "shared-memory"}
INVARIANT, IN_LOOPS, OUTSIDE_LOOPS = ({"where": each} for each in ("loop-invariant", "in-loops", "outside-loops"))

DECISIONS: tuple[Decision, ...] = (
    # How the work is cut.
    Decision(OrderTileBlocks, "loops have the bounds that the program gives them", {}, True, True),
    Decision(PlanCta, "before all others: all that follows is about what one CTA does", optional=True),
    Decision(FoldUnitBatches, "dots are of matrices before anything looks for their instructions", optional=True),
    Decision(LegalizeScaledDot, "dots are what the rows below count and choose atoms for"),
    Decision(AssignNumWarps, "of whole tiles: slices are cut for a number of threads"),
    Decision(FitTensorMemory, "whose accumulators lie there, the rows below do not cut", optional=True),
    Decision(SplitLoopSteps, "of whole steps, which loops of the next row would stand in", {}, True, True),
    Decision(SliceDots, "loops over K make the tiles of operands smaller, which the next row sees", optional=True),
    Decision(Slicing, "before layouts, which are chosen for tiles that fit", optional=True),
    # Atoms and layouts.
    Decision(ConvertTileAAToTileAS, "nothing: one operation for another"),
    Decision(RoundInBoxes, "operands as boxes bring them have layouts in shared memory", {}, True, True),
    Decision(AssignDotLayouts, "dots are what kernels with dots are for: the rest follows them"),
    Decision(PairDots, "of dots that have atoms; loads of half of B have layouts of their own", {}, True, True),
    Decision(AssignLoadStoreLayouts, "after dots: a store may stay in the layout in which a result comes to it"),
    Decision(RemoveLayoutConversions, "layouts flow from what the two rows above have chosen"),
    Decision(CommonSubexpressionElimination, "users of one layout each had the value rematerialized", optional=True),
    Decision(DeadCodeElimination, "what was rematerialized everywhere has no user where it was", optional=True),
    Decision(ReuseLoads, "layouts say what a thread has; behind cse, so that equal addresses are one", {}, True, True),
    # What changes the registers and the shared memory that schedules spend.
    Decision(LowerOccupancy, "first, since it says how many registers there are", REGISTERS, True, True),
    Decision(SinkLoads, "frees registers that the rows below count", {}, True, True),
    Decision(LowerOccupancy, "before shared memory is spent: rings have two stages", SHARED_MEMORY, True, True),
    Decision(MarkShortLoops, "counts tiles before operands leave registers", {}, True, True),
    Decision(SharedMemoryOperands, "operands that stay get shared memory before rings", INVARIANT, True, True),
    # Schedules.
    Decision(GenerateSchedule, "spends the registers and the shared memory that are left"),
    Decision(MaterializeSchedule, "makes agents first: the loops that are left belong to one of them", {}, True, True),
    Decision(ResolveAgentBoundary, "agents have their warps before anything counts threads", {}, True, True),
    Decision(UnspecializedPipeline, "makes of every loop what its schedule says", {}, True, True),
    # What may use only what schedules have left over.
    Decision(SharedMemoryOperands, "operands whose loads found no room in a ring", IN_LOOPS, True, True),
    Decision(MaterializeAsync, "waits depend on what is in flight around loops; buffers come before what is left over"),
    Decision(SpecializeMma, "products have their groups; before what is left over is spent", {}, True, True),
    Decision(SpecializeStores, "takes shared memory before what is left over is spent", {}, True, True),
    Decision(SpillLoopCarried, "counts registers when all operands are where they will be", {}, True, True),
    Decision(SharedMemoryOperands, "behind the loops, whose rings are gone there", OUTSIDE_LOOPS, True, True),
    Decision(CommonSubexpressionElimination, "each copy has its addresses", {}, True, True, GenerateSchedule.name),
    Decision(RollMmaDot, "reads the operands that the rows above left in buffers; takes no memory", optional=True),
    Decision(LegalizeFmaDot, "reads operands slice by slice from the buffers that the rows above made", optional=True),
    Decision(LowerTmaLoadStoreToAsync, "takes no more shared memory than all rows above", {}, True, True),
    Decision(AttachTmaDescArgs, "behind all that makes descriptors; before the function's arguments are counted"),
    # What stands where, once operations are what they will be.
    Decision(MaterializeConvertLayout, "loads between conversions are under way before their barrier", optional=True),
    Decision(OptimizeAllocTensor, "behind all that makes a buffer, or a conversion that needs scratch memory"),
    Decision(Rematerialize, "marks the operations that there are in the end, in loops marked above", {}, True, True),
    Decision(InsertBarriers, "places that are used again say where threads have to wait"),
    Decision(OrderWarpgroups, "barriers in a loop decide whether it can have turns", {}, True, True),
    Decision(AssignLaunchBounds, "counts registers a last time, and the shared memory of all rows above"),
)
"""The decisions of TileAS in order."""

GIVEN = {
    "compute_capability": "gpu-name",
    "num_warps": "num-warps",
    "num_stages": "unspecialized-pipeline-num-stages",
    "tensor_maps": "tensor-maps",
    "v2_opt_level": "v2-opt-level",
    "max_constraint_iterations": "max-constraint-iterations",
}
"""Options of passes that are options of the stage."""


def decisions(options: StageOptions) -> list[Decision]:
    """The rows that run."""
    schedules = _schedules(options)
    return [row for row in DECISIONS if schedules or not row.schedules]


def _schedules(options: StageOptions) -> bool:
    """Whether loads may run ahead."""
    return options.pipeline_strategy != "none" and options.opt_level > 0


def _is_left_to_a_rule(options: StageOptions) -> bool:
    """Whether a rule says if a kernel gets agents: not where an option of the unspecialized pipeline is given."""
    asked = options.v2_opt_level > 0 or options.unspecialized_pipeline_num_stages is not None
    return options.pipeline_strategy == "auto" and not asked


def passes(options: StageOptions) -> list[Pass]:
    found = [_pass(row, options) for row in decisions(options)]
    if options.opt_level > 0 and (options.pipeline_strategy == "warp-specialize" or _is_left_to_a_rule(options)):
        from tileiras.passes.tileaa_agent_verifier import AgentVerifier

        found.append(AgentVerifier(compute_capability=options.gpu_name))
    return found


def explained(options: StageOptions) -> list[tuple[str, str]]:
    """Each pass as it runs, and why it stands there."""
    return [(_pass(row, options).spelled(), row.why) for row in decisions(options)]


def _pass(row: Decision, options: StageOptions) -> Pass:
    fields = row.made.options()
    given: dict[str, Any] = dict(row.options)
    asked = ((field, options[name]) for field, name in GIVEN.items() if field in fields)
    given.update((field, value) for field, value in asked if value is not None)
    if row.made is PairDots and (options.pipeline_strategy == "warp-specialize" or _is_left_to_a_rule(options)):
        given["agents"] = True
    if "warpgroups" in fields and options.opt_level == 0:
        given["warpgroups"] = False
    if row.made is GenerateSchedule and not _schedules(options):
        given["serial"] = True
    elif row.made is GenerateSchedule and options.pipeline_strategy == "warp-specialize":
        given["agents"] = "light" if options.rrt_size_threshold == 0 else "heavy"
    elif row.made is GenerateSchedule and _is_left_to_a_rule(options):
        given["agents"] = "auto-light" if options.rrt_size_threshold == 0 else "auto"
    item = row.made(**given)
    return item.after(row.after) if row.after else item


def run(source: Operation, options: StageOptions, context: StageContext) -> StageResult:
    context.engine.remarks = options.emit_remarks
    manager = PassManager(passes(options), verify_each=False, instrumentation=context.instrumentation)
    manager.run(source, PassContext(context.engine))
    verify(source)
    return StageResult(source)
