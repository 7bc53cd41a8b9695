"""nv_tileaa -> nv_tileas: layouts, atoms, schedules, memory.

In: one function of nv_tileaa with the globals that it uses.  Out: the same in nv_tileas; every tensor has a layout,
every loop a schedule.

`DECISIONS` is the stage: a decision a row, in order, each a pass of its own in `tileiras/passes/`.  What a later row
needs from an earlier one stands in nv_tileas itself (types, attributes, operations), never beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from typing import Any

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.nv_tileas import names
from tileiras.dialects.scf import ForOp
from tileiras.ir import Operation, Pass, verify
from tileiras.ir.pass_manager import PassContext, PassManager, PassWhereFound
from tileiras.named_tuple import NamedTuple
from tileiras.order.tracing import attach, trace
from tileiras.passes import lookup_pass
from tileiras.stages import StageContext, StageOptions, StageResult


class Decision(NamedTuple):
    """One row: a pass, why it stands where it stands, and the values of its options that the row fixes.

    `optional`: without it the result is as right, but slower.  `schedules`: left out where loads are not to run ahead.
    `after`: skipped when that pass failed softly.  `asked_by`: an option without which it is left out.
    """

    name: str
    """A literal: what the stage's code is (`build/fingerprint.py`) is read from the file."""
    why: str
    options: Mapping[str, str] = {}
    optional: bool = False
    schedules: bool = False
    after: str = ""
    asked_by: str = ""

    @property
    def made(self) -> type[Pass]:
        return lookup_pass(self.name)


CLUSTER_TILE_BLOCKS = "tileas-cluster-tile-blocks"
PAIR_DOTS, GENERATE_SCHEDULE, AGENT_VERIFIER = "tileas-pair-dots", "tileas-generate-schedule", "tileaa-agent-verifier"
LOWER_OCCUPANCY = "tileas-lower-occupancy"
ASSIGN_NUM_WARPS, PING_PONG = "tileas-assign-num-warps", "tileas-ping-pong"
REGISTERS, SHARED_MEMORY = {"resource": "registers"}, {"resource": "shared-memory"}
INVARIANT, IN_LOOPS, OUTSIDE_LOOPS = ({"where": each} for each in ("loop-invariant", "in-loops", "outside-loops"))

