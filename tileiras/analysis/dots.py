"""Tiles used only by dots: they are read from shared memory one step of K at a time, just before their use."""

from __future__ import annotations

from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import Block, Operation, Value
from tileiras.layout.encoding import layout_of, renamed_layout


def is_operand(op: Operation | None, value: Value) -> bool:
    """Whether `op` is a dot that takes a tile as operand A or B or as scales of one, not as its accumulator."""
    return isinstance(op, tileas.DOTS) and op.c is not value


def feeds_dots(value: Value, block: Block) -> bool:
    """Whether only dots of `block` use a tile, as operand A or B or as scales, perhaps under another shape."""
    for user in value.users:
        if user.parent is not block:
            return False
        renames = isinstance(user, tileas.VIEW_LIKE) and renamed_layout(user) == layout_of(user.results[0].type)
        if not (feeds_dots(user.results[0], block) if renames else is_operand(user, value)):
            return False
    return True


def joined_conversions(op: Operation) -> list[Operation]:
    """The conversions of layout behind `op` whose elements are stored before its barrier, with its own."""
    conversions: list[Operation] = []
    following = op.next
    while isinstance(following, tileas.ConvertLayoutOp) and any(area.joins for area in tileas.scratch_areas(following)):
        conversions.append(following)
        following = following.next
    return conversions
