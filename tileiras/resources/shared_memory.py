"""Shared memory available to a schedule, and the shared memory that the rest of a kernel needs."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from tileiras.analysis.dots_in_flight import is_of_tensor_memory
from tileiras.analysis.places import shared_limit
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import Block, Operation
from tileiras.layout.arena import ARENA_ALIGNMENT, SCRATCH_LIMIT, aligned, aligned_to
from tileiras.layout.encoding import is_in_shared, layout_of
from tileiras.layout.scratch import EXCHANGING, Conversion, Warps, Whole, exchanges
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets import Target

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.dialects import scf

SCRATCH_BYTES = 16 * 1024, SCRATCH_LIMIT
"""Bytes for exchanges that go in rounds if shared memory is short: reserved at most for all exchanges of a loop, so
that each has an area of its own; and reserved at most for one conversion, so that it goes at once."""

MBARRIER_BYTES = 1024
"""Maximum of shared memory for the mbarriers of a kernel, with the padding before the buffers."""

assert MBARRIER_BYTES % ARENA_ALIGNMENT == 0, "buffers behind mbarriers are aligned"


def shared_budget(func: aa.FuncOp, target: Target, ctas: int | None = None) -> int:
    """Bytes of shared memory for a CTA when the SM is to hold as many of them as the kernel asks for, or `ctas`;
    without those of mbarriers for dots into tensor memory."""
    beside = MBARRIER_BYTES if _commits(func) else 0
    ctas = ctas or func.kernel_spec.occupancy
    return min(shared_share(target, ctas or 1), shared_limit(func, target)) - beside


def shared_share(target: Target, ctas: int) -> int:
    """Bytes of shared memory for each CTA when an SM is to hold this number of them."""
    if ctas == 1:
        return target.shared_per_cta
    return min(target.shared_per_cta, target.shared_per_sm // ctas - target.shared_reserved)


def pipe_mbarrier_bytes(func: aa.FuncOp) -> int:
    """Bytes beside `shared_budget` for the mbarriers of pipes; 0 if they share the bytes reserved for those of dots
    into tensor memory."""
    return 0 if _commits(func) else MBARRIER_BYTES


def _commits(func: aa.FuncOp) -> bool:
    """Whether a function has dots that arrive at mbarriers."""
    return any(map(is_of_tensor_memory, func.walk()))


def buffer_bytes(op: Operation) -> int:
    """Growth of the live buffers, in bytes, over an operation."""
    if isinstance(op, tileas.AllocTensorOp):
        return op.result.type.bytes
    if isinstance(op, tileas.DeallocTensorOp):
        return -op.buffer.type.bytes
    return 0


def bytes_in_use(block: Block, budget: int, without: Collection[Operation] = ()) -> int:
    """Most bytes that the buffers of a block, and of the blocks in it, take at a time together with exchanges, of a
    kernel that has `budget` in all; without the exchanges of the operations `without`."""
    live = most = 0
    for op in block.operations:
        live += buffer_bytes(op)
        nested = max((bytes_in_use(b, budget, without) for region in op.regions for b in region.blocks), default=0)
        most = max(most, live + max(nested, 0 if op in without else scratch_bytes(op, budget)))
    return most


def ring_bytes(place: Operation) -> int:
    """Bytes of the buffers that are live at an operation: those of pipes between agents are allocated outside of the
    agent that ends them."""
    total = 0
    current: Operation | None = place
    while current is not None and current.parent is not None:
        for op in current.parent.operations:
            if op is current:
                break
            if isinstance(op, tileas.AllocTensorOp) and _lives(op, place):
                total += op.result.type.bytes
        current = current.parent_op
    return total


def _lives(buffer: tileas.AllocTensorOp, op: Operation) -> bool:
    """Whether a buffer that is allocated before an operation has not ended there."""
    return not any(_precedes(user, op) for user in buffer.result.users if isinstance(user, tileas.DeallocTensorOp))


def _precedes(first: Operation, op: Operation) -> bool:
    """Whether an operation, or an ancestor, precedes another one in their common block."""
    around: Operation | None = first
    while around is not None and around.parent is not None:
        place = around.parent.find_ancestor_op(op)
        if place is not None:
            return around is not place and around.is_before_in_block(place)
        around = around.parent_op
    return False


def scratch_beside(loop: scf.ForOp, without: Collection[Operation]) -> int:
    """Bytes left to operations of a loop that need shared memory for themselves, without the operations `without`."""
    warps = _warps_around(loop)
    users = (op for op in loop.walk() if type(op) in EXCHANGING and op not in without and not _is_put_there(op))
    needs = [need for op in users if (need := _scratch_need(op, warps)).bytes]
    residents = resident_bytes(loop, without)
    if not needs:
        return residents
    least, most = SCRATCH_BYTES
    apart = min(least, sum(need.bytes for need in needs))
    return residents + max(min(most, max(apart, *(need.bytes for need in needs))), *(need.at_once for need in needs))


def scratch_before(loop: scf.ForOp, budget: int) -> int:
    """Scratch bytes of conversions before a loop whose results only the loop uses, the most of any: they are made just
    before it, when the loads that run ahead for its first iterations are in flight
    (`tileas-materialize-convert-layout`).  `budget`: bytes of shared memory that the kernel has in all."""
    return max((scratch_bytes(op, budget) for op in loop.parent.operations if _is_for(op, loop)), default=0)


def _is_for(op: Operation, loop: scf.ForOp) -> bool:
    """Whether an operation of a loop's block is such a conversion."""
    if not isinstance(op, tileas.ConvertLayoutOp) or _is_put_there(op) or not op.is_before_in_block(loop):
        return False
    return all(loop.is_ancestor_of(user) for user in op.result.users)


