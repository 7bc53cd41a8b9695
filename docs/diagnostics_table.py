"""Every documented diagnostic: its text, the layer that says it, what brings it about, the exit code, or why it cannot
be brought about here.  `docs/diagnostics.md` is made from this: python docs/diagnostics_table.py

Texts are contract, misspellings included; capital letters N, X, Y, Z and words in angle brackets stand for what
varies.  `tests/diagnostics` brings every one about that can be.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Row(NamedTuple):
    """`why_not` is empty for a diagnostic that can be provoked."""

    text: str
    trigger: str
    code: int
    why_not: str = ""


NO_TMA = "an access that breaks a rule of tensor maps is made without one, with a remark that names the rule"
NO_AGENTS = (
    "agents and pipes are made whole by one pass and merged by none; else there is one agent, with a remark"
)
NO_PLACEMENT = (
    "a loop that the modulo scheduler cannot place, or whose placement does not fit, keeps its plain schedule, with a "
    "remark (scheduling.md)"
)
PUBLISHED = "the analysis stands in the IR, as attributes that its reader checks; no pass can invalidate it silently"
TCGEN05_TABLE = "dots go by the rows of `targets/atoms/tcgen05.py`; dots without a row go to mma.sync, with a remark"
TENSOR_BUDGET = "a dot whose accumulator finds no columns goes to mma.sync, with a remark"
TENSOR_LAYOUTS = "the registers of a tile follow from its place in tensor memory"
NO_CONVOLUTION = "Tile IR has no convolutions: they are written as products"
NO_HOST = "callbacks have nothing to do: launchers read NAME.json"

LAYERS: dict[str, tuple[Row, ...]] = {
    "Command, library and C interface": (
        Row("failed to allocate memory for program", "no memory for a handle", 1),
        Row("configuration is null", "`Program.create(None)`, a null pointer in C", 2),
        Row("input buffer is null", "a configuration without input", 2),
        Row("GPU architecture <name> is not supported by this version of tileiras.", "a GPU that is not known", 2),
        Row("unsupported GPU target", "a GPU that is not known", 2,
            "the installed tool (13.5) has another text, the one before, and so have we"),
        Row("invalid optimization level: N", "a level that is not 0 to 3", 2),
        Row("optimized debugging is currently not supported, change the optimization level to 0 or disable full debug "
            "info", "`--device-debug` above level 0", 2),
        Row("optimized debugging is not supported, change optimization level to 0 or disable full debug info",
            "`--device-debug` above level 0", 2, "the text of 13.1; the one before is that of 13.5"),
        Row("unsupported host architecture", "a number that stands for none", 2),
        Row("unsupported host operating system", "a number that stands for none", 2),
        Row("input does not correspond to Tile IR bytecode", "bytes that are neither text nor bytecode", 3),
        Row("input does not correspond to Tile IR bytecode (it looks like MLIR bytecode instead)",
            "MLIR's own bytecode", 3),
        Row("failed to parse IR bytecode (it looks like MLIR bytecode instead)", "MLIR's own bytecode", 3,
            "the text of 13.1; the one before is that of 13.5"),
        Row("failed to parse IR bytecode", "bytecode that cannot be read", 5,
            "13.5 ends with `input does not correspond to Tile IR bytecode` and 3, after the place"),
        Row("program is null", "a null handle, or one that was released", 4),
        Row("output pointer is null", "a null pointer for the output in C", 4),
        Row("program has not been compiled", "output asked for before a compilation", 4),
        Row("unable to read controls file '<path>': <reason>", "an `--apply-controls` that cannot be opened", 2),
        Row("public-preview bytecode requires at least one enabled preview feature",
            "bytecode with previews, and no `--preview`", 3),
        Row("libraries require the 'simt' preview feature", "`-l` without `--preview=simt`", 5),
        Row("failed to open tile library: <reason>", "an `-l` that cannot be opened, or is no object file", 5),
        Row("failed to load linkage provider: <path>", "an object file that is no tile library", 5),
        Row("failed to read interface and splice it into the module", "a tile library whose interface is damaged", 5),
        Row("failed to compile Tile IR program", "the last line of every failed compilation", 5),
        Row("no input file provided", "a command line without input", 1),
        Row("unable to read input file '<path>': <reason>", "an input that cannot be opened", 1),
        Row("cannot read '<path>': <reason>", "an input that cannot be opened", 4,
            "the text of 13.1; the one before is that of 13.5"),
        Row("failed to emit relocatable object", "packaging", 5, "the output is the cubin itself"),
        Row("Please specify the toolkit path", "no toolkit root", 5, "programs are looked for in several places; "
            "the missing ones are named"),
        Row("could not find libdevice.bc", "a kernel that calls libdevice, which is nowhere", 5),
        Row("Please provide a valid dumpSassCommand. For example, `nvdisasm -c`.", "an empty `--dump-sass-command`", 5),
    ),
    "Child processes": (
        Row("Program could not be executed", "a ptxas that is no program, or exit status 126 or 127", 5),
        Row("Couldn't fork", "no process left", 5),
        Row("Child timed out", "a program that takes longer than `--child-timeout`", 5),
        Row("Child timed out but wouldn't die", "a program that outlives its end", 5,
            "SIGKILL cannot be caught; a process that the kernel does not let go of is needed"),
        Row("<program> ended with <signal>", "a signal, with ` (core dumped)` when memory was", 5),
        Row("<program> failed with exit status N", "another exit status, with the program's own words", 5),
        Row("could not find ptxas", "no ptxas anywhere", 5),
        Row("could not find nvdisasm", "no nvdisasm anywhere", 5),
    ),
    "Bytecode": (
        Row("invalid magic number at position N, got X expected Y", "another first byte", 3),
        Row("unsupported Tile version X", "a version that is not read", 3),
        Row("non-canonical VarInt", "an integer in more bytes than it needs", 3),
        Row("unsupported AttributeTag N", "an attribute of no known kind", 3),
        Row("unknown attribute tag N", "an attribute of no known kind", 5, "the reference's text is the one before"),
        Row("unknown or unimplemented opcode: N", "an operation of no known number", 3),
        Row("section length X exceeds remaining data size Y", "a section that ends behind the file", 3),
        Row("operation being parsed with an unregistered dialect", "an operation of no dialect in text", 3),
        Row("elements of type <type> cannot be written", "`dense<...>` of integers of 9 to 15 bits, say, or 128", 3),
        Row("unregistered dialect: <name>", "a dialect that is not public", 5,
            "bytecode has numbers for its operations and no names of dialects"),
    ),
    "cuda_tile": (
        Row("expects a non-empty block", "a reduction without a combiner", 3),
        Row("expect non-empty block", "a reduction without a combiner", 3,
            "a trait's text, the one before, comes first"),
        Row("expect 0-rank tile type at index: N", "a combiner of tiles", 3),
        Row("expect number of terminators operands (X) to match number of operands (Y)",
            "a combiner that yields more", 3),
        Row("expected TileType for operand and terminator types but got: X and Y", "a combiner that yields no tile", 3),
        Row("expected TileType for block arguments but got types: <types>", "a combiner of no tiles", 3,
            "the installed tool says `expect 0-rank tile type at index`, and so do we"),
        Row("only pure operations allowed", "a combiner with effects", 3,
            "the installed tool names the operation: `invalid op: `"),
        Row("all dimensions must be positive constants, got X", "a tile of no elements", 3),
        Row("all dimensions must be powers of two, got X", "a tile of 3 elements", 3),
        Row("tile would exceed the maximum of N elements", "a tile of 2^25 elements", 3),
        Row("divisor must be a power of 2", "`assume div_by<3>`", 3),
        Row("'every'/'along' must be used in combination", "`assume div_by<4, every 2>`", 3),
        Row("'every'/'along' cannot be used if the constrained value is a tensor_view", "an assumption on a view", 3),
        Row("'every'/'along' cannot be used if the constrained value is a 0D tile", "an assumption on a scalar", 3),
        Row("Incompatibility with architecture '<name>': unsupported type '<type>'", "f8E4M3FN on sm_80", 5),
    ),
    "nv_tileaa and nv_tileas": (
        Row("invalid or missing --compute-capability option", "`convert-cudatile-to-tileaa` for no GPU", 5),
        Row("failed to convert cuda_tile to nv_tileaa", "an operation without a rule", 5),
        Row("failed to convert nv_tileaa to nv_tileas", "a function that is converted in part", 5),
        Row("failed to assign layouts", "a function in part of which tiles have layouts", 5),
        Row("the <shape> tile leaves each of N threads M elements",
            "a tile that cannot be cut into slices, of more than 8,192 elements in a thread", 5),
        Row("'nv_tileaa.func' op is in state '<state>', pass '<pass>' needs '<state>': run '<pass>' first",
            "a pass on nv_tileas without the one before it", 5),
        Row("'nv_tileaa.func' op has no number of warps, which pass '<pass>' needs: "
            "run 'tileas-assign-num-warps' first", "a pass that slices without the one before it", 5),
        Row("failed to get the target spec", "a function for no GPU", 3),
        Row("Kernel functions do not support return with operands", "a kernel with a result", 3),
        Row("missing source layout", "a conversion of a tensor without a layout", 3),
        Row("fails to assign layout", "a conversion to a tensor without a layout", 3),
        Row("expected the element types of A, B, C, and D to be either all integers or all floats.",
            "a product of integers into floats", 3),
        Row("expects #A and #B have same bit width but got X", "a product of 8 and 16 bits", 3),
        Row("expect signedness attribute for operand A", "a product of integers without signs", 3),
        Row("expects #C element type to be f32, but got X", "a product of bf16 into f16", 3),
        Row("expects #C element type to be either f32 or f16, but got X", "a product of f8 into f64", 3),
        Row("fp4 mma should expect scaling factors", "a product of 4-bit floats without scales", 3),
        Row("expects rank-2 or rank-3 tensor for result, but got (N)", "a product of vectors", 3),
        Row("expects the shape of operand #A and #B to be compatible", "factors of different depth", 3),
        Row("expects the shape of operand #C is compatible with operands #A and #B", "an accumulator of other size", 3),
        Row("mem_scope not supported when mem_semantic is weak", "a weak access with a scope", 3),
        Row("mem_scope required when mem_semantic is not weak", "an ordered access without a scope", 3),
        Row("unsupported mem_semantic: X", "a load that releases, a store that acquires", 3),
        Row("expects N coordinates, but got M", "an access with too few coordinates", 3),
        Row("requires the same shape for tileSize and tensor value", "a tile that is not the view's", 3),
        Row("view elementType not equal with tensor element type: X != Y", "a tile of other elements", 3),
        Row("tiled_atomic_rmw not supported for 8-bit types", "an update of bytes", 3),
        Row("tiled_atomic_rmw not supported for 16-bit integer", "an update of 16-bit integers", 3),
        Row("tiled_atomic_rmw for 16-bit float only supports add, max, min operations", "`and` on f16", 3),
        Row("tiled_atomic_rmw op cannot use xchg operation", "an exchange through a view", 3),
        Row("tiled_atomic_rmw op cannot use fadd operation, please use add instead for both int and float types",
            "`fadd`", 3, "the mode of sums of floats is `addf` here, and the one to use"),
        Row("mma block scale is not supported by compute capability < sm100", "a block-scaled atom for sm_80", 5),
        Row("unsupported operation for target", "an atom that the GPU lacks", 5),
        Row("expect a ldgsts, tma_load, ldg or unknown_copy atom type", "a load with the atom of a store", 5),
        Row("expect a stg, tma_store or unknown_copy atom type", "a store with the atom of a load", 5),
        Row("expects regions to end with '<operation>'", "another terminator", 3),
        Row("expects parent op '<operation>'", "a return outside of a function", 3),
        Row("failed to infer source layout", "layout inference", 5,
            "layouts flow from accesses and products; every operation has a rule"),
        Row("failed to infer 2d layout", "layout inference", 5, "as the one before"),
        Row("failed to find available mma partition", "layout inference", 5, "multiply-adds fit every shape"),
        Row("TODO: only reg and smem layouts are supported at the moment", "a tile in tensor memory", 5,
            TENSOR_LAYOUTS),
        Row("plugin has unsupported feature", "plugin operations", 5, "Tile IR has no operations of plugins"),
        Row("failed to convert block signature", "generated regions", 5,
            "no operation computes elements from their places by a region"),
        Row("expect operands with queue types", "queues", 5, "there are no queues: agents have pipes from the start"),
        Row("expects both SFA and SFB to be present", "one scale of two", 3,
            "a block-scaled product has both operands, by its syntax"),
        Row("sfa and sfb element type mismatch", "scales of two types", 3),
        Row("expects c type to be Float32", "a block-scaled product into f16", 3),
        Row("Scale factor vector size mismatch:X, Y", "scales for runs of two lengths", 3),
        Row("unsupported block-scaled mma configuration", "a form without an instruction", 5,
            "operands that no instruction takes are multiplied run by run"),
        Row("expects non-empty tileSizes", "a view without tile sizes of memory with dimensions", 3),
        Row("expects non-empty dimGroups", "tile sizes without dimensions", 3),
        Row("expects dim is being tiled only one time, but got X", "`dim_map = [0, 0]`", 3),
        Row("expects rank of tileSizes be equal to rank of dimGroups, but got X", "more tile sizes than dimensions", 3),
        Row("expects all tile size bigger than zero", "a tile size of 0", 3),
        Row("expects filter size must be in range 1 to 3", "convolutions", 3, NO_CONVOLUTION),
        Row("expects conv params size matched with each other", "convolutions", 3, NO_CONVOLUTION),
        Row("expects channel must be a dimGroup", "convolutions", 3, NO_CONVOLUTION),
        Row("expects channel dimGroup should contain only channel", "convolutions", 3, NO_CONVOLUTION),
        Row("expects region arguement types to match with producer types [X], but got: [Y]",
            "a producer or consumer whose region takes other tiles", 3),
        Row("expects region result types to be match with operation result types [X], but got: [Y]",
            "a consumer whose region yields something else", 3),
        Row("expects CoordType is same as memref index type, but got X", "coordinates of another type", 3,
            "coordinates of any integer type are taken, and a memref has no index type"),
        Row("memScope not supported when memSemantic is weak", "a weak update with a scope", 3),
        Row("memScope required when memSemantic is not weak", "an ordered update without a scope", 3),
        Row("incorrect number of in_bounds elements: expected N, but found M", "a promise for another number of "
            "dimensions", 3),
        Row("inbounds must be true when paddingValue is not set", "in-bounds flags", 3,
            "without a padding value, elements outside are unspecified; that is no mistake"),
        Row("inbounds must be false when paddingValue is set", "in-bounds flags", 3,
            "a promise makes the padding of a view superfluous, not wrong"),
        Row("special padding values (nan, pos_inf, neg_inf, neg_zero) only for float-like element types",
            "padding of integers by NaN", 3),
    ),
    "Tensor maps": tuple(
        Row(text, "tensor maps", 5, NO_TMA)
        for text in (
            "expect a tma_load atom type", "expect a tma_store atom type", "expect a tma_redg atom type",
            "TmaReduceOp do not support SCATTER4 mode",
            "invalid TMA atom type", "expected tma descriptor pointer to have alignment at least N",
            "tma boxDims[0] * elemTypeBitWidth is not a multiple of 16 bytes",
            "tma leading box-dim bit-width is not 16 bytes aligned", "tmaBoxDim and atomBoxDim length mismatch",
            "tmaBoxDim and atomBoxDim mismatch", "tma box-dim and copy atom box-dim mismatch",
            "smem layout is not TMA compatible", "only support element_stride = 1 tma desc",
            "unsupported tma load mode '<mode>'",
            "mcast is not supported for TMA load with less than 128bytes per atom",
            "missing or invalid num_multicast for a multicast TMA load", "TmaLoad only support zero padding now",
            "GatherTmaLoad only support zero padding now",
            "padding value is not supported for TMA load with non-zero padding value", "tmaIdx exceed tmaHostNum.",
            "tmaIdx exceed tmaDeviceNum.", "not find tmaIdx.", "funcOp lack tmaDeviceNum and tmaHostNum attr",
            "failed to find smem buffer address for mbarrier", "failed to get expected tx-count",
            "failed to init mbarrier", "Failed to init mbarrier", "failed to get MBarrier object",
            "values depended by MakeTiledTMADescOp are not supportedbecause X matches more than 1 captured values.",
            "expected MakeTiledTMADescOp not depends on scf", "expect lower MakeTiledTMADescOp",
            "math dialect not suppourt in separateHostTMA pass in the moment.", "too many device TMA descriptors",
            "TMA rank must be in the range 1..5", "im2col tensor copies require at least three dimensions",
            "wide im2col tensor copies are not supported on this architecture",
            "two-CTA TMA tensor copies are not supported on this architecture",
            "cluster multicast TMA requires a compatible SM target",
        )
    ),
    "Pipelines and schedules": (
        Row("pass '<pass>' anchored on '<operation>' added to pipeline anchored on '<operation>'",
            "a pass in a pipeline of another operation", 2),
        Row("nested pipeline anchor must be IsolatedFromAbove", "a pipeline over `scf.for`", 2),
        Row("'tileir' has no option '<name>'", "an option of `tileir{...}` that there is not", 2),
        Row("between-pass verifier rejected IR after '<pass>'", "a pass that leaves invalid IR", 5),
        Row("kernel '<kernel>' takes tensor maps, which a tile launch does not make",
            "`tensor-maps=host` with `tile-launch`, for a host that there is no code for", 2),
        Row("Failed to pipeline loop", "a loop whose loads have no room to run ahead; a remark", 0),
        Row("warp-specialize (<variant>): the warps of this kernel are not specialized",
            "`pipeline-strategy=warp-specialize`, for a kernel that cannot be split; a remark with the reason", 0),
        Row("Failed to specialize warps", "a loop of the schedule `warp_specialize` that cannot be split; a remark", 0),
        Row("pass failed; per-op verifier may have fired", "a pass that makes something invalid", 5),
        Row("pass '<pass>' between schedule generation and materialization does not preserve ScheduleAnalysis",
            "a pass at the wrong place", 2, PUBLISHED),
        Row("cleanup pass invalidated ScheduleAnalysis; rerun constraint generation or remove the pass",
            "a pass at the wrong place", 5, PUBLISHED),
        Row("modulo scheduler returned no feasible II", "a loop without a schedule", 5, NO_PLACEMENT),
        Row("failed to find a schedule", "a loop without a schedule", 5, NO_PLACEMENT),
        Row("failed to legalize schedule", "a loop without a schedule", 5, NO_PLACEMENT),
        Row("failed to legalizeLoopScheduleForMaterialization", "a loop without a schedule", 5, NO_PLACEMENT),
        Row("reproducer generated at `<path>`", "`--mlir-pass-pipeline-crash-reproducer`; a note", 5),
        Row("fails to resolve lifetime", "buffer assignment", 5, NO_PLACEMENT),
        Row("fails to assign named barrier", "buffer assignment", 5, NO_AGENTS),
        Row("fails to assign smem buffer", "buffer assignment", 5, "a load without room stays where it is"),
        Row("fails to assign tmem buffer", "buffer assignment", 5, TENSOR_BUDGET),
        Row("share pipeline buffer", "buffer assignment", 0, "each pipe has buffers of its own"),
        Row("unable to merge two different pipelines: X", "pipes", 5, NO_AGENTS),
        Row("mbarrier has wait-like users, cannot share pipeline buffer.", "pipes", 5, NO_AGENTS),
        Row("using transaction mbarrier is not supported", "pipes", 5, NO_AGENTS),
        Row("the producer_tail implemented with named barrier does not yet support user payload", "pipes", 5,
            NO_AGENTS),
        Row("Alias is not expected here.", "materialization", 5, NO_AGENTS),
        Row("there are two `produce-one-like` operations using different instructions to generate data into the same "
            "pipeline. It's a bug of MaterializeAsync Pass.", "materialization", 5, NO_AGENTS),
        Row("failed to query target spec for convert_layout", "materialization", 5,
            "conversions are lowered with the target at hand"),
        Row("inconsistent numWarps in the agent switch, maybe it is called in different agents with different numWarps",
            "a kernel with switches of different numbers of warps", 5),
        Row("Kernel is already dynamic persistent", "`dynamic-persistent` twice", 0, "a tile block computes one tile"),
        Row("TileASRemoveBufferAliasPass failed to converge", "buffer aliases", 5, "buffers have one name each"),
        Row("RemoveBufferAlias: not supported operation type", "buffer aliases", 5, "buffers have one name each"),
        Row("Yielded alias not implemented yet", "buffer aliases", 5, "buffers have one name each"),
        Row("failed to rewrite in buffer layout propagation", "layout removal", 5, "layouts are assigned once"),
        Row("failed to rewrite in reg layout propagation", "layout removal", 5, "layouts are assigned once"),
        Row("LowerTMALoadStoreToAsync: missing or invalid KernelSpecAttr on function",
            "a function without `kernel_spec`, which the verifier refuses first: with `--no-verify`", 5),
        Row("failed to apply patterns greedily", "patterns that undo one another", 5),
        Row("The `sliceCount` need to be a `IntegerAttr`", "slicing", 5, "slices are chosen by the schedule"),
        Row("unsupported op in Slicing pass", "slicing", 5, "what cannot be sliced stays whole"),
        Row("unsupported op to be a lower bound in slicing pass ", "slicing", 5, "as the one before"),
        Row(" fail to get an initial forOperand in slicing pass ", "slicing", 5, "as the one before"),
        Row("is not expected inside sliced part in SlicingPass", "slicing", 5, "as the one before"),
    ),
    "Target and NVVM": (
        Row("failed to get compute capability.", "a gpu.module for no GPU, or for one that is not known", 5),
        Row("no target attribute", "a gpu.module without a target that is translated", 5),
        Row("gpu.module already carries a conflicting target", "a gpu.module of another target", 5),
        Row("Formal parameter space overflowed (X bytes required, max Y bytes allowed) in function Z",
            "a kernel with more bytes of parameters than ptxas takes", 5),
        Row("formal parameter space overflowed: X > Y bytes for sm_N", "as the one before", 5,
            "the text of another page for the one before"),
        Row("argument N has scalable type; not supported in NVVM kernels", "LLVM IR with a scalable vector", 5),
        Row("a function that is not __global__ cannot be launched", "a launch of a function that is no kernel", 5),
        Row("A pointer to local memory or memory in 'addrspace(0)' has been used as a launch argument. Dereferencing "
            "this within the launch is undefined", "a launch with a pointer to the stack; a warning", 0),
        Row("opaque parameter type", "a parameter of unknown size", 5,
            "LLVM refuses one before: the attribute that passes a value has to have a sized type"),
        Row("atomicRMW ADDF with bf16 is not supported", "a sum of bf16 below sm_90", 5,
            "it is compiled as a loop of exchanges"),
        Row("High register usage", "a kernel that takes many registers; a warning", 0,
            "registers are ptxas's to give: spills are a remark"),
        Row("'<attribute>' attribute must be integer array with maximum 3 index", "dimensions of four numbers", 5),
        Row("'<attribute>' attribute must be integer constant", "a text that is no number", 5),
        Row("'<attribute>' attribute must be a unit attribute", "a flag with a value", 5),
        Row("'<attribute>' attribute must be positive, got N", "zero threads, registers or CTAs, and less", 5),
        Row("'<attribute>' attribute must be at most N, got M", "clusters of more than 16 CTAs, numbers of 64 bits", 5),
        Row("'<attribute>' attribute asks for N threads; a CTA has 1 to M", "more threads than a CTA has", 5),
        Row("'<attribute>' attribute cannot be used along with '<attribute>'", "two that say the same", 5),
        Row("'<attribute>' attribute of a kernel is not known", "`nvvm.` and an unknown word", 5),
        Row("'nvvm.cluster_dim' attribute needs sm_90 or newer", "a cluster on sm_80", 5),
        Row("'nvvm.blocksareclusters' attribute must be used along with 'nvvm.reqntid' and 'nvvm.cluster_dim'",
            "clusters of unknown size", 5),
        Row("mbarrier requires shared-memory operand", "a barrier elsewhere", 3),
        Row("printf format string must be a constant address space pointer", "a format that is not constant", 5),
        Row("unsupported printf form (op-tag = N)", "printf", 5, "every form of print_tko is lowered"),
        Row("region types conversion failed", "function boundary", 5, "kernels have one way to be lowered"),
        Row("failed to convert function signature type for: X", "a kernel that takes a tensor", 5),
        Row("Failed to get ComputeCapability", "`convert-tileas-to-llvm` for no GPU", 5),
        Row("fails to decompose print ops", "bodies", 5, "printing is one rule"),
        Row("fails to do bufferization analysis", "bodies", 5, "tiles are values"),
        Row("failed to lower PDL pattern module to the PDL Interpreter", "bodies", 5, "patterns are Python"),
        Row("Building op `<op>` but it isn't known in this MLIRContext", "bodies", 5,
            "a dialect is loaded when one of its names is met"),
    ),
    "LLVM": (
        Row("LLVM could not generate code for <gpu>", "LLVM ends its process", 5),
        Row("LLVM refused the module", "LLVM IR that is not well formed", 3),
        Row("Unresolved extern function '<name>'", "a function that nothing defines", 5),
        Row("blobLinkedLib: bitcode path does not exist or is not a file", "a blob that is not there", 5),
        Row("blobLinkedLib: failed to parse embedded bitcode", "a blob that is no bitcode", 5),
        Row("unsupported NVPTX synchronization scope", "a fence of an unknown scope", 3),
        Row("__nvvm_reflect can only be used in a call instruction", "its address taken", 5),
        Row("__nvvm_reflect requires exactly one argument", "a call without one", 5),
        Row("__nvvm_reflect argument must be a constant string", "a call with a pointer from elsewhere", 5),
        Row("__nvvm_reflect argument must be a string constant", "a call with an empty string", 5),
        Row("__nvvm_reflect argument must be a null-terminated string", "a call with a string without its end", 5),
        Row("__nvvm_reflect argument cannot be empty", "a call with an empty string", 5,
            "LLVM says of it that it must be a string constant"),
        Row("PTX version X does not support <gpu>", "`--ptx-version` below the release that the code requires", 2),
        Row("failed to look up NVPTX target for requested triple",
            "LLVM IR or a target for another machine, for 32 bits, or `gpulibs`", 5),
        Row("data layout of another machine: <part>", "LLVM IR with other sizes or alignments", 5),
        Row("functions are for '<processor>', which is no GPU", "LLVM IR with another `target-cpu`", 5),
        Row("'<name>' annotation must be a positive number, got X", "`!nvvm.annotations` in LLVM IR", 5),
        Row("'<name>' has arg = N, which is '<name>' already", "two variables that are one parameter", 5),
        Row("target machine unavailable; cannot optimize with LLVM", "no target machine", 5,
            "LLVM makes one for every processor of our table"),
        Row("invalid LLVM optimization level", "a level that is not 0 to 3", 2, "levels are checked as options"),
        Row("Cannot select", "an instruction that LLVM cannot select", 5,
            "intrinsics are admitted by our tables first; what else LLVM gives up on has other texts"),
        Row("WGMMA requires sm_90a", "wgmma without the letter", 5,
            "the letter of `.target` follows from the instructions; other GPUs do not get them"),
        Row("cvt_packfloat intrinsic needs atleast SM90 and PTX >= 78", "packed conversions", 5,
            "conversions are chosen by target, or computed"),
        Row("nvvm.mma.blockscale currently supports non-sync aligned variants only!", "block scale", 5,
            "the operation has no other variants"),
        *(
            Row(text, "tcgen05", 5, TENSOR_LAYOUTS if "tmem layout" in text else TCGEN05_TABLE)
            for text in (
                "INT8 type is supported only on arch-conditional variants",
                "MXF4 sparse variants require an arch-conditional target",
                "explicit scale vector size requires an arch-conditional target",
                "scale input accumulator is not supported on this architecture",
                "block scale does not support this input type", "ashift is not supported with block-scale variants",
                "cta_group::2 is not supported with weight-stationary mode",
                "weight-stationary mode does not support MX or FP4 input families",
                "colletor::a use/fill cannot be combined with ashift",
                "scale vector size is not legal for this input family",
                "failed to infer register layout from tmem layout", "failed to infer source layout from tmem layout",
            )
        ),
    ),
    "Target and module attachments": (
        Row("<attribute> has no parameter '<name>'",
            "an unknown key of `#nvvm.target`, `kernel_spec`, a layout, a view or a variable", 3),
        Row("<attribute> has parameter '<name>' twice", "a key that is there already", 3),
        Row("target has no feature '<feature>'", "features that LLVM has not", 3),
        Row("target feature '<feature>' is not that of chip '<chip>'", "features of another GPU", 5),
        Row("target flags must be a dictionary, got X", "`#nvvm.target<flags = 3>`", 3),
        Row("target asks for a module that is linked later", "`#nvvm.target<link = true>`", 5),
        Row("expects targets to be #nvvm.target, got X", "`gpu.module @m [42]`", 3),
        Row("gpu.module has N targets; it is compiled for one", "two targets", 5),
        Row("'nv_tileaa.compute_capability' must be an integer such as 90, got X", "a string", 5),
        Row("module is for <gpu>, the compilation for <gpu>", "`nv_tileaa.compute_capability` of another GPU", 5),
        Row("optimization level must be a number between 0 and 3", "`#nvvm.target<O = 4>`", 3),
        Row("target chip cannot be empty", '`#nvvm.target<chip = "">`', 3),
    ),
}  # fmt: skip

HEADER = """\
# Diagnostics

