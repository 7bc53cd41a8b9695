"""Reductions and scans.

Along the innermost dimension a vector of neighbours is combined at once: by lanes where the combiner is one commutative
operation, else pairwise, so that the operands keep their order.  Along other dimensions a vector holds neighbours of
other positions, and the elements follow each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .access import Ways
from .code import Index, constant, float_literal, vector
from .elements import Kind, Lanes, kind_of
from .elementwise import ELEMENTWISE
from .floats import is_flushed
from .plan import is_single, is_tile
from .rows import Row
from .tiles import At, Sunk, Tile, vector_dim

if TYPE_CHECKING:
    from .lower import Lowering

ENDS = ("nv_tileaa.yield",)
ACCUMULATORS = 4
"""Vectors of partial sums, which do not wait for each other."""


# -- combiners ---------------------------------------------------------------------------------------------------------


def _is_elementwise(op: Any) -> bool:
    """Whether the combiner can take vectors."""
    return all(inner.name in ELEMENTWISE or inner.name in ENDS for inner in op.regions[0].block.operations)


def combine(low: Lowering, op: Any, running: Sequence[Lanes], elements: Sequence[Lanes]) -> list[Lanes]:
    """The combiner on running values and the elements behind them."""
    block = op.regions[0].block
    count = running[0].count
    for argument, lanes in zip(block.arguments, (*running, *elements), strict=True):
        low.values[argument] = lanes
    if not _is_elementwise(op):
        end = low.run(block)
        results = [low.lanes(value, At(())) for value in end.operands]
        low.finish()
        return results
    for inner in block.operations:
        if inner.name in ENDS:
            return [low.values[value].splat(low.code, count) for value in inner.operands]
        operands = [low.values[value] for value in inner.operands]
        widest = max((each.count for each in operands), default=1)
        spread = [each.splat(low.code, widest) for each in operands]
        low.values[inner.results[0]] = ELEMENTWISE[inner.name](low, inner, spread)
    raise low.refuse(op, "a combiner without an end")


def _identities(kind: Kind) -> dict[str, Any]:
    least, most = -(1 << (kind.width - 1)), (1 << (kind.width - 1)) - 1
    return {
        "nv_tileaa.addf": -0.0, "nv_tileaa.mulf": 1.0, "arith.maxnumf": math.nan, "arith.minnumf": math.nan,
        "arith.maximumf": -math.inf, "arith.minimumf": math.inf, "arith.addi": 0, "arith.muli": 1, "arith.andi": -1,
        "arith.ori": 0, "arith.xori": 0, "arith.maxsi": least, "arith.minsi": most, "arith.maxui": 0,
        "arith.minui": -1,
    }  # fmt: skip


def _identity(op: Any) -> str | None:
    """The identity of a combiner that is one commutative operation on both operands; None for others."""
    block = op.regions[0].block
    inner, *rest = block.operations
    if len(op.operands) != 1 or len(rest) != 1 or set(inner.operands) != set(block.arguments):
        return None
    kind = kind_of(op.operands[0].type.element_type)
    identities = _identities(kind)
    if inner.name not in identities or inner.attributes.get("rounding_mode") not in (None, *_nearest(inner)):
        return None
    value = identities[inner.name]
    if kind.number == "i1":
        return str(value & 1)
    return float_literal(value, kind.number) if kind.is_float else str(value)


def _nearest(op: Any) -> tuple[Any, ...]:
    mode = op.attributes.get("rounding_mode")
    return (mode,) if mode is not None and mode.value == "nearest_even" else ()


def _choose(low: Lowering, condition: str, yes: Lanes, no: Lanes) -> Lanes:
    code = low.code
    both = f"{yes.type} {yes.number(code)}, {no.type} {no.number(code)}"
    return Lanes(yes.kind, yes.count, code.value(f"select i1 {condition}, {both}"))


def _numbers(low: Lowering, lanes: Sequence[Lanes]) -> list[str]:
    return [each.number(low.code) for each in lanes]


def _carried(low: Lowering, op: Any, count: int) -> list[tuple[str, str]]:
    """Types and undefined first values of running values."""
    kinds = [kind_of(value.type.element_type) for value in op.operands]
    zero = {"float": "0.0", "double": "0.0"}
    return [
        (vector(kind.number, count), constant(kind.number, count, zero.get(kind.number, 0))) for kind in kinds
    ]


def _of_numbers(op: Any, count: int, names: Sequence[str]) -> list[Lanes]:
    return [
        Lanes(kind_of(value.type.element_type), count, name) for value, name in zip(op.operands, names, strict=True)
    ]


# -- reductions --------------------------------------------------------------------------------------------------------


def _at(position: tuple[Index, ...], axis: int, number: Index, dim: int = -1, count: int = 1) -> At:
    """Elements at a position of the other dimensions."""
    return At((*position[:axis], number, *position[axis:]), dim, count)


def reduce(low: Lowering, op: Any) -> None:
    axis, shape = op.dim.value, op.operands[0].type.shape
    rest = (*shape[:axis], *shape[axis + 1 :])
    tiles = [_result(low, value) for value in op.results]

    def keep(at: At, results: Sequence[Lanes]) -> None:
        for value, tile, lanes in zip(op.results, tiles, results, strict=True):
            if tile is None:
                low.values[value] = Lanes(lanes.kind, 1, lanes.number(low.code))
            else:
                low.store(tile, at, lanes)

    inner = vector_dim(shape)
    if inner in (axis, -1):
        with low.over(rest) as position:
            keep(At(position), _row(low, op, axis, position))
    else:
        with low.each(rest, lanes=0 if _is_elementwise(op) else 1) as at:
            keep(at, _column(low, op, axis, at))
    low.reduced(op)
    for value, tile in zip(op.results, tiles, strict=True):
        if tile is not None:
            low.hold(value, tile)


def _result(low: Lowering, value: Any) -> Tile | None:
    is_scalar = not is_tile(value) or is_single(value)
    return None if is_scalar else low.allocate(value.type.shape, value.type.element_type)


def _shifted_dim(dim: int, axis: int) -> int:
    """A dimension of the others as one of the operand."""
    return dim + 1 if dim >= axis else dim


def _column(low: Lowering, op: Any, axis: int, at: At) -> list[Lanes]:
    """Reduce vectors of other positions, one after the other."""
    size = op.operands[0].type.shape[axis]
    dim = _shifted_dim(at.dim, axis) if at.dim >= 0 else -1
    first = [low.lanes(value, _at(at.index, axis, 0, dim, at.count)) for value in op.operands]
    if size == 1:
        return first
    carried = [(each.type, each.number(low.code)) for each in first]
    with low.code.loop(size - 1, carried=carried) as loop, low.together():
        number = low.code.add(loop.index, 1)
        elements = [low.lanes(value, _at(at.index, axis, number, dim, at.count)) for value in op.operands]
        loop.results = _numbers(low, combine(low, op, _of_numbers(op, at.count, loop.carried), elements))
    return _of_numbers(op, at.count, loop.results)


def _row(low: Lowering, op: Any, axis: int, position: tuple[Index, ...]) -> list[Lanes]:
    """Reduce neighbours to one element."""
    size = op.operands[0].type.shape[axis]
    identity = _identity(op)
    if not _is_elementwise(op):
        return _pairwise(low, op, axis, position, 1)
    if identity is None:
        return _pairwise(low, op, axis, position, min(low.features.lanes, size))
    def careful(rows: Sequence[Row] = ()) -> Lanes:
        return _by_vectors(low, op, axis, position, identity, lambda *both: combine(low, op, *both)[0], rows)

    rows = low.rows.around(op)
    inner = op.regions[0].block.first
    operand = low.values.get(op.operands[0])
    if inner.name not in _COMPARED or is_flushed(inner) or not isinstance(operand, Tile | Sunk):
        return [careful(rows)]
    return [_extremum(low, op, axis, position, rows, careful)]


def _by_vectors(
    low: Lowering, op: Any, axis: int, position: tuple[Index, ...], first: str, join: Callable[..., Lanes],
    rows: Sequence[Row] = (),
) -> Lanes:  # fmt: skip
    """Reduce neighbours by a commutative function, from a first value: in a few vectors, then by halves."""
    (value,), kind = op.operands, kind_of(op.operands[0].type.element_type)
    size = value.type.shape[axis]
    count = min(low.features.lanes * ACCUMULATORS, size)
    carried = [(vector(kind.number, count), constant(kind.number, count, first))]
    with low.code.loop(size, count, carried) as loop, low.together():
        low.rows.prefetch(rows, loop.index, count)
        elements = low.lanes(value, _at(position, axis, loop.index, axis if count > 1 else -1, count))
        loop.results = _numbers(low, [join([Lanes(kind, count, loop.carried[0])], [elements])])
    whole = Lanes(kind, count, loop.results[0])
    while whole.count > 1:
        half = whole.count // 2
        parts = [whole.shuffle(low.code, list(range(start, start + half))) for start in (0, half)]
        whole = join(parts[:1], parts[1:])
    return whole


_COMPARED = {"arith.maxnumf": ("ogt", -math.inf), "arith.minnumf": ("olt", math.inf)}
"""Extrema that ignore NaN -> the comparison that prefers an element, and its first value."""


def _extremum(
    low: Lowering, op: Any, axis: int, position: tuple[Index, ...], rows: Sequence[Row], careful: Callable[[], Lanes]
) -> Lanes:
    """An extremum by comparisons, which do not see the sign of zero, and take tiles of NaN for infinite ones.

    Where the result is a zero or the first value, the elements are combined again with care.
    """
    code, kind = low.code, kind_of(op.operands[0].type.element_type)
    predicate, first = _COMPARED[op.regions[0].block.first.name]

    def prefer(running: Sequence[Lanes], elements: Sequence[Lanes]) -> Lanes:
        (old,), (new,) = running, elements
        names = f"{old.type} {new.number(code)}, {old.number(code)}"
        better = code.value(f"fcmp {predicate} {names}")
        operands = f"{old.type} {new.number(code)}, {old.type} {old.number(code)}"
        return Lanes(kind, old.count, code.value(f"select {vector('i1', old.count)} {better}, {operands}"))

    vectors = _by_vectors(low, op, axis, position, float_literal(first, kind.number), prefer, rows)
    low.reduced(op)
    is_zero, is_first = (
        code.value(f"fcmp oeq {kind.number} {vectors.number(code)}, {float_literal(number, kind.number)}")
        for number in (0.0, first)
    )
    ways = Ways(code, code.value(f"or i1 {is_zero}, {is_first}"), ("again", "known"))
    with ways.way(), low.together():
        ways.result(careful().number(code))
    with ways.way():
        ways.result(vectors.number(code))
    code.start(ways.after)
    return Lanes(kind, 1, code.phi(kind.number, ways.incoming))


def _pairwise(low: Lowering, op: Any, axis: int, position: tuple[Index, ...], count: int) -> list[Lanes]:
    """Reduce neighbours in their order: a vector by pairs, then the vectors one after the other."""
    size, code = op.operands[0].type.shape[axis], low.code
    with code.loop(size, count, _carried(low, op, 1)) as loop, low.together():
        at = _at(position, axis, loop.index, axis if count > 1 else -1, count)
        result = [low.lanes(value, at) for value in op.operands]
        while result[0].count > 1:
            pairs = [
                [each.shuffle(code, list(range(start, each.count, 2))) for each in result] for start in (0, 1)
            ]
            result = combine(low, op, *pairs)
        if loop.index != 0:
            is_first = code.value(f"icmp eq i64 {loop.index}, 0")
            all_ = combine(low, op, _of_numbers(op, 1, loop.carried), result)
            result = [_choose(low, is_first, one, both) for one, both in zip(result, all_, strict=True)]
        loop.results = _numbers(low, result)
    return _of_numbers(op, 1, loop.results)


# -- scans -------------------------------------------------------------------------------------------------------------


def scan(low: Lowering, op: Any) -> None:
    axis, shape = op.dim.value, op.operands[0].type.shape
    rest = (*shape[:axis], *shape[axis + 1 :])
    tiles = [low.allocate(value.type.shape, value.type.element_type) for value in op.results]
    if vector_dim(shape) in (axis, -1):
        count = min(low.features.lanes, shape[axis]) if _is_elementwise(op) else 1
        with low.over(rest) as position:
            _scan_row(low, op, axis, position, tiles, count)
    else:
        with low.each(rest, lanes=0 if _is_elementwise(op) else 1) as at:
            _scan_column(low, op, axis, at, tiles)
    for value, tile in zip(op.results, tiles, strict=True):
        low.hold(value, tile)


def _from_end(low: Lowering, op: Any, index: Index, count: int) -> Index:
    """A number of elements along the dimension as a position: from the end in a reverse scan."""
    size = op.operands[0].type.shape[op.dim.value]
    if op.reverse is None:
        return index
    return size - count - index if isinstance(index, int) else low.code.value(f"sub i64 {size - count}, {index}")


def _after(low: Lowering, op: Any, index: Index, running: Sequence[str], elements: list[Lanes]) -> list[Lanes]:
    """Elements combined with the running values, unless they are the first."""
    if index == 0:
        return elements
    before = [each.splat(low.code, elements[0].count) for each in _of_numbers(op, 1, running)]
    both = combine(low, op, before, elements)
    is_first = low.code.value(f"icmp eq i64 {index}, 0")
    return [_choose(low, is_first, one, all_) for one, all_ in zip(elements, both, strict=True)]


def _scan_row(
    low: Lowering, op: Any, axis: int, position: tuple[Index, ...], tiles: Sequence[Tile], count: int
) -> None:
    """Prefixes of neighbours: within a vector in steps of doubled distance, then from vector to vector."""
    code, size = low.code, op.operands[0].type.shape[axis]
    order = list(range(count)) if op.reverse is None else list(reversed(range(count)))
    with code.loop(size, count, _carried(low, op, 1)) as loop, low.together():
        at = _at(position, axis, _from_end(low, op, loop.index, count), axis if count > 1 else -1, count)
        result = [low.lanes(value, at) for value in op.operands]
        if op.reverse is not None and count > 1:
            result = [each.shuffle(code, order) for each in result]
        distance = 1
        while distance < count:
            lanes = [max(0, lane - distance) for lane in range(count)]
            both = combine(low, op, [each.shuffle(code, lanes) for each in result], result)
            text = ", ".join(f"i1 {'true' if lane < distance else 'false'}" for lane in range(count))
            result = [
                Lanes(one.kind, count, code.value(
                    f"select <{count} x i1> <{text}>, {one.type} {one.number(code)}, {all_.type} {all_.number(code)}"
                )) for one, all_ in zip(result, both, strict=True)
            ]  # fmt: skip
            distance *= 2
        result = _after(low, op, loop.index, loop.carried, result)
        loop.results = [code.element(each.kind.number, count, each.number(code), count - 1) for each in result]
        for tile, each in zip(tiles, result, strict=True):
            low.store(tile, at, each.shuffle(code, order) if op.reverse is not None and count > 1 else each)


def _scan_column(low: Lowering, op: Any, axis: int, at: At, tiles: Sequence[Tile]) -> None:
    size = op.operands[0].type.shape[axis]
    dim = _shifted_dim(at.dim, axis) if at.dim >= 0 else -1
    with low.code.loop(size, carried=_carried(low, op, at.count)) as loop, low.together():
        place = _at(at.index, axis, _from_end(low, op, loop.index, 1), dim, at.count)
        result = [low.lanes(value, place) for value in op.operands]
        if loop.index != 0:
            both = combine(low, op, _of_numbers(op, at.count, loop.carried), result)
            is_first = low.code.value(f"icmp eq i64 {loop.index}, 0")
            result = [_choose(low, is_first, one, all_) for one, all_ in zip(result, both, strict=True)]
        loop.results = _numbers(low, result)
        for tile, each in zip(tiles, result, strict=True):
            low.store(tile, place, each)


FAMILY = {"nv_tileaa.reduce": reduce, "nv_tileaa.scan": scan}

