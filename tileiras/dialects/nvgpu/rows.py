"""Facts about the operations of nvgpu: the table of the dialect.

Each row has the nvvm operation with the same operands, how LLVM gets the instruction, and the attributes that this
level has in the place of some of that operation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tileiras.dialects import nvvm
from tileiras.dialects.llvm.base import pointer
from tileiras.ir import (
    ArrayAttr,
    Attribute,
    AttrSizedOperandSegments,
    IntegerAttr,
    MemoryRead,
    MemoryWrite,
    StringAttr,
    UnitAttr,
    VerifyError,
    attribute,
    i1,
    i32,
    operand,
    optional_operand,
)
from tileiras.support.named_tuple import NamedTuple

INTRINSIC, ASSEMBLY, EITHER = "intrinsic", "assembly", "either"
"""How LLVM expresses an instruction: by an intrinsic; by inline assembly, if no intrinsic has its effects and operands;
or by either, depending on the operands."""

Attributes = dict[str, Attribute]


class Row(NamedTuple):
    by: str
    nvvm: str = ""
    """The class of `dialects.nvvm` with the same operands and results; empty for an operation that differs."""
    replaces: tuple[str, ...] = ()
    """Attributes of that class that operations of nvgpu do not have."""
    own: Mapping[str, Callable[[], Any]] = {}
    """Fields that they have in their place, or besides."""
    lowered: Callable[[Attributes], Attributes] | None = None
    """The attributes of the nvvm operation; None if they are the same."""
    syntax: str = ""
    """The assembly format, where it is not that of the nvvm operation."""
    traits: tuple[type, ...] = ()
    check: Callable[[Any], None] | None = None
    """Further rules; raises VerifyError."""
    is_public: bool = False
    """Whether MLIR's dialect of this name has the operation."""
    doc: str = ""
    """For the reference, where it is not that of the nvvm operation."""


_ACCESS = (MemoryRead, MemoryWrite)


def _without(attributes: Attributes, *names: str) -> Attributes:
    return {name: value for name, value in attributes.items() if name not in names}


# ---- matrices --------------------------------------------------------------------------------------------------------


def _shape(attributes: Attributes) -> Attributes:
    return dict(zip("mnk", attributes["mmaShape"].elements))  # type: ignore[attr-defined]


def _mma_sync(attributes: Attributes) -> Attributes:
    types = {"multiplicandAPtxType": "aType", "multiplicandBPtxType": "bType", "accumulatorPtxType": "cType"}
    mma_sync = _without(attributes, "mmaShape", "saturate", *types.values()) | _shape(attributes)
    mma_sync |= {name: nvvm.MMATypeAttr(attributes[own].value) for name, own in types.items()}  # type: ignore[attr-defined]
    if "saturate" in attributes:
        mma_sync["intOverflowBehavior"] = nvvm.MMAIntOverflowAttr("satfinite")
    return mma_sync


def _mma_block_scale(attributes: Attributes) -> Attributes:
    types = {"multiplicandAPtxType": "aType", "multiplicandBPtxType": "bType"}
    result = _without(attributes, "mmaShape", *types.values()) | _shape(attributes)
    return result | {name: nvvm.MMATypeAttr(attributes[own].value) for name, own in types.items()}  # type: ignore[attr-defined]


def _check_shape(op: Any) -> None:
    sizes = op.mmaShape.elements
    if len(sizes) != 3 or not all(isinstance(size, IntegerAttr) and size.type is i32 for size in sizes):
        raise VerifyError("'mmaShape' must be three i32: M, N and K")
    cases = nvvm.MMATypeAttr.cases
    for name in ("aType", "bType", "cType"):
        entry = op.attributes.get(name)
        if entry is not None and entry.value not in cases:
            raise VerifyError(f"'{name}' must be one of {', '.join(cases)}, got '{entry.value}'")


_SHAPE = {
    "mmaShape": lambda: attribute(ArrayAttr, "M, N and K"),
    "aType": lambda: attribute(StringAttr, "PTX's name of the type of A's elements"),
    "bType": lambda: attribute(StringAttr, "likewise for B"),
}


def _layout(attributes: Attributes) -> Attributes:
    transposes = attributes["transpose"].value  # type: ignore[attr-defined]
    result = {"layout": nvvm.MMALayoutAttr("col" if transposes else "row")}
    result |= _without(attributes, "numTiles", "transpose")
    count = attributes.get("numTiles")
    return result if count is None else {"num": count, **result}


_TRANSPOSE = {"transpose": lambda: attribute(IntegerAttr, "whether the tiles are transposed, an i1")}


def _check_transpose(op: Any) -> None:
    if op.transpose.type is not i1:
        raise VerifyError(f"'transpose' must be true or false, got {op.transpose}")


_ATOM = {"atom": lambda: attribute(StringAttr, "the name of the atom that has the instruction")}


