"""Tiles that dots read from shared memory, and that threads store there.

    %a = convert_layout %x : registers -> shared        %q = alloc_tensor;  store_tensor %x into %q;  fence_proxy_async
    ... dot %a ...                                ->    %a = copy %q[0]
                                                        ... dot %a ...
                                                        dealloc_tensor %q

Each thread that stores fences for the asynchronous proxy, before the barrier after which dots read (PTX ISA, "Async
Proxy"); where all threads wait for a stage that other threads have copied, and fence, right behind, that is this fence.
"""

from __future__ import annotations

from tileiras import analysis
from tileiras.dialects import arith, scf
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.arith.build import binary, integer
from tileiras.dialects.nv_tileas import names
from tileiras.ir import Builder, Operation, Pure, Value, i32
from tileiras.layout.encoding import is_in_shared


def put_into_shared(func: aa.FuncOp) -> None:
    """Give the tiles of a function of nv_tileas that go to shared memory buffers, in place."""
    converts = [op for op in func.walk() if isinstance(op, tileas.ConvertLayoutOp) and is_in_shared(op.result.type)]
    for op in converts:
        _put(op)
    for op in [op for op in func.walk() if isinstance(op, tileas.FenceProxyOp)]:
        if _is_repeated(op) or _comes_with_wait(op):
            op.erase()


def _comes_with_wait(fence: Operation) -> bool:
    """Whether each thread waits for a stage, and fences after that, with no operation between that needs a barrier."""
    op = fence.next
    while op is not None and (op.has_trait(Pure) or isinstance(op, tileas.CopyOp) and is_in_shared(op.result.type)):
        op = op.next
    if op is None or op.name != names.CONSUMER_WAIT:
        return False
    pipe = analysis.pipes.pipe_of(op.operands[0])
    protocol = None if pipe is None else analysis.pipes.protocol_of(pipe)
    return protocol is not None and protocol.fence == "behind wait" and protocol.empty != "agent"


def _put(convert: tileas.ConvertLayoutOp) -> None:
    builder = Builder.before(convert)
    builder.location = convert.location
    type, loop = convert.result.type, convert.parent_op
    # Where a loop executes one iteration, its operations may be outside of it by now.
    stages = tileas.number_of(convert, tileas.STAGES) if isinstance(loop, scf.ForOp) else None
    outside, stage = builder, integer(builder, 0)
    if stages is not None:
        outside = Builder.before(loop)
        outside.location = convert.location
        distance = binary(builder, arith.SubIOp, loop.induction_variable, loop.lower_bound)
        stage = binary(builder, arith.AndIOp, distance, integer(builder, stages - 1, distance.type))
        if stage.type != i32:
            cls = arith.TruncIOp if stage.type.width > 32 else arith.ExtUIOp  # type: ignore[attr-defined]
            stage = builder.insert(cls(stage, result=i32)).results[0]
    buffer = outside.insert(tileas.AllocTensorOp(result=tileas.BufferType(stages or 1, type))).results[0]
    builder.insert(tileas.StoreTensorOp(convert.operand, buffer, stage))
    builder.insert(tileas.FenceProxyOp())
    copy = builder.insert(tileas.CopyOp(buffer, stage, result=type))
    last = _last_user(convert) if stages is None else loop
    after = Builder.before(last.next)
    after.location = last.location
    after.insert(tileas.DeallocTensorOp(buffer))
    convert.replace_all_uses_with(copy.results)
    convert.erase()


def _last_user(convert: tileas.ConvertLayoutOp) -> Operation:
    """The last operation of a conversion's block that uses its tile, perhaps under another shape."""
    last: Operation = convert
    values: list[Value] = [convert.result]
    for value in values:
        for user in value.users:
            if isinstance(user, tileas.VIEW_LIKE):
                values += user.results
            place = convert.parent.find_ancestor_op(user)
            if last.is_before_in_block(place):
                last = place
    return last


def _is_repeated(fence: Operation) -> bool:
    """Whether the first dot reads a tile stored after this fence: another fence then precedes the dot, with a barrier
    between both fences."""
    stored_buffers: set[Value] = set()
    op = fence.next
    while op is not None and not any(isinstance(inner, tileas.DOTS) for inner in op.walk()):
        if isinstance(op, tileas.StoreTensorOp):
            stored_buffers.add(op.buffer)
        op = op.next
    if not isinstance(op, tileas.DOTS):
        return False
    reads = (value.defining_op for value in op.operands)
    return any(isinstance(copy, tileas.CopyOp) and copy.buffer in stored_buffers for copy in reads)