class _Need(NamedTuple):
    """Scratch memory of an operation: `bytes` if available, `at_once` as a minimum."""

    bytes: int
    at_once: int


def _scratch_need(op: Operation, warps: Warps) -> _Need:
    """Scratch memory of one operation.  A slice and a printed tile go in cheap rounds through little memory; each round
    of a conversion has barriers."""
    least, _ = SCRATCH_BYTES
    bytes = at_once = together = 0
    for exchange in exchanges(op, warps):
        if isinstance(exchange, Conversion):
            bytes = max(bytes, aligned(exchange.bytes))
        elif isinstance(exchange, Whole):
            together = (together if exchange.joins else 0) + aligned(exchange.bytes)
            at_once = max(at_once, together)
        else:
            bytes = max(bytes, min(least, aligned(exchange.bytes)))
    return _Need(max(bytes, at_once), at_once)


def _is_put_there(op: Operation) -> bool:
    """Whether a tile goes to shared memory and stays there."""
    return isinstance(op, tileas.ConvertLayoutOp) and is_in_shared(op.result.type)


def resident_bytes(loop: scf.ForOp, without: Collection[Operation] = ()) -> int:
    """Bytes of the tiles that lie in shared memory while a loop runs, without those of the operations `without`, whose
    buffers are yet to be allocated."""
    result = (op for op in _function_around(loop).walk() if _is_put_there(op) and op not in without)
    return sum(resident_size(op) for op in result if loop.is_ancestor_of(op) or _lives_at(op, loop))


def resident_size(op: tileas.ConvertLayoutOp) -> int:
    """Bytes of the buffer for a tile that goes to shared memory and stays there."""
    type, stages = op.result.type, tileas.number_of(op, tileas.STAGES) or 1
    bytes = aligned_to(type.element_type.width << len(layout_of(type).bases("offset")) >> 3, ARENA_ALIGNMENT)
    return stages * bytes


def _lives_at(op: Operation, loop: scf.ForOp) -> bool:
    place = op.parent.find_ancestor_op(loop)
    if place is None or not op.is_before_in_block(place):
        return False
    ends = (op.parent.find_ancestor_op(user) for user in op.result.users)
    return any(end is not None and not end.is_before_in_block(place) for end in ends)


def conversion_bytes(op: tileas.ConvertLayoutOp) -> int:
    """Shared memory of a layout conversion in a single round."""
    if _is_put_there(op):
        return resident_size(op)
    return sum(exchange.bytes for exchange in exchanges(op, _warps_around(op)))


def _warps_around(op: Operation) -> Warps:
    """The warps of the function around an operation, for its target."""
    func = _function_around(op)
    gpu = func.target_spec
    return Warps.of(func, "" if gpu is None else gpu.value)


def _function_around(op: Operation) -> aa.FuncOp:
    while op.parent_op is not None and not isinstance(op, aa.FuncOp):
        op = op.parent_op
    return op  # type: ignore[return-value]


def takes_rounds(op: tileas.ConvertLayoutOp) -> bool:
    """Whether a conversion of layout goes through shared memory in rounds, however much of it is left."""
    return conversion_bytes(op) > SCRATCH_LIMIT


def scratch_bytes(op: Operation, budget: int, in_rounds: bool = False) -> int:
    """Scratch memory reserved for an operation of a kernel with a total of `budget` bytes; `in_rounds`: the smaller
    limit of `SCRATCH_BYTES`, if the operation can go in rounds."""
    most = min(SCRATCH_BYTES[0 if in_rounds else 1], budget // 4)
    if isinstance(op, tileas.ConvertLayoutOp):
        return min(conversion_bytes(op), most)
    if type(op) not in EXCHANGING:
        return 0
    need = _scratch_need(op, _warps_around(op))
    return max(min(need.bytes, most), need.at_once)
