"""Insertion points: where new operations go."""

from __future__ import annotations

from typing import TypeVar

from .blocks import Block
from .location import UNKNOWN_LOC, Location, UnknownLoc
from .operation import Operation

OperationT = TypeVar("OperationT", bound=Operation)


class Builder:
    """Inserts operations before a place, in order; those without a location get the builder's."""

    __slots__ = ("block", "before_op", "location")

    def __init__(self, block: Block, before: Operation | None = None, location: Location = UNKNOWN_LOC) -> None:
        self.block = block
        self.before_op = before
        self.location = location

    @classmethod
    def at_end(cls, block: Block, location: Location = UNKNOWN_LOC) -> "Builder":
        return cls(block, None, location)

    @classmethod
    def at_start(cls, block: Block, location: Location = UNKNOWN_LOC) -> "Builder":
        return cls(block, block.first, location)

    @classmethod
    def before(cls, op: Operation, location: Location | None = None) -> "Builder":
        assert op.parent is not None
        return cls(op.parent, op, op.location if location is None else location)

    @classmethod
    def after(cls, op: Operation, location: Location | None = None) -> "Builder":
        assert op.parent is not None
        return cls(op.parent, op.next, op.location if location is None else location)

    def insert(self, op: OperationT) -> OperationT:
        if isinstance(op.location, UnknownLoc):
            op.location = self.location
        self.block.insert_before(op, self.before_op)
        return op
