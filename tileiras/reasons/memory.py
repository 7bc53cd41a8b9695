"""Codes of memory: the width of accesses, loads that are reused, and uses of shared memory."""

from __future__ import annotations

from .row import Row, choice

_ALIGNMENT = (
    "state the alignment: assume div_by<16> on the pointer (cuTile Python: arrays whose signature has it, as those of "
    "torch and CuPy do)"
)
_RUNS = (
    "load through a view of the array instead of computed pointers, or make the offsets an iota plus a value with a "
    "known divisor (assume div_by<N>)"
)
_MASK = (
    "make the extent divide the tile, or state that it does (assume div_by<N> on the extent): the mask is then the "
    "same for the elements of a vector"
)

ROWS: dict[str, Row] = {
    # ---- accesses ----------------------------------------------------------------------------------------------------
    "access.load": Row(
        "Load instruction selected", name="RemarkMemoryLoadInstructionSelected", kind="passed", also=("bytes",)
    ),
    "access.store": Row(
        "Store instruction selected", name="RemarkMemoryStoreInstructionSelected", kind="passed", also=("bytes",)
    ),
    "access.atomic": Row(
        "Atomic instruction selected", name="RemarkMemoryAtomicInstructionSelected", kind="passed", also=("bytes",)
    ),
    "access.boxes": Row("Load instruction selected", name="RemarkMemoryLoadInstructionSelected", kind="passed"),
    "access.one-element": Row("an atomic update is of one element"),
    "access.gathered": Row(
        "elements are gathered", "load a tile of the array through a view, with consecutive indices"
    ),
    "access.no-unit-stride": Row(
        "no dimension is known to have a stride of 1",
        "give the view a static stride of 1 in the dimension that is contiguous in memory",
    ),
    "access.base-alignment": Row("the base address is known to be a multiple of {bytes} bytes only", _ALIGNMENT),
    "access.base-unknown": Row("nothing is known of the alignment of the base address", _ALIGNMENT),
    "access.stride-alignment": Row(
        "the stride of dimension {dim} is known to be a multiple of {bytes} bytes only",
        "state the divisor of the stride: assume div_by<N> on the stride of dimension {dim}, with N elements in 16 "
        "bytes; pad the rows of the array otherwise",
    ),
    "access.extent-alignment": Row(
        "the extent of the tile is known to be a multiple of {bytes} bytes only",
        "take a tile whose extent along the fastest dimension has at least 16 bytes",
    ),
    "access.short-runs": Row("addresses are known to be consecutive in runs of {elements} only", _RUNS),
    "access.scattered": Row("addresses are not known to be consecutive", _RUNS),
    "access.run-alignment": Row(
        "runs of addresses are known to start at multiples of {bytes} bytes only",
        "state the divisors of the pointer and of its offset: assume div_by<16> on the pointer, assume div_by<N> on "
        "the offset, with N elements in 16 bytes",
    ),
    "access.mask-runs": Row("the mask is known to be the same for {elements} consecutive elements only", _MASK),
    "access.mask-varies": Row("the mask may differ for each element", _MASK),
    "access.few-in-thread": Row(
        "a thread holds {elements:consecutive element} of the tile",
        "use fewer warps (num-warps) or a larger tile, so that a thread has 16 consecutive bytes",
    ),
    "access.interleaved": Row(
        "other elements of the tile lie between those of a wider access",
        "store in the order in which the tile is computed, or transpose the tile before the store",
    ),
    "access.reused": Row(
        "Elements come from a load before: {left} of {accesses} accesses are left",
        name="RemarkMemoryLoadReused", kind="passed",
    ),
    "access.same-load": Row("an earlier load has the same elements"),
    "access.shifted-load": Row("an earlier load has its elements, shifted by {distance} along dimension {dim}"),
    # ---- shared memory -----------------------------------------------------------------------------------------------
    "memory.allocated": Row("Shared memory allocated: {bytes} bytes", name="RemarkMemorySmemAllocated"),
    "memory.conversion-in-warp": Row(
        "Layout conversion: between the lanes of a warp", name="RemarkMemoryConversion"
    ),
    "memory.conversion": Row(
        "Layout conversion: {bytes} bytes of shared memory", name="RemarkMemoryConversion"
    ),
    "memory.conversion-user": Row("'{op}' at line {line} needs the elements in other threads"),
    "memory.exchange-rounds": choice("a tile goes through {bytes} bytes of shared memory in {rounds:round}"),
    "memory.stays-in-shared": choice("the {shape} tile stays in shared memory: the loop needs its registers"),
    "memory.copied-at-use": choice(
        "{loads:load} that cannot run ahead copy to shared memory where the tile is used"
    ),
    "memory.copied-at-once": choice("the {shape} tile goes to shared memory at once: a thread lacks registers"),
    "memory.carried-in-shared": choice(
        "{tiles:loop-carried tile} in shared memory while dots execute: a thread lacks registers"
    ),
    "memory.loads-hoisted": choice("{tiles:tile} loaded before operations with barriers or branches"),
    "memory.loads-sunk": choice("{tiles:tile} loaded at first use: a thread lacks registers"),
    "memory.loads-per-slice": choice("{tiles:tile} loaded for each slice: a thread lacks registers beside dots"),
    "memory.addresses-in-parts": choice(
        "addresses and conditions of {elements:element} at a time: those of {all} would take {registers} registers"
    ),
}
