"""nv_tileaa: the alias-aware level.

Tiles are tensors (rank-0 tiles are scalars), views are spelled out as pointers, sizes, strides and tiling, memory
operations are ordered by tokens, and facts about values (`assume`) are kept beside them.  Nothing here knows how many
warps will run or who holds which element.
"""

from tileiras.lazy import lazy_names

from .accesses import (
    AtomicCASOp,
    AtomicRMWOp,
    LoadOp,
    StoreOp,
    TiledAtomicRMWOp,
    TiledLoadOp,
    TiledStoreOp,
)
from .attributes import (
    FAST_ACCUMULATION,
    FLUSH_TO_ZERO,
    IN_BOUNDS,
    LATENCY,
    NO_TMA,
    AtomicRMWModeAttr,
    AxisAttr,
    BoundedAttr,
    DivByAttr,
    KernelSpecAttr,
    MemScopeAttr,
    MemSemanticAttr,
    PaddingValueAttr,
    RoundingModeAttr,
    SameElementsAttr,
    SignednessAttr,
)
from .elementwise import AddFOp, DivFOp, FmaOp, FpToFpOp, MulFOp, MulhSIOp, MulhUIOp, SqrtOp, SubFOp
from .function import (
    LAUNCH_HINTS,
    AssertOp,
    AssumeOp,
    FuncOp,
    GetCtaRankOp,
    GetGlobalOp,
    GetNumProgramsOp,
    GetProgramIdOp,
    GlobalOp,
    PrintOp,
    ReturnOp,
    function_of,
)
from .memory import (
    AddPtrOp,
    AllocaOp,
    BlockTileOp,
    CreateMemTokenOp,
    DeallocOp,
    FenceAliasOp,
    GdcLaunchDependentsOp,
    GdcWaitOp,
    GetDimSizeOp,
    IntToPtrOp,
    JoinMemTokenOp,
    MakeMemRefOp,
    PtrBitcastOp,
    PtrToIntOp,
)
from .tensor import (
    BlockScaledMmaOp,
    BroadcastOp,
    CatOp,
    Dot,
    DotOp,
    ExtractSliceOp,
    InsertSliceOp,
    MakeRangeOp,
    PermuteOp,
    ReduceOp,
    ScanOp,
    SplatOp,
    UnsplatOp,
    ViewOp,
    YieldOp,
)
from .types import CutView, MemRefType, MemTokenType, PtrType, TiledViewType

__all__ = [
    "FAST_ACCUMULATION",
    "FLUSH_TO_ZERO",
    "IN_BOUNDS",
    "LATENCY",
    "LAUNCH_HINTS",
    "NO_TMA",
    "Dot",
    *(name for name in dir() if name.endswith(("Op", "Attr", "Type"))),
]

__getattr__ = lazy_names(__name__, globals())
