"""nv_tileas: the level closest to the machine, where every choice is explicit.

As nv_tileaa, with these additions: a tensor type carries its layout (which thread holds which element) as its encoding,
memory and dot operations name the atom that executes them, and a change of layout is an operation of its own.
`nv_tileaa.func`, its types and its facts are used unchanged.
"""

from tileiras.support.lazy import lazy_names

from .attributes import *  # noqa: F403
from .buffers import *  # noqa: F403
from .discardable_attributes import *  # noqa: F403
from .ops import *  # noqa: F403

_LAZY = {
    "THREAD": "thread",
    "AgentSwitchOp": "agents",
    "AsyncDotOp": "async_dots",
    "BulkLoadOp": "bulk_copies",
    "BulkStoreOp": "bulk_copies",
    "CommitDotsOp": "async_dots",
    "ConsumeOneOp": "pipes",
    "ConsumerKindAttr": "pipes",
    "ConsumerReadOp": "pipes",
    "ConsumerReleaseOp": "pipes",
    "ConsumerTokenType": "pipes",
    "ConsumerWaitOp": "pipes",
    "CreateIteratorOp": "pipes",
    "CreateNoneOp": "async_dots",
    "CreatePipelineOp": "pipes",
    "DelayOp": "delays",
    "DestroyPipelineOp": "pipes",
    "EndTurnOp": "async_dots",
    "FenceProxyOp": "async_dots",
    "FutureWaitOp": "async_dots",
    "GetStageOp": "pipes",
    "InFlightType": "async_dots",
    "IncIterOp": "pipes",
    "IsSameTileOp": "neighbors",
    "MakeTmaDescOp": "tensor_maps",
    "MapAssembleOp": "map_memory",
    "MapBuildOp": "map_memory",
    "MapImageType": "map_memory",
    "MapMemoryType": "map_memory",
    "MapOpenOp": "map_memory",
    "MapReleaseOp": "map_memory",
    "MapReserveOp": "map_memory",
    "NeighborCounterOp": "neighbors",
    "PipelineIteratorType": "pipes",
    "ProduceOneOp": "pipes",
    "ProducerAcquireOp": "pipes",
    "ProducerCommitOp": "pipes",
    "ProducerKindAttr": "pipes",
    "ConsumerTailOp": "pipes",
    "ProducerTailOp": "pipes",
    "ProducerTokenType": "pipes",
    "ProducerWriteOp": "pipes",
    "MOST_COMMITS": "tensor_memory",
    "TensorAllocOp": "tensor_memory",
    "TensorBufferType": "tensor_memory",
    "TensorCommitOp": "tensor_memory",
    "TensorDeallocOp": "tensor_memory",
    "TensorDotOp": "tensor_memory",
    "TensorLayoutAttr": "tensor_memory",
    "TensorLoadOp": "tensor_memory",
    "TensorMemoryType": "tensor_memory",
    "TensorOpenOp": "tensor_memory",
    "TensorReleaseOp": "tensor_memory",
    "TensorReserveOp": "tensor_memory",
    "TensorScaleOp": "tensor_memory",
    "TensorSliceOp": "tensor_memory",
    "TensorStoreOp": "tensor_memory",
    "TensorWaitOp": "tensor_memory",
    "TmaDescType": "tensor_maps",
    "TmaLoadOp": "bulk_copies",
    "TmaStoreOp": "tensor_maps",
    "TmaStoreStageOp": "bulk_copies",
    "TmaStoreTailOp": "tensor_maps",
    "ToAsyncOp": "async_dots",
    "WaitTurnOp": "async_dots",
}
"""Names that few kernels use, and the file of each, which is loaded when one of its names is used."""

__getattr__ = lazy_names(__name__, globals(), _LAZY)
