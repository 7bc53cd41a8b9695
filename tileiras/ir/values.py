"""Values: results of operations and arguments of blocks.

A value knows its users, in the order in which they began to use it.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, Iterable

from .location import UNKNOWN_LOC, Location

if TYPE_CHECKING:
    from .blocks import Block
    from .operation import Operation
    from .types import Type


class Value:
    """A result of an operation or an argument of a block."""

    __slots__ = ("type", "_uses")

    type: Any

    def __init__(self, type: Type) -> None:
        self.type = type
        # user -> number of its operands that are this value; a dict keeps the order of first use.
        self._uses: dict[Operation, int] = {}

    @property
    def users(self) -> list[Operation]:
        """The operations that use this value, each once, in order of first use."""
        return list(self._uses)

    @property
    def has_uses(self) -> bool:
        return bool(self._uses)

    @property
    def has_one_use(self) -> bool:
        return len(self._uses) == 1 and next(iter(self._uses.values())) == 1

    @property
    def owner(self) -> Operation | Block:
        raise AttributeError("owner")

    @property
    def defining_op(self) -> Operation | None:
        return None

    @property
    def parent_block(self) -> Block | None:
        """The block that has the value as an argument, or the operation that makes it."""
        raise AttributeError("parent_block")

    def replace_all_uses_with(self, new: Value) -> None:
        if new is self:
            return
        for user in list(self._uses):
            user.operands = tuple(new if operand is self else operand for operand in user._operands)

    def replace_uses_in(self, new: Value, users: Iterable[Operation]) -> None:
        for user in users:
            user.operands = tuple(new if operand is self else operand for operand in user._operands)


class OpResult(Value):
    __slots__ = ("op", "index")

    def __init__(self, type: Type, op: Operation, index: int) -> None:
        self.type = type
        self._uses = {}
        self.op = op
        self.index = index

    owner = property(attrgetter("op"))
    defining_op = property(attrgetter("op"))

    @property
    def parent_block(self) -> Block | None:
        return self.op.parent


class BlockArgument(Value):
    __slots__ = ("block", "index", "location")

    def __init__(self, type: Type, block: Block, index: int, location: Location = UNKNOWN_LOC) -> None:
        super().__init__(type)
        self.block = block
        self.index = index
        self.location = location

    @property
    def owner(self) -> Block:
        return self.block

    @property
    def parent_block(self) -> Block:
        return self.block
