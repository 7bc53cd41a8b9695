"""Codes of dots: the instruction that multiplies, and the reasons against a larger one."""

from __future__ import annotations

from .row import Row, choice

_LARGER_TILES = "take tiles of {least} or larger: asynchronous dots have as many rows and columns"
_DEEPER = "take tiles with a K of {least} or more"
_OPERAND = "store the operand with K contiguous: transpose the array, or load a view whose last dimension is K"
_SMALLER = "smaller tiles along M or N, or more warps (num-warps)"
_TYPES = "convert the operands to a type that tensor cores multiply: f16, bf16, tf32, or an 8-bit float"
_NEWER = "compile for a newer GPU"

ROWS: dict[str, Row] = {
    "dots.tensor-cores": Row(
        "MMA operation successfully optimized to use Tensor Cores", name="RemarkTensorCoreMMA", kind="passed"
    ),
    "dots.fma": Row(
        "MMA operation failed to optimize to use Tensor Cores, it is using FMA instructions instead",
        name="RemarkTensorCoreFMA", kind="failed",
    ),
    "dots.promoted": choice(
        "sums of {depth} products in 13 fraction bits, as the instruction has them, are added to the accumulator in f32"
    ),
    "dots.fast-accumulation": choice(
        "sums have the 13 fraction bits of the instruction, as fast_acc permits: {depth} products a dot, and all of the"
        " loop around it"
    ),
    "dots.fma-unrolled": choice("dot fully unrolled: no shared memory is left for its operands"),
    # ---- asynchronous instructions -----------------------------------------------------------------------------------
    "dots.batch": Row("{instruction} is not used for batches", "multiply the matrices of a batch in a loop"),
    "dots.small": Row("{instruction} multiplies {least} and larger tiles, the dot is {m}x{n}", _LARGER_TILES),
    "dots.types": Row("{instruction} does not multiply {a} x {b} + {c}", _TYPES),
    "dots.scaled-types": Row(
        "{instruction} does not multiply {a} x {b} with scales of {scales} for {block} elements", _NEWER
    ),
    "dots.shallow": Row("K of {k} is less than the {least} of {instruction}", _DEEPER),
    "dots.few-warps": Row(
        "{instruction} needs {least} warps, the kernel has {warps}",
        "compile with num-warps of {least} or a multiple of it",
    ),
    "dots.idle-warpgroups": Row(
        "a dot of {m}x{n} has no work for {warpgroups} warpgroups", "larger tiles, or fewer warps (num-warps)"
    ),
    "dots.accumulator-registers": Row(
        "the accumulator takes {registers} registers of a thread, more than wgmma can have", _SMALLER
    ),
    "dots.accumulator-columns": Row(
        "the accumulator takes {columns} columns of tensor memory, of {most}", "smaller tiles along M or N"
    ),
    "dots.columns-for-warps": Row(
        "{columns} columns of tensor memory are too few for {warps:warp}", "larger tiles, or fewer warps (num-warps)"
    ),
    "dots.columns-in-use": Row(
        "{columns} columns of accumulators are in use at a time, of {most}", "smaller tiles along M or N"
    ),
    "dots.narrow-columns": Row(
        "tcgen05.mma takes 16 columns or more of 8-bit elements that are not contiguous along K", _OPERAND
    ),
    "dots.no-descriptor": Row("{rows} rows of {columns} elements fit no matrix descriptor", _OPERAND),
    "dots.no-wide-descriptor": Row("{rows} rows of {columns} elements along K fit no matrix descriptor", _OPERAND),
    "dots.no-spread-descriptor": Row("{rows} rows of {columns} elements fit no A of 64 spread rows", _OPERAND),
    "dots.operand-bytes": Row(
        "operands take {bytes} bytes of the {most} of shared memory that {instruction} can read",
        "smaller tiles along M or N, or fewer stages",
    ),
    # ---- instructions of a warp --------------------------------------------------------------------------------------
    "dots.scales-by-runs": Row(
        "{target} has no instruction that takes these scales: each run of K is scaled by itself", _NEWER
    ),
    "dots.no-instruction": Row("no tensor-core instruction multiplies {a} x {b} + {c}", _TYPES),
    "dots.no-instruction-but-near": Row(
        "no tensor-core instruction multiplies {a} x {b} + {c}; one multiplies operands of {near}",
        "convert the operands to {near}",
    ),
    "dots.target-lacks": Row(
        "{target} has no tensor-core instruction for {a} x {b} + {c}, which needs {needs}", "compile for {needs}"
    ),
    "dots.atom-needs": Row("{atom} needs {needs}", "compile for {needs}"),
    "dots.atom-deeper": Row("{atom} is deeper than the tile's K of {k}", "take tiles with a larger K"),
    "dots.atom-repeats": Row("{atom} would repeat rows or columns of a {m}x{n} tile", "take larger tiles"),
    "dots.not-generated": Row("{instruction} is not generated", "compile with opt-level above 0"),
}
