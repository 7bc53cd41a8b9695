"""Codes of pairs: two CTAs, or two tile blocks, that multiply together on Blackwell."""

from __future__ import annotations

from .row import Row, choice

_BOXES = "load operands through views of the arrays, with tensor maps (tensor-maps=host or device)"
_LOOP = "multiply in a loop over K of the kernel itself, whose accumulator begins with zero"
_AGENTS = "compile with pipeline-strategy=warp-specialize, and keep loads and dots alone in the loop over K"
_SAME_B = "give the CTAs, or neighbours along x, the same columns of B and the same trip count"

ROWS: dict[str, Row] = {
    "pairs.together": choice("two CTAs multiply together, each with half of B's columns"),
    "pairs.cta-alone": choice("each CTA multiplies by itself"),
    "pairs.blocks-alone": Row(
        "Tile blocks do not multiply in pairs", name="RemarkTensorCorePairs", kind="missed"
    ),
    # ---- the dot -----------------------------------------------------------------------------------------------------
    "pairs.rows": Row(
        "tcgen05.mma of a pair has {least} rows of each CTA, which has {rows}", "take tiles with {least} rows a CTA"
    ),
    "pairs.columns": Row(
        "tcgen05.mma of a pair has 32 to 256 columns, the dot {columns}", "take tiles with 32 to 256 columns"
    ),
    "pairs.accumulator-in-slices": Row("its accumulator is loaded in slices", "take smaller tiles"),
    "pairs.a-in-tensor-memory": Row("its A goes through registers to tensor memory", "load A for the dot"),
    "pairs.b-used-elsewhere": Row("B is used elsewhere as well", "load B a second time for the other use"),
    "pairs.descriptor": Row("half of B fits no matrix descriptor", "take tiles with more columns"),
    # ---- its operands ------------------------------------------------------------------------------------------------
    "pairs.no-loop": Row("tensor maps load ahead of loops, and the dot is in none", _LOOP),
    "pairs.nested-loop": Row("tensor maps load ahead of a nested loop with agents only", _AGENTS),
    "pairs.no-maps": Row(
        "without tensor maps threads copy its operands, and would wait for those of the other CTA", _BOXES
    ),
    "pairs.operand-not-in-boxes": Row("no tensor map loads its {operand}", _BOXES),
    "pairs.scales-not-in-boxes": Row("no tensor map loads the scales of its {operand}", _BOXES),
    "pairs.computed": Row("it is computed", _BOXES),
    "pairs.operand-computed": Row("{operand} is computed", _BOXES),
    "pairs.scales-in-other-order": Row("boxes cannot lie as copies to tensor memory read them", _BOXES),
    "pairs.no-agent-multiplies": Row(
        "no agent could multiply: its loop is not in one over tiles, or does not begin with zero", _AGENTS
    ),
    "pairs.threads-in-loop": Row("no agent could multiply: threads compute with tiles in its loop", _AGENTS),
    "pairs.reached-alone": Row("a CTA may execute the dot without the other", _SAME_B),
    "pairs.different-b": Row("the CTAs multiply with different B", _SAME_B),
    "pairs.different-scales": Row("the CTAs multiply with different scales of B", _SAME_B),
    # ---- tile blocks -------------------------------------------------------------------------------------------------
    "pairs.no-program-id": Row("the tile block index along x is not used", _SAME_B),
    "pairs.blocks-wait": Row("tile blocks may wait for each other", "synchronize by launches, not within one"),
    "pairs.dot-without-loop": Row("a dot is in no loop, so that no copy of its operands runs ahead", _LOOP),
    "pairs.trips-differ": Row("neighbours along x may execute a dot a different number of times", _SAME_B),
    "pairs.columns-differ": Row("neighbours along x are not known to have the same columns of B", _SAME_B),
    "pairs.large-tiles": Row(
        "dots of tiles this large are bound by the tensor cores, not by the shared-memory port"
    ),
    "pairs.no-launcher": Row(
        "only launchers that fill tensor maps read in NAME.json which kernel to launch", "compile with tensor-maps=host"
    ),
}
