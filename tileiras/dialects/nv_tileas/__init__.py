"""nv_tileas: the assembler-near level.

As nv_tileaa, with every choice made: a tensor type carries its layout (which thread holds which element) as its
encoding, memory and dot operations name the atom that executes them, and a change of layout is an operation of its own.
`nv_tileaa.func`, its types and its facts stay as they are.
"""

from .attributes import CopyAtomAttr, LinearLayoutAttr, MmaAtomAttr
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
)
from .ops import (
    COUNTERPARTS,
    AddFOp,
    AddPtrOp,
    AllocaOp,
    AssertOp,
    AssumeOp,
    AtomicCASOp,
    AtomicRMWOp,
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

__all__ = ["COUNTERPARTS", *(name for name in dir() if name.endswith(("Op", "Attr", "Type")))]
