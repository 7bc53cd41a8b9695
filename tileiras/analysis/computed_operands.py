"""Operands of dots that are computed element by element from loaded tiles, such as dequantised weights.

    %q = tiled_load ... -> tensor<64x128xi8>              %s = tiled_load ... -> tensor<1x128xf16>
    %a = mulf (sitofp %q), (broadcast %s)                 dot ..., %a, ...
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import Operation, Pure, TensorType, Value

_SHAPES = (*tileas.VIEW_LIKE, tileas.BroadcastOp, tileas.CatOp)
"""Operations that give elements of their operands other places."""


def computes_operand(op: Operation) -> bool:
    """Whether an operation computes each element of its result from single elements of loaded tiles, as scales and zero
    points of weights are applied; not from the result of a dot."""
    if isinstance(op, (*_SHAPES, tileas.ConvertLayoutOp)):
        return True
    if not op.has_trait(Pure) or op.regions or len(op.results) != 1:
        return False
    result = op.results[0].type
    tiles = [value.type for value in op.operands if isinstance(value.type, TensorType)]
    if not isinstance(result, TensorType) or not all(tile.shape == result.shape for tile in tiles):
        return False
    return not any(_comes_from_dot(value, set()) for value in op.operands)


def _comes_from_dot(value: Value, seen: set[Operation]) -> bool:
    op = value.defining_op
    if op is None or op in seen or not isinstance(value.type, TensorType):
        return False
    seen.add(op)
    return isinstance(op, tileas.DOTS) or any(_comes_from_dot(operand, seen) for operand in op.operands)


def operands_from(value: Value) -> Iterator[tuple[Any, Value]]:
    """The dots, and the operand of each, that are computed element by element from a tile."""
    values, seen = [value], {value}
    for each in values:
        for user in each.users:
            if isinstance(user, tileas.DOTS):
                yield user, each
            elif computes_operand(user) and user.results[0] not in seen:
                seen.add(user.results[0])
                values.append(user.results[0])
