"""Which tiles are accumulators in tensor memory: results of dots, of loops in which they stay there, and slices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.ir import Operation, Value
from tileiras.targets import mma_atom
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
    found = {}
    for number, value in enumerate(block.last.operands):
        dots: list[Any] = []
        while is_dot(value.defining_op) and value.parent_block is block and value.has_one_use:
            dots.insert(0, value.defining_op)
            value = dots[0].c
        if dots and value is loop.iter_args[number] and value.has_one_use:
            found[number] = dots
    return found


def rescaled_in_place(loop: scf.ForOp) -> dict[int, Any]:
    """The dots of a loop whose result is what the next iteration computes an accumulator of, as attention rescales it,
    by the number of the loop-carried value: meanwhile it stays in tensor memory."""
    block = loop.body.block
    in_place = accumulated_in_place(loop)
    found = {}
    for number, value in enumerate(block.last.operands):
        dot: Any = value.defining_op
        if number in in_place or not is_of_tensor_memory(dot) or dot.parent is not block or not value.has_one_use:
            continue
        before = dot.c.defining_op
        if not (is_of_tensor_memory(before) and before.parent is block):
            found[number] = dot
    return found


def reads_a_in_tensor_memory(dot: Any) -> bool:
    """Whether a dot's instruction reads A in tensor memory."""
    return isinstance(mma_atom(dot.atom.atom).a, TensorTile)


def accumulator_of(value: Value) -> Any:
    """The dot whose accumulator a tile is when it is used: the dot's result, that of a loop in which it stays in tensor
    memory, or a slice of these; None for other tiles."""
    op = value.defining_op
    if isinstance(op, tileas.ExtractSliceOp):
        return accumulator_of(op.source)
    if isinstance(op, scf.ForOp):
        dots = accumulated_in_place(op).get(value.index)  # type: ignore[attr-defined]
        return dots[-1] if dots else None
    return op if is_of_tensor_memory(op) else None
