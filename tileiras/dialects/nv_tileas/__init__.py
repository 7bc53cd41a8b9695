"""nv_tileas: the assembler-near level.

As nv_tileaa, with every choice made: a tensor type carries its layout (which thread holds which element) as its
encoding, memory and dot operations name the atom that executes them, and a change of layout is an operation of its own.
`nv_tileaa.func`, its types and its facts stay as they are.
"""

from tileiras.lazy import lazy_names

from .attributes import PLAIN, PREFETCH, SERIAL, CopyAtomAttr, LinearLayoutAttr, LoopScheduleAttr, MmaAtomAttr
from .buffers import (
    AllocTensorOp,
    AsyncCommitGroupOp,
    AsyncLoadOp,
    AsyncTiledLoadOp,
    AsyncWaitOp,
    BufferType,
    CopyOp,
    DeallocTensorOp,
    SharedLayoutAttr,
    StoreTensorOp,
    cut_axis,
)
from .ops import (
    COUNTERPARTS,
    DOTS,
    LOOP_SCHEDULE,
    MIN_CTAS,
    NO_ROOM,
    NO_UNROLL,
    RUNS_AHEAD,
    SHORT_OF_REGISTERS,
    VIEW_LIKE,
    AddFOp,
    AddPtrOp,
    AllocaOp,
    AssertOp,
    AssumeOp,
    AtomicCASOp,
    AtomicRMWOp,
    BarrierOp,
    BlockScaledMmaOp,
    BlockTileOp,
    BroadcastOp,
    CatOp,
    ConvertLayoutOp,
    CreateMemTokenOp,
    DeallocOp,
    DivFOp,
    DotOp,
    ExtractSliceOp,
    FenceAliasOp,
    FmaOp,
    FpToFpOp,
    GdcLaunchDependentsOp,
    GdcWaitOp,
    GetCtaRankOp,
    GetDimSizeOp,
    GetGlobalOp,
    GetNumProgramsOp,
    GetProgramIdOp,
    InsertSliceOp,
    IntToPtrOp,
    JoinMemTokenOp,
    LoadOp,
    MakeMemRefOp,
    MakeRangeOp,
    MulFOp,
    MulhSIOp,
    MulhUIOp,
    PermuteOp,
    PrintOp,
    PtrBitcastOp,
    PtrToIntOp,
    ReduceOp,
    ScanOp,
    SplatOp,
    SqrtOp,
    StoreOp,
    SubFOp,
    TiledAtomicRMWOp,
    TiledLoadOp,
    TiledStoreOp,
    UnsplatOp,
    ViewOp,
    YieldOp,
)

_LAZY = {
    "AgentSwitchOp": "agents",
    "ConsumeOneOp": "agents",
    "ConsumerReleaseOp": "agents",
    "ConsumerTokenType": "agents",
    "ConsumerWaitOp": "agents",
    "CreateIteratorOp": "agents",
    "CreatePipelineOp": "agents",
    "IncIterOp": "agents",
    "PipelineIteratorType": "agents",
    "ProduceOneOp": "agents",
    "ProducerAcquireOp": "agents",
    "ProducerCommitOp": "agents",
    "ProducerTokenType": "agents",
}
"""What only text has that somebody wrote, and its file: loaded when one of them is used."""

__getattr__ = lazy_names(__name__, globals(), _LAZY)


__all__ = [
    "COUNTERPARTS",
    "LOOP_SCHEDULE",
    "MIN_CTAS",
    "NO_ROOM",
    "NO_UNROLL",
    "PLAIN",
    "PREFETCH",
    "DOTS",
    "VIEW_LIKE",
    "RUNS_AHEAD",
    "SERIAL",
    "SHORT_OF_REGISTERS",
    "cut_axis",
    *(name for name in dir() if name.endswith(("Op", "Attr", "Type"))),
]