def _check_series(op: Any) -> None:
    """A product of a warpgroup: one accumulator, and for each step along K a descriptor or registers of A."""
    members = () if op.res is None else getattr(op.res.type, "elements", (op.res.type,))
    if tuple(value.type for value in op.accumulator) != tuple(members):
        raise VerifyError("expects an accumulator of the type of the result")
    steps = len(op.b_steps.elements)
    if len(op.b) != 1 or len(op.a) != (4 * steps if op.a_steps is None else 1):
        raise VerifyError(f"expects descriptors, or four registers of A for each of {steps} steps")


_MATRICES = {
    "mma.sync": Row(
        INTRINSIC, "MmaOp", ("m", "n", "k", "multiplicandAPtxType", "multiplicandBPtxType", "accumulatorPtxType",
                             "intOverflowBehavior"),
        {**_SHAPE, "cType": lambda: attribute(StringAttr, "likewise for C and D"),
         "saturate": lambda: attribute(UnitAttr, "integer sums that do not fit saturate", optional=True)},
        _mma_sync, check=_check_shape, is_public=True,
    ),
    "mma.block_scale": Row(
        INTRINSIC, "MmaBlockScaleOp", ("m", "n", "k", "multiplicandAPtxType", "multiplicandBPtxType"), _SHAPE,
        _mma_block_scale, check=_check_shape,
    ),
    "ldmatrix": Row(
        INTRINSIC, "LdMatrixOp", ("num", "layout"),
        {**_TRANSPOSE, "numTiles": lambda: attribute(IntegerAttr, "1, 2 or 4")}, _layout, check=_check_transpose,
        is_public=True,
    ),
    "stmatrix": Row(INTRINSIC, "StMatrixOp", ("layout",), _TRANSPOSE, _layout, check=_check_transpose),
    "warpgroup.mma": Row(
        ASSEMBLY, "WgmmaMmaAsyncOp", ("instruction", "syntax"), _ATOM, check=_check_series, is_public=True,
    ),
    "warpgroup.fence": Row(ASSEMBLY, "WgmmaFenceOp"),
    "warpgroup.commit": Row(ASSEMBLY, "WgmmaCommitGroupOp"),
    "warpgroup.wait": Row(ASSEMBLY, "WgmmaWaitGroupOp"),
    "tcgen05.alloc": Row(ASSEMBLY, "Tcgen05AllocOp"),
    "tcgen05.dealloc": Row(ASSEMBLY, "Tcgen05DeallocOp"),
    "tcgen05.relinquish_alloc_permit": Row(ASSEMBLY, "Tcgen05RelinquishAllocPermitOp"),
    "tcgen05.commit": Row(ASSEMBLY, "Tcgen05CommitOp"),
    "tcgen05.commit.multicast": Row(ASSEMBLY, "Tcgen05CommitMulticastOp"),
    "tcgen05.fence.after": Row(ASSEMBLY, "Tcgen05FenceAfterOp"),
    "tcgen05.fence.before": Row(ASSEMBLY, "Tcgen05FenceBeforeOp"),
    "tcgen05.ld": Row(ASSEMBLY, "Tcgen05LoadOp"),
    "tcgen05.st": Row(ASSEMBLY, "Tcgen05StoreOp"),
    "tcgen05.cp": Row(ASSEMBLY, "Tcgen05CopyOp"),
    "tcgen05.mma": Row(ASSEMBLY, "Tcgen05MmaOp", ("instruction", "syntax", "requires"), _ATOM),
    "tcgen05.mma.block_scale": Row(ASSEMBLY, "Tcgen05ScaledMmaOp", ("instruction", "syntax", "requires"), _ATOM),
}  # fmt: skip

# ---- copies ----------------------------------------------------------------------------------------------------------


def _check_async_copy(op: Any) -> None:
    size = op.dstBytes.value
    if op.dst.type.address_space != 3 or op.src.type.address_space != 1:
        raise VerifyError("expects a destination in shared and a source in global memory")
    if size not in (4, 8, 16):
        raise VerifyError(f"copies 4, 8 or 16 bytes, got {size}")
    if op.bypassL1 is not None and size != 16:
        raise VerifyError("'bypassL1' requires a copy of 16 bytes")


def _bulk_wait(attributes: Attributes) -> Attributes:
    result = _without(attributes, "numGroups")
    return {"group": attributes["numGroups"], **result}


