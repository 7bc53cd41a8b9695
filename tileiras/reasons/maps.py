"""Codes of tensor maps: accesses that could be copies in boxes, and the rules that prevent it.

Texts that the vendor's tool has for a rule are its own (docs/diagnostics.md).
"""

from __future__ import annotations

from .row import Row

_VIEW = "access the array through a tiled view of global memory"
_ORDER = "make the access weak, and leave out the token that orders it"
_BY_DEVICE = "tensor-maps=device: the kernel creates the map"
_ALIGNMENT = (
    "state the alignment: assume div_by<16> on the pointer (cuTile Python: arrays whose signature has it, as those of "
    "torch and CuPy do)"
)
_MEMORY = "smaller tiles, or fewer stages (unspecialized-pipeline-num-stages), take less shared memory"
_ELEMENTS = "use elements of 1, 2, 4 or 8 bytes"
_READERS = "use the loaded tile for dots of one kind only"
_AGENTS = "pipeline-strategy=warp-specialize: an agent loads"

ROWS: dict[str, Row] = {
    "maps.unused": Row("Tile is not moved by a tensor map", name="RemarkMemoryTensorMap", kind="missed"),
    # ---- the access --------------------------------------------------------------------------------------------------
    "maps.no-tile": Row("it does not access a tile of a view", _VIEW),
    "maps.multicast-memory": Row("it accesses every copy of multicast memory", "access one copy"),
    "maps.no-reduction": Row("no copy in boxes combines {element} by '{mode}'",
                             "add f16, bf16, f32 or i32; signed min and max, and, or, xor of i32 or i64"),
    "maps.hint": Row("its hint allow_tma is false", "remove the hint allow_tma"),
    "maps.ordered": Row("it is ordered with accesses of other threads", _ORDER),
    "maps.ordered-in-cluster": Row(
        "it is ordered after an access of the kernel, and another CTA of the cluster may copy it", _ORDER
    ),
    "maps.store-alone": Row(
        "the kernel loads nothing in boxes, and would build a map for it alone",
        "tensor-maps=host: the map is filled before the launch",
    ),
    "maps.threads-wait": Row(
        "no agent copies for the loop, whose threads copy other tiles and wait for dots: all of them start copies in "
        "less time than one thread that starts dots as well",
        _AGENTS,
    ),
    # ---- the view ----------------------------------------------------------------------------------------------------
    "maps.view-kind": Row("expected a tiled view, got {view}", _VIEW),
    "maps.view-sparse": Row("expected a view without a sparse dimension", _VIEW),
    "maps.view-rank": Row("expected a view of 1 to {most} dimensions, got {rank}", "merge dimensions of the array"),
    "maps.view-elements": Row("expected elements of 1, 2, 4 or 8 bytes, got {element}", _ELEMENTS),
    "maps.view-padding": Row("expected a padding of zeros or NaN, got {padding}", "pad with zeros or NaN"),
    "maps.view-memory": Row("expected a view of global memory", _VIEW),
    "maps.memref-unknown": Row("its array is not known here", "create the view from arguments of the kernel"),
    "maps.base-computed": Row("the kernel computes its base pointer, unknown to the host", _BY_DEVICE),
    "maps.base-alignment": Row("base pointer not 16-byte aligned", _ALIGNMENT),
    "maps.no-unit-stride": Row(
        "no dimension is known to have stride 1",
        "give the view a static stride of 1 in the dimension that is contiguous in memory",
    ),
    "maps.tile-alignment": Row(
        "leading tile dimension not 16-byte aligned", "take tiles with a multiple of 16 bytes in a row"
    ),
    "maps.size-computed": Row("the kernel computes the size of dimension {dim}, unknown to the host", _BY_DEVICE),
    "maps.stride-computed": Row("the kernel computes the stride of dimension {dim}, unknown to the host", _BY_DEVICE),
    "maps.size-bits": Row(
        "the size of dimension {dim} has {bits} bits, coordinates of boxes {most}", "pass sizes as 32-bit integers"
    ),
    "maps.no-elements": Row("dimension {dim} has no elements", "launch no kernel for an empty array"),
    "maps.stride-alignment": Row(
        "stride of dimension {dim} not 16-byte aligned",
        "state the divisor of the stride: assume div_by<N> on the stride of dimension {dim}, with N elements in 16 "
        "bytes; pad the rows of the array otherwise",
    ),
    # ---- loads ahead of a loop ---------------------------------------------------------------------------------------
    "maps.view-in-loop": Row("its view is created inside of the loop", "create the view before the loops"),
    "maps.stage-bytes": Row("an mbarrier counts {most} bytes, not {bytes}", "smaller tiles"),
    "maps.read-in-two-ways": Row("dots read its tile in shared memory, and threads load it as well", _READERS),
    "maps.commits-behind-loop": Row(
        "commits of dots free its stages, and may be placed after its loop, inside of another one", _AGENTS
    ),
    "maps.read-by-fma": Row("multiply-adds read its tile, whose threads do not meet before they free it", _READERS),
    "maps.no-stage-boxes": Row("boxes cannot lie as its stages do in shared memory", _READERS),
    "maps.alone-nested": Row("each CTA of the cluster loads it: its loop is in another one, or in a branch", _AGENTS),
    "maps.alone-without-agent": Row("each tile block of the cluster loads it: no agent runs as far as the others do",
                                    _AGENTS),
    "maps.alone-single-stage": Row("each CTA of the cluster loads it: it goes through a single stage", _MEMORY),
    "maps.alone-indivisible": Row(
        "each CTA of the cluster loads it: its boxes cannot be divided among {ctas} CTAs", "larger tiles"
    ),
    # ---- stores ------------------------------------------------------------------------------------------------------
    "maps.no-boxes": Row("no boxes have its tile", "take tiles with a multiple of 16 bytes in a row"),
    "maps.small-tile": Row("its tile has {bytes} bytes, fewer than {least}", "larger tiles"),
    "maps.others-wait": Row("other tile blocks wait for it, and a copy in boxes takes longer",
                            "store without a lock that other tile blocks wait for"),
    "maps.bank-conflicts": Row("threads would write its tile with bank conflicts, as boxes have it in shared memory",
                               "transpose the tile before the store"),
    "maps.no-store-agent": Row("its warps run an agent, and no agent stores for them", "store in a loop over tiles"),
    "maps.pipe-too-small": Row("its tile has {bytes} bytes, the drained pipe {room}", _MEMORY),
    "maps.more-than-kernel": Row("its tile takes {bytes} bytes of shared memory, more than the kernel takes otherwise",
                                 _MEMORY),
    "maps.no-shared-memory": Row("no shared memory is left", _MEMORY),
}  # fmt: skip