For users who read or process messages, and for contributors who add one.

A diagnostic is `FILE:LINE:COLUMN: error: MESSAGE`, the line and a caret, with notes after it; the command prints
`loc("FILE":LINE:COLUMN): error: MESSAGE` for bytecode, as the vendor's does, with the column that the file has: cuTile
Python counts from 0. Bytecode with debug information leads to the line of the user's Python; of other bytecode a note
names the operation and its kernel. `--diagnostics=json` prints an object a line, also of a command line that cannot be
read: `severity`, `message`, `file`, `line`, `column`, `notes`, and for remarks `kind`, `category`, `name`, `function`,
`arguments`, `reason`. A diagnostic that is repeated at one place is printed once.

Severities have the numbers 1 (note), 2 (warning), 3 (error) and 4 (remark) in the low byte of their word; bit 8 marks
an error about an operation and a note, bit 9 a diagnostic whose child has the trace. The site that emits a diagnostic
gives it its word: 0x103 for an error about an operation, as the verifiers' are, 3 for one about a place in a text,
0x101 for a note, 0x104 for a trace; an error that ends a call of the driver has the word of its exit code, below
(`Diagnostic.word`, `CompileError.word`). Bit 10 is that of a rejection: the documentation has 0x503 for these on one
page and 2563, 0xA03, on another. Only errors change the exit code.

