"""Codes of alternation: agents that take tiles in turn, and warpgroups that take turns at the tensor cores."""

from __future__ import annotations

from .row import Row, choice

_TILES_ALONE = "loop over tiles that depend on each other by the counter of the loop only"
_COUNTED = "use loops with a counter (`for`), which load the same number of tiles in each iteration"
_IN_LOOP = "move the operation into the loop over tiles, or out of the kernel"

ROWS: dict[str, Row] = {
    "turns.tiles-alternate": choice("warp-specialize: {agents} agents of {warps:warp} take tiles in turn"),
    "turns.tiles-together": choice("warp-specialize: all warps that compute work on the same tile"),
    "turns.warpgroups-alternate": choice("{warpgroups} warpgroups take turns at the tensor cores"),
    "turns.executes-once": Row("'{op}' executes once, outside of the loop over tiles", _IN_LOOP),
    "turns.stages-skipped": Row("the loop skips stages already", _TILES_ALONE),
    "turns.next-tile-unknown": Row("the next tile depends on a loop or a branch of this one", _TILES_ALONE),
    "turns.loops": Row("the kernel has {loops:loop} over tiles", "use one loop over tiles"),
    "turns.no-counter": Row("the loop over tiles has no counter", _COUNTED),
    "turns.ordered": Row("'{op}' is ordered with accesses of other threads", _TILES_ALONE),
    "turns.while-waits": Row("a loop without a counter waits for stages", _COUNTED),
    "turns.in-order": Row("'{op}' has to execute in the order of tiles", _TILES_ALONE),
    "turns.iterations-overlap": Row(
        "iterations of a loop overlap", "rrt-size-threshold=0: light agents do not overlap iterations"
    ),
    "turns.tile-carried": Row("an iteration continues with a tile of the previous one", _TILES_ALONE),
    "turns.stage-carried": Row("an iteration holds a stage of the previous one", _TILES_ALONE),
    "turns.unequal-stages": Row("iterations of a loop use different numbers of stages", _COUNTED),
    "turns.several-stages": Row("several stages of a pipe are in use at a time", _COUNTED),
    "turns.iterators-exchanged": Row("iterators of several pipes are exchanged", _COUNTED),
    "turns.pipe-unknown": Row("a wait is for a stage of one of several pipes", _COUNTED),
    "turns.pipe-drained": Row("a pipe is drained at the end", _TILES_ALONE),
    "turns.not-of-warpgroups": Row("its dots are not those of warpgroups", "compile for sm_90"),
    "turns.one-tile": Row("there is one tile", "launch fewer CTAs than tiles"),
    "turns.many-warps": Row("{warps:warp} compute a tile together", "compile with num-warps=4"),
    "turns.part-of-warpgroup": Row("{warps:warp}, not a multiple of 4", "compile with num-warps=4"),
    "turns.shared-memory": Row(
        "two agents take {bytes} bytes of shared memory, of {budget}", "smaller tiles, or fewer stages"
    ),
}
