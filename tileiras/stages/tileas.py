"""nv_tileaa -> nv_tileas: layouts, atoms, schedules, memory.

In: one function of nv_tileaa with the globals that it uses.  Out: the same in nv_tileas; every tensor has a layout,
every loop a schedule.

`DECISIONS` lists the passes of the stage in order.  Each makes one decision and is declared above the function that
decides; `tileiras/passes/__init__.py` has its module.  An earlier pass communicates with later ones only through the
IR (types, attributes, operations).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import tileiras
from tileiras.ir import Operation, Pass, verify
from tileiras.ir.pass_instrumentation import PassInstrumentation
from tileiras.ir.pass_manager import PassContext, PassManager, PassWhereFound
from tileiras.order.tracing import attach, trace
from tileiras.passes import PASSES, lookup_pass
from tileiras.schedule.strategy import SCHEDULED, Loads, Strategy
from tileiras.stages import StageContext, StageOptions, StageResult
from tileiras.support.named_tuple import NamedTuple

AGENT_VERIFIER = "tileaa-agent-verifier"


class Decision(NamedTuple):
    """A pass, the reason for its position, and options of the pass that are its own here."""

    name: str
    """A name of the table `PASSES`.  Must be a literal: `build.store.fingerprint` reads it in the source to find the
    code of the stage."""
    why: str
    options: Mapping[str, str] = {}
    after: str = ""
    """A pass that schedules loops: this one is omitted where loads must not run ahead, and skipped if that one has
    failed softly."""
    reports: Loads | None = None
    """With loads issued in this way the pass runs, and reports, without operations that trigger it."""
    asked_by: str = ""
    """The option that enables the pass; empty for always."""
    level: int = 0
    """The lowest optimization level at which the pass runs: each level has the rows of the level below."""
    agents: bool = False
    """Whether the pass also runs below its level if agents are requested (`pipeline-strategy=warp-specialize`)."""

    @property
    def pass_class(self) -> type[Pass]:
        return lookup_pass(self.name)

    @property
    def optional(self) -> bool:
        return self.pass_class.optional

    @property
    def schedules(self) -> bool:
        """Whether the row is omitted where loads must not run ahead."""
        return bool(self.after) or self.pass_class.schedules


DECISIONS: tuple[Decision, ...] = (
    # Tile blocks, and their division among CTAs.
    Decision(
        "tileas-pair-tile-blocks", "First: duplicates the kernel; every later pass runs on both.", level=3, agents=True,
    ),  # fmt: skip
    Decision(
        "tileas-cluster-tile-blocks", "Before tileas-order-tile-blocks, which keeps the blocks of a cluster adjacent.",
        level=3, agents=True,
    ),  # fmt: skip
    Decision("tileas-order-tile-blocks", "Compares loop bounds as the program wrote them.", level=2),
    Decision("tileas-plan-cta", "Before slicing and layouts, which see the share of one CTA.", level=2),
    Decision("tileas-join-mask-bounds", "Masks still cover whole tiles; slicing cuts joined masks alike.", level=2),
    Decision("tileas-flush-exponentials", "Rows are whole, with their maximum and their sum, before slicing.", level=2),
    # Slices, and the number of warps.
    Decision("tileas-slice-batches", "Creates batches of one, which tileas-fold-unit-batches removes.", level=2),
    Decision("tileas-fold-unit-batches", "Dots must be two-dimensional before atoms are chosen.", level=2),
    Decision("tileas-legalize-scaled-dot", "Expands unsupported scaled dots before dots are counted and get atoms."),
    Decision("tileas-assign-num-warps", "Before slicing, whose sizes depend on the number of threads."),
    Decision(
        "tileas-fit-tensor-memory", "Decides which accumulators go to tensor memory; those are not sliced.", level=2,
    ),  # fmt: skip
    Decision("tileas-split-loop-steps", "Before tileas-slice-dots, which nests loops over K into the step.", level=2),
    Decision("tileas-slice-dots", "Loops over K shrink operand tiles, which tileas-slicing counts."),
    Decision("tileas-slicing", "Before layouts, which are chosen for tiles that fit registers."),
    # Atoms and layouts.
    Decision("convert-tileaa-to-tileas", "Changes the dialect, one operation for one."),
    Decision(
        "tileas-round-in-boxes", "Before dot layouts: rounded operands move from boxes through shared memory.", level=2,
    ),  # fmt: skip
    Decision("tileas-assign-dot-layouts", "Dot layouts are anchors; all other layouts are propagated from them."),
    Decision("tileas-promote-accumulators", "After atoms; before registers are counted, which its sums take."),
    Decision(
        "tileas-pair-dots", "After atoms; before load layouts, since each CTA loads half of B.", level=3, agents=True,
    ),  # fmt: skip
    Decision("tileas-assign-load-store-layouts", "After dots: a store may keep the layout of a dot's result."),
    Decision("tileas-remove-layout-conversions", "Propagates the anchors of the two passes before."),
    Decision("cse", "Merges values that were rematerialized once per user."),
    Decision("dce", "Removes originals whose users all rematerialized them."),
    Decision("tileas-reuse-loads", "Needs the elements of each thread (layouts) and unique addresses (cse).", level=2),
    Decision("tileas-share-divisors", "Needs layouts, and divisors as broadcasts.", level=2),
    # Registers and shared memory available to schedules.
    Decision(
        "tileas-lower-occupancy", "First: fixes the registers of a thread.", options={"resource": "registers"}, level=2,
    ),  # fmt: skip
    Decision("tileas-sink-loads", "Frees registers before they are counted.", level=2),
    Decision("tileas-hoist-loads", "After tileas-sink-loads, in kernels where it left registers.", level=2),
    Decision(
        "tileas-lower-occupancy", "Before shared memory is allocated; rings have at least two stages.",
        options={"resource": "shared-memory"}, level=2,
    ),  # fmt: skip
    Decision("tileas-mark-short-loops", "Counts live tiles before operands move to shared memory.", level=2),
    Decision(
        "tileas-smem-operands", "Loop-invariant operands get shared memory before rings do.",
        options={"where": "loop-invariant"}, level=2,
    ),  # fmt: skip
    # Schedules and agents.
    Decision("tileas-generate-schedule", "Distributes the remaining registers and shared memory.", reports=Loads.AGENT),
    Decision("tileas-materialize-schedule", "Creates agents; each remaining loop belongs to one of them.", level=2),
    Decision("tileas-resolve-agent-boundary", "Assigns warps to agents before threads are counted.", level=2),
    Decision("tileas-unspecialized-pipeline", "Materializes the schedule of each loop.", level=2),
    # Resources that schedules leave free.
    Decision(
        "tileas-smem-operands", "Operands in loops whose loads have no ring.", options={"where": "in-loops"}, level=2,
    ),  # fmt: skip
    Decision(
        "tileas-materialize-async", "Waits depend on dots in flight around loops; its buffers precede optional ones.",
    ),  # fmt: skip
    Decision(
        "tileas-specialize-mma", "After commit groups exist; before remaining shared memory is distributed.",
        level=3, agents=True,
    ),  # fmt: skip
    Decision("tileas-specialize-stores", "Its buffer precedes optional ones in shared memory.", level=3, agents=True),
    Decision(
        "tileas-specialize-correction", "After one-warp agents: its warps precede theirs.", level=3, agents=True,
    ),  # fmt: skip
    Decision(
        "tileas-ping-pong", "After the store agent exists, which receives tiles from both compute agents.",
        level=3, agents=True,
    ),  # fmt: skip
    Decision("tileas-spill-loop-carried", "Counts registers once the places of operands are final.", level=2),
    Decision(
        "tileas-smem-operands", "Operands after loops, where the rings' memory is free again.",
        options={"where": "outside-loops"}, level=2,
    ),  # fmt: skip
    Decision(
        "cse", "Merges the addresses that copies of loop bodies duplicated.", after="tileas-generate-schedule", level=2,
    ),  # fmt: skip
    Decision(
        "tileas-interleave-copies", "After cse; before dots are rolled, since it leaves those that are.",
        after="tileas-generate-schedule", level=3,
    ),  # fmt: skip
    Decision("tileas-roll-mma-dot", "Reads operands from existing buffers; needs no memory."),
    Decision("tileas-legalize-fma-dot", "Reads operands from existing buffers, slice by slice."),
    Decision(
        "lower-tma-load-store-to-async", "After all other users of shared memory; it takes the rest.", level=2,
    ),  # fmt: skip
    Decision("tileas-attach-tma-desc-args", "After the last descriptor is created; before parameters are counted."),
    # Order of operations, allocation, barriers and launch bounds, once the operations are final.
    Decision("tileas-materialize-convert-layout", "Issues loads between conversions before the barrier.", level=2),
    Decision("tileas-optimize-alloc-tensor", "After the last buffer or conversion that needs scratch memory."),
    Decision("tileas-rematerialize", "Runs on the final operations of loops short of registers.", level=2),
    Decision(
        "tileas-split-addresses", "Address computations are final, and the registers beside them are known.", level=2,
    ),  # fmt: skip
    Decision("tileas-insert-barriers", "Reuse of shared memory determines the barriers."),
    Decision("tileas-order-warpgroups", "Barriers in a loop exclude turns at the tensor cores.", level=3, agents=True),
    Decision("tileas-assign-launch-bounds", "After the last change of registers and shared memory."),
    Decision(
        "tileas-insert-delays", "After the last pass that creates waits or matches their neighbours.",
        asked_by="enable-random-delay",
    ),  # fmt: skip
)
"""The decisions of TileAS in order."""


def decisions(options: StageOptions) -> list[Decision]:
    """The rows that run."""
    left_out = _left_out(options)
    return [row for row in _rows(options) if id(row) not in left_out]


def _rows(options: StageOptions) -> list[Decision]:
    """The rows that run without `opt-bisect-limit`."""
    strategy = Strategy.of(options)
    return [row for row in _enabled(options, strategy) if _applies(row, strategy)]


def _enabled(options: StageOptions, strategy: Strategy) -> list[Decision]:
    """The rows of the level whose options are set."""
    level, agents = options.opt_level, strategy.may_have_agents
    return [
        row for row in DECISIONS
        if (row.level <= level or row.agents and agents) and (not row.asked_by or options[row.asked_by])
    ]  # fmt: skip


def _applies(row: Decision, strategy: Strategy) -> bool:
    return strategy.loads is not Loads.NONE or not row.schedules


def bisected(options: StageOptions) -> list[tuple[Decision, bool]]:
    """The optional rows, which `opt-bisect-limit` counts from 1, and whether each runs."""
    optional = [row for row in _rows(options) if row.optional]
    return [(row, _is_within(options.opt_bisect_limit, number)) for number, row in enumerate(optional, 1)]


def _left_out(options: StageOptions) -> set[int]:
    """The rows behind the limit; without a limit no pass is loaded to know whether it is optional."""
    return set() if options.opt_bisect_limit is None else {id(row) for row, runs in bisected(options) if not runs}


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
    """Say which optional passes run, on standard error and in the words of LLVM's option."""
    kernels = (op for op in module.walk() if op.name in ("nv_tileaa.func", "cuda_tile.entry"))
    entry = next((op.attributes["sym_name"].value for op in kernels), "module")
    for number, (name, runs) in enumerate(rows, 1):
        print(f"BISECT: {'' if runs else 'NOT '}running pass ({number}) {name} on {entry}", file=sys.stderr)


