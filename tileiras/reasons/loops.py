"""Codes of loops: schedules, and loads that run ahead."""

from __future__ import annotations

from .row import Row, choice

_MEMORY = "smaller tiles, or fewer stages (unspecialized-pipeline-num-stages), take less shared memory"
_DOT = "load the operands of dots in the loop that multiplies them, through views"
_ADDRESSES = "compute addresses from the counter of the loop and values from before it"
_ORDER = "leave out the token that orders the load after a write of the loop"

ROWS: dict[str, Row] = {
    "loops.pipelined": Row(
        "Software pipeline applied: {stages} stages", name="RemarkLoopPipeline", kind="passed"
    ),
    "loops.as-written": Row("Loop runs as written", name="RemarkLoopSchedule", kind="missed"),
    "loops.load-stays": Row("Load does not run ahead of its loop", name="RemarkLoopLoad", kind="missed"),
    "loops.not-pipelined": choice("Failed to pipeline loop"),
    "loops.not-in-stages": choice("Failed to pipeline loop in stages"),
    "loops.copies-interleaved": choice("{copies} copies start between {steps} steps of a dot"),
    "loops.loads-without-room": choice("{loads} of {all} loads do not run ahead"),
    "loops.fewer-stages": choice("{stages} pipeline stages instead of {wanted}"),
    "loops.overlap": choice(
        "{stages} iterations overlap: {cycles} cycles an iteration by the static model, {serial} in program order"
    ),
    "loops.no-interval": choice("modulo scheduler returned no feasible II"),
    "loops.no-overlap": choice("iterations do not overlap: the tiles of every placement exceed the registers"),
    # ---- reasons -----------------------------------------------------------------------------------------------------
    "loops.no-loads": Row("the loop has no load"),
    "loops.no-load-ahead": Row("none of its loads can run ahead"),
    "loops.bound-unknown": Row(
        "later values of its counter cannot be compared with its bound", "use a positive constant step"
    ),
    "loops.around-loops": Row("it has {iterations:iteration}, around loops that need the shared memory"),
    "loops.one-stage-option": Row(
        "one stage was requested", "unspecialized-pipeline-num-stages of 2 or more, or 0 for the compiler's choice"
    ),
    "loops.at-most-once": Row("it has at most one iteration"),
    "loops.no-shared-memory": Row("no shared memory is left", _MEMORY),
    "loops.stages-do-not-fit": Row("{wanted} stages do not fit into shared memory", _MEMORY),
    "loops.covers-latency": Row(
        "an iteration copies for {copies} cycles at least and computes for {computes}, and {wanted} stages cover the "
        "latency of memory"
    ),
    "loops.keeps-ctas": Row(
        "an iteration copies for {copies} cycles at least and computes for {computes}; {wanted} stages would cover the "
        "latency of memory, but an SM would hold one CTA",
        "smaller tiles",
    ),
    "loops.few-tile-blocks": Row("each tile block takes several rows, and the others of its SM hide little latency"),
    "loops.loads-indices": Row("addresses of other loads are computed from their tiles"),
    "loops.no-async-copy": Row("{target} has no asynchronous copy", "compile for sm_80 or newer"),
    "loops.inner-loop": Row("it contains a loop", "unroll the inner loop, or pipeline that one"),
    "loops.table-too-large": Row(
        "its reservation table has {rows} entries, more than the {most} of rrt-size-threshold",
        "a larger --rrt-size-threshold places it",
    ),
    "loops.latency-unknown": Row("the latency of an operation is not known"),
    "loops.schedule-not-met": Row("its loads cannot run ahead as its schedule requires"),
    "loops.schedule-without-loads": Row("its schedule is '{schedule}', and none of its loads runs ahead"),
    # ---- copies ------------------------------------------------------------------------------------------------------
    "copies.no-vectors": Row("its layout has no vectors", "load through a view with consecutive elements"),
    "copies.ordered": Row("it is ordered with accesses of other threads", "make the load weak"),
    "copies.scalar": Row("it loads a scalar"),
    "copies.multicast-memory": Row("no asynchronous copy combines the copies of multicast memory"),
    "copies.rounded": Row("threads round its elements", "tensor maps (tensor-maps=host or device) round as they copy"),
    "copies.element": Row("no asynchronous copy loads elements of {element}", "use elements of 8 bits or more"),
    "copies.width": Row(
        "its accesses are {bytes} bytes wide, asynchronous copies {widths}",
        "widen the access: its own row has the obstacle",
    ),
    "copies.padding": Row("elements outside of the array are not zero", "pad with zeros"),
    "copies.address-computed": Row("its addresses depend on values of an iteration", _ADDRESSES),
    "copies.ordered-in-loop": Row("it is ordered after a write in the loop", _ORDER),
    "copies.no-dot": Row("its elements do not go through shared memory to a dot"),
    "copies.layouts-differ": Row("dots read its tile in shared memory in different layouts", _DOT),
    "copies.pointers": Row("it loads through pointers", "load through a view of the array"),
    "copies.stream-width": Row(
        "its accesses are not {bytes} bytes wide", "widen the access: its own row has the obstacle"
    ),
    "copies.replicated": Row("several threads hold the same elements", "larger tiles, or fewer warps (num-warps)"),
    "copies.same-tile": Row("every iteration loads the same tile", "load the tile before the loop"),
}
