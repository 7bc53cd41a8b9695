"""The nvvm dialect: instructions of the GPU that LLVM IR has no operation for.

Every operation names a row of the intrinsic table or an inline-assembly template (`NVVMOp.target`), which also says
from which GPU and PTX version on it exists.
"""

from tileiras.lazy import lazy_names

from .attributes import *  # noqa: F403
from .base import *  # noqa: F403

_LAZY = {
    "AddFOp": "arithmetic",
    "CosOp": "arithmetic",
    "CvtOp": "arithmetic",
    "CvtPackF4Op": "arithmetic",
    "CvtPackF8Op": "arithmetic",
    "CvtToTF32Op": "arithmetic",
    "CvtUnpackF4Op": "arithmetic",
    "CvtUnpackF8Op": "arithmetic",
    "DivFOp": "arithmetic",
    "Ex2Op": "arithmetic",
    "FMaxOp": "arithmetic",
    "FMinOp": "arithmetic",
    "FmaOp": "arithmetic",
    "Lg2Op": "arithmetic",
    "MulFOp": "arithmetic",
    "RcpOp": "arithmetic",
    "RsqrtOp": "arithmetic",
    "SinOp": "arithmetic",
    "SqrtOp": "arithmetic",
    "TanhOp": "arithmetic",
    "AtomOp": "atomics",
    "RedOp": "atomics",
    "CpAsyncBulkCommitGroupOp": "bulk_copies",
    "CpAsyncBulkLoadOp": "bulk_copies",
    "CpAsyncBulkStoreOp": "bulk_copies",
    "CpAsyncBulkTensorLoadOp": "bulk_copies",
    "CpAsyncBulkTensorStoreOp": "bulk_copies",
    "CpAsyncBulkWaitGroupOp": "bulk_copies",
    "CpAsyncCommitGroupOp": "matrix",
    "CpAsyncOp": "matrix",
    "CpAsyncWaitAllOp": "matrix",
    "CpAsyncWaitGroupOp": "matrix",
    "LdMatrixOp": "matrix",
    "MmaBlockScaleOp": "matrix",
    "MmaOp": "matrix",
    "StMatrixOp": "matrix",
    "MoveOp": "registers",
    "SPECIAL_REGISTERS": "registers",
    "SpecialRegisterOp": "registers",
    "ActiveMaskOp": "synchronization",
    "BarrierArriveOp": "synchronization",
    "BarrierOp": "synchronization",
    "ClusterArriveOp": "synchronization",
    "ClusterArriveRelaxedOp": "synchronization",
    "ClusterWaitOp": "synchronization",
    "CpAsyncMBarrierArriveOp": "synchronization",
    "FenceMbarrierInitOp": "synchronization",
    "FenceProxyAsyncEverywhereOp": "synchronization",
    "FenceProxyAsyncOp": "synchronization",
    "GriddepcontrolLaunchDependentsOp": "synchronization",
    "GriddepcontrolWaitOp": "synchronization",
    "MBarrierArriveExpectTxOp": "synchronization",
    "MBarrierArriveSharedOp": "synchronization",
    "MBarrierInitSharedOp": "synchronization",
    "MBarrierInvalSharedOp": "synchronization",
    "MBarrierTestWaitParityOp": "synchronization",
    "MBarrierTryWaitParityOp": "synchronization",
    "ReduxOp": "synchronization",
    "SetMaxRegisterOp": "synchronization",
    "ShflOp": "synchronization",
    "SyncWarpOp": "synchronization",
    "VoteSyncOp": "synchronization",
    "WgmmaCommitGroupOp": "warpgroup",
    "WgmmaFenceOp": "warpgroup",
    "WgmmaMmaAsyncOp": "warpgroup",
    "WgmmaWaitGroupOp": "warpgroup",
}
"""The operations and their files, loaded when one of them is used: a kernel takes few."""

__getattr__ = lazy_names(__name__, globals(), _LAZY)
