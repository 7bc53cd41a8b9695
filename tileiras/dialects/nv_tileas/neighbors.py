"""Values of the tile blocks that are launched in the same cluster, neighbours along x: a tile that is the same for all
of them is copied once for all (`tileas-cluster-tile-blocks`).

    %i0 = nv_tileas.neighbor_counter %i of 0 : i32           the tile that the first one of them is at
    %i1 = nv_tileas.neighbor_counter %i of 1 : i32
    ...                                                      the column of each
    %same = nv_tileas.is_same_tile[%column0], [%column1] round %i : i32 : (i32), (i32)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tileiras.dialects.arith import integer_like
from tileiras.ir import (
    Attribute,
    AttrSizedOperandSegments,
    BlockArgument,
    IntegerAttr,
    Operation,
    Pure,
    Type,
    TypedAttribute,
    Value,
    VerifyError,
    attribute,
    i1,
    i32,
    operand,
    optional_operand,
    result,
    variadic_operand,
)

from .names import IS_SAME_TILE, NEIGHBOR_COUNTER


def loop_of(counter: Value) -> Any:
    """The `scf.for` whose induction variable a value is; None for any other value."""
    around = counter.block.parent_op if isinstance(counter, BlockArgument) else None
    return around if around is not None and around.name == "scf.for" and counter.index == 0 else None


def _check_counter(counter: Value) -> None:
    if counter.type is not i32 or loop_of(counter) is None:
        raise VerifyError("expects the counter of a loop, of 32 bits")


class NeighborCounterOp(Operation, name=NEIGHBOR_COUNTER, traits=(Pure,)):
    """The value of the induction variable of a loop over tiles, in the same iteration, in the tile block of rank
    `neighbor` of the cluster; where that tile block's loop has ended, the last number below the loop's end.

    The loop begins at the tile block's number along x, its step is the number of tile blocks along x, and its end is
    the same for all: each number from 0 to the end belongs to one tile block.
    """

    counter = operand(integer_like)
    neighbor = attribute(TypedAttribute(IntegerAttr, i32, "32-bit signless integer attribute"))
    result = result(integer_like)
    assembly_format = "$counter `of` $neighbor attr-dict `:` type($result)"

    def verify_op(self) -> None:
        _check_counter(self.counter)
        if self.result.type is not i32:
            raise VerifyError(f"gives a number of type {self.counter.type}, not {self.result.type}")


class IsSameTileOp(Operation, name=IS_SAME_TILE, traits=(Pure, AttrSizedOperandSegments)):
    """Whether two tile blocks of a cluster have the same coordinates; with `round`, the induction variable of a loop as
    in `neighbor_counter`, also that both of them execute the iteration."""

    first = variadic_operand(integer_like)
    second = variadic_operand(integer_like)
    counter = optional_operand(integer_like)
    result = result(integer_like)
    assembly_format = (
        "`[` $first `]` `,` `[` $second `]` (`round` $counter^ `:` type($counter))? attr-dict"
        " `:` `(` type($first) `)` `,` `(` type($second) `)`"
    )

    @classmethod
    def infer_result_types(cls, operands: Sequence[Value], attributes: dict[str, Attribute]) -> list[Type]:
        return [i1]

    def verify_op(self) -> None:
        if [each.type for each in self.first] != [each.type for each in self.second] or not self.first:
            raise VerifyError("expects as many coordinates of either tile block, of the same types")
        if self.counter is not None:
            _check_counter(self.counter)