def passes(options: StageOptions) -> list[Pass]:
    created = (item if isinstance(item, Pass) else item.construct() for item in _items(options))
    return [item for item in created if item is not None]


def _items(options: StageOptions) -> list[Pass | PassWhereFound]:
    """The passes; one that is triggered by operations is created only when a function contains one of them."""
    items: list[Pass | PassWhereFound] = []
    if options.deterministic == "require":
        items.append(tileiras.order.verify_deterministic.VerifyDeterministic())
    strategy, left_out = Strategy.of(options), _left_out(options)
    values = _option_values(options, strategy)
    for row in _enabled(options, strategy):
        if id(row) not in left_out:
            triggers = () if row.reports is strategy.loads else PASSES[row.name].triggers
            items.append(PassWhereFound(partial(_create, row, strategy, values), triggers))
    if strategy.may_have_agents:
        items.append(PassWhereFound(partial(_agent_verifier, options), PASSES[AGENT_VERIFIER].triggers))
    return items


def _create(row: Decision, strategy: Strategy, values: Mapping[str, Any]) -> Pass | None:
    return _pass(row, values) if _applies(row, strategy) else None


def _agent_verifier(options: StageOptions) -> Pass:
    return tileiras.passes.tileaa_agent_verifier.AgentVerifier(compute_capability=options.gpu_name)


