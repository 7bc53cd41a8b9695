"""Expressions that rename elements: splats, ranges, broadcasts, permutations, reshaped tiles, slices.

A rule returns the position of the elements of the operand that are those of the result at a position.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tileiras.ir import Operation, Value, element_type_of

from .code import Index, constant
from .elements import EVEN, Lanes, kind_of
from .tiles import At

if TYPE_CHECKING:
    from .lower import Lowering

Renaming = Callable[["Lowering", Any, At], tuple[Value, At]]

RENAMED: dict[str, Renaming] = {}
"""The elements of an operand that an expression renames: one, repeated, or as many as those of the result."""


def renaming(name: str) -> Callable[[Renaming], Renaming]:
    def register(function: Renaming) -> Renaming:
        RENAMED[name] = function
        return function

    return register


def is_renaming(op: Operation) -> bool:
    """Whether the operation is an expression: a reshaped tile is one if dimensions of size one come and go."""
    return op.name != "nv_tileaa.view" or kept_dims(op) is not None


def kept_dims(op: Operation) -> list[tuple[int, int]] | None:
    """Pairs of dimensions of the operand and the result with the same elements; None if others are split or joined."""
    shapes = [value.type.shape for value in (op.operands[0], op.results[0])]
    sides = [[dim for dim, size in enumerate(shape) if size > 1] for shape in shapes]
    if [shapes[0][dim] for dim in sides[0]] != [shapes[1][dim] for dim in sides[1]]:
        return None
    return list(zip(*sides))


@renaming("nv_tileaa.splat")
def _splat(low: Lowering, op: Any, at: At) -> tuple[Value, At]:
    return op.operand, At(())


def make_range(low: Lowering, op: Any, at: At) -> Lanes:
    code, kind = low.code, kind_of(element_type_of(op.result.type))
    first: Index = at.index[0]
    if isinstance(first, int):
        if at.count == 1:
            return Lanes(kind, 1, str(first & ((1 << kind.width) - 1)), steps=EVEN)
        name = constant(kind.number, at.count, first)
    else:
        if kind.width != 64:
            first = code.value(f"trunc i64 {first} to {kind.number}")
        name = code.splat(kind.number, at.count, first)
    if at.count > 1:
        name = code.value(f"add <{at.count} x {kind.number}> {name}, {code.ramp(at.count, kind.number)}")
    return Lanes(kind, at.count, name, steps=EVEN)


@renaming("nv_tileaa.broadcast")
def _broadcast(low: Lowering, op: Any, at: At) -> tuple[Value, At]:
    shape = op.operand.type.shape
    index = tuple(0 if size == 1 else number for size, number in zip(shape, at.index))
    if at.dim >= 0 and shape[at.dim] == 1:
        return op.operand, At(index)
    return op.operand, At(index, at.dim, at.count)


@renaming("nv_tileaa.permute")
def _permute(low: Lowering, op: Any, at: At) -> tuple[Value, At]:
    order = op.permutation.elements
    index: list[Index] = [0] * len(order)
    for result_dim, dim in enumerate(order):
        index[dim] = at.index[result_dim]
    return op.operand, At(tuple(index), order[at.dim] if at.dim >= 0 else -1, at.count)


@renaming("nv_tileaa.view")
def _view(low: Lowering, op: Any, at: At) -> tuple[Value, At]:
    index: list[Index] = [0] * len(op.operand.type.shape)
    dim = -1
    for position, target in kept_dims(op) or ():
        index[position] = at.index[target]
        dim = position if target == at.dim else dim
    return op.operand, At(tuple(index), dim, at.count if dim >= 0 else 1)


@renaming("nv_tileaa.extract_slice")
def _extract_slice(low: Lowering, op: Any, at: At) -> tuple[Value, At]:
    index = []
    for number, coordinate, size in zip(at.index, op.coords, op.result.type.shape):
        start = low.code.multiply(low.index(coordinate), size)
        index.append(low.code.add(start, number))
    return op.source, At(tuple(index), at.dim, at.count)


EXPRESSIONS: frozenset[str] = frozenset((*RENAMED, "nv_tileaa.make_range"))
