"""nv_tileaa -> nv_tileas: layouts, atoms, schedules, memory.

In: one function of nv_tileaa with the globals that it uses.  Out: the same in nv_tileas; every tensor has a layout,
every loop a schedule.

`DECISIONS` lists the passes of the stage in order; each makes one decision and is defined in `tileiras/passes/`.  An
earlier pass communicates with later ones only through the IR (types, attributes, operations).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import tileiras
from tileiras.ir import Operation, Pass, verify
from tileiras.ir.pass_manager import PassContext, PassManager, PassWhereFound
from tileiras.named_tuple import NamedTuple
from tileiras.order.tracing import attach, trace
from tileiras.passes import PASSES, lookup_pass
from tileiras.schedule.strategy import Loads, Strategy
from tileiras.stages import StageContext, StageOptions, StageResult


class Decision(NamedTuple):
    """One row: a pass, the reason for its position, and the values of its options that the row fixes.

    `optional`: without it the result is correct, but slower.  `schedules`: omitted where loads must not run ahead.
    `after`: skipped if that pass failed softly.  `asked_by`: the option that enables it; empty for always.
    """

    name: str
    """A name of the table `PASSES`.  Must be a literal: `build/fingerprint.py` reads it from the source to find the
    code of the stage."""
    why: str
    options: Mapping[str, str] = {}
    optional: bool = False
    schedules: bool = False
    after: str = ""
    asked_by: str = ""

    @property
    def made(self) -> type[Pass]:
        return lookup_pass(self.name)


GENERATE_SCHEDULE, AGENT_VERIFIER = "tileas-generate-schedule", "tileaa-agent-verifier"
REGISTERS, SHARED_MEMORY = {"resource": "registers"}, {"resource": "shared-memory"}
INVARIANT, IN_LOOPS, OUTSIDE_LOOPS = ({"where": each} for each in ("loop-invariant", "in-loops", "outside-loops"))

DECISIONS: tuple[Decision, ...] = (
    # Partition of the work into tile blocks, CTAs and slices.
    Decision(
        "tileas-pair-tile-blocks", "First: duplicates the kernel; every later pass runs on both.", {}, True, True,
    ),  # fmt: skip
    Decision(
        "tileas-cluster-tile-blocks", "Before tileas-order-tile-blocks, which keeps the blocks of a cluster adjacent.",
        {}, True, True,
    ),  # fmt: skip
    Decision("tileas-order-tile-blocks", "Compares loop bounds as the program wrote them.", {}, True, True),
    Decision("tileas-plan-cta", "Before slicing and layouts, which see the share of one CTA.", optional=True),
    Decision(
        "tileas-join-mask-bounds", "Masks still cover whole tiles; slicing cuts joined masks alike.",
        optional=True,
    ),  # fmt: skip
    Decision("tileas-slice-batches", "Creates batches of one, which tileas-fold-unit-batches removes.", optional=True),
    Decision(
        "tileas-fold-unit-batches", "Dots must be two-dimensional before atoms are chosen.", optional=True,
    ),  # fmt: skip
    Decision("tileas-legalize-scaled-dot", "Expands unsupported scaled dots before dots are counted and get atoms."),
    Decision("tileas-assign-num-warps", "Before slicing, whose sizes depend on the number of threads."),
    Decision(
        "tileas-fit-tensor-memory", "Decides which accumulators go to tensor memory; those are not sliced.",
        optional=True,
    ),  # fmt: skip
    Decision(
        "tileas-split-loop-steps", "Before tileas-slice-dots, which nests loops over K into the step.",
        {}, True, True,
    ),  # fmt: skip
    Decision(
        "tileas-slice-dots", "Loops over K shrink operand tiles, which tileas-slicing counts.", optional=True,
    ),  # fmt: skip
    Decision("tileas-slicing", "Before layouts, which are chosen for tiles that fit registers.", optional=True),
    # Atoms and layouts.
    Decision("convert-tileaa-to-tileas", "Changes the dialect, one operation for one."),
    Decision(
        "tileas-round-in-boxes", "Before dot layouts: rounded operands move from boxes through shared memory.",
        {}, True, True,
    ),  # fmt: skip
    Decision("tileas-assign-dot-layouts", "Dot layouts are anchors; all other layouts are propagated from them."),
    Decision(
        "tileas-pair-dots", "After atoms; before load layouts, since each CTA loads half of B.", {}, True, True,
    ),  # fmt: skip
    Decision(
        "tileas-assign-load-store-layouts", "After dots: a store may keep the layout of a dot's result.",
    ),  # fmt: skip
    Decision("tileas-remove-layout-conversions", "Propagates the anchors of the two passes before."),
    Decision("cse", "Merges values that were rematerialized once per user.", optional=True),
    Decision("dce", "Removes originals whose users all rematerialized them.", optional=True),
    Decision(
        "tileas-reuse-loads", "Needs the elements of each thread (layouts) and unique addresses (cse).",
        {}, True, True,
    ),  # fmt: skip
    # Passes that change the registers and the shared memory available to schedules.
    Decision("tileas-lower-occupancy", "First: fixes the registers of a thread.", REGISTERS, True, True),
    Decision("tileas-sink-loads", "Frees registers before they are counted.", {}, True, True),
    Decision(
        "tileas-lower-occupancy", "Before shared memory is allocated; rings have at least two stages.",
        SHARED_MEMORY, True, True,
    ),  # fmt: skip
    Decision("tileas-mark-short-loops", "Counts live tiles before operands move to shared memory.", {}, True, True),
    Decision(
        "tileas-smem-operands", "Loop-invariant operands get shared memory before rings do.",
        INVARIANT, True, True,
    ),  # fmt: skip
    # Schedules.
    Decision("tileas-generate-schedule", "Distributes the remaining registers and shared memory."),
    Decision(
        "tileas-materialize-schedule", "Creates agents; each remaining loop belongs to one of them.",
        {}, True, True,
    ),  # fmt: skip
    Decision("tileas-resolve-agent-boundary", "Assigns warps to agents before threads are counted.", {}, True, True),
    Decision("tileas-unspecialized-pipeline", "Materializes the schedule of each loop.", {}, True, True),
    # Passes limited to the resources that schedules leave free.
    Decision("tileas-smem-operands", "Operands in loops whose loads have no ring.", IN_LOOPS, True, True),
    Decision(
        "tileas-materialize-async",
        "Waits depend on dots in flight around loops; its buffers precede optional ones.",
    ),  # fmt: skip
    Decision(
        "tileas-specialize-mma", "After commit groups exist; before remaining shared memory is distributed.",
        {}, True, True,
    ),  # fmt: skip
    Decision("tileas-specialize-stores", "Its buffer precedes optional ones in shared memory.", {}, True, True),
    Decision(
        "tileas-ping-pong", "After the store agent exists, which receives tiles from both compute agents.",
        {}, True, True,
    ),  # fmt: skip
    Decision("tileas-spill-loop-carried", "Counts registers once the places of operands are final.", {}, True, True),
    Decision(
        "tileas-smem-operands", "Operands after loops, where the rings' memory is free again.",
        OUTSIDE_LOOPS, True, True,
    ),  # fmt: skip
    Decision("cse", "Merges the addresses that copies of loop bodies duplicated.", {}, True, True, GENERATE_SCHEDULE),
    Decision(
        "tileas-roll-mma-dot", "Reads operands from existing buffers; needs no memory.", optional=True,
    ),  # fmt: skip
    Decision(
        "tileas-legalize-fma-dot", "Reads operands from existing buffers, slice by slice.",
        optional=True,
    ),  # fmt: skip
    Decision(
        "lower-tma-load-store-to-async", "After all other users of shared memory, of which it takes the rest.",
        {}, True, True,
    ),  # fmt: skip
    Decision(
        "tileas-attach-tma-desc-args", "After the last descriptor is created; before parameters are counted.",
    ),  # fmt: skip
    # Order of operations, allocation, barriers and launch bounds, once the operations are final.
    Decision(
        "tileas-materialize-convert-layout", "Issues loads between conversions before the barrier.",
        optional=True,
    ),  # fmt: skip
    Decision(
        "tileas-optimize-alloc-tensor", "After the last buffer or conversion that needs scratch memory.",
    ),  # fmt: skip
    Decision(
        "tileas-rematerialize", "Runs on the final operations of loops short of registers.", {}, True, True,
    ),  # fmt: skip
    Decision(
        "tileas-split-addresses", "Address computations are final, and the registers beside them are known.",
        {}, True,
    ),  # fmt: skip
    Decision("tileas-insert-barriers", "Reuse of shared memory determines the barriers."),
    Decision("tileas-order-warpgroups", "Barriers in a loop exclude turns at the tensor cores.", {}, True, True),
    Decision("tileas-assign-launch-bounds", "After the last change of registers and shared memory."),
    Decision(
        "tileas-insert-delays", "After the last pass that creates waits or matches their neighbours.", {}, True,
        asked_by="enable-random-delay",
    ),  # fmt: skip
)
"""The decisions of TileAS in order."""

GIVEN = {
    "compute_capability": "gpu-name",
    "num_warps": "num-warps",
    "tensor_maps": "tensor-maps",
}
"""Options of passes that are options of the stage."""


def decisions(options: StageOptions) -> list[Decision]:
    """The rows that run."""
    left_out = {id(row) for row, runs in bisected(options) if not runs}
    return [row for row in _asked_rows(options) if id(row) not in left_out]


def _asked_rows(options: StageOptions) -> list[Decision]:
    schedules = Strategy.of(options).loads is not Loads.NONE
    asked = (row for row in DECISIONS if not row.asked_by or options[row.asked_by])
    return [row for row in asked if schedules or not row.schedules]


def bisected(options: StageOptions) -> list[tuple[Decision, bool]]:
    """The optional rows, which `opt-bisect-limit` counts from 1, and whether each runs."""
    optional = [row for row in _asked_rows(options) if row.optional]
    return [(row, _is_within(options.opt_bisect_limit, number)) for number, row in enumerate(optional, 1)]


def bisected_passes(passes: Sequence[Pass], limit: int, module: Operation) -> list[Pass]:
    """Passes of any pipeline without the optional ones behind the first `limit`; says which run."""
    names = {row.name for row in DECISIONS if row.optional}
    optional = [item for item in passes if item.name in names]
    runs = {id(item): _is_within(limit, number) for number, item in enumerate(optional, 1)}
    _tell_bisection(module, [(item.name, runs[id(item)]) for item in optional])
    return [item for item in passes if runs.get(id(item), True)]


def _is_within(limit: int | None, number: int) -> bool:
    return limit is None or limit < 0 or number <= limit


def _tell_bisection(module: Operation, rows: Sequence[tuple[str, bool]]) -> None:
    """Says which optional passes run, on standard error and in the words of LLVM's option."""
    kernels = (op for op in module.walk() if op.name in ("nv_tileaa.func", "cuda_tile.entry"))
    entry = next((op.attributes["sym_name"].value for op in kernels), "module")
    for number, (name, runs) in enumerate(rows, 1):
        print(f"BISECT: {'' if runs else 'NOT '}running pass ({number}) {name} on {entry}", file=sys.stderr)


