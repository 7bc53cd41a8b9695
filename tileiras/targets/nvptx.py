"""The header of every LLVM module for a GPU (LLVM NVPTX usage guide; the data layout is LLVM 22's own)."""

TRIPLE = "nvptx64-nvidia-cuda"


_PARTS = ("nvidia", "cuda", "unknown", "")


def triple_error(triple: str) -> str:
    """The error message for the triple of a target; empty for 64-bit CUDA, with or without vendor and system.

    ptxas has no 32-bit addresses from sm_90 on, and the lowering uses 64 bits everywhere.  `gpulibs` is in the triple
    of libdevice, which is linked into modules and is not a target.
    """
    machine, *rest = triple.split("-")
    why = ""
    if machine == "nvptx":
        why = ", whose addresses have 32 bits"
    elif rest[1:] == ["gpulibs"]:
        why = ", which is a library's"
    elif machine == "nvptx64" and all(map(_PARTS.__contains__, rest)):
        return ""
    return f"failed to look up NVPTX target for requested triple: '{triple}'{why}"


LLVM_PTX_VERSIONS: tuple[tuple[int, int], ...] = tuple(
    (v // 10, v % 10)
    for v in (60, 61, 62, 63, 64, 65, 70, 71, 72, 73, 74, 75, 76, 77, 78, 80, 81, 82, 83, 84, 85, 86, 87, 88, 90)
)
"""The `+ptxNN` features of LLVM 22.  A version between two of them is served by the next one; a version above the last
is printed as the last and corrected in the module header (newer PTX is a superset)."""

DATA_LAYOUT = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
"""Written into every module so that linked-in code agrees with it."""

MODULE_HEADER = f'target datalayout = "{DATA_LAYOUT}"\ntarget triple = "{TRIPLE}"\n'

MIN_PTX_METADATA = "tileiras.min_ptx"
"""Named metadata with the PTX version that a module's inline assembly needs: `!{i32 major, i32 minor}`."""

OPT_LEVEL_METADATA = "tileiras.opt_level"
"""Named metadata of a module that is to be compiled at this level at most: `!{i32 level}`."""

REFLECTION_METADATA = "nvvm.reflection"
"""Named metadata with the results of `__nvvm_reflect` in libraries: nodes of a key and its value."""

REQUIREMENTS_METADATA = "tileiras.requires"
"""Named metadata with the requirements of inline assembly on the target's form: `!{!"=90a", !"=100f,120f"}`."""

BLOBS_METADATA = "tileiras.blobs"
"""Named metadata with the bitcode that the module brings along (`codegen/blobs.py`)."""

KERNELS_METADATA = "tileiras.kernels"
"""Named metadata with the launch description: per kernel `!{!"name", i64 shared bytes, parameters...}`, a parameter
being `!"name", !"type", !"how it is filled"`, with empty strings for absent values."""

PAIRS_METADATA = "tileiras.pairs"
"""Named metadata with the kernels that are launched in the place of others where tile blocks can be clusters: per
kernel `!{!"name", !"name of the other one"}`."""

ORDER_METADATA = "tileiras.order"
"""Named metadata with the certificates of order: per kernel `!{!"name", !"line"...}`, lines in the text form of
`order/certificate.py`."""

INLINED_METADATA = "tileiras.inlined"
"""Named metadata that tells positions of inlined code where they were inlined, which LLVM 22 does not print: per
position `!{!"file", i32 line, i32 column in LLVM's PTX, i32 column}`, for inlined code followed by `!"function"` and
file, line and column in LLVM's PTX of the call."""