An engine (`tileiras.diagnostics.DiagnosticEngine`) calls the handlers registered with it, in their order; the first
that returns True keeps a diagnostic for itself, others are collected. Threads may share an engine: it handles one
diagnostic at a time. `--mlir-print-stacktrace-on-diagnostic` adds a note with the place in the compiler where a
diagnostic was created.

A message consists of fragments, texts and integers (`Diagnostic.fragments`). Handlers in C
(`tileirasSetDiagnosticHandler`) get the documented body: 208 bytes, the severity word at 0x10, four arguments of 24
bytes from 0x28 on, further ones in memory of their own, and a byte that guards against a second flush
(`diagnostics/body.py`, `tileiras.h`). Notes have whole bodies, not the 192 bytes of the documentation, and there is no
sink. A pass that fails softly sets bit 2 of the status word at offset 40 of its object (`Pass.object`), after a
diagnostic: the call that sets it takes one. Where passes are verified one by one (`tileiras-opt`, `PassManager`), a
pass that fails leaves its input unchanged.

| exit code | class | severity word |
|---|---|---|
| 0 | success; warnings and remarks do not change it | |
| 1 | a command line that cannot be read, an input that cannot be opened, no memory | 0x103 |
| 2 | a configuration that is refused | 0x503 |
| 3 | input that does not parse or verify | 0x104 |
| 4 | a program handle in the wrong state | 0x503 |
| 5 | a compilation that fails: a pass, a verifier, LLVM or ptxas | 0x103 |

