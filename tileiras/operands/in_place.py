"""Operands that dots read in shared memory, and that no loop has run ahead: copied there straight from global memory.

    %x = tiled_load ...                         %q = alloc_tensor;  async.tiled_load ... into %q;  async.commit_group
    %a = convert_layout %x : -> shared          ...
    ...                                    ->   async.wait {pending = 0};  fence_proxy_async
    %d = dot %a, ...                            %a = copy %q[0]
                                                %d = dot %a, ...

The copies of a block are in flight together: the wait precedes the first operation that uses one of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras import analysis, schedule, tensor_maps
from tileiras.analysis.copied_loads import LOADS, Leaf, copied_vector, is_only_renamed, leaves_of
from tileiras.analysis.derivations import erase_unused
from tileiras.analysis.function_pass import FunctionPass
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.arith.build import integer
from tileiras.ir import Block, Builder, IntegerAttr, Operation, Value, i32
from tileiras.layout import LinearLayout
from tileiras.layout.encoding import layout_of, with_layout
from tileiras.schedule.staging import buffer_type, read_in, stage_offsets, start_copy
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets import CopyAtom, Target, find_copy_atom

if TYPE_CHECKING:
    from tileiras.ir.pass_manager import PassContext


class _Copied(NamedTuple):
    """A load, where its tile is read in place, the first and the last operation of its block that do."""

    load: tileas.Load
    leaves: tuple[Leaf, ...]
    offsets: tuple[int, ...]
    first: Operation
    last: Operation


class MaterializeAsync(FunctionPass):
    name = "tileas-materialize-async"
    requires = "SCHEDULED"
    leaves = "ASYNCHRONOUS"
    needs = "schedules; loops as they will be"
    establishes = (
        "`async.dot` for dots of warpgroups, `tensor_memory.dot` for those into tensor memory, buffers for their "
        "operands and accumulators, proxy fences, groups and waits"
    )
    keeps = "values, other dots"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        dots = [op for op in func.walk() if analysis.dots_in_flight.is_asynchronous(op)]
        if not dots:
            return
        copy_in_place(func, gpu)
        schedule.materialize.shared_tiles.put_into_shared(func)
        if analysis.dots_in_flight.is_of_tensor_memory(dots[0]):
            schedule.materialize.tensor_dots.materialize_tensor_dots(func)
            tensor_maps.reducing_loads.reduce_in_loads(func, gpu)
        else:
            schedule.materialize.async_dots.materialize_async_dots(func)


def copy_in_place(func: aa.FuncOp, target: Target) -> None:
    """Replace loads of tiles that only dots read in shared memory by copies to shared memory, in place."""
    atom = find_copy_atom(target, "global", "shared", asynchronous=True)
    if atom is None:
        return
    blocks: dict[Block, list[_Copied]] = {}
    for load in [op for op in func.walk() if isinstance(op, LOADS)]:
        result = _copy(load, atom)
        if result is not None:
            blocks.setdefault(load.parent, []).append(result)
    for group in blocks.values():
        _rewrite(group, atom)


def _copy(load: tileas.Load, atom: CopyAtom) -> _Copied | None:
    vector = copied_vector(load, atom)
    leaves = leaves_of(load.data, load.parent) if vector is not None else []
    if vector is None or not leaves or not all(leaf.in_place for leaf in leaves):
        return None
    if not is_only_renamed(load.data, leaves):
        return None
    offsets = stage_offsets(load, vector, leaves)
    if offsets is None:
        return None
    places = [place for leaf in leaves for place in _users_in(load.parent, leaf.convert.results[0])]
    if not places:
        return None
    first = last = places[0]
    for place in places:
        first = place if place.is_before_in_block(first) else first
        last = place if last.is_before_in_block(place) else last
    return _Copied(load, tuple(leaves), offsets, first, last)


def _users_in(block: Block, value: Value) -> list[Operation]:
    """The operations of a block that use a tile, perhaps under another shape."""
    users: list[Operation] = []
    worklist = [value]
    while worklist:
        for user in worklist.pop().users:
            place = block.find_ancestor_op(user)
            if place is not None:
                users.append(place)
            if isinstance(user, tileas.VIEW_LIKE):
                worklist.append(user.results[0])
    return users


def _rewrite(group: list[_Copied], atom: CopyAtom) -> None:
    """The rewriting of the loads of one block, in its order: a wait for those before each use."""
    waiting: list[tuple[_Copied, Value]] = []
    for copied in group:
        if waiting and any(not copied.load.is_before_in_block(_first_reader(each)) for each, _ in waiting):
            _wait(waiting)
            waiting = []
        builder = Builder.before(copied.load)
        builder.location = copied.load.location
        buffer = builder.insert(tileas.AllocTensorOp(result=buffer_type(copied.load, copied.offsets, 1))).results[0]
        start_copy(builder, copied.load, buffer, integer(builder, 0), copied.load.token, atom)
        builder.insert(tileas.AsyncCommitGroupOp())
        waiting.append((copied, buffer))
    _wait(waiting)


def _first_reader(copied: _Copied) -> Operation:
    """The first operation of the block that needs the tile, or the completion of the load."""
    first = copied.first
    for user in copied.load.result_token.users:
        place = copied.load.parent.find_ancestor_op(user)
        if place is not None and place.is_before_in_block(first):
            first = place
    return first


def _groups_behind(buffer: Value, before: Operation) -> int:
    """Groups of copies that are surely committed between that of a buffer and a place in its block."""
    count, op = -1, buffer.defining_op  # its own is the first
    while op is not None and op is not before:
        count += isinstance(op, tileas.AsyncCommitGroupOp)
        op = op.next
    return count


def _wait_before(place: Operation, pending: int) -> tileas.AsyncWaitOp | None:
    """The wait with a fence immediately before an operation, if it leaves no more groups in flight."""
    fence = place.prev
    wait = None if not isinstance(fence, tileas.FenceProxyOp) else fence.prev
    return wait if isinstance(wait, tileas.AsyncWaitOp) and wait.pending.value <= pending else None


def _wait(waiting: list[tuple[_Copied, Value]]) -> None:
    """Emit one wait for copies in flight, and the reads of their tiles."""
    before = _first_reader(waiting[0][0])
    for copied, _ in waiting:
        reader = _first_reader(copied)
        before = reader if reader.is_before_in_block(before) else before
    builder = Builder.before(before)
    builder.location = before.location
    pending = _groups_behind(waiting[-1][1], before)
    wait = _wait_before(before, pending)
    if wait is None:
        wait = tileas.AsyncWaitOp(pending=IntegerAttr(pending, i32), result_token=aa.MemTokenType())
        builder.insert(wait)
        builder.insert(tileas.FenceProxyOp())
    stage = integer(builder, 0)
    for copied, buffer in waiting:
        load = copied.load
        load.result_token.replace_all_uses_with(wait.results[0])
        for leaf in copied.leaves:
            old = leaf.convert.results[0]

            def read(layout: LinearLayout, load: tileas.Load = load, buffer: Value = buffer) -> Value:
                type = with_layout(load.data.type, layout)
                return builder.insert(tileas.CopyOp(buffer, stage, result=type)).results[0]

            old.replace_all_uses_with(read_in(leaf.convert.operands[0], layout_of(old.type), load, read, before))
            leaf.convert.erase()
        erase_unused(load.data)
        load.erase()
        after = Builder.before(copied.last.next)  # type: ignore[arg-type]
        after.location = copied.last.location
        after.insert(tileas.DeallocTensorOp(buffer))
