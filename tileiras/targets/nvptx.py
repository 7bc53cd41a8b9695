"""What every LLVM module for a GPU starts with (LLVM NVPTX usage guide; the layout is what LLVM 22 itself gives)."""

TRIPLE = "nvptx64-nvidia-cuda"

DATA_LAYOUT = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
"""Written into every module so that linked-in code agrees with it."""

MODULE_HEADER = f'target datalayout = "{DATA_LAYOUT}"\ntarget triple = "{TRIPLE}"\n'

MIN_PTX_METADATA = "tileiras.min_ptx"
"""Named metadata by which a module says which PTX version its inline assembly needs: `!{i32 major, i32 minor}`."""

REFLECTION_METADATA = "nvvm.reflection"
"""Named metadata: what libraries that ask `__nvvm_reflect` are told, nodes of a key and its value."""

REQUIREMENTS_METADATA = "tileiras.requires"
"""Named metadata with what its inline assembly needs of the target besides a number: `!{!"=90a", !"=100f,120f"}`."""

BLOBS_METADATA = "tileiras.blobs"
"""Named metadata with the bitcode that the module brings along (`codegen/blobs.py`)."""

KERNELS_METADATA = "tileiras.kernels"
"""Named metadata that carries what a launcher must know: per kernel `!{!"name", i64 shared bytes, parameters...}`, a
parameter being `!"name", !"type", !"how it is filled"` with empty strings where there is nothing to say."""

INLINED_METADATA = "tileiras.inlined"
"""Named metadata that tells positions of inlined code where they were inlined, which LLVM 22 does not print: per
position `!{!"file", i32 line, i32 column in LLVM's PTX, i32 column}`, for inlined code followed by `!"function"` and
file, line and column in LLVM's PTX of the call."""