The documentation differs from the vendor's tool (13.5) in these codes; ours are the tool's:

| failure | documented | here and in the tool |
|---|---|---|
| an unknown GPU, host architecture or operating system | 2 | 1, `Cannot find option named`; 2 through the library |
| an operation that does not verify, or of a dialect that Tile IR has not | 5 | 3 |
| damage behind a good magic number | 5 | 3 |
| an input that cannot be read | 4 | 1 |
| LLVM gives up on a module | the process ends | 5, with LLVM's words: LLVM has a process of its own |

## Verifiers

| when | what |
|---|---|
| an operation is built | numbers and types of operands and results, attributes, traits on types: `VerifyError` |
| an operation is read | types and attributes, by their constructors; `read` verifies the module |
| between passes (`tileiras-opt`; `tileiras --verify-each`) | every operation, dominance, isolation |
| before tiles become threads | `tileir-verify-ops-analysis`: layouts, atoms, fragments; agents in all orders; proxies |
| behind the schedule of `warp-specialize` | `tileaa-agent-verifier`: warps, registers, pipes and barriers of agents |
| before LLVM | `nvvm-ir-verifier`: parameters, launch attributes, clusters, printed formats, launches from the device |
| on LLVM IR | intrinsics of the target, from our tables; LLVM's verifier |
| on PTX | ptxas |

