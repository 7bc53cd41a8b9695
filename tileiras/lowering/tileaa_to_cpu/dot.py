"""Matrix multiplications: operands packed as numbers, blocks of the result in registers.

Block-scaled products are computed in f64: a factor times its scale may be no f32, though the product of all four is.

A block has as many rows and vectors as registers hold; each step along K multiplies one element of each row of A with
the vectors of a row of B.  The block's columns are the outer loop, so that the part of B stays in the first cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tileiras.ir import f64

from .code import Index, constant, vector
from .elements import Lanes, kind_of
from .plan import is_tile
from .tiles import At, Tile

if TYPE_CHECKING:
    from .lower import Lowering


def _operand(low: Lowering, value: Any, scale: Any = None, axis: int = 0) -> Tile:
    """An operand in memory as numbers; with scales, each multiplied with that of its run along `axis`."""
    element = value.type.element_type
    kind = kind_of(element)
    if scale is None and kind.format != "tf32":
        return low.materialize(value, as_numbers=bool(kind.format))
    tile = low.allocate(value.type.shape, element if scale is None else f64, as_numbers=True)
    run = 1 if scale is None else value.type.shape[axis] // scale.type.shape[axis]
    lanes = min(low.features.lanes, run) if scale is not None and axis == len(tile.shape) - 1 else 0
    with low.each(tile.shape, lanes=lanes) as at:
        number = low.lanes(value, at).number(low.code)
        if scale is None:
            number = _truncate(low, at.count, number)
        else:
            number = _scale(low, at, number, scale, axis, run)
        low.store(tile, at, Lanes(tile.kind, at.count, number))
    return tile


def _truncate(low: Lowering, count: int, number: str) -> str:
    """The part of f32 numbers that a product of tf32 reads."""
    type, bits = vector("float", count), vector("i32", count)
    whole = low.code.value(f"bitcast {type} {number} to {bits}")
    cut = low.code.value(f"and {bits} {whole}, {constant('i32', count, -8192)}")
    return low.code.value(f"bitcast {bits} {cut} to {type}")


def _scale(low: Lowering, at: At, number: str, scale: Any, axis: int, run: int) -> str:
    index = list(at.index)
    index[axis] = low.code.divide(index[axis], run)[0]
    if at.dim == axis:
        factor = low.lanes(scale, At(tuple(index))).splat(low.code, at.count)
    else:
        factor = low.lanes(scale, At(tuple(index), at.dim, at.count))
    wide = [_wide(low, at.count, each) for each in (number, factor.number(low.code))]
    return low.code.value(f"fmul {vector('double', at.count)} {wide[0]}, {wide[1]}")


def _wide(low: Lowering, count: int, number: str) -> str:
    return low.code.value(f"fpext {vector('float', count)} {number} to {vector('double', count)}")


class _Product:
    """One product with its types and the shape of its blocks."""

    def __init__(self, low: Lowering, op: Any, a: Tile, b: Tile, result: Tile) -> None:
        self.low, self.op, self.a, self.b, self.result = low, op, a, b, result
        *self.batch, self.m, self.k = a.shape
        self.n = b.shape[-1]
        self.number = result.kind.number
        self.is_float = result.kind.is_float
        lanes = low.features.lanes // (2 if self.number == "double" else 1)
        self.lanes = min(max(1, lanes), self.n)
        self.vectors = min(2, self.n // self.lanes)
        self.rows = min(8 if low.features.registers >= 32 else 4, self.m)
        signs = (getattr(op, "signedness_a", None), getattr(op, "signedness_b", None))
        self.extensions = ["zext" if each is not None and each.value == "unsigned" else "sext" for each in signs]

    def run(self) -> None:
        code, width = self.low.code, self.lanes * self.vectors
        with self.low.over(self.batch) as batch:
            with code.loop(self.n, width) as columns, code.loop(self.m, self.rows) as rows:
                self._block(batch, rows.index, columns.index)

    def _block(self, batch: tuple[Index, ...], row: Index, column: Index) -> None:
        code, low = self.low.code, self.low
        places = [
            At((*batch, code.add(row, i), code.add(column, j * self.lanes)), len(batch) + 1 if self.lanes > 1 else -1,
               self.lanes)
            for i in range(self.rows) for j in range(self.vectors)
        ]  # fmt: skip
        type = vector(self.number, self.lanes)
        carried = [(type, low.load(self.result, place).number(code)) for place in places]
        with code.loop(self.k, carried=carried) as loop:
            right = [self._b(batch, loop.index, code.add(column, j * self.lanes)) for j in range(self.vectors)]
            results = []
            for i in range(self.rows):
                left = self._a(batch, code.add(row, i), loop.index)
                for j in range(self.vectors):
                    results.append(self._add(left, right[j], loop.carried[i * self.vectors + j]))
            loop.results = results
        for place, name in zip(places, loop.results, strict=True):
            low.store(self.result, place, Lanes(self.result.kind, self.lanes, name))

    def _add(self, left: str, right: str, total: str) -> str:
        code, type = self.low.code, vector(self.number, self.lanes)
        if self.is_float:
            return code.intrinsic("fma", self.number, self.lanes, left, right, total)
        return code.value(f"add {type} {code.value(f'mul {type} {left}, {right}')}, {total}")

    def _a(self, batch: tuple[Index, ...], row: Index, k: Index) -> str:
        """An element of A, in every lane."""
        lanes = self.low.load(self.a, At((*batch, row, k)))
        return self.low.code.splat(self.number, self.lanes, self._widen(lanes, self.extensions[0]))

    def _b(self, batch: tuple[Index, ...], k: Index, column: Index) -> str:
        dim = len(batch) + 1 if self.lanes > 1 else -1
        return self._widen(self.low.load(self.b, At((*batch, k, column), dim, self.lanes)), self.extensions[1])

    def _widen(self, lanes: Lanes, extension: str) -> str:
        code, number = self.low.code, lanes.number(self.low.code)
        if lanes.kind.number == self.number:
            return number
        instruction = "fpext" if self.is_float else extension
        return code.value(f"{instruction} {lanes.type} {number} to {vector(self.number, lanes.count)}")


def _result(low: Lowering, op: Any, operands: Sequence[Tile]) -> Tile:
    """Memory for the result that holds the accumulator."""
    tile = low.may_overwrite(op.c, op)
    if tile is not None and not tile.as_numbers and all(tile.root is not each.root for each in operands):
        return tile
    return low.materialize(op.c, low.allocate(op.result.type.shape, op.result.type.element_type))


def _multiply(low: Lowering, op: Any, operands: Sequence[Tile]) -> None:
    result = _result(low, op, operands)
    _Product(low, op, operands[0], operands[1], result).run()
    low.hold(op.result, result)
    for tile in operands:
        low.release(tile)


def dot(low: Lowering, op: Any) -> None:
    _multiply(low, op, [_operand(low, op.a), _operand(low, op.b)])


def block_scaled_mma(low: Lowering, op: Any) -> None:
    rank, code = op.a.type.rank, low.code
    operands = [_operand(low, op.a, op.scale_a, rank - 1), _operand(low, op.b, op.scale_b, rank - 2)]
    total = low.allocate(op.c.type.shape, f64)
    with low.each(total.shape) as at:
        low.store(total, at, Lanes(total.kind, at.count, _wide(low, at.count, low.lanes(op.c, at).number(code))))
    _Product(low, op, *operands, total).run()
    result = low.allocate(op.result.type.shape, op.result.type.element_type)
    with low.each(result.shape) as at:
        wide, type = low.load(total, at).number(code), vector("float", at.count)
        number = code.value(f"fptrunc {vector('double', at.count)} {wide} to {type}")
        low.store(result, at, Lanes(result.kind, at.count, number))
    low.hold(op.result, result)
    for tile in (*operands, total):
        low.release(tile)


def wants_numbers(value: Any) -> bool:
    """Whether a tile is only an operand of products, which read it as numbers."""
    kind = kind_of(value.type.element_type)
    if not is_tile(value) or not kind.format or kind.format == "tf32" or not value.users:
        return False
    return all(user.name == "nv_tileaa.dot" and value is not user.operands[2] for user in value.users)


FAMILY = {"nv_tileaa.dot": dot, "nv_tileaa.block_scaled_mma": block_scaled_mma}
