"""Codes of warp specialization: the agents of a kernel, and the obstacles to them.

Refusals by the rule of `auto` that agents gain nothing have no remedy.
"""

from __future__ import annotations

from .row import Row, choice

_FEWER_REGISTERS = "smaller tiles, or more warps that compute (num-warps), need fewer registers of a thread"
_LESS_MEMORY = "smaller tiles, or fewer stages (unspecialized-pipeline-num-stages), take less shared memory"
_FEWER_WARPS = "compile with fewer warps (num-warps)"
_VIEWS_FIRST = "create views before loops and branches, from arguments of the kernel"
_ORDER = "leave out the token or the memory order that makes the access wait"
_PAIR_OF_TILES = "begin accumulators with zero in the loop over K, and load operands through views of the arrays"
_PLAIN_LOOP = "add into one accumulator in a loop of loads and dots alone, and use the result after the loop"
_COLUMNS = "smaller tiles, or a smaller occupancy hint, leave a CTA more columns"

ROWS: dict[str, Row] = {
    # ---- choices -----------------------------------------------------------------------------------------------------
    "agents.loads-specialized": choice(
        "warp-specialize ({variant}): the loads of {loops:loop} go to an agent of their own"
    ),
    "agents.loads-stay": choice(
        "warp-specialize ({variant}): the warps of this kernel are not specialized, its loops get the unspecialized "
        "pipeline"
    ),
    "agents.heavy-as-light": choice("warp-specialize (heavy): loops keep their order and stages, as under light"),
    "agents.not-split": choice("Failed to specialize warps"),
    "agents.pipe-stages": choice("the pipe of the load has {stages:stage}"),
    "agents.warps": choice("warps by agent: {compute} compute, {load} load through {pipes:pipe}"),
    "agents.dots-specialized": choice("warp-specialize: one warp issues the dots, into {accumulators:accumulator}"),
    "agents.dots-ahead": choice(
        "warp-specialize: one warp issues the dots, the first dot of the next iteration ahead"
    ),
    "agents.dots-stay": choice("warp-specialize: the warps that compute issue the dots as well"),
    "agents.corrections-specialized": choice(
        "warp-specialize: {warps:warp} rescale accumulators while others compute"
    ),
    "agents.corrections-stay": choice("warp-specialize: the warps that compute rescale accumulators as well"),
    "agents.stores-specialized": choice("warp-specialize: one warp executes {stores:store}, in boxes"),
    "agents.stores-stay": choice("warp-specialize: the warps that compute store as well"),
    "agents.orders-beyond-events": choice(
        "not all orders of the agents are checked for deadlocks: more than {limit} events{where}"
    ),
    "agents.orders-beyond-states": choice(
        "not all orders of the agents are checked for deadlocks: more than {limit} states{where}"
    ),
    # ---- why another agent gains -------------------------------------------------------------------------------------
    "agents.one-thread-copies": Row("one thread copies the tiles in boxes"),
    "agents.copies-are-covered": Row(
        "threads issue copies of tiles for {copies} cycles of an iteration, and other instructions for {others}"
    ),
    # ---- obstacles of any agent --------------------------------------------------------------------------------------
    "agents.no-registers-by-agent": Row("{target} lacks setmaxnreg", "compile for sm_90 or newer"),
    "agents.call-by-all-threads": Row("all threads of the tile block call '{callee}'"),
    "agents.too-many-warps": Row("{warps} warps exceed the limit of a CTA", _FEWER_WARPS),
    "agents.too-few-registers": Row(
        "a thread needs {needed} registers and gets {most} beside the other agents", _FEWER_REGISTERS
    ),
    "agents.too-few-at-entry": Row(
        "a thread needs {needed} registers and begins with {most} beside the other agents", _FEWER_REGISTERS
    ),
    "agents.fewer-ctas": Row(
        "an SM holds {alone:CTA}, and {beside} with the further agent", "smaller tiles, or a smaller occupancy hint"
    ),
    "agents.executes-once": Row(
        "{values} depend on '{op}', which must execute once",
        "compute addresses, bounds and conditions of loops without operations that write memory",
    ),
    "agents.ordered": Row("it is ordered with accesses of other threads", _ORDER),
    "agents.ordered-after": Row("it is ordered after '{op}', which another agent executes", _ORDER),
    "agents.store-ordered-before": Row("'{op}' is ordered after a store of another agent", _ORDER),
    "agents.map-in-agent": Row("the tensor map of its view is created after the agents begin", _VIEWS_FIRST),
    # ---- loads -------------------------------------------------------------------------------------------------------
    "agents.no-loads-ahead": Row(
        "no load runs ahead of a loop", "load the operands of dots in the loop that multiplies them, through views"
    ),
    "agents.stages-filled-by-threads": Row(
        "the loads of a loop go through single stages, which its own threads fill", _LESS_MEMORY
    ),
    "agents.no-copy": Row(
        "no asynchronous copy loads it", "load through a view with 4, 8 or 16 bytes in a row for each thread"
    ),
    "agents.read-in-two-ways": Row(
        "its tile is read in registers and in shared memory", "load the tile a second time for the other use"
    ),
    "agents.no-pipe": Row("{target} has no pipe from '{producer}' to '{consumer}'", "compile for a newer GPU"),
    "agents.no-shared-memory": Row("no shared memory is left for {stages:stage} of each pipe", _LESS_MEMORY),
    "agents.no-second-stage": Row("no shared memory is left for two stages of a pipe", _LESS_MEMORY),
    "agents.few-iterations": Row("the loop has {iterations:iteration}"),
    "agents.few-bytes": Row("an iteration loads {bytes} bytes, fewer than {least}"),
    "agents.copies-dominate": Row(
        "threads issue copies of tiles for {copies} cycles of an iteration, and other instructions for {others} only",
        "tensor maps (tensor-maps=host or device) leave the copies to one thread",
    ),
    "agents.one-thread-copies-already": Row(
        "one thread copies already, and the dots stay with the warps that compute"
    ),
    "agents.no-register-left": Row(
        "a thread probably takes all of the {most} registers that it can have", _FEWER_REGISTERS
    ),
    "agents.pair-without-boxes": Row(
        "the two CTAs of a pair multiply operands that tensor maps do not load", _PAIR_OF_TILES
    ),
    "agents.pair-accumulator-written": Row(
        "the two CTAs of a pair add to accumulators that the threads of both write", _PAIR_OF_TILES
    ),
    "agents.pair-accumulator-loaded": Row(
        "the two CTAs of a pair multiply into columns that the threads of both load before", _PAIR_OF_TILES
    ),
    "agents.pair-columns": Row("its dots take {taken} columns of tensor memory, of {most}", _COLUMNS),
    # ---- dots --------------------------------------------------------------------------------------------------------
    "agents.dot-beside-threads": Row("other threads execute operations in the loop of the dot", _PLAIN_LOOP),
    "agents.no-loop-over-tiles": Row(
        "no loop over tiles is around the loop of the dots", "loop over the tiles of a persistent kernel"
    ),
    "agents.dot-columns": Row(
        "two accumulators in turn take {taken} columns of tensor memory, {scales} of them scales, of {most}", _COLUMNS
    ),
    "agents.accumulator-outlives": Row("its accumulators outlive an iteration of the loop over tiles", _PLAIN_LOOP),
    "agents.accumulator-written": Row("threads write its accumulator", _PLAIN_LOOP),
    "agents.accumulator-loaded-elsewhere": Row(
        "its accumulator is loaded outside of the loop over tiles", _PLAIN_LOOP
    ),
    "agents.accumulator-unread": Row("its accumulator is never loaded", "use the result of the dots"),
    "agents.scales-outlive": Row("its scales outlive an iteration of the loop over tiles", _PLAIN_LOOP),
    "agents.stage-held": Row("threads hold a stage of an operand", "use operands of dots for the dots only"),
    "agents.stage-read": Row(
        "threads read a stage that an outer loop fills", "load the tile in the loop that uses it"
    ),
    # ---- stores ------------------------------------------------------------------------------------------------------
    "agents.store-shared-memory": Row("its stages raise shared memory to {bytes} bytes, of {budget}", _LESS_MEMORY),
}