`tileiras-opt` runs the third before every pass that needs the facts it checks; for modules with
[agents](agents.md), the fourth as well.

A kernel may have 4352 bytes of parameters below PTX 8.1 and 32764 from there on, on every target: the limits of ptxas
13.5 and of the vendor's tool, and with `--parameter-ceiling=ptx` those of the command, the library and builds.
`--parameter-ceiling=documented`, the default of `tileiras-opt` and `tileir{...}`, has the documented limits: 1024 on
sm_75, 32760 from sm_80 on. The message of a kernel above both has the documented one, and a note the other. With 5002
pointers, 40016 bytes, on sm_75 and sm_80:

    k.mlir:2:3: error: Formal parameter space overflowed (40016 bytes required, max 1024 bytes allowed) in function k
    k.mlir:2:3: error: Formal parameter space overflowed (40016 bytes required, max 32760 bytes allowed) in function k

each followed by

    note: the PTX version has a limit of 32764 bytes, which this kernel exceeds as well
    error: failed to compile Tile IR program

and exit code 5.

## Programs that are called

ptxas, nvdisasm and libdevice are looked for where an option says, in the wheels of the environment, below `CUDA_ROOT`,
`CUDA_HOME` or `CUDA_PATH` (the first that is set), and programs on `PATH`; the extra `cuda` brings all three.
`--child-timeout` limits their time. Their messages are passed on unchanged; a note has the command for a shell, on the
PTX where `--save-temps` keeps it.