def _option_values(options: StageOptions, strategy: Strategy) -> dict[str, Any]:
    """Option of passes -> its value, for all passes that have it."""
    values = {
        "compute_capability": options.gpu_name, "num_warps": options.num_warps, "tensor_maps": options.tensor_maps,
        "strategy": strategy, "warpgroups": options.opt_level >= SCHEDULED,
    }  # fmt: skip
    return {name: value for name, value in values.items() if value is not None}


def explained(options: StageOptions) -> list[tuple[str, str]]:
    """Each pass as it runs, and the reason for its position."""
    values = _option_values(options, Strategy.of(options))
    return [(_pass(row, values).spelled(), row.why) for row in decisions(options)]


def _pass(row: Decision, values: Mapping[str, Any]) -> Pass:
    defaults = row.pass_class.options()
    item = row.pass_class(**row.options, **{name: value for name, value in values.items() if name in defaults})
    return item.after(row.after) if row.after else item


def run(source: Operation, options: StageOptions, context: StageContext) -> StageResult:
    context.engine.remarks = options.emit_remarks
    if options.opt_bisect_limit is not None:
        _tell_bisection(source, [(row.name, runs) for row, runs in bisected(options)])
    hints = tileiras.stages.needless_hints
    trial = hints.drop_needless_hints(source, partial(_lower, options), context.engine)
    if trial.result is not None and not context.instrumentation:
        for each in trial.diagnostics:
            context.engine.emit(each)
        verify(trial.result)
        return StageResult(trial.result)
    _lower(options, source, PassContext(context.engine), context.instrumentation)
    if trial.plans and context.engine.remarks:
        hints.emit_costs(source, trial.plans, context.engine)
    verify(source)
    return StageResult(source)


def _lower(
    options: StageOptions, source: Operation, context: PassContext, instrumentation: Sequence[PassInstrumentation] = ()
) -> None:
    """Run the passes on a module, in place."""
    traced = trace(source)
    PassManager(_items(options), verify_each=False, instrumentation=instrumentation).run(source, context)
    attach(source, traced)
