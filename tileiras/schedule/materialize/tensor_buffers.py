"""Types of the buffers in tensor memory of a dot, and how many columns those of several dots take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.ir import Block, Operation, Value
from tileiras.layout.accumulators import continues, reads_a_in_tensor_memory
from tileiras.layout.encoding import with_layout
from tileiras.layout.tensor_memory import accumulator_layout, operand_layout
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets import mma_atom


def accumulator_type(dot: Any) -> tileas.TensorBufferType:
    """The buffer type of the accumulator of a dot, in the rows of its atom."""
    atom, type = mma_atom(dot.atom.atom), dot.c.type
    exchanged = getattr(dot, "exchanged", None) is not None
    layout = accumulator_layout(type.shape, atom.cta_rows, exchanged, atom.ctas > 1)
    return tileas.TensorBufferType(with_layout(type, layout))


def operand_type(dot: Any) -> tileas.TensorBufferType:
    """The buffer type of an A that the dot reads in tensor memory."""
    type = dot.a.type
    return tileas.TensorBufferType(with_layout(type, operand_layout(type.shape, type.element_type.width)))


class _Life(NamedTuple):
    """Columns of a buffer, and the first and the last operation of its block that it has them at."""

    columns: int
    first: Operation
    last: Operation


def columns_taken(dots: Sequence[Any]) -> int:
    """The most columns that the buffers of all dots have at a time, where each A in tensor memory has its own.

    An accumulator has its columns from its dot on, or from the loop that carries it, to the last use of the result, or
    to the end of the block where a later loop continues with it.  An A of a dot in a loop has them from that loop on,
    to the end of the block around it.
    """
    lives: dict[Block, list[_Life]] = {}

    def add(columns: int, first: Any, last: Operation) -> None:
        lives.setdefault(first.parent, []).append(_Life(columns, first, last))

    before = {dot: count for dot in dots if (count := _goes_on_with(dot)) is not None}
    for dot in dots:
        if reads_a_in_tensor_memory(dot):
            first = dot.parent_op if isinstance(dot.parent_op, scf.ForOp) else dot
            add(operand_type(dot).columns, first, first.parent.last)
        if dot in before or _adds_to_dot(dot, dots):
            continue
        loop, result = dot.parent_op, _last_sum(dot, dots)
        first, value = dot, result
        if isinstance(loop, scf.ForOp) and result in loop.yield_op.operands:
            first, value = loop, loop.results[loop.yield_op.operands.index(result)]
        last = first.parent.last if result.defining_op in before.values() else _last_use(value, first.parent)
        add(accumulator_type(dot).columns, first, last)
    return _most_at_a_time(program_of(dots[0]), lives) if dots else 0


def program_of(op: Operation) -> Block:
    """The block of the agent around an operation, or of the function."""
    block = op.parent
    while block is not None and isinstance(block.parent_op, (scf.ForOp, scf.IfOp, scf.WhileOp)):
        block = block.parent_op.parent
    assert block is not None
    return block


def _goes_on_with(dot: Any) -> Any:
    """The dot of an earlier loop whose accumulator a dot of a loop continues to add to; None if absent."""
    loop = dot.parent_op
    if not isinstance(loop, scf.ForOp) or dot.result not in loop.yield_op.operands:
        return None
    result = continues(loop, loop.yield_op.operands.index(dot.result))
    return result if result is not None and accumulator_type(result) == accumulator_type(dot) else None


def _adds_to_dot(dot: Any, dots: Sequence[Any]) -> bool:
    """Whether a dot adds to the result of another one of its block, which has no other use."""
    before = dot.c.defining_op
    return before in dots and before.parent is dot.parent and dot.c.has_one_use


def _last_sum(dot: Any, dots: Sequence[Any]) -> Value:
    """The result of the last of the dots that add to one accumulator one after the other."""
    user: Any = next(iter(dot.result.users), None)
    while user in dots and user.c is dot.result and _adds_to_dot(user, dots):
        dot = user
        user = next(iter(dot.result.users), None)
    return dot.result


def _last_use(value: Value, block: Block) -> Operation:
    """The last operation of a block that uses a value, itself or inside; the end of the block where nothing does."""
    operations = [op for user in value.users if (op := block.find_ancestor_op(user)) is not None]
    last: Operation = operations[0] if operations else block.last  # type: ignore[assignment]
    for op in operations:
        last = op if last.is_before_in_block(op) else last
    return last


def _most_at_a_time(block: Block, lives: dict[Block, list[_Life]]) -> int:
    """The most columns that buffers of a block, and of those inside, have at a time."""
    places = {op: number for number, op in enumerate(block.operations)}
    own = [(places[life.first], places[life.last], life.columns) for life in lives.get(block, ())]
    most = 0
    for op, place in places.items():
        inside = [_most_at_a_time(each, lives) for region in op.regions for each in region.blocks]
        most = max(most, max(inside, default=0) + sum(size for first, last, size in own if first <= place <= last))
    return most