LLVM runs in a process of its own, which it ends on some inputs. That is an error with LLVM's words and exit code 5, in
the command, the library, workers and builds alike, and the next kernel gets a new process.

## Remarks

`--remarks=all|memory|tensorcore` and its narrower siblings say what was chosen for accesses, products, loops and
kernels, with what stood in the way of something better. `emit_remarks=True` does so in the library
(`tileiras.diagnostics.remarks`), `scons emit-remarks=1` in builds ([build.md](build.md#remarks)). Each remark has a
code with arguments, by which programs and `--remarks=CODE` find it: [reasons.md](reasons.md) lists them with the
changes that remove the obstacles.

"""

NEXT = """\
Next: [codes of remarks](reasons.md) for the reasons behind choices; [the command](command-line.md) for its options.
"""


def page() -> str:
    parts = [HEADER, "## Texts\n\n"]
    for layer, rows in LAYERS.items():
        result = [row for row in rows if not row.why_not]
        if result:
            parts += [f"### {layer}\n\n", "| text | trigger | exit code |\n|---|---|---|\n"]
            parts += [f"| {_code(row.text)} | {row.trigger} | {row.code} |\n" for row in result]
            parts.append("\n")
    parts.append("## Documented texts that cannot be provoked\n\n")
    for layer, rows in LAYERS.items():
        result = [row for row in rows if row.why_not]
        if result:
            parts += [f"### {layer}\n\n", "| text | why not |\n|---|---|\n"]
            parts += [f"| {_code(row.text)} | {row.why_not} |\n" for row in result]
            parts.append("\n")
    return "".join([*parts, NEXT])


def _code(text: str) -> str:
    text = text.replace("|", "\\|")
    return f"`` {text} ``" if "`" in text else f"`{text}`"


if __name__ == "__main__":
    (Path(__file__).parent / "diagnostics.md").write_text(page(), encoding="utf-8")
