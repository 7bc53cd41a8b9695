"""Stores of tiles, and updates by them, by boxes of tensor maps, through shared memory, where there is room for the
tile.

    tiled_store %x, %view[...]      %b = alloc_tensor;  store_tensor %x into %b[0];  fence_proxy_async
                               ->   %t = async.tma_store %b[0] to %desc[...];  dealloc_tensor %b

In a loop over slices of a tile the buffer has several stages: while one slice is copied the next one is written.

An update becomes `async.tma_store ... combined by add`.  Each thread that stores fences for the asynchronous proxy,
before the barrier after which one thread copies (PTX ISA, "Async Proxy"), and with that also orders the accesses that
the store's token stands for.  That thread waits until the copy is complete, so operations that a token orders after the
store need only a barrier; if no operation waits for a copy, the thread waits only until it has read the buffer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tileiras.analysis.function_pass import FunctionPass, functions_of
from tileiras.analysis.pipes import agent_of
from tileiras.analysis.ranges import RangeAnalysis
from tileiras.analysis.tensor_map_rules import follows_strong, map_creator, needs_fence
from tileiras.diagnostics import DiagnosticEngine
from tileiras.diagnostics.remarks import Remark
from tileiras.dialects import arith, scf
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.arith.build import binary, integer
from tileiras.dialects.nv_tileas import names
from tileiras.dialects.nv_tileas.bulk_copies import TmaLoadOp
from tileiras.dialects.nv_tileas.tensor_maps import MakeTmaDescOp, TmaStoreOp, TmaStoreTailOp
from tileiras.ir import Builder, IntegerAttr, UnitAttr, i32
from tileiras.layout.arena import SCRATCH_LIMIT
from tileiras.reasons import Reason
from tileiras.resources.shared_memory import buffer_bytes, conversion_bytes, ring_bytes, scratch_bytes, shared_budget
from tileiras.schedule.agents.simplify import drained_bytes, say_where_pipes_are_drained
from tileiras.schedule.materialize.box_ring import box_coordinates
from tileiras.schedule.stored_tiles import (
    LEAST_BYTES,
    as_it_comes,
    is_waited_for,
    stored_in_boxes,
    tile_bytes,
    writes_conflict,
)
from tileiras.targets import Target

if TYPE_CHECKING:
    from tileiras.ir import Operation
    from tileiras.ir.pass_manager import PassContext

MOST_STAGES = 4
"""Slices of a tile on their way to memory: one that is written, and as many as the latency of a copy hides."""

_TAKE_MEMORY = (tileas.TiledStoreOp, tileas.TiledAtomicRMWOp, TmaStoreOp, tileas.AllocTensorOp)


class LowerTmaLoadStoreToAsync(FunctionPass):
    name = "lower-tma-load-store-to-async"
    optional = True
    schedules = True
    requires = "SCHEDULED"
    needs = "schedules, and buffers for operations that run ahead: no more memory than theirs is used"
    establishes = "`async.tma_store` for stores marked with its atom, where shared memory has room for their tiles"
    keeps = "values, token order"

    tensor_maps: str = "none"

    def run(self, op: Operation, context: PassContext) -> None:
        specs = {func: func.attributes.get("kernel_spec") for func in functions_of(op)}
        wrong = [func for func, spec in specs.items() if not isinstance(spec, aa.KernelSpecAttr)]
        for func in wrong:
            message = "LowerTMALoadStoreToAsync: missing or invalid KernelSpecAttr on function"
            context.engine.error(func.location, message)
        if not wrong:
            super().run(op, context)

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        if any(tileas.AHEAD_ATOM in op.attributes for op in func.walk()):
            store_in_boxes(func, gpu, context.engine, map_creator(self.tensor_maps, gpu) == "device")


def store_in_boxes(func: aa.FuncOp, target: Target, engine: DiagnosticEngine, by_device: bool = False) -> None:
    """Rewrite the marked stores of a function of nv_tileas, in place; a remark says why one stays as it is.

    `by_device`: the kernel builds its maps, which a store alone does not repay.
    """
    if any(op.name == names.AGENT_SWITCH for op in func.body.blocks[0].operations):
        say_where_pipes_are_drained(func)
    most = _most_bytes(func)
    too_few = Reason("maps.store-alone") if by_device and not _loads_in_boxes(func) else None
    for store in [op for op in func.walk() if isinstance(op, (tileas.TiledStoreOp, tileas.TiledAtomicRMWOp))]:
        if store.attributes.pop(tileas.AHEAD_ATOM, None) is None:
            continue
        room, refusal = (0, too_few) if too_few else _room(store, most, shared_budget(func, target))
        if not refusal:
            _rewrite(store, room // tile_bytes(store), is_waited_for(store))
        elif engine.remarks:
            name = func.sym_name.value
            engine.emit(Remark(Reason("maps.unused", cause=refusal), store.location, function=name))


def _loads_in_boxes(func: aa.FuncOp) -> bool:
    return any(isinstance(op, TmaLoadOp) for op in func.walk())


def _most_bytes(func: aa.FuncOp) -> int:
    """The bytes that the buffers of a function take at most at one time."""
    most = now = 0
    for op in func.walk():
        now += buffer_bytes(op)
        most = max(most, now)
    return most


def _room(store: Any, most: int, budget: int) -> tuple[int, Reason | None]:
    """Bytes of shared memory for the tiles of a store; and the reason why a store that a tensor map can serve does not
    use them, or None."""
    if stored_in_boxes(store) is None:
        return 0, Reason("maps.no-boxes")
    size, data = tile_bytes(store), store.data.defining_op
    if size < LEAST_BYTES:
        return 0, Reason("maps.small-tile", bytes=size, least=LEAST_BYTES)
    if follows_strong(store.token) and is_waited_for(store):
        # As of a sum that tile blocks add to in turn, by a lock: f16 256x256x4096 in 8 parts takes 16.4 us on H200 by
        # the estimate, and 21.0 where the copies stand between the lock and its release.
        return 0, Reason("maps.others-wait")
    if writes_conflict(store):
        return 0, Reason("maps.bank-conflicts")
    if agent_of(store) is not None:
        room = drained_bytes(store)
        if not room:
            return 0, Reason("maps.no-store-agent")
        return room, None if size <= room else Reason("maps.pipe-too-small", bytes=size, room=room)
    own = conversion_bytes(data) if isinstance(data, tileas.ConvertLayoutOp) else 0
    room, available = max(most, own), budget - ring_bytes(store)
    if size > room:
        return 0, Reason("maps.more-than-kernel", bytes=size)
    return min(room, available), None if size <= available else Reason("maps.no-shared-memory")


def _rewrite(store: Any, most_stages: int, complete: bool) -> None:
    """Rewrite a store to use a buffer of one stage, or of up to `most_stages` where a loop stores slices of a tile;
    `complete`: it is, before anything else is done."""
    result = stored_in_boxes(store)
    assert result is not None, "a store without boxes is refused"
    desc, tile = result
    after_writes = needs_fence(store.token)
    loop, stages, unread = (None, 1, 0) if complete else _loop_of_slices(store, most_stages)
    outer, builder = Builder.before(loop or store), Builder.before(store)
    outer.location = builder.location = store.location
    data, convert = as_it_comes(store.data)
    buffer = outer.insert(tileas.AllocTensorOp(result=tileas.BufferType(stages, tile))).results[0]
    stage = integer(builder, 0)
    if loop is not None:
        stage = binary(builder, arith.AndIOp, loop.induction_variable, integer(builder, stages - 1))
    builder.insert(tileas.StoreTensorOp(data, buffer, stage))
    builder.insert(tileas.FenceProxyOp(global_memory=UnitAttr() if after_writes else None))
    entry = builder.insert(MakeTmaDescOp(store.view, result=desc)).results[0]
    coords = box_coordinates(builder, store, lambda value: value, RangeAnalysis())
    store_op = builder.insert(
        TmaStoreOp(buffer=buffer, stage=stage, desc=entry, coords=coords, token=store.token,
                   rmw_mode=store.attributes.get("rmw_mode"),
                   unread=None if complete else IntegerAttr(unread, i32),
                   result_token=store.result_token.type)
    )  # fmt: skip
    store.result_token.replace_all_uses_with(store_op.results[0])
    store.erase()
    if convert is not None and not convert.result.has_uses:
        convert.erase()
    behind = Builder.after(store_op if loop is None else loop)
    behind.location = store_op.location
    if stages > 1:
        behind.insert(TmaStoreTailOp(buffer))
    behind.insert(tileas.DeallocTensorOp(buffer))


def _loop_of_slices(store: Any, most_stages: int) -> tuple[scf.ForOp | None, int, int]:
    """The loop around a store whose counter numbers slices of a tile; for how many of these there are stages, a power
    of two; and how many may be unread when the next one is written.  No loop where anything else in it takes shared
    memory, whose stages would live beside it."""
    loop, alone = store.parent_op, (None, 1, 0)
    if not isinstance(loop, scf.ForOp) or loop.induction_variable.type is not i32:
        return alone
    own = {store, as_it_comes(store.data)[1]}
    if any(op not in own and (isinstance(op, _TAKE_MEMORY) or scratch_bytes(op, SCRATCH_LIMIT)) for op in loop.walk()):
        return alone
    bounds: list[Any] = [value.defining_op for value in (loop.lower_bound, loop.upper_bound, loop.step)]
    if not all(isinstance(op, arith.ConstantOp) for op in bounds):
        return alone
    first, slices, step = (op.value.value for op in bounds)
    stages = 1 << min(slices, most_stages, MOST_STAGES).bit_length() - 1
    if (first, step) != (0, 1) or stages < 2:
        return alone
    return loop, stages, stages if slices <= stages else stages - 1
