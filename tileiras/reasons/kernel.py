"""Codes of whole kernels: launch shape, resources, occupancy, slices of large tiles, and options."""

from __future__ import annotations

from .row import Row, choice

_REGISTERS = "smaller tiles or more warps (num-warps) take fewer registers of a thread"
_SHARED = (
    "fewer stages (unspecialized-pipeline-num-stages, or a smaller latency hint on the loads) or smaller tiles take "
    "less shared memory"
)
_SPILLS = "smaller tiles, or more warps to share them"

ROWS: dict[str, Row] = {
    # ---- launch ------------------------------------------------------------------------------------------------------
    "kernel.launch": Row("Launch shape: {warps:warp}, {ctas:CTA}", name="RemarkKernelLaunch"),
    "kernel.warps-by-option": Row("as the option says"),
    "kernel.warps-by-kernel": Row("as the kernel says"),
    "kernel.warps-by-tiles": Row("chosen from its tiles"),
    "kernel.no-clusters": choice("{target} has no clusters: the tile block is one CTA"),
    "kernel.longest-first": choice("tile blocks start from the end of axis {axis}, where loops run longer"),
    "kernel.blocks-share": choice("{blocks} tile blocks, neighbours along x, may share copies in a cluster"),
    "kernel.fewer-ctas": choice("{ctas:CTA} to an SM instead of {asked}"),
    "kernel.needless-hint": choice("the plan without the occupancy hint leaves room for {asked:CTA} to an SM"),
    "kernel.plan-with-hint": choice(
        "{hint}: {ctas:CTA} to an SM, {registers} registers a thread, {shared} bytes of shared memory"
    ),
    "kernel.plan-without-hint": Row("without the hint {ctas:CTA}, {registers} registers, {shared} bytes"),
    "kernel.registers-needed": Row("a thread needs {registers} registers", _REGISTERS),
    "kernel.registers-of-instruction": Row("an instruction needs {registers} registers", _REGISTERS),
    "kernel.bytes-ahead": Row("loads that run ahead need {bytes} bytes of shared memory", _SHARED),
    "kernel.columns-needed": Row(
        "accumulators take {columns} columns of tensor memory", "smaller tiles, or a smaller occupancy hint"
    ),
    # ---- resources ---------------------------------------------------------------------------------------------------
    "kernel.resources": Row(
        "Kernel resources: {registers} registers a thread, {shared} bytes of shared memory",
        name="RemarkKernelResources",
    ),
    "kernel.resources-at-least": Row(
        "Kernel resources: {registers} registers a thread, at least {shared} bytes of shared memory",
        name="RemarkKernelResources",
    ),
    "kernel.spills": Row(
        "Registers spilled: {stored} bytes stored, {loaded} bytes loaded", name="RemarkKernelSpills", kind="missed"
    ),
    "kernel.most-registers": Row("a thread has at most {most} registers", _SPILLS),
    "kernel.registers-by-threads": Row("{threads} threads a CTA leave {registers} registers to each", _SPILLS),
    "kernel.occupancy": Row("Occupancy: {warps} of {most} warps", name="RemarkKernelOccupancy"),
    "kernel.limited-by-registers": Row(
        "{registers} registers a thread",
        _REGISTERS + "; an occupancy hint makes the compiler slice tiles for it",
    ),
    "kernel.limited-by-shared": Row("{bytes} bytes of shared memory a CTA", _SHARED),
    "kernel.limited-by-columns": Row(
        "{columns} columns of tensor memory a CTA", "smaller tiles, or a smaller occupancy hint"
    ),
    "kernel.limited-by-threads": Row("{threads} threads an SM"),
    "kernel.limited-by-ctas": Row("{ctas} CTAs an SM"),
    # ---- slices ------------------------------------------------------------------------------------------------------
    "slices.tile": choice(
        "the {shape} tile is worked on in {parts} slices: a thread would need {registers} registers"
    ),
    "slices.depth": choice(
        "the dot of {m}x{k} and {k}x{n} takes {parts} steps of K: a thread would need {registers} registers"
    ),
    "slices.matrices": choice("the {shape} dot is worked on in {parts} matrices"),
    "slices.steps": choice(
        "{parts} steps of {depth} along K instead of one of {whole}: shared memory holds {held} of {wanted} stages of "
        "{bytes} bytes"
    ),
    "slices.shared-by-ctas": choice("the {ctas} CTAs of the cluster share the {shape} tile"),
    "slices.first-cta": choice("the first of the {ctas} CTAs of the cluster does all the work"),
    "slices.executes-once": Row("'{op}' is not for every CTA", "compile with num-ctas=1"),
    "slices.cut-twice": Row("its tiles are cut in two ways", "store each tile once"),
    "slices.no-store": Row("it stores nothing", "compile with num-ctas=1"),
    "slices.scalar": Row("a scalar is stored once", "compile with num-ctas=1"),
    "slices.dependent": Row(
        "the stored tile has no {parts} independent slices", "store tiles whose rows or columns are independent"
    ),
    "slices.meets-other-cta": Row(
        "it may access elements that another CTA accesses before", "store and load the array in different kernels"
    ),
    # ---- options -----------------------------------------------------------------------------------------------------
    "options.defaults-differ": choice(
        "the command's defaults differ from those documented for 'tileir'"
    ),
}
