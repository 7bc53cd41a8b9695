"""Dots of a loop that may be in flight when the next iteration begins: those whose results are its accumulators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tileiras.analysis.derivations import is_derived, uses_through
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.ir import Block, Operation, TensorType, Value
from tileiras.layout.accumulators import accumulated_in_place, is_of_tensor_memory, rescaled_in_place
from tileiras.layout.encoding import is_in_shared
from tileiras.targets import mma_atom
from tileiras.targets.pipe_protocol import PAIR, TENSOR_MEMORY, WARPGROUPS


def is_of_warpgroups(op: Operation | None) -> bool:
    """Whether an operation is a dot that warpgroups execute."""
    return isinstance(op, tileas.DotOp) and op.atom is not None and _by_warpgroup(op.atom.atom)


def _by_warpgroup(name: str) -> bool:
    return name.startswith("wgmma_") and mma_atom(name).executor == "warpgroup"


def is_asynchronous(op: Operation | None) -> bool:
    """Whether a dot is to be asynchronous, so that the function waits for it."""
    return is_of_warpgroups(op) or is_of_tensor_memory(op)


def kind_of_readers(op: Operation, moves: Callable[[Operation], bool]) -> str:
    """The kind of pipe protocol (`targets.pipe_protocol`) by which dots read `op`'s result, a tile in shared memory,
    perhaps under another shape; `moves` identifies the operations that reshape it."""
    for user, _ in uses_through(op.results[0], moves):
        if isinstance(user, tileas.TensorDotOp) or is_of_tensor_memory(user):
            return PAIR if user.atom.is_of_pair else TENSOR_MEMORY  # type: ignore[attr-defined]
    return WARPGROUPS


def carried_in_flight(loop: scf.ForOp) -> dict[int, Any]:
    """The dots whose results nothing in the loop uses before the next iteration, by the number of the loop-carried
    value; of those into tensor memory, also those whose results the next iteration rescales.

    A dot with A in registers, also one whose result another one adds to, has to be complete before these are written
    again.  That holds if A is computed from another dot of the iteration, whose wait comes first, or if the next
    iteration begins with the wait for the dot.  A promoted dot adds to a complete accumulator.
    """
    block = loop.body.block
    result = {number: dots[-1] for number, dots in accumulated_in_place(loop).items()} | rescaled_in_place(loop)
    for number, value in enumerate(block.last.operands):
        op = value.defining_op
        if not is_of_warpgroups(op) or op.parent is not block or not value.has_one_use or op.promoted is not None:
            continue
        if any(is_of_warpgroups(user) and user.promoted is not None for user in loop.iter_args[number].users):
            continue
        awaited = tileas.AWAITED_NEXT in op.attributes
        first = [tileas.instruction_a(each) for each in chain_of(op)]
        if awaited or all(is_in_shared(tile.type) or _needs_dot(tile, block) for tile in first):
            result[number] = op
    return result


def buffers_read(dot: Any) -> list[Value]:
    """The buffers in shared memory in which a dot reads its operands."""
    return [copy.buffer for copy in copies_read(dot)]


def copies_read(dot: Any) -> list[tileas.CopyOp]:
    """The copies of the operands that a dot reads in shared memory."""
    operations = []
    for value in (dot.a, dot.b, *scales_of(dot)):
        op = value.defining_op
        while isinstance(op, tileas.VIEW_LIKE):
            op = op.operand.defining_op
        if isinstance(op, tileas.CopyOp) and is_in_shared(op.result.type):
            operations.append(op)
    return operations


def is_only_added_to(dot: Operation) -> bool:
    """Whether all users of the result of a dot in a loop, in this or the next iteration, are dots that add to it."""
    loop, (result,) = dot.parent_op, dot.results
    for user in result.users:
        if isinstance(user, tileas.DOTS) and user.c is result:
            continue
        if not isinstance(loop, scf.ForOp) or user is not loop.yield_op:
            return False
        handed_on = [n for n, value in enumerate(user.operands) if value is result]
        if any(not isinstance(each, tileas.DOTS) or each.c is not loop.iter_args[n]
               for n in handed_on for each in loop.iter_args[n].users):  # fmt: skip
            return False
    return True


def scales_of(dot: Any) -> list[Value]:
    """The tiles of scales that a dot reads in shared memory."""
    if isinstance(dot, tileas.BlockScaledMmaOp):
        return [value for value in (dot.scale_a, dot.scale_b) if is_in_shared(value.type)]
    return [value for value in getattr(dot, "scales", ()) if is_in_shared(value.type)]


def chain_of(dot: Any) -> list[Any]:
    """A dot of warpgroups, and the earlier ones of its block whose results are used only as its accumulator: they are
    complete when it is, and may be in flight as long."""
    chain = [dot]
    while True:
        tile = chain[-1].c
        before = tile.defining_op
        if not is_of_warpgroups(before) or before.parent is not dot.parent or not tile.has_one_use:
            return chain
        if chain[-1].promoted is not None:
            return chain
        chain.append(before)


def _needs_dot(value: Value, block: Block) -> bool:
    """Whether a tile is computed from a dot of the same block."""

    def sources(value: Value) -> Sequence[Value] | None:
        op = value.defining_op
        if op is None or op.parent is not block or op.regions and not isinstance(op, tileas.ReduceOp):
            return ()
        return None if isinstance(op, tileas.DotOp) else [v for v in op.operands if isinstance(v.type, TensorType)]

    return not is_derived((value,), sources)
