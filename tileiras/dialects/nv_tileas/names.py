"""Names of operations and types that few kernels use, for code that looks for them in every kernel without loading the
files that declare them."""

PIPELINE = "nv_tileas.async.pipeline."
TENSOR_MEMORY = "nv_tileas.tensor_memory."
"""Prefixes of the names of operations on agents and pipes, and of those on tensor memory."""

AGENT_SWITCH = f"{PIPELINE}agent_switch"
CREATE_PIPELINE = f"{PIPELINE}create_pipeline"
PRODUCER_ACQUIRE = f"{PIPELINE}producer_acquire"
PRODUCER_COMMIT = f"{PIPELINE}producer_commit"
CONSUMER_WAIT = f"{PIPELINE}consumer_wait"
CONSUMER_RELEASE = f"{PIPELINE}consumer_release"
CONSUMER_TAIL = f"{PIPELINE}consumer_tail"
PRODUCER_TAIL = f"{PIPELINE}producer_tail"
INC_ITER = f"{PIPELINE}inc_iter"
GET_STAGE = f"{PIPELINE}get_stage"
PIPE_ITERATOR = "nv_tileas.pipeline_iterator"
CONSUMER_TOKEN, PRODUCER_TOKEN = "nv_tileas.consumer_token", "nv_tileas.producer_token"

ASYNC_DOT = "nv_tileas.async.dot"
FENCE_PROXY = "nv_tileas.fence_proxy_async"
IN_FLIGHT = "nv_tileas.in_flight"

TENSOR_DOT = f"{TENSOR_MEMORY}dot"
TENSOR_LOAD, TENSOR_STORE = f"{TENSOR_MEMORY}load", f"{TENSOR_MEMORY}store"
TENSOR_SCALE = f"{TENSOR_MEMORY}scale"
TENSOR_RESERVE = f"{TENSOR_MEMORY}reserve"

NEIGHBOR_COUNTER, IS_SAME_TILE = "nv_tileas.neighbor_counter", "nv_tileas.is_same_tile"

MAKE_TMA_DESC = "nv_tileas.make_tma_desc"
TMA_DESC = "nv_tileas.tma_desc"
TMA_LOAD = "nv_tileas.async.tma_load"
TMA_STORE = "nv_tileas.async.tma_store"
TMA_STORE_TAIL = "nv_tileas.async.tma_store_tail"
TMA_STORE_STAGE = "nv_tileas.async.tma_store_stage"

DELAY = "nv_tileas.delay"

MAP_MEMORY = "nv_tileas.map_memory."
MAP_RESERVE, MAP_OPEN = f"{MAP_MEMORY}reserve", f"{MAP_MEMORY}open"
MAP_ASSEMBLE, MAP_BUILD = f"{MAP_MEMORY}assemble", f"{MAP_MEMORY}build"
