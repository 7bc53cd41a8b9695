"""Blocks, which hold operations in a linked list, and regions, which hold blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterable, Iterator

from .location import UNKNOWN_LOC, Location
from .values import BlockArgument, Value

if TYPE_CHECKING:
    from .operation import Operation
    from .types import Type


class Block:
    """A list of operations with arguments; the last operation is its terminator."""

    __slots__ = ("arguments", "first", "last", "parent", "order_valid")

    arguments: tuple[BlockArgument, ...]
    first: Operation | None
    last: Operation | None
    parent: Region | None

    def __init__(self, arg_types: Iterable[Any] = (), locations: Iterable[Location] | None = None) -> None:
        types = tuple(arg_types)
        places = tuple(locations) if locations is not None else (UNKNOWN_LOC,) * len(types)
        self.arguments = tuple(BlockArgument(t, self, n, at) for n, (t, at) in enumerate(zip(types, places)))
        self.first = self.last = None
        self.parent = None
        self.order_valid = False

    @property
    def operations(self) -> Iterator[Operation]:
        """The operations in order; the current one may be erased or moved while iterating."""
        op = self.first
        while op is not None:
            following = op.next
            yield op
            op = following

    def __iter__(self) -> Iterator[Operation]:
        return self.operations

    @property
    def terminator(self) -> Operation | None:
        return self.last

    @property
    def parent_op(self) -> Operation | None:
        return self.parent.parent if self.parent is not None else None

    def find_ancestor_op(self, op: Operation | None) -> Operation | None:
        """The operation of this block that is `op` or contains it; None when it is elsewhere."""
        while op is not None and op.parent is not self:
            op = op.parent_op
        return op

    @property
    def predecessors(self) -> list[Block]:
        """Blocks of the region whose terminator names this block, in textual order."""
        assert self.parent is not None
        return [b for b in self.parent.blocks if b.last is not None and self in b.last._successors]

    def append(self, op: Operation) -> Operation:
        last = self.last
        op.parent = self
        op.prev = last
        op.next = None
        if last is None:
            self.first = op
            op._order = 0
            self.order_valid = True
        else:
            last.next = op
            op._order = last._order + 1
        self.last = op
        return op

    def insert_before(self, op: Operation, ref: Operation | None) -> Operation:
        """Insert before `ref`, at the end when `ref` is None."""
        if ref is None:
            return self.append(op)
        before = ref.prev
        op.parent = self
        op.prev = before
        op.next = ref
        ref.prev = op
        if before is None:
            self.first = op
        else:
            before.next = op
        self.order_valid = False
        return op

    def renumber(self) -> None:
        for order, op in enumerate(self.operations):
            op._order = order
        self.order_valid = True

    def add_argument(self, type: Type, location: Location = UNKNOWN_LOC) -> BlockArgument:
        argument = BlockArgument(type, self, len(self.arguments), location)
        self.arguments = (*self.arguments, argument)
        return argument

    def erase_argument(self, index: int) -> None:
        """Raise ValueError for an argument that is still used."""
        if self.arguments[index].has_uses:
            raise ValueError(f"erasing block argument #{index}, which is still used")
        self.arguments = self.arguments[:index] + self.arguments[index + 1 :]
        for number, argument in enumerate(self.arguments):
            argument.index = number

    def split_before(self, op: Operation) -> Block:
        """Move `op` and all after it to a new block placed right after this one in the region."""
        rest = Block()
        at: Operation | None = op
        while at is not None:
            following = at.next
            rest.append(at.detach())
            at = following
        if self.parent is not None:
            self.parent.insert_after(rest, self)
        return rest


class Region:
    """A list of blocks; the first is the entry."""

    __slots__ = ("blocks", "parent")

    blocks: list[Block]
    parent: Operation | None

    def __init__(self, blocks: Iterable[Block] = ()) -> None:
        self.blocks = []
        self.parent = None
        for block in blocks:
            self.append(block)

    @property
    def block(self) -> Block:
        """The only block."""
        (block,) = self.blocks
        return block

    @property
    def operations(self) -> Iterator[Operation]:
        """The operations of all blocks; none of a region without blocks."""
        for block in self.blocks:
            yield from block.operations

    @property
    def entry(self) -> Block | None:
        return self.blocks[0] if self.blocks else None

    def append(self, block: Block) -> Block:
        block.parent = self
        self.blocks.append(block)
        return block

    def insert_after(self, block: Block, ref: Block) -> Block:
        block.parent = self
        self.blocks.insert(self.blocks.index(ref) + 1, block)
        return block

    def take_blocks(self, other: Region) -> Region:
        """Move all blocks of `other` to the end of this region."""
        for block in other.blocks:
            block.parent = self
        self.blocks += other.blocks
        other.blocks = []
        return self

    def clone_into(self, target: Region, mapping: dict[Value, Value], blocks: dict[Block, Block]) -> None:
        for block in self.blocks:
            copy = Block([a.type for a in block.arguments], [a.location for a in block.arguments])
            mapping.update(zip(block.arguments, copy.arguments))
            blocks[block] = target.append(copy)
        for block in self.blocks:
            copy = blocks[block]
            for op in block.operations:
                copy.append(op.clone(mapping, blocks))
