"""Which tiles are accumulators in tensor memory: results of dots, of loops in which they stay there, and slices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.ir import Operation, Value, f32
from tileiras.targets.atoms.choice import known_mma_atom
from tileiras.targets.atoms.rows import TensorTile


def is_of_tensor_memory(op: Operation | None) -> bool:
    """Whether an operation is a dot whose accumulator lies in tensor memory."""
    return isinstance(op, tileas.DOTS) and op.atom is not None and op.atom.atom.startswith("tcgen05_")


def accumulated_in_place(
    loop: scf.ForOp, is_dot: Callable[[Operation | None], bool] = is_of_tensor_memory
) -> dict[int, list[Any]]:
    """The dots of a loop that add to an accumulator in tensor memory which nothing else in the loop uses, in their
    order, by the number of the loop-carried value; `is_dot`: which dots are into tensor memory."""
    block = loop.body.block
    result = {}
    for number, value in enumerate(block.last.operands):
        dots: list[Any] = []
        while is_dot(value.defining_op) and value.parent_block is block and value.has_one_use:
            dots.insert(0, value.defining_op)
            value = dots[0].c
        if dots and value is loop.iter_args[number] and value.has_one_use:
            result[number] = dots
    return result


def rescaled_in_place(
    loop: scf.ForOp, is_dot: Callable[[Operation | None], bool] = is_of_tensor_memory
) -> dict[int, Any]:
    """The dots of a loop from whose result the next iteration computes an accumulator, as attention rescales it, by the
    number of the loop-carried value: meanwhile it stays in tensor memory."""
    block = loop.body.block
    in_place = accumulated_in_place(loop, is_dot)
    result: dict[int, Any] = {}
    for number, value in enumerate(block.last.operands):
        dot: Any = value.defining_op
        if number in in_place or not is_dot(dot) or dot.parent is not block or not value.has_one_use:
            continue
        before: Any = dot.c.defining_op
        if not (is_dot(before) and before.parent is block):
            result[number] = dot
    return result


def continues(loop: scf.ForOp, number: int, is_dot: Callable[[Operation | None], bool] = is_of_tensor_memory) -> Any:
    """The dot of an earlier loop whose accumulator the rescaled one of this loop continues, given its number: both
    loops rescale it, and it has no other use in between, as where the last iterations of attention, with their mask,
    are a loop of their own.  None if the loop begins with another tile."""
    value: Any = loop.init_args[number]
    before = value.defining_op
    if not isinstance(before, scf.ForOp) or before.parent is not loop.parent or not value.has_one_use:
        return None
    first, second = rescaled_in_place(before, is_dot).get(value.index), rescaled_in_place(loop, is_dot).get(number)
    return first if second is not None else None


def scaling_of(dot: Any) -> tuple[tileas.MulFOp, Value] | None:
    """The multiplication that turns the previous iteration's result into the accumulator of a dot of the loop, if that
    is its only use, and the factor: it is executed in tensor memory, a few columns at a time."""
    op, loop = dot.c.defining_op, dot.parent_op
    if not isinstance(op, tileas.MulFOp) or not isinstance(loop, scf.ForOp) or op.parent is not dot.parent:
        return None
    number = next((n for n, value in enumerate(loop.yield_op.operands) if value is dot.result), None)
    if number is None or not op.result.has_one_use:
        return None
    tile = loop.iter_args[number]
    factor = op.lhs if op.rhs is tile else op.rhs
    plain = op.rounding_mode.value == "nearest_even" and op.result.type.element_type is f32
    return (op, factor) if tile in op.operands and factor is not tile and tile.has_one_use and plain else None


def reads_a_in_tensor_memory(dot: Any) -> bool:
    """Whether a dot's instruction reads A in tensor memory; multiply-adds do not."""
    atom = known_mma_atom(dot.atom.atom)
    return atom is not None and isinstance(atom.a, TensorTile)


def accumulator_of(value: Value) -> Any:
    """The dot whose accumulator a tile is at its use: the dot's result, that of a loop in which it stays in tensor
    memory, or a slice of these; None for other tiles."""
    op = value.defining_op
    while isinstance(op, tileas.ExtractSliceOp):
        value = op.source
        op = value.defining_op
    if isinstance(op, scf.ForOp):
        dots = accumulated_in_place(op).get(value.index)  # type: ignore[attr-defined]
        return dots[-1] if dots else None
    return op if is_of_tensor_memory(op) else None
