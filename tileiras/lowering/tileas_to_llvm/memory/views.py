"""Addresses and bounds of tiles cut from a memref.

The address of an element is base + sum over dimensions of (tile start + thread's place + register's place) * stride.
All that depends on the thread is computed once; a register's place adds a constant where the stride is known, and
otherwise selects one of a few row bases, each made from another by one addition.  Multiplying every register's
constant by a run-time stride instead makes LLVM's code generation quadratic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tileiras.dialects import llvm
from tileiras.dialects import nv_tileaa as aa
from tileiras.ir import DYNAMIC, FloatType, IntegerType, Operation, Value, VerifyError, i32, i64
from tileiras.layout import LinearLayout
from tileiras.support import gf2

from ..emit.builder import Number
from ..emit.function import FunctionLowering
from ..emit.types import memory_type


class TileAddresses:
    """The addresses of one tiled access by the current thread; emitted on demand, at the current place."""

    def __init__(self, op: Operation, layout: LinearLayout, lowering: FunctionLowering) -> None:
        self._lowering = lowering
        self._emit = lowering.emit
        self.layout = layout
        self.view = op.view.type
        cut = op.view.defining_op
        memref = cut.source.defining_op if isinstance(cut, aa.BlockTileOp) else None
        if not isinstance(memref, aa.MakeMemRefOp):
            raise VerifyError("expects a view whose memref is known here")
        if self.view.sparse_dim is not None:
            raise VerifyError("gather and scatter through a view are not supported")
        self._memref = memref
        self.element_bytes = self._element_units(self.view.element_type)
        self.rank = len(self.view.shape)
        emit = self._emit
        self._coords = list(op.coords)
        promised = op.attributes.get(aa.IN_BOUNDS)
        self._inside: dict[int, bool] = {}
        self._promised = [bool(dim) for dim in promised] if promised is not None else [False] * self.rank
        self.starts: list[Number] = []
        self._sizes: list[Number] = []
        self._strides: list[Number] = []
        for d in range(self.rank):
            dim = self.view.dim_map[d]
            coordinate = self._wide(op.coords[d])
            self.starts.append(emit.mul(coordinate, self.view.traversal_strides[d], i64))
            self._sizes.append(self._extent(memref.size(dim)))
            self._strides.append(self._extent(memref.stride(dim)))
        # Bits of each coordinate that the thread decides; a register's constant is added where it has other bits.
        self._thread_bits = [
            gf2.support((*layout.coordinate_columns("lane", d), *layout.coordinate_columns("warp", d)))
            for d in range(self.rank)
        ]
        self._made: dict[tuple, Any] = {}
        self._dominating: dict[tuple, Any] = {}

    # The representation of an address: here a pointer, in units of bytes.

    def _element_units(self, type: FloatType | IntegerType) -> int:
        return max(1, memory_type(type).width // 8)

    def _base(self) -> Value:
        return self._lowering.value(self._memref.base)

    def _advance(self, address: Value, units: Number) -> Value:
        return self._emit.gep(address, units)

    def memref_base(self) -> Value:
        """The pointer that the memref begins at, as the function has it."""
        return self._memref.base

    def memref_stride(self, dim: int) -> int:
        """Elements from one place to the next along a dimension of the tile, DYNAMIC where that is not known."""
        stride = self._memref.stride(self.view.dim_map[dim])
        return stride if isinstance(stride, int) else DYNAMIC

    def dynamic_stride(self, dim: int) -> Value:
        """The same as a value of the function, where it is not known."""
        return self._memref.stride(self.view.dim_map[dim])

    def _extent(self, extent: Value | int) -> Number:
        if isinstance(extent, int):
            return extent
        return self._wide(extent, self._lowering.opaque(self._lowering.value(extent)))

    def _wide(self, old: Value, value: Number | None = None) -> Number:
        """An unsigned number of the function, as coordinates, sizes and strides are (Tile IR, `make_tensor_view`,
        `load_view_tko`), as an i64; `value`: its LLVM value if another one replaces it."""
        value = self._lowering.value(old) if value is None else value
        return self._emit.zext(value, i64, nneg=self._lowering.ranges.range(old).low >= 0)

    def _split(self, register: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """A register's coordinates as (bits shared with the thread's part, the others)."""
        coordinates = self.layout.coordinates(self.layout.apply(register=register))
        mixed = tuple(c & bits for c, bits in zip(coordinates, self._thread_bits))
        return mixed, tuple(c & ~bits for c, bits in zip(coordinates, self._thread_bits))

    def _place(self, dim: int, mixed: int) -> Number:
        """The thread's coordinate in the tile along a dimension, with a register's shared bits XORed in."""
        layout = self.layout
        lanes, warps = layout.coordinate_columns("lane", dim), layout.coordinate_columns("warp", dim)
        emit = self._emit

        def make() -> Any:
            return emit.zext(emit.xor(emit.linear(lanes, warps), mixed), i64)

        if not any((*lanes, *warps)):
            return mixed
        return emit.by_thread(("place", lanes, warps, mixed), make)

    def keep(self) -> None:
        """Mark the values made so far as dominating all code emitted from here on."""
        self._dominating = dict(self._made)

    def forget(self) -> None:
        """Values made since `keep` do not dominate the block that is emitted next."""
        self._made = dict(self._dominating)

    def _once(self, key: tuple, make: Callable[[], Any]) -> Any:
        result = self._made.get(key)
        if result is None:
            result = self._made[key] = make()
        return result

    # -- addresses ----------------------------------------------------------------------------------------------------

    def address(self, register: int) -> tuple[Value, int]:
        """(pointer, bytes to add) of a register's element."""
        mixed, plain = self._split(register)
        immediate = 0
        rows = [0] * self.rank
        for d, (place, stride) in enumerate(zip(plain, self._strides)):
            if isinstance(stride, int):
                immediate += place * stride * self.element_bytes
            else:
                rows[d] = place
        return self._row_base(mixed, tuple(rows)), immediate

    def _row_base(self, mixed: tuple[int, ...], rows: tuple[int, ...]) -> Value:
        def make() -> Value:
            for d, place in enumerate(rows):
                if place:
                    low = place & -place
                    before = self._row_base(mixed, (*rows[:d], place ^ low, *rows[d + 1 :]))
                    return self._advance(before, self._multiple(d, low.bit_length() - 1))
            return self._thread_base(mixed)

        return self._once(("base", mixed, rows), make)

    def _multiple(self, dim: int, power: int) -> Number:
        """Bytes from one row to the 2**power-th next."""
        factor = self.element_bytes << power
        return self._once(("step", dim, power), lambda: self._emit.mul(self._strides[dim], factor, i64))

    def _index(self, dim: int, mixed: int) -> Number:
        """The thread's coordinate in the memref along a dimension."""
        key = ("index", dim, mixed)
        return self._once(key, lambda: self._emit.add(self.starts[dim], self._place(dim, mixed), i64))

    def _thread_base(self, mixed: tuple[int, ...]) -> Value:
        emit = self._emit
        offset: Number = 0
        for d in range(self.rank):
            offset = emit.add(offset, emit.mul(self._index(d, mixed[d]), self._strides[d], i64), i64)
        return self._advance(self._base(), emit.mul(offset, self.element_bytes, i64))

    # -- bounds -------------------------------------------------------------------------------------------------------

    def _surely_inside(self, dim: int) -> bool:
        """Whether the whole tile is known to be inside the memref along a dimension."""
        entry = self._inside.get(dim)
        if entry is None:
            entry = self._inside[dim] = self._promised[dim] or self._fits(dim)
        return entry

    def _fits(self, dim: int) -> bool:
        ranges = self._lowering.ranges
        first, last = ranges.range(self._coords[dim])
        size = self._memref.size(self.view.dim_map[dim])
        least = size if isinstance(size, int) else ranges.range(size).low
        return 0 <= first and last * self.view.traversal_strides[dim] + self.view.shape[dim] <= least

    def mask(self, register: int) -> Value | None:
        """Whether a register's element is inside; None when it surely is."""
        mixed, plain = self._split(register)
        inside = None
        for d in range(self.rank):
            if not self._surely_inside(d):
                inside = self._emit.both(inside, self._dim_mask(d, mixed[d], plain[d]))
        return inside

    def _dim_mask(self, dim: int, mixed: int, place: int) -> Value:
        emit = self._emit

        def make() -> Value:
            return emit.icmp("sgt", self._remaining(dim, mixed), emit.integer(place, i64))

        return self._once(("inside", dim, mixed | place), make)

    def _remaining(self, dim: int, mixed: int) -> Value:
        """How many places from the thread's own on lie before the memref's end, as i64; none or less where the tile
        begins before the memref."""
        emit = self._emit

        def make() -> Value:
            remaining = emit.value(emit.sub(emit.value(self._sizes[dim], i64), self._index(dim, mixed), i64), i64)
            if self._starts_inside(dim):
                return remaining
            # Tiles before the first one lie outside as a whole: their start is a negative number of whole tiles.
            zero = emit.integer(0, i64)
            return emit.select(emit.icmp("slt", emit.value(self.starts[dim], i64), zero), zero, remaining)

        return self._once(("left", dim, mixed), make)

    def _starts_inside(self, dim: int) -> bool:
        """Whether the tile is known not to begin before the memref along a dimension."""
        coordinate = self._coords[dim]
        return coordinate.type.width < i64.width or self._lowering.ranges.range(coordinate).low >= 0

    def _limit(self, dim: int, mixed: int) -> Value:
        """How many places from the thread's own on are inside, as i32: 0 to the tile's size."""
        emit = self._emit

        def make() -> Value:
            remaining = emit.intrinsic("smin", self._remaining(dim, mixed), emit.integer(self.view.shape[dim], i64))
            remaining = emit.intrinsic("smax", remaining, emit.integer(0, i64))
            return emit.insert(llvm.TruncOp(remaining, res=i32))

        return self._once(("limit", dim, mixed), make)

    def run_is_uniform(self, axis: int, run: int) -> bool:
        """Whether `run` aligned neighbours along `axis` are surely inside or outside together."""
        if run == 1 or self._surely_inside(axis):
            return True
        facts = self._lowering.facts
        size = self._memref.size(self.view.dim_map[axis])
        multiple = (
            size & -size if isinstance(size, int) and size else None if isinstance(size, int) else facts.divisor(size)
        )
        step = self.view.traversal_strides[axis]
        return (multiple is None or multiple >= run) and (step & -step) >= run

    def runs_inside(self, registers: Sequence[int], axis: int, run: int) -> Iterator[Value | None]:
        """How many of `run` neighbours along `axis`, from each register's element on, are inside; None when all surely
        are."""
        split = [self._split(register) for register in registers]
        result = [d for d in range(self.rank) if not self._surely_inside(d)]
        if not self.run_is_uniform(axis, run):
            result.remove(axis)
        apart = [d for d in result if len({(mixed[d], plain[d]) for mixed, plain in split}) > 1]
        for mixed, plain in split:
            yield self._run_inside(mixed, plain, result, apart, axis, run)

    def _run_inside(
        self, mixed: Sequence[int], plain: Sequence[int], dims: list[int], apart: list[int], axis: int, run: int
    ) -> Value | None:
        """The same for one of registers that are apart in the dimensions `apart`, of those that are `dims` for."""
        emit = self._emit
        inside = None
        if apart:
            same = {d: (mixed[d], plain[d]) for d in dims if d not in apart}
            limit = self._limit_inside(apart[0], mixed[apart[0]], same)
            inside = emit.icmp("sgt", limit, emit.integer(plain[apart[0]]))
        for d in apart[1:] if apart else dims:
            inside = emit.both(inside, self._dim_mask(d, mixed[d], plain[d]))
        count = emit.integer(run)
        if self.rank and not self.run_is_uniform(axis, run):
            remaining = emit.value(emit.sub(self._limit(axis, mixed[axis]), plain[axis]))
            count = emit.intrinsic("smax", emit.intrinsic("smin", remaining, count), emit.integer(0))
        elif inside is None:
            return None
        return count if inside is None else emit.select(inside, count, emit.integer(0))

    def _limit_inside(self, dim: int, mixed: int, same: dict[int, tuple[int, int]]) -> Value:
        """The limit along a dimension, and nothing where a thread is outside in a dimension in which all of its
        registers are at the `same` place: one comparison is left for each of them."""
        emit = self._emit

        def make() -> Value:
            inside = None
            for d, (shared, place) in same.items():
                inside = emit.both(inside, self._dim_mask(d, shared, place))
            limit = self._limit(dim, mixed)
            return limit if inside is None else emit.select(inside, limit, emit.integer(0))

        return self._once(("limit inside", dim, mixed), make)

    def whole_tile_inside(self) -> Value | None:
        """One condition, equal in all threads: no element of the tile is outside.  None when that is known."""
        emit = self._emit
        inside = None
        for d in range(self.rank):
            if self._surely_inside(d):
                continue
            start = emit.value(self.starts[d], i64)
            end = emit.value(emit.add(start, self.view.shape[d], i64), i64)
            inside = emit.both(inside, emit.icmp("sle", end, emit.value(self._sizes[d], i64)))
            if not self._starts_inside(d):
                inside = emit.both(inside, emit.icmp("sge", start, emit.integer(0, i64)))
        return inside

    def surely_inside(self) -> bool:
        """Whether no element is outside, as far as known at compile time."""
        return all(map(self._surely_inside, range(self.rank)))

    def fastest(self) -> int:
        """The tile dimension along which neighbours are adjacent in memory."""
        strides = [self._memref.result.type.strides[self.view.dim_map[d]] for d in range(self.rank)]
        return min(
            range(self.rank), key=lambda d: (strides[d] == DYNAMIC, strides[d] if strides[d] != DYNAMIC else 0, -d)
        )
