"""Tiles that are put together or taken apart in memory: reshaped, concatenated, with a slice replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .elements import kind_of
from .elementwise import constant_lanes, literal
from .plan import is_tile
from .shape import is_renaming
from .tiles import At, Tile

if TYPE_CHECKING:
    from .lower import Lowering


def view(low: Lowering, op: Any) -> None:
    """The same memory under another shape."""
    if is_renaming(op):
        return
    tile = low.materialize(op.operand)
    low.hold(op.result, tile.reshaped(tuple(op.result.type.shape)))


def unsplat(low: Lowering, op: Any) -> None:
    with low.together():
        low.values[op.result] = low.lanes(op.operand, At((0,) * op.operand.type.rank))


def cat(low: Lowering, op: Any) -> None:
    tile = low.allocate(op.result.type.shape, op.result.type.element_type)
    start = 0
    for part in (op.lhs, op.rhs):
        with low.each(part.type.shape) as at:
            low.store(tile, _at_starts(low, at, {op.dim.value: start}), low.lanes(part, at))
        start += part.type.shape[op.dim.value]
    low.hold(op.result, tile)


def _at_starts(low: Lowering, at: At, starts: dict[int, Any]) -> At:
    index = tuple(low.code.add(starts.get(dim, 0), number) for dim, number in enumerate(at.index))
    return At(index, at.dim, at.count)


def insert_slice(low: Lowering, op: Any) -> None:
    tile = low.may_overwrite(op.dest, op)
    if tile is None or low.reads(op.source, tile.root):
        tile = low.materialize(op.dest, low.allocate(op.result.type.shape, op.result.type.element_type))
    starts = {
        dim: low.code.multiply(low.index(coordinate), size)
        for dim, (coordinate, size) in enumerate(zip(op.coords, op.source.type.shape))
    }
    with low.each(op.source.type.shape) as at:
        low.store(tile, _at_starts(low, at, starts), low.lanes(op.source, at))
    low.hold(op.result, tile)


def constant(low: Lowering, op: Any) -> None:
    """A tile with different elements is a constant of the module."""
    attribute, value = op.value, op.result
    if not is_tile(value):
        low.values[value] = constant_lanes(attribute, value.type, 1)
    if getattr(attribute, "is_splat", True):
        return
    kind = kind_of(value.type.element_type)
    bits = attribute.stored_bits()
    if kind.format == "tf32":
        bits = [each << 13 for each in bits]
    elements = ", ".join(f"{kind.stored} {literal(kind, each)}" for each in bits)
    name = f"@tile.{low.name}.{len(low.constants)}"
    low.constants.append(f"{name} = private constant [{len(bits)} x {kind.stored}] [{elements}], align 64")
    low.values[value] = Tile(name, tuple(value.type.shape), kind)


FAMILY = {
    "nv_tileaa.view": view,
    "nv_tileaa.unsplat": unsplat,
    "nv_tileaa.cat": cat,
    "nv_tileaa.insert_slice": insert_slice,
    "arith.constant": constant,
}