DECISIONS: tuple[Decision, ...] = (
    # How the work is cut.
    Decision(
        "tileas-pair-tile-blocks", "before all others, each of which works on either kernel", {}, True, True,
    ),  # fmt: skip
    Decision(
        "tileas-cluster-tile-blocks", "before the next row, which keeps neighbours together", {}, True, True,
    ),  # fmt: skip
    Decision("tileas-order-tile-blocks", "loops have the bounds that the program gives them", {}, True, True),
    Decision("tileas-plan-cta", "before all others: all that follows is about what one CTA does", optional=True),
    Decision("tileas-join-mask-bounds", "masks are of whole tiles, and slices of them are cut alike", optional=True),
    Decision("tileas-slice-batches", "slices of a CTA's share are what the next row folds", optional=True),
    Decision(
        "tileas-fold-unit-batches", "dots are of matrices before anything looks for their instructions", optional=True,
    ),  # fmt: skip
    Decision("tileas-legalize-scaled-dot", "dots are what the rows below count and choose atoms for"),
    Decision("tileas-assign-num-warps", "of whole tiles: slices are cut for a number of threads"),
    Decision("tileas-fit-tensor-memory", "whose accumulators lie there, the rows below do not cut", optional=True),
    Decision("tileas-split-loop-steps", "of whole steps, which loops of the next row would stand in", {}, True, True),
    Decision(
        "tileas-slice-dots", "loops over K make the tiles of operands smaller, which the next row sees", optional=True,
    ),  # fmt: skip
    Decision("tileas-slicing", "before layouts, which are chosen for tiles that fit", optional=True),
    # Atoms and layouts.
    Decision("convert-tileaa-to-tileas", "nothing: one operation for another"),
    Decision("tileas-round-in-boxes", "operands as boxes bring them have layouts in shared memory", {}, True, True),
    Decision("tileas-assign-dot-layouts", "dots are what kernels with dots are for: the rest follows them"),
    Decision(
        "tileas-pair-dots", "of dots that have atoms; loads of half of B have layouts of their own", {}, True, True,
    ),  # fmt: skip
    Decision(
        "tileas-assign-load-store-layouts", "after dots: a store may stay in the layout in which a result comes to it",
    ),  # fmt: skip
    Decision("tileas-remove-layout-conversions", "layouts flow from what the two rows above have chosen"),
    Decision("cse", "users of one layout each had the value rematerialized", optional=True),
    Decision("dce", "what was rematerialized everywhere has no user where it was", optional=True),
    Decision(
        "tileas-reuse-loads", "layouts say what a thread has; behind cse, so that equal addresses are one",
        {}, True, True,
    ),  # fmt: skip
    # What changes the registers and the shared memory that schedules spend.
    Decision("tileas-lower-occupancy", "first, since it says how many registers there are", REGISTERS, True, True),
    Decision("tileas-sink-loads", "frees registers that the rows below count", {}, True, True),
    Decision(
        "tileas-lower-occupancy", "before shared memory is spent: rings have two stages", SHARED_MEMORY, True, True,
    ),  # fmt: skip
    Decision("tileas-mark-short-loops", "counts tiles before operands leave registers", {}, True, True),
    Decision("tileas-smem-operands", "operands that stay get shared memory before rings", INVARIANT, True, True),
    # Schedules.
    Decision("tileas-generate-schedule", "spends the registers and the shared memory that are left"),
    Decision(
        "tileas-materialize-schedule", "makes agents first: the loops that are left belong to one of them",
        {}, True, True,
    ),  # fmt: skip
    Decision("tileas-resolve-agent-boundary", "agents have their warps before anything counts threads", {}, True, True),
    Decision("tileas-unspecialized-pipeline", "makes of every loop what its schedule says", {}, True, True),
    # What may use only what schedules have left over.
    Decision("tileas-smem-operands", "operands whose loads found no room in a ring", IN_LOOPS, True, True),
    Decision(
        "tileas-materialize-async",
        "waits depend on what is in flight around loops; buffers come before what is left over",
    ),  # fmt: skip
    Decision("tileas-specialize-mma", "products have their groups; before what is left over is spent", {}, True, True),
    Decision("tileas-specialize-stores", "takes shared memory before what is left over is spent", {}, True, True),
    Decision(
        "tileas-ping-pong", "both agents hand their tiles to the one that stores, in their order", {}, True, True,
    ),  # fmt: skip
    Decision("tileas-spill-loop-carried", "counts registers when all operands are where they will be", {}, True, True),
    Decision("tileas-smem-operands", "behind the loops, whose rings are gone there", OUTSIDE_LOOPS, True, True),
    Decision("cse", "each copy has its addresses", {}, True, True, GENERATE_SCHEDULE),
    Decision(
        "tileas-roll-mma-dot", "reads the operands that the rows above left in buffers; takes no memory", optional=True,
    ),  # fmt: skip
    Decision(
        "tileas-legalize-fma-dot", "reads operands slice by slice from the buffers that the rows above made",
        optional=True,
    ),  # fmt: skip
    Decision("lower-tma-load-store-to-async", "takes no more shared memory than all rows above", {}, True, True),
    Decision(
        "tileas-attach-tma-desc-args", "behind all that makes descriptors; before the function's arguments are counted",
    ),  # fmt: skip
    # What stands where, once operations are what they will be.
    Decision(
        "tileas-materialize-convert-layout", "loads between conversions are under way before their barrier",
        optional=True,
    ),  # fmt: skip
    Decision(
        "tileas-optimize-alloc-tensor", "behind all that makes a buffer, or a conversion that needs scratch memory",
    ),  # fmt: skip
    Decision(
        "tileas-rematerialize", "marks the operations that there are in the end, in loops marked above", {}, True, True,
    ),  # fmt: skip
    Decision(
        "tileas-split-addresses", "what computes addresses is as it will be, and the registers beside it are known",
        {}, True,
    ),  # fmt: skip
    Decision("tileas-insert-barriers", "places that are used again say where threads have to wait"),
    Decision("tileas-order-warpgroups", "barriers in a loop decide whether it can have turns", {}, True, True),
    Decision("tileas-assign-launch-bounds", "counts registers a last time, and the shared memory of all rows above"),
    Decision(
        "tileas-insert-delays", "behind all that makes a wait, or looks at what stands beside one", {}, True,
        asked_by="enable-random-delay",
    ),  # fmt: skip
)
"""The decisions of TileAS in order."""

