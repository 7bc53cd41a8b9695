"""Reduction and scan with an arbitrary combiner.

Identities are ignored. By definition an identity leaves every element unchanged, and a tile has at least one element to
begin with; the identities in programs need not be correct. No number is an identity of `maxf` without `propagate_nan`,
which replaces NaN by the other operand (NaN itself is one), and cuTile Python 1.7 passes +inf for the maximum of f64.
The reference compiler ignores identities as well: a NaN at the beginning of such a scan stays.

Combiners take rank-0 tiles: for each operand the earlier value along the dimension, then the later one. The
specification's text says the opposite; its example of a scan and the vendor's compiler do not.

If all operations of a combiner are elementwise, one evaluation serves every position of the remaining dimensions at
once; otherwise the positions are evaluated one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .machine import ELEMENTWISE, meaning
from .values import dtype_of

if TYPE_CHECKING:
    from tileiras.dialects import cuda_tile

    from .machine import Machine

Combiner = Callable[[Sequence[Any], Sequence[Any]], list[np.ndarray]]


def _in_pairs(accumulators: Sequence[Any], elements: Sequence[Any]) -> list[Any]:
    return [value for pair in zip(accumulators, elements) for value in pair]


def combiner(
    machine: Machine, op: cuda_tile.ReduceOp | cuda_tile.ScanOp,
    arranged: Callable[[Sequence[Any], Sequence[Any]], list[Any]] = _in_pairs,
    elementwise: Collection[str] = ELEMENTWISE, terminators: Sequence[str] = ("cuda_tile.yield", "cuda_tile.return"),
) -> Combiner:  # fmt: skip
    """Function from (accumulators, elements) to new accumulators: lists of arrays, one per operand.

    `arranged`: the order of both among the block's arguments.
    """
    block = op.regions[0].block
    dtypes = [dtype_of(value.type.element_type) for value in op.operands]

    def evaluate(accumulators: Sequence[float | int | np.ndarray], elements: Sequence[np.ndarray]):
        machine.bind(block.arguments, arranged(accumulators, elements))
        return machine.run_block(block).values

    def at_once(accumulators: Sequence[float | int | np.ndarray], elements: Sequence[np.ndarray]):
        shape = elements[0].shape
        results = evaluate(accumulators, elements)
        return [np.broadcast_to(value, shape).astype(dtype, copy=False) for value, dtype in zip(results, dtypes)]

    def one_by_one(accumulators: Sequence[np.ndarray], elements: Sequence[np.ndarray]):
        shape = elements[0].shape
        results = [np.empty(shape, dtype) for dtype in dtypes]
        for position in np.ndindex(shape):
            values = evaluate(*([np.asarray(v[position]) for v in group] for group in (accumulators, elements)))
            for result, value in zip(results, values):
                result[position] = value
        return results

    simple = all(inner.name in elementwise or inner.name in terminators for inner in block.operations)
    return at_once if simple else one_by_one


def reduced(tiles: Sequence[np.ndarray], axis: int, combine: Combiner) -> tuple[np.ndarray, ...]:
    """Neighbours are combined pairwise; the order is the implementation's, the operands' order is kept."""
    tiles = [np.moveaxis(tile, axis, 0) for tile in tiles]
    while tiles[0].shape[0] > 1:
        paired = tiles[0].shape[0] & ~1
        rest = [tile[paired:] for tile in tiles]
        tiles = combine([tile[0:paired:2] for tile in tiles], [tile[1:paired:2] for tile in tiles])
        tiles = [np.concatenate([tile, last]) for tile, last in zip(tiles, rest)]
    return tuple(tile[0] for tile in tiles)


def scanned(tiles: Sequence[np.ndarray], axis: int, combine: Combiner, reverse: bool) -> tuple[np.ndarray, ...]:
    """Inclusive prefixes along a dimension."""
    tiles = [np.moveaxis(tile, axis, 0) for tile in tiles]
    if reverse:
        tiles = [np.flip(tile, 0) for tile in tiles]
    rows = [[tile[0] for tile in tiles]]
    for position in range(1, tiles[0].shape[0]):
        rows.append(combine(rows[-1], [np.asarray(tile[position]) for tile in tiles]))
    results = [np.stack(column) for column in zip(*rows)]
    if reverse:
        results = [np.flip(result, 0) for result in results]
    return tuple(np.moveaxis(result, 0, axis) for result in results)


@meaning("reduce")
def reduce(machine: Machine, op: cuda_tile.ReduceOp):
    return reduced(machine.operands(op), op.attributes["dim"].value, combiner(machine, op))


@meaning("scan")
def scan(machine: Machine, op: cuda_tile.ScanOp):
    reverse = bool(op.attributes["reverse"].value)
    return scanned(machine.operands(op), op.attributes["dim"].value, combiner(machine, op), reverse)
