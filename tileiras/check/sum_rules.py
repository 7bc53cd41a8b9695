"""Intervals of products, reductions and scans: sums whose order the specification leaves to the implementation."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tileiras.ir import FLOAT_SEMANTICS, Operation, Value
from tileiras.sim.interpreter.mma import tf32
from tileiras.sim.interpreter.reduce import Combiner, combiner, reduced, scanned
from tileiras.sim.interpreter.rounding import max_finite
from tileiras.sim.interpreter.values import elements_of

from .bound_rules import Intervals, Values, rule
from .bounds import (
    Bounds,
    anything,
    dtype_keyword,
    is_anything,
    is_exact_sum,
    is_point,
    lowest_bit,
    point,
    precision,
    rounded,
    settle,
    sum_bounds,
)

if TYPE_CHECKING:
    from .tracking import TrackingMachine

# -- matrix multiplications -------------------------------------------------------------------------------------------


def _wide(op: Operation, position: int, values: np.ndarray) -> np.ndarray:
    is_tf32 = getattr(op.operands[position].type.element_type, "keyword", "") == "tf32"
    return np.asarray(tf32(values) if is_tf32 else values).astype(np.float64)


NARROW_BITS, NARROW_RUN, NARROW_DEPTH = 14, 32, 128
"""Sums of f8 products on sm_89 and sm_90: significant bits, products that are aligned together, and products that are
summed before the sum is added to the accumulator in its own type (`sim/emulator/tensor_core/narrow_sums.py`)."""


class NarrowSums(NamedTuple):
    """The sums of a dot that have few bits; `with_start`: the accumulator is in them (`fast_acc`)."""

    with_start: bool

    def are_exact(self, products: np.ndarray, magnitude: np.ndarray, lowest: np.ndarray, all_lowest: np.ndarray) -> Any:
        """Whether no bit is cut off, given the magnitudes and lowest bits of products, and with the accumulator."""
        if self.with_start:
            return is_exact_sum(magnitude, all_lowest, NARROW_BITS)
        return is_exact_sum(products, lowest, NARROW_BITS)

    def bounds(
        self, sums: Bounds, products: np.ndarray, magnitude: np.ndarray, depth: int, keyword: str
    ) -> tuple[np.ndarray, np.ndarray]:
        """Ends of a sum of `depth` products: each term and each run's sum loses less than a unit of the largest."""
        terms = depth + 2 * -(-depth // NARROW_RUN)
        low, high = sum_bounds(
            sums, magnitude if self.with_start else products, terms, keyword, 2.0 ** (1 - NARROW_BITS)
        )  # fmt: skip
        return sum_bounds(Bounds(low, high), magnitude, -(-depth // NARROW_DEPTH), keyword)


def _product(
    left: Bounds, right: Bounds, start: Bounds, keyword: str, result: np.ndarray, narrow: NarrowSums | None = None
) -> Bounds | None:
    """The bounds of `left @ right + start`.  Tensor cores may truncate sums: the error is a whole unit, not a half."""
    exact = is_point(start)
    for end, axis in ((left, -1), (right, -2)):
        exact = exact & np.expand_dims(is_point(end).all(axis), axis)
    middles, radii = zip(*((each.low / 2 + each.high / 2, each.high / 2 - each.low / 2) for each in (left, right)))
    sizes = [np.abs(middle) for middle in middles]
    with np.errstate(all="ignore"):
        reach = np.maximum(np.abs(start.low), np.abs(start.high))
        products = (sizes[0] + radii[0]) @ (sizes[1] + radii[1])
        magnitude = products + reach
    lowest = lowest_bit(left.low).min(-1)[..., :, None] + lowest_bit(right.low).min(-2)[..., None, :]
    all_lowest = np.minimum(lowest, lowest_bit(start.low))
    fits = is_exact_sum(magnitude, all_lowest, precision(keyword))
    if narrow is not None:
        fits = fits & narrow.are_exact(products, magnitude, lowest, all_lowest)
    wide = np.asarray(result).astype(np.float64)
    smallest = 2.0 ** (1 - FLOAT_SEMANTICS[keyword].bias - FLOAT_SEMANTICS[keyword].mantissa_bits)
    zero = exact & fits & (wide == 0)
    if (exact & fits & np.isfinite(magnitude)).all():
        # Whole numbers: the general case gives the same, with more products.
        return settle(np.where(zero, -smallest / 2, wide), np.where(zero, smallest / 2, wide), result, ~zero)
    with np.errstate(all="ignore"):
        middle = middles[0] @ middles[1]
        radius = (sizes[0] + radii[0]) @ radii[1] + radii[0] @ sizes[1] if any(map(np.any, radii)) else 0.0
        sums = Bounds(middle - radius + start.low, middle + radius + start.high)
    depth = middles[0].shape[-1]
    if narrow is not None:
        low, high = narrow.bounds(sums, products, magnitude, depth, keyword)
    else:
        low, high = sum_bounds(sums, magnitude, depth + 1, keyword, 2.0 ** (1 - precision(keyword)))
    # A sum of infinities or NaNs is one in any order, unless other terms overflow; zeros may have either sign.
    special = ~np.isfinite(magnitude) & (_has_nan(left, right, start) | ~_overflows(left, right, start, keyword))
    low, high = rounded(low, keyword), rounded(high, keyword)
    low = np.where(zero, -smallest / 2, np.where(exact & fits, wide, np.minimum(low, wide)))
    high = np.where(zero, smallest / 2, np.where(exact & fits, wide, np.maximum(high, wide)))
    return settle(low, high, result, exact & ((fits & ~zero) | special))


def _has_nan(left: Bounds, right: Bounds, start: Bounds) -> np.ndarray:
    of_factors = np.isnan(left.low).any(-1)[..., :, None] | np.isnan(right.low).any(-2)[..., None, :]
    return np.isnan(start.low) | of_factors


def _overflows(left: Bounds, right: Bounds, start: Bounds, keyword: str) -> np.ndarray:
    """Whether the finite terms of a product may have an infinite sum, which another infinity makes NaN."""
    rows, columns, first = (np.where(np.isfinite(end.low), np.abs(end.low), 0.0) for end in (left, right, start))
    with np.errstate(all="ignore"):
        return _is_beyond(rows @ columns + first, keyword)


def _is_beyond(magnitude: np.ndarray, keyword: str) -> np.ndarray:
    return ~(magnitude * 1.01 <= max_finite(FLOAT_SEMANTICS[keyword]))


@rule("mmaf", "mmaf_scaled", source=True)
def product(
    machine: TrackingMachine, op: Operation, values: Values, bounds: Intervals, result: np.ndarray
) -> Bounds | None:
    keyword = op.results[0].type.element_type.keyword
    ends = [point(_wide(op, n, value)) if each is None else each for n, (value, each) in enumerate(zip(values, bounds))]
    if op.name == "cuda_tile.mmaf_scaled":
        if any(each is not None for each in (*bounds[:2], *bounds[3:])):
            machine.unruled.add(op.name)
            return anything(np.shape(result))
        scales = [np.asarray(value).astype(np.float64) for value in values[3:]]
        for n, axis in ((0, -1), (1, -2)):
            many = ends[n].low.shape[axis] // scales[n].shape[axis]
            ends[n] = point(ends[n].low * np.repeat(scales[n], many, axis=axis))
    shapes = [np.shape(value) for value in values]
    ends = [Bounds(*(np.broadcast_to(end, shape) for end in each)) for each, shape in zip(ends, shapes)]
    narrow = None
    if machine.narrow_f8 and keyword == "f32" and op.name == "cuda_tile.mmaf":
        eight = all(v.type.element_type.keyword in ("f8E4M3FN", "f8E5M2") for v in op.operands[:2])
        narrow = NarrowSums("fast_acc" in op.attributes) if eight else None
    return _product(ends[0], ends[1], ends[2], keyword, result, narrow)


# -- reductions and scans --------------------------------------------------------------------------------------------

_EXACT_FLOAT = {"maxf", "minf", "cmpf", "absf", "negf"}
_ASSOCIATIVE = {"addi", "muli", "andi", "ori", "xori", "maxi", "mini", "maxf", "minf"}


def _bodies(op: Operation) -> list[str]:
    return [inner.name.partition(".")[2] for inner in op.regions[0].block.operations][:-1]


def _rounds(op: Operation) -> bool:
    """Whether a combiner rounds: then its results depend on the order in which elements are combined."""
    block = op.regions[0].block
    return any(
        dtype_keyword(getattr(result.type, "element_type", None)) is not None
        and inner.name.partition(".")[2] not in (*_EXACT_FLOAT, "select", "constant")
        for inner in block.operations
        for result in inner.results
    )


@rule("reduce", "scan", source=True)
def combine(machine: TrackingMachine, op: Operation, values: Values, bounds: Intervals, result: Any) -> Any:
    """Sums have the bound of sums, minima and maxima pass intervals on; other combiners of sums and products have one
    relative to the same polynomial of magnitudes."""
    results = result if isinstance(result, tuple) else (result,)
    body = _bodies(op)
    alone = len(values) == 1 and len(body) == 1
    if not any(each is not None for each in bounds) and not _rounds(op):
        return None if alone and body[0] in _ASSOCIATIVE else _unordered(machine, op, values, results)
    if alone and body[0] == "addf":
        return _sum(op, values[0], bounds[0], results[0])
    if alone and body[0] in ("maxf", "minf"):
        return _extremum(op, body[0], bounds[0], values[0], results[0])
    if all(each is None for each in bounds) and _is_polynomial(op):
        return _polynomial(machine, op, values, results)
    machine.unruled.add(op.name)
    return tuple(anything(np.shape(each)) for each in results)


def _unordered(
    machine: TrackingMachine, op: Operation, values: Values, results: Sequence[np.ndarray]
) -> tuple[Bounds | None, ...] | None:
    """Rows of a result with an element that differs in another order of combining, which is the implementation's, may
    have any values."""
    axis, is_scan = op.attributes["dim"].value, op.name == "cuda_tile.scan"
    step = -1 if is_scan and op.attributes["reverse"].value else 1
    tiles = [np.moveaxis(np.asarray(value), axis, 0)[::step] for value in values]
    rows = [np.moveaxis(np.asarray(each), axis, 0)[::step] if is_scan else np.asarray(each) for each in results]
    fixed = [np.ones(row.shape[is_scan:], bool) for row in rows]
    with machine.quiet():
        for others in (_scans if is_scan else _reductions)(tiles, combiner(machine, op)):
            for each, row, other in zip(fixed, rows, others):
                bits = [np.ascontiguousarray(tile).view(f"u{row.itemsize}").reshape(row.shape) for tile in (row, other)]
                same = (bits[0] == bits[1]) | (row != row) & (other != other)  # NaN has one meaning
                each &= same.all(0) if is_scan else same
    if all(each.all() for each in fixed):
        return None
    machine.unordered.add(op)
    shape = np.shape(results[0])
    if is_scan:
        fixed = [np.broadcast_to(np.expand_dims(each, axis), shape) for each in fixed]
    return tuple(settle(*anything(shape), result, each) for result, each in zip(results, fixed))


_CHUNKS = (2, 4, 8, 32)
"""Elements that a thread or a warp scans before the others."""
_TREES = 6


def _reductions(tiles: Sequence[np.ndarray], combine: Combiner) -> Iterator[Sequence[np.ndarray]]:
    """The results of trees of neighbours (some leave out the first element of a level) and of trees of elements in
    another order: the specification promises no order of the elements of a reduction, only associativity."""
    draw = random.Random(0)
    for number in range(_TREES):
        elements = range(len(tiles[0]))
        order = draw.sample(elements, len(elements)) if number % 2 else list(elements)
        level = [tile[order] for tile in tiles]
        while (count := len(level[0])) > 1:
            first = draw.randrange(2) if count > 2 else 0
            last = first + (count - first & ~1)
            pairs = combine([each[first:last:2] for each in level], [each[first + 1 : last : 2] for each in level])
            level = [np.concatenate([each[:first], pair, each[last:]]) for each, pair in zip(level, pairs)]
        yield [each[0] for each in level]


def _scans(tiles: Sequence[np.ndarray], combine: Combiner) -> Iterator[Sequence[np.ndarray]]:
    """The results of scans of chunks, combined with the chunks before."""
    count = len(tiles[0])
    for chunk in (each for each in _CHUNKS if each < count):
        parts = [tile.reshape(count // chunk, chunk, *tile.shape[1:]) for tile in tiles]
        inner = _in_sequence([np.moveaxis(part, 1, 0) for part in parts], combine)
        totals = _in_sequence([each[-1] for each in inner], combine)
        before = [np.broadcast_to(each[:-1], (chunk, *each[:-1].shape)) for each in totals]
        later = combine(before, [each[:, 1:] for each in inner])
        whole = [np.concatenate([each[:, :1], rest], 1) for each, rest in zip(inner, later)]
        yield [np.moveaxis(each, 0, 1).reshape(tile.shape) for each, tile in zip(whole, tiles)]


def _in_sequence(tiles: Sequence[np.ndarray], combine: Combiner) -> list[np.ndarray]:
    rows = [[tile[0] for tile in tiles]]
    for position in range(1, len(tiles[0])):
        rows.append(combine(rows[-1], [np.asarray(tile[position]) for tile in tiles]))
    return [np.stack(column) for column in zip(*rows)]


def _along(op: Operation, function: np.ufunc, values: np.ndarray) -> np.ndarray:
    """A ufunc over the dimension of a reduction or scan."""
    axis = op.attributes["dim"].value
    if op.name == "cuda_tile.reduce":
        return function.reduce(values, axis=axis)
    if op.attributes["reverse"].value:
        return np.flip(function.accumulate(np.flip(values, axis), axis=axis), axis)
    return function.accumulate(values, axis=axis)


def _sum(op: Operation, values: Any, bounds: Bounds | None, result: np.ndarray) -> Bounds | None:
    keyword = op.results[0].type.element_type.keyword
    ends = point(values) if bounds is None else Bounds(*(np.broadcast_to(e, np.shape(values)) for e in bounds))
    count = np.shape(values)[op.attributes["dim"].value]
    with np.errstate(all="ignore"):
        magnitude = _along(op, np.add, np.maximum(np.abs(ends.low), np.abs(ends.high)))
        sums = Bounds(_along(op, np.add, ends.low), _along(op, np.add, ends.high))
    low, high = sum_bounds(sums, magnitude, count - 1, keyword)
    exact = _along(op, np.logical_and, is_point(ends))
    fits = is_exact_sum(magnitude, _along(op, np.minimum, lowest_bit(ends.low)), precision(keyword))
    is_finite = np.isfinite(ends.low)
    with np.errstate(all="ignore"):
        infinite = _along(op, np.add, np.where(is_finite, 0.0, ends.low))
        finite = _along(op, np.add, np.where(is_finite, np.abs(ends.low), 0.0))
    # The infinite sum of finite terms makes NaN of another infinity.
    special = np.isnan(infinite) | np.isinf(infinite) & ~_is_beyond(finite, keyword)
    low, high = rounded(low, keyword), rounded(high, keyword)
    wide = np.asarray(result).astype(np.float64)
    return settle(np.minimum(low, wide), np.maximum(high, wide), result, exact & (fits | special | (count == 1)))


def _extremum(op: Operation, name: str, bounds: Bounds | None, values: Any, result: np.ndarray) -> Bounds | None:
    if bounds is None:
        return None
    function = np.fmax if name == "maxf" else np.fmin
    low, high = (_along(op, function, np.broadcast_to(end, np.shape(values))) for end in bounds)
    return settle(low, high, result, low == high)


def _exceeds(magnitude: np.ndarray, result: Value) -> np.ndarray:
    keyword = dtype_keyword(result.type.element_type)
    if keyword is None:
        return np.zeros(np.shape(magnitude), bool)
    return ~(np.asarray(magnitude).astype(np.float64) * 1.01 <= max_finite(FLOAT_SEMANTICS[keyword]))


_TERMS: dict[str, Callable[..., np.ndarray]] = {
    "addf": np.add, "subf": np.add, "mulf": np.multiply, "fma": lambda x, y, z: x * y + z, "negf": np.positive,
}  # fmt: skip
"""The magnitude of a result, of those of the operands."""


def _magnitudes(op: Operation, values: Values, least: float) -> tuple[np.ndarray, ...]:
    """The polynomial of the magnitudes of elements and constants, each of them `least` if it is less."""
    block = op.regions[0].block

    def magnitude(value: Any) -> np.ndarray:
        return np.maximum(np.abs(np.asarray(value).astype(np.float64)), least)

    def combine(running: Sequence[np.ndarray], elements: Sequence[np.ndarray]) -> list[np.ndarray]:
        sizes = dict(zip(block.arguments, (each for pair in zip(running, elements) for each in pair)))
        for inner in block.operations:
            if inner.name == "cuda_tile.constant":
                sizes[inner.results[0]] = magnitude(elements_of(inner.attributes["value"], ()))
            elif inner is not block.last:
                term = _TERMS[inner.name.partition(".")[2]]
                sizes[inner.results[0]] = term(*(sizes[each] for each in inner.operands))
        return [np.broadcast_to(sizes[each], np.shape(elements[0])) for each in block.last.operands]

    tiles, axis = [magnitude(value) for value in values], op.attributes["dim"].value
    if op.name == "cuda_tile.reduce":
        return reduced(tiles, axis, combine)
    return scanned(tiles, axis, combine, bool(op.attributes["reverse"].value))


def _is_polynomial(op: Operation) -> bool:
    """Whether a combiner computes a polynomial of its arguments and constants alone."""
    block = op.regions[0].block
    inner = {each.results[0] for each in block.operations if each.results} | set(block.arguments)
    return all(
        each is block.last or each.name == "cuda_tile.constant" or each.name.partition(".")[2] in _TERMS
        for each in block.operations
    ) and all(operand in inner for each in block.operations for operand in each.operands)


def _polynomial(
    machine: TrackingMachine, op: Operation, values: Values, results: Sequence[np.ndarray]
) -> tuple[Bounds | None, ...]:
    """Each result is a polynomial of the elements: of rounding in every operation it is off by at most as many units,
    relative to the polynomial of the magnitudes, and of subnormal results by as many halves of the least unit, times
    the factors that follow."""
    operations = len(_bodies(op)) * np.shape(values[0])[op.attributes["dim"].value]
    with np.errstate(all="ignore"):
        magnitudes, largest = (_magnitudes(op, values, least) for least in (0.0, 1.0))
    # Another order multiplies other elements with each other: no intermediate result is larger than the largest.
    overflows = np.logical_or.reduce([_exceeds(each, result) for each, result in zip(largest, op.results)])
    intervals: list[Bounds | None] = []
    for value, magnitude, factor, each in zip(results, magnitudes, largest, op.results):
        keyword = dtype_keyword(each.type.element_type)
        if keyword is None:
            intervals.append(None)
            continue
        semantics = FLOAT_SEMANTICS[keyword]
        least = np.ldexp(1.0, semantics.smallest_exponent - semantics.mantissa_bits)
        with np.errstate(all="ignore"):
            error = 2.02 * operations * 2.0 ** -precision(keyword) * magnitude
            error += operations * least * np.where(np.isnan(factor), 1.0, factor)
        wide = np.asarray(value).astype(np.float64)
        low, high = np.where(overflows, -np.inf, wide - error), np.where(overflows, np.inf, wide + error)
        intervals.append(settle(low, high, value, False))
    if op.name == "cuda_tile.reduce":
        return _any_order(machine, op, values, results, intervals)
    return tuple(intervals)


def _any_order(
    machine: TrackingMachine, op: Operation, values: Values, results: Sequence[np.ndarray],
    intervals: Sequence[Bounds | None],
) -> tuple[Bounds | None, ...]:  # fmt: skip
    """The intervals of a reduction; any value for a row that is outside of its interval in another order of elements,
    where the combiner does not commute."""
    axis = op.attributes["dim"].value
    tiles = [np.moveaxis(np.asarray(value), axis, 0) for value in values]
    steady = np.ones(np.shape(results[0]), bool)
    with machine.quiet(), np.errstate(all="ignore"):
        for others in _reductions(tiles, combiner(machine, op)):
            for other, each, result in zip(others, intervals, results):
                if each is not None:
                    wide, is_nan = np.asarray(other).astype(np.float64), (other != other) & (result != result)
                    steady &= (each.low <= wide) & (wide <= each.high) | is_anything(each) | is_nan
    if steady.all():
        return tuple(intervals)
    machine.unordered.add(op)
    return tuple(
        None if each is None else settle(*(np.where(steady, end, far) for end, far in zip(each, (-np.inf, np.inf))),
                                         result, False)
        for each, result in zip(intervals, results)
    )  # fmt: skip