LOOPS, LOOP_SCHEDULES = (ForOp.name,), (tileas.LOOP_SCHEDULE, tileas.RUNS_AHEAD)
TILEAA_DOTS, DOTS = (aa.DotOp.name, aa.BlockScaledMmaOp.name), tuple(op.name for op in tileas.DOTS)
AGENTS = (names.AGENT_SWITCH,)

WORKS_ON: Mapping[str, tuple[str, ...]] = {
    "tileas-pair-tile-blocks": TILEAA_DOTS,
    CLUSTER_TILE_BLOCKS: TILEAA_DOTS,
    "tileas-order-tile-blocks": LOOPS,
    "tileas-slice-batches": TILEAA_DOTS,
    "tileas-fold-unit-batches": TILEAA_DOTS,
    "tileas-legalize-scaled-dot": TILEAA_DOTS,
    "tileas-fit-tensor-memory": TILEAA_DOTS,
    "tileas-split-loop-steps": TILEAA_DOTS,
    "tileas-slice-dots": TILEAA_DOTS,
    "tileas-round-in-boxes": (tileas.FpToFpOp.name,),
    "tileas-assign-dot-layouts": DOTS,
    "tileas-pair-dots": DOTS,
    "tileas-reuse-loads": (tileas.TiledLoadOp.name, tileas.LoadOp.name),
    "tileas-mark-short-loops": LOOPS,
    "tileas-smem-operands": (*LOOPS, *DOTS),
    "tileas-generate-schedule": LOOPS,
    "tileas-materialize-schedule": LOOP_SCHEDULES,
    "tileas-resolve-agent-boundary": AGENTS,
    "tileas-unspecialized-pipeline": LOOP_SCHEDULES,
    "tileas-materialize-async": DOTS,
    "tileas-specialize-mma": AGENTS,
    "tileas-specialize-stores": AGENTS,
    "tileas-ping-pong": AGENTS,
    "tileas-spill-loop-carried": (tileas.SHORT_OF_REGISTERS,),
    f"cse after {GENERATE_SCHEDULE}": (*LOOPS, *DOTS, tileas.ShiftedOp.name),
    "tileas-roll-mma-dot": DOTS,
    "tileas-legalize-fma-dot": DOTS,
    "lower-tma-load-store-to-async": (tileas.AHEAD_ATOM,),
    "tileas-attach-tma-desc-args": (names.MAKE_TMA_DESC,),
    "tileas-materialize-convert-layout": (tileas.ConvertLayoutOp.name,),
    "tileas-rematerialize": (tileas.SHORT_OF_REGISTERS,),
    "tileas-split-addresses": (tileas.LoadOp.name, tileas.StoreOp.name),
    "tileas-order-warpgroups": AGENTS,
    AGENT_VERIFIER: (names.AGENT_SWITCH, names.CREATE_PIPELINE),
}
"""Pass, with what it stands `after` -> names of operations and of attributes without any of which there is nothing for
it to do, so that it is not loaded."""

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
    asked = (row for row in DECISIONS if not row.asked_by or options[row.asked_by])
    return [row for row in asked if schedules or not row.schedules]


