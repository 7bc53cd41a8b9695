"""Operands of dots that are computed element by element from loaded tiles, such as dequantised weights.

    %q = tiled_load ... -> tensor<64x128xi8>              %s = tiled_load ... -> tensor<1x128xf16>
    %a = mulf (sitofp %q), (broadcast %s)                 dot ..., %a, ...
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tileiras.analysis.derivations import settle
from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import Operation, Pure, TensorType, Value

_SHAPES = (*tileas.VIEW_LIKE, tileas.BroadcastOp, tileas.CatOp)
"""Operations that give elements of their operands other places."""


def computes_operand(op: Operation, from_dots: dict[Operation, bool] | None = None) -> bool:
    """Whether an operation computes each element of its result from single elements of loaded tiles, as scales and zero
    points of weights are applied; not from the result of a dot.  `from_dots` caches which operations compute tiles from
    results of dots, so the function must not change."""
    if isinstance(op, (*_SHAPES, tileas.ConvertLayoutOp)):
        return True
    if not op.has_trait(Pure) or op.regions or len(op.results) != 1:
        return False
    result = op.results[0].type
    tiles = [value.type for value in op.operands if isinstance(value.type, TensorType)]
    if not isinstance(result, TensorType) or not all(tile.shape == result.shape for tile in tiles):
        return False
    cache = {} if from_dots is None else from_dots
    return not any(_comes_from_dot(value, cache) for value in op.operands)


def _comes_from_dot(value: Value, cache: dict[Operation, bool]) -> bool:
    def is_from_dot(op: Operation, makers: Sequence[Operation]) -> bool:
        return isinstance(op, tileas.DOTS) or any(cache[each] for each in makers)

    op = _maker(value)
    return op is not None and settle(op, cache, False, _makers, is_from_dot)


def _makers(op: Operation) -> list[Operation]:
    return [] if isinstance(op, tileas.DOTS) else [maker for each in op.operands if (maker := _maker(each)) is not None]


def _maker(value: Value) -> Operation | None:
    """The operation that computes a tile; None for other values."""
    return value.defining_op if isinstance(value.type, TensorType) else None


def operands_from(value: Value, from_dots: dict[Operation, bool] | None = None) -> Iterator[tuple[Any, Value]]:
    """The dots, and the operand of each, that are computed element by element from a tile; `from_dots` as in
    `computes_operand`."""
    cache = {} if from_dots is None else from_dots
    values, seen = [value], {value}
    for each in values:
        for user in each.users:
            if isinstance(user, tileas.DOTS):
                yield user, each
            elif computes_operand(user, cache) and user.results[0] not in seen:
                seen.add(user.results[0])
                values.append(user.results[0])