_COPIES = {
    "device_async_copy": Row(
        EITHER, own={
            "dst": lambda: operand(pointer), "src": lambda: operand(pointer),
            "srcBytes": lambda: optional_operand(i32, "bytes that are read; the rest becomes zero"),
            "predicate": lambda: optional_operand(i1, "without it the copy is made"),
            "dstBytes": lambda: attribute(IntegerAttr, "4, 8 or 16"),
            "bypassL1": lambda: attribute(UnitAttr, optional=True),
        },
        syntax="$dst `,` $src (`bytes` $srcBytes^)? (`if` $predicate^)? attr-dict `:` type($dst) `,` type($src)",
        traits=(*_ACCESS, AttrSizedOperandSegments), check=_check_async_copy, is_public=True,
        doc="`cp.async`: 4, 8 or 16 bytes from global to shared memory, where the predicate holds.",
    ),
    "device_async_create_group": Row(INTRINSIC, "CpAsyncCommitGroupOp", is_public=True),
    "device_async_wait": Row(
        INTRINSIC, "CpAsyncWaitGroupOp", ("n",), {"numGroups": lambda: attribute(IntegerAttr, "groups in flight")},
        lambda attributes: {"n": attributes["numGroups"]}, is_public=True,
    ),
    "tma.async.load": Row(
        ASSEMBLY, "CpAsyncBulkTensorLoadOp", ("instruction", "syntax", "requires"),
        {**_ATOM, "multicastMask": lambda: attribute(IntegerAttr, "the CTAs that get the box", optional=True)},
        is_public=True,
    ),
    "tma.async.store": Row(
        ASSEMBLY, "CpAsyncBulkTensorStoreOp", ("instruction", "syntax"),
        {**_ATOM, "operation": lambda: attribute(StringAttr, "that combines elements with those in memory",
                                                 optional=True)},
        is_public=True,
    ),
    "tma.bulk.load": Row(ASSEMBLY, "CpAsyncBulkLoadOp"),
    "tma.bulk.store": Row(ASSEMBLY, "CpAsyncBulkStoreOp"),
    "tma.create_group": Row(INTRINSIC, "CpAsyncBulkCommitGroupOp"),
    "tma.wait_group": Row(
        INTRINSIC, "CpAsyncBulkWaitGroupOp", ("group",),
        {"numGroups": lambda: attribute(IntegerAttr, "groups in flight")}, _bulk_wait, "attr-dict",
    ),
    "tma.fence.descriptor": Row(ASSEMBLY, "FenceProxyTensormapAcquireOp", is_public=True),
    "tma.publish_descriptor": Row(ASSEMBLY, "TensormapCpFenceproxyOp"),
    "tma.replace": Row(ASSEMBLY, "TensormapReplaceOp"),
    "tma.replace_mode": Row(ASSEMBLY, "TensormapReplaceModeOp"),
}  # fmt: skip

# ---- synchronization -------------------------------------------------------------------------------------------------

_SYNCHRONIZATION = {
    "mbarrier.init": Row(INTRINSIC, "MBarrierInitSharedOp", is_public=True),
    "mbarrier.inval": Row(INTRINSIC, "MBarrierInvalSharedOp"),
    "mbarrier.arrive": Row(INTRINSIC, "MBarrierArriveSharedOp", is_public=True),
    "mbarrier.arrive.expect_tx": Row(INTRINSIC, "MBarrierArriveExpectTxOp", is_public=True),
    "mbarrier.arrive.cluster": Row(ASSEMBLY, "MBarrierArriveClusterOp"),
    "mbarrier.arrive.copies": Row(INTRINSIC, "CpAsyncMBarrierArriveOp"),
    "mbarrier.test_wait.parity": Row(INTRINSIC, "MBarrierTestWaitParityOp"),
    "mbarrier.try_wait.parity": Row(INTRINSIC, "MBarrierTryWaitParityOp", is_public=True),
    "barrier": Row(INTRINSIC, "BarrierOp"),
    "barrier.arrive": Row(INTRINSIC, "BarrierArriveOp"),
    "warp.barrier": Row(INTRINSIC, "SyncWarpOp"),
    "elect": Row(ASSEMBLY, "ElectSyncOp"),
    "cluster.barrier": Row(
        ASSEMBLY, own={"relaxed": lambda: attribute(UnitAttr, "orders no memory", optional=True)}, syntax="attr-dict",
        traits=_ACCESS, doc="`barrier.cluster`: arrives, and waits for all threads of the cluster.",
    ),
    "setmaxnreg": Row(ASSEMBLY, "SetMaxRegisterOp"),
    "fence.mbarrier_init": Row(INTRINSIC, "FenceMbarrierInitOp"),
    "fence.proxy.async": Row(INTRINSIC, "FenceProxyAsyncEverywhereOp"),
    "fence.proxy.async.shared": Row(INTRINSIC, "FenceProxyAsyncOp"),
    "fence.proxy.alias": Row(
        ASSEMBLY, syntax="attr-dict", traits=_ACCESS, doc="`fence.proxy.alias`: between addresses of one memory."
    ),
    "grid_dependency.wait": Row(
        ASSEMBLY, syntax="attr-dict", traits=_ACCESS, doc="`griddepcontrol.wait`: for the grids before this one."
    ),
    "grid_dependency.launch": Row(
        ASSEMBLY, syntax="attr-dict", traits=_ACCESS, doc="`griddepcontrol.launch_dependents`: they may start."
    ),
}  # fmt: skip

ROWS: Mapping[str, Row] = {**_MATRICES, **_COPIES, **_SYNCHRONIZATION}
"""By the operation's name without the dialect."""
