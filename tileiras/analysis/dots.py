"""Tiles used only by dots: they are read from shared memory one step of K at a time, just before their use."""

from __future__ import annotations

from tileiras.analysis.derivations import uses_through
from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import Block, Operation, Value
from tileiras.layout.encoding import layout_of, renamed_layout


def is_operand(op: Operation | None, value: Value) -> bool:
    """Whether `op` is a dot that takes a tile as operand A or B or as scales of one, not as its accumulator."""
    return isinstance(op, tileas.DOTS) and op.c is not value


def feeds_dots(value: Value, block: Block) -> bool:
    """Whether only dots of `block` use a tile, as operand A or B or as scales, perhaps under another shape."""
    uses = uses_through(value, lambda user: user.parent is block and _renames(user))
    return all(user.parent is block and is_operand(user, each) for user, each in uses)


def _renames(op: Operation) -> bool:
    return isinstance(op, tileas.VIEW_LIKE) and renamed_layout(op) == layout_of(op.results[0].type)


def joined_conversions(op: Operation) -> list[Operation]:
    """The conversions of layout behind `op` whose elements are stored before its barrier, with its own."""
    conversions: list[Operation] = []
    following = op.next
    while isinstance(following, tileas.ConvertLayoutOp) and any(area.joins for area in tileas.scratch_areas(following)):
        conversions.append(following)
        following = following.next
    return conversions
