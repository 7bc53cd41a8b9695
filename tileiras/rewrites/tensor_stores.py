"""Stores of tiles, and updates by them, by boxes of tensor maps, through shared memory, where there is room for the
tile.

    tiled_store %x, %view[...]      %b = alloc_tensor;  store_tensor %x into %b[0];  fence_proxy_async
                               ->   %t = async.tma_store %b[0] to %desc[...];  dealloc_tensor %b

An update becomes `async.tma_store ... combined by add`.  Each thread that stores fences for the asynchronous proxy,
before the barrier behind which one thread copies (PTX ISA, "Async Proxy"); what the store's token stands for it fences
as well.  That thread waits until the copy is complete, so what a token orders behind the store needs no more than a
barrier.
"""

from __future__ import annotations

from typing import Any

from tileiras.analysis.ranges import RangeAnalysis
from tileiras.analysis.tensor_map_rules import follows_write
from tileiras.diagnostics import DiagnosticEngine
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.arith.build import integer
from tileiras.dialects.nv_tileas import names
from tileiras.dialects.nv_tileas.tensor_maps import MakeTmaDescOp, TmaStoreOp
from tileiras.ir import Builder, Operation, UnitAttr
from tileiras.remarks import Remark
from tileiras.resources.shared_memory import buffer_bytes, conversion_bytes, ring_bytes, shared_budget
from tileiras.schedule.materialize.box_ring import box_coordinates
from tileiras.schedule.stored_tiles import LEAST_BYTES, as_it_comes, stored_in_boxes, tile_bytes, writes_conflict
from tileiras.targets import Target


def store_in_boxes(func: aa.FuncOp, target: Target, engine: DiagnosticEngine) -> None:
    """Rewrites the marked stores of a function of nv_tileas, in place; a remark says why one stays as it is."""
    most = _most_bytes(func)
    for store in [op for op in func.walk() if isinstance(op, (tileas.TiledStoreOp, tileas.TiledAtomicRMWOp))]:
        if store.attributes.pop(tileas.AHEAD_ATOM, None) is None:
            continue
        refusal = _refusal(store, most, shared_budget(func, target))
        if not refusal:
            _rewrite(store)
        elif engine.remarks:
            name = func.sym_name.value
            engine.emit(Remark("missed", "RemarkMemoryTensorMap", store.location, reason=refusal, function=name))


def _most_bytes(func: aa.FuncOp) -> int:
    """The bytes that the buffers of a function take at most at one time."""
    most = now = 0
    for op in func.walk():
        now += buffer_bytes(op)
        most = max(most, now)
    return most


def _refusal(store: Any, most: int, budget: int) -> str:
    """Why a store that a tensor map can serve does not go through shared memory, or nothing."""
    if stored_in_boxes(store) is None:
        return "no boxes have its tile"
    if _is_in_agent(store):
        return "its warps run a program of their own, and no agent stores for them"
    size, data = tile_bytes(store), store.data.defining_op
    if size < LEAST_BYTES:
        return f"its tile has {size} bytes, fewer than {LEAST_BYTES}"
    if writes_conflict(store):
        return "threads would write its tile bank upon bank, as the boxes have it in shared memory"
    own = conversion_bytes(data) if isinstance(data, tileas.ConvertLayoutOp) else 0
    if size > max(most, own):
        return f"its tile takes {size} bytes of shared memory, more than the kernel takes without"
    if size > budget - ring_bytes(store):
        return "no shared memory is left"
    return ""


def _is_in_agent(op: Operation) -> bool:
    while op.parent_op is not None and op.name != names.AGENT_SWITCH:
        op = op.parent_op
    return op.name == names.AGENT_SWITCH


def _rewrite(store: Any) -> None:
    builder = Builder.before(store)
    builder.location = store.location
    found = stored_in_boxes(store)
    assert found is not None, "what no boxes have is refused"
    desc, tile = found
    data, convert = as_it_comes(store.data)
    buffer = builder.insert(tileas.AllocTensorOp(result=tileas.BufferType(1, tile))).results[0]
    stage = integer(builder, 0)
    builder.insert(tileas.StoreTensorOp(data, buffer, stage))
    written = store.token is not None and follows_write(store.token)
    builder.insert(tileas.FenceProxyOp(global_memory=UnitAttr() if written else None))
    made = builder.insert(MakeTmaDescOp(store.view, result=desc)).results[0]
    coords = box_coordinates(builder, store, lambda value: value, RangeAnalysis())
    done = builder.insert(
        TmaStoreOp(buffer=buffer, stage=stage, desc=made, coords=coords, token=store.token,
                   rmw_mode=store.attributes.get("rmw_mode"), result_token=store.result_token.type)
    )  # fmt: skip
    builder.insert(tileas.DeallocTensorOp(buffer))
    store.result_token.replace_all_uses_with(done.results[0])
    store.erase()
    if convert is not None and not convert.result.has_uses:
        convert.erase()