def _schedules(options: StageOptions) -> bool:
    """Whether loads may run ahead."""
    return options.pipeline_strategy != "none" and options.opt_level > 0


def _is_left_to_a_rule(options: StageOptions) -> bool:
    """Whether a rule says if a kernel gets agents: not where an option of the unspecialized pipeline is given."""
    asked = options.v2_opt_level > 0 or options.unspecialized_pipeline_num_stages is not None
    return options.pipeline_strategy == "auto" and not asked


def passes(options: StageOptions) -> list[Pass]:
    return [item if isinstance(item, Pass) else item.made() for item in _items(options)]


def _items(options: StageOptions) -> list[Pass | PassWhereFound]:
    """The passes; each that works on certain operations alone is made when a function has one of them."""
    found: list[Pass | PassWhereFound] = []
    specializes = options.pipeline_strategy == "warp-specialize"
    for row in decisions(options):
        made = partial(_pass, row, options)
        # Who asks for agents is told about kernels without loops as well.
        always = specializes and row.name == GENERATE_SCHEDULE
        works_on = WORKS_ON.get(f"{row.name} after {row.after}" if row.after else row.name)
        found.append(made() if always or works_on is None else PassWhereFound(made, works_on))
    if options.opt_level > 0 and (specializes or _is_left_to_a_rule(options)):
        found.append(PassWhereFound(partial(_agent_verifier, options), WORKS_ON[AGENT_VERIFIER]))
    return found


def _agent_verifier(options: StageOptions) -> Pass:
    from tileiras.passes.tileaa_agent_verifier import AgentVerifier

    return AgentVerifier(compute_capability=options.gpu_name)


def explained(options: StageOptions) -> list[tuple[str, str]]:
    """Each pass as it runs, and why it stands there."""
    return [(_pass(row, options).spelled(), row.why) for row in decisions(options)]


@cache
def _asked(made: type[Pass]) -> list[tuple[str, str]]:
    """The options of a pass that are options of the stage, and what they are called there."""
    fields = made.options()
    return [(field, name) for field, name in GIVEN.items() if field in fields]


def _pass(row: Decision, options: StageOptions) -> Pass:
    made = row.made
    given: dict[str, Any] = dict(row.options)
    for field, name in _asked(made):
        if options[name] is not None:
            given[field] = options[name]
    may_have_agents = options.pipeline_strategy == "warp-specialize" or _is_left_to_a_rule(options)
    if row.name in (CLUSTER_TILE_BLOCKS, PAIR_DOTS) and may_have_agents:
        given["agents"] = True
    if row.name in (ASSIGN_NUM_WARPS, PING_PONG) and options.opt_level > 0 and _is_left_to_a_rule(options):
        given["by_rule"] = True
    if row.name == LOWER_OCCUPANCY and options.pipeline_strategy == "warp-specialize":
        given["agents"] = True
    if options.opt_level == 0 and "warpgroups" in made.options():
        given["warpgroups"] = False
    if row.name == GENERATE_SCHEDULE and not _schedules(options):
        given["serial"] = True
    elif row.name == GENERATE_SCHEDULE and options.pipeline_strategy == "warp-specialize":
        given["agents"] = "light" if options.rrt_size_threshold == 0 else "heavy"
    elif row.name == GENERATE_SCHEDULE and _is_left_to_a_rule(options):
        given["agents"] = "auto-light" if options.rrt_size_threshold == 0 else "auto"
    item = made(**given)
    return item.after(row.after) if row.after else item


def run(source: Operation, options: StageOptions, context: StageContext) -> StageResult:
    context.engine.remarks = options.emit_remarks
    traced = trace(source, options.deterministic)
    manager = PassManager(_items(options), verify_each=False, instrumentation=context.instrumentation)
    manager.run(source, PassContext(context.engine))
    attach(source, traced)
    verify(source)
    return StageResult(source)
