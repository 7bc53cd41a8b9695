"""The operations that passes run on, and copies of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras.diagnostics import CompileError, ExitCode

if TYPE_CHECKING:
    from .operation import Operation
    from .pass_manager import Pass

MODULE = "builtin.module"


def restore(op: Operation, before: Operation) -> None:
    """Give an operation the attributes and regions that a copy of it has."""
    op.attributes.clear()
    op.attributes.update(before.attributes)
    for region, result in zip(op.regions, before.regions):
        region.blocks.clear()
        region.take_blocks(result)


def collect_names(op: Operation, names: set[str]) -> None:
    """Add the names of an operation and all inside it, and of their attributes."""
    names.add(op.name)
    names.update(op.attributes)
    inside = [block for region in op._regions for block in region.blocks]
    for block in inside:
        inner = block.first
        while inner is not None:
            names.add(inner.name)
            if inner.attributes:
                names.update(inner.attributes)
            if inner._regions:
                inside += [each for region in inner._regions for each in region.blocks]
            inner = inner.next


def targets(item: Pass, op: Operation) -> list[Operation]:
    """The operations that a pass works on.

    Without a textual pipeline these are all of its anchor below `op`.  A pipeline nests: the operations of an anchor
    that stand directly in one of the anchor around it.  The builtin.module around `op` may be left out by either of
    the two.  Raises CompileError (code 2) for a pipeline of another operation.
    """
    if not item.path:
        if not item.anchor or op.name == item.anchor:
            return [op]
        return [inner for inner in op.walk() if inner.name == item.anchor]
    first, *rest = item.path
    result = [op]
    if first != op.name:
        if op.name == MODULE:
            rest.insert(0, first)
        elif first != MODULE:
            message = f"can't run '{first}' pass manager on '{op.name}' op"
            raise CompileError.at(op.location, message, ExitCode.CONFIGURATION)
        elif rest and rest.pop(0) != op.name:
            return []
    for anchor in rest:
        result = [
            inner for each in result for region in each.regions for block in region.blocks for inner in block.operations
            if inner.name == anchor
        ]  # fmt: skip
    return [each for each in result if item.anchor in ("", each.name)]