def passes(options: StageOptions) -> list[Pass]:
    return [item if isinstance(item, Pass) else item.made() for item in _items(options)]


def _items(options: StageOptions) -> list[Pass | PassWhereFound]:
    """The passes; one that is triggered by operations is created only when a function contains one of them."""
    found: list[Pass | PassWhereFound] = []
    if options.deterministic == "require":
        found.append(tileiras.passes.verify_deterministic.VerifyDeterministic())
    strategy = Strategy.of(options)
    for row in decisions(options):
        made = partial(_pass, row, options, strategy)
        # If agents are requested, the pass reports kernels without loops as well.
        always = strategy.loads is Loads.AGENT and row.name == GENERATE_SCHEDULE
        triggers = PASSES[row.name].triggers
        found.append(made() if always or not triggers else PassWhereFound(made, triggers))
    if strategy.may_have_agents:
        found.append(PassWhereFound(partial(_agent_verifier, options), PASSES[AGENT_VERIFIER].triggers))
    return found


def _agent_verifier(options: StageOptions) -> Pass:
    return tileiras.passes.tileaa_agent_verifier.AgentVerifier(compute_capability=options.gpu_name)


def explained(options: StageOptions) -> list[tuple[str, str]]:
    """Each pass as it runs, and the reason for its position."""
    strategy = Strategy.of(options)
    return [(_pass(row, options, strategy).spelled(), row.why) for row in decisions(options)]


def _pass(row: Decision, options: StageOptions, strategy: Strategy) -> Pass:
    made = row.made
    known = made.options()
    given: dict[str, Any] = dict(row.options)
    for field, name in GIVEN.items():
        if field in known and options[name] is not None:
            given[field] = options[name]
    if "strategy" in known:
        given["strategy"] = strategy
    if options.opt_level == 0 and "warpgroups" in known:
        given["warpgroups"] = False
    item = made(**given)
    return item.after(row.after) if row.after else item


def run(source: Operation, options: StageOptions, context: StageContext) -> StageResult:
    context.engine.remarks = options.emit_remarks
    if options.opt_bisect_limit is not None:
        _tell_bisection(source, [(row.name, runs) for row, runs in bisected(options)])
    traced = trace(source)
    manager = PassManager(_items(options), verify_each=False, instrumentation=context.instrumentation)
    manager.run(source, PassContext(context.engine))
    attach(source, traced)
    verify(source)
    return StageResult(source)
