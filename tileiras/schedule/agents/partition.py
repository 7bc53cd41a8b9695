"""Marks on operations that another agent executes, `nv_tile.aws.partition`: rules write them, the split reads them.

Texts may contain them: where operations are marked, no rule chooses others.  `analysis/partitions.py` verifies them.
"""

from __future__ import annotations

from collections.abc import Iterable

from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import Block, Operation


def marked(program: Block, kind: str) -> list[Operation]:
    """The operations of a program in a partition, in order."""
    mark = tileas.PartitionAttr(kind)
    inside = (op for outer in program.operations for op in outer.walk())
    return [op for op in inside if op.attributes.get(tileas.PARTITION) == mark]


def mark(operations: Iterable[Operation], kind: str) -> None:
    """Put operations into a partition."""
    for op in operations:
        op.attributes[tileas.PARTITION] = tileas.PartitionAttr(kind)


def unmark(operations: Iterable[Operation]) -> None:
    """Leave operations to the agent around them."""
    for op in operations:
        op.attributes.pop(tileas.PARTITION, None)
