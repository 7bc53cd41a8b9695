"""Memrefs, tilings, and accesses through them.

A vector of a tile that is inside of its tensor, along a dimension whose elements are neighbours, is one access; others
take a mask, at the edges, and an address for each element.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tileiras.ir import DYNAMIC, element_type_of
from tileiras.support.named_tuple import NamedTuple

from .access import Ways, gather, scatter
from .atomics import update
from .code import Index, constant, vector
from .dot import wants_numbers
from .elements import Lanes, kind_of
from .elementwise import constant_lanes
from .memory import over
from .plan import is_tile
from .tiles import At, Tile

if TYPE_CHECKING:
    from .lower import Lowering


class MemRef(NamedTuple):
    """A tensor in memory: its address, sizes and strides, in elements."""

    address: str
    sizes: tuple[Index, ...]
    strides: tuple[Index, ...]


class Tiling(NamedTuple):
    """A tensor and the type of view that cuts it into tiles."""

    memref: MemRef
    type: Any


def make_memref(low: Lowering, op: Any) -> None:
    type = op.result.type
    extents = []
    for values, static in ((op.sizes, type.shape), (op.strides, type.strides)):
        result = iter(values)
        extents.append(tuple(low.index(next(result), is_unsigned=True) if size == DYNAMIC else size for size in static))
    low.values[op.result] = MemRef(low.scalar(op.base), *extents)


def get_dim_size(low: Lowering, op: Any) -> None:
    kind = kind_of(op.result.type)
    size = low.values[op.source].sizes[op.dim.value]
    if not isinstance(size, int) and kind.width < 64:
        size = low.code.value(f"trunc i64 {size} to {kind.number}")
    low.values[op.result] = Lanes(kind, 1, str(size))


def block_tile(low: Lowering, op: Any) -> None:
    low.values[op.result] = Tiling(low.values[op.source], op.result.type)


class Place:
    """Where the elements of one tile are: a plan of its access, made before its loops."""

    def __init__(self, low: Lowering, op: Any) -> None:
        self.low, self.coords = low, op.coords
        tiling: Tiling = low.values[op.view]
        self.type, memref = tiling.type, tiling.memref
        self.kind = kind_of(self.type.element_type)
        self.shape = tuple(self.type.shape)
        self.sizes = [memref.sizes[dim] for dim in self.type.dim_map]
        self.strides = [memref.strides[dim] for dim in self.type.dim_map]
        sparse = self.type.sparse_dim
        self.sparse = -1 if sparse is None else self.type.dim_map.index(sparse)
        self.starts: list[Index] = [0] * len(self.shape)
        code, self.address, self.inside = low.code, memref.address, ""
        offset: Index = 0
        for dim, coordinate in enumerate(op.coords):
            if dim == self.sparse:
                continue
            start = code.multiply(low.index(coordinate), self.type.traversal_strides[dim])
            self.starts[dim] = start
            offset = code.add(offset, code.multiply(start, self.strides[dim]))
            self._and(self._whole(start, self.shape[dim], self.sizes[dim]))
        self.first = self._advance(self.address, offset)

    def _and(self, condition: str) -> None:
        self.inside = self.low.code.value(f"and i1 {self.inside}, {condition}") if self.inside else condition

    def _advance(self, address: str, offset: Index) -> str:
        """An address so many elements further on."""
        distance = self.low.code.multiply(offset, self.kind.size)
        return address if distance == 0 else self.low.code.value(f"add i64 {address}, {distance}")

    def _whole(self, start: Index, extent: int, size: Index) -> str:
        """Whether a stretch is inside of a dimension."""
        code = self.low.code
        begins = code.value(f"icmp sge i64 {start}, 0")
        ends = code.value(f"icmp sle i64 {code.add(start, extent)}, {size}")
        return code.value(f"and i1 {begins}, {ends}")

    def extent(self) -> tuple[Index, Index]:
        """The first address of the tile, and that behind its last element."""
        code, first, last = self.low.code, self.first, self.first
        for stride, extent in zip(self.strides, self.shape):
            reach = code.multiply(stride, (extent - 1) * self.kind.size)
            if isinstance(reach, int):
                first, last = code.add(first, min(reach, 0)), code.add(last, max(reach, 0))
            else:
                first = code.add(first, code.intrinsic("smin", "i64", 1, reach, "0"))
                last = code.add(last, code.intrinsic("smax", "i64", 1, reach, "0"))
        return first, code.add(last, self.kind.size)

    @property
    def dim(self) -> int:
        """The dimension of the tile whose elements are neighbours in memory, if there is a long one."""
        for dim in reversed(range(len(self.shape))):
            if self.strides[dim] == 1 and self.shape[dim] > 1 and dim != self.sparse:
                return dim
        return -1

    def positions(self, at: At) -> tuple[str, str]:
        """Offsets of elements from the tensor's first one, zero outside, and which elements are inside."""
        code, count = self.low.code, at.count
        type, truth = vector("i64", count), vector("i1", count)
        offsets, inside = constant("i64", count, 0), constant("i1", count, "true")
        for dim in range(len(self.shape)):
            number = self._number(dim, at)
            here = vector("i64", count)
            size = code.splat("i64", count, str(self.sizes[dim]))
            # As unsigned numbers, negative ones are beyond every size.
            valid = code.value(f"icmp ult {here} {number}, {size}")
            stride = code.splat("i64", count, str(self.strides[dim]))
            distance = code.value(f"mul {type} {number}, {stride}")
            offsets = code.value(f"add {type} {offsets}, {distance}")
            inside = code.value(f"and {truth} {inside}, {valid}")
        return offsets, inside

    def _number(self, dim: int, at: At) -> str:
        """Positions of elements along a dimension of the tensor."""
        low, code, count = self.low, self.low.code, at.count
        along = count if dim == at.dim else 1
        if dim == self.sparse:
            coordinate = self.coords[dim]
            lanes = low.lanes(coordinate, At((at.index[dim],), 0 if along > 1 else -1, along))
            number = lanes.number(code)
            if lanes.kind.width < 64:
                number = code.value(f"sext {lanes.type} {number} to {vector('i64', along)}")
            return number if along == count else code.splat("i64", count, number)
        number = code.splat("i64", count, str(code.add(self.starts[dim], at.index[dim])))
        if along > 1:
            number = code.value(f"add {vector('i64', count)} {number}, {code.ramp(count)}")
        return number

    def is_direct(self, at: At) -> bool:
        """Whether a vector can be one access."""
        return at.count == 1 or at.dim != self.sparse and not (
            isinstance(self.strides[at.dim], int) and self.strides[at.dim] != 1
        )

    def direct(self, at: At) -> tuple[str, str]:
        """The address of a vector inside of the tensor, and whether that is where it is (empty if it must be)."""
        code, condition, offset = self.low.code, self.inside, 0
        for dim, number in enumerate(at.index):
            if dim == self.sparse:
                position = self._number(dim, At(at.index))
                valid = code.value(f"icmp ult i64 {position}, {self.sizes[dim]}")
                condition = code.value(f"and i1 {condition}, {valid}") if condition else valid
                number = position
            offset = code.add(offset, code.multiply(number, self.strides[dim]))
        if at.count > 1 and self.strides[at.dim] != 1:
            dense = code.value(f"icmp eq i64 {self.strides[at.dim]}, 1")
            condition = code.value(f"and i1 {condition}, {dense}") if condition else dense
        return self._advance(self.first, offset), condition


def _addresses(code: Any, place: Place, count: int, offsets: str) -> str:
    type = vector("i64", count)
    scaled = code.value(f"mul {type} {offsets}, {constant('i64', count, place.kind.size)}")
    return code.value(f"add {type} {scaled}, {code.splat('i64', count, place.address)}")


def _padding(low: Lowering, op: Any, place: Place, count: int) -> str:
    padding = place.type.padding
    element = place.type.element_type
    if padding is None or not hasattr(element, "keyword"):
        return "zeroinitializer" if count > 1 else "0" if place.kind.stored[0] == "i" else "0.0"
    return constant_lanes(padding.of(element), element, count).stored(low.code)


def _nibble(low: Lowering, place: Place, at: At) -> tuple[str, str, str]:
    """Of a 4-bit element: the address of its byte, its distance from the lowest bit, whether it is inside."""
    code = low.code
    offset, inside = place.positions(at)
    address = code.value(f"add i64 {place.address}, {code.value(f'lshr i64 {offset}, 1')}")
    odd = code.value(f"trunc i64 {offset} to i1")
    return address, code.value(f"select i1 {odd}, i8 4, i8 0"), inside


def _load_nibble(low: Lowering, op: Any, place: Place, at: At) -> Lanes:
    code = low.code
    address, shift, inside = _nibble(low, place, at)
    padding = _padding(low, op, place, 1)
    ways = Ways(code, inside, ("then", "else"))
    with ways.way():
        byte = code.value(f"load i8, ptr {code.pointer(address)}")
        ways.result(code.value(f"and i8 {code.value(f'lshr i8 {byte}, {shift}')}, 15"))
    with ways.way():
        ways.result(padding)
    code.start(ways.after)
    return Lanes(place.kind, 1, bits=code.phi("i8", ways.incoming))


def _store_nibble(low: Lowering, place: Place, at: At, lanes: Lanes) -> None:
    code, data = low.code, lanes.stored(low.code)
    address, shift, inside = _nibble(low, place, at)
    with code.when(inside):
        pointer = code.pointer(address)
        byte = code.value(f"load i8, ptr {pointer}")
        mask = code.value(f"xor i8 {code.value(f'shl i8 15, {shift}')}, -1")
        nibble = code.value(f"shl i8 {code.value(f'and i8 {data}, 15')}, {shift}")
        merged = code.value(f"or i8 {code.value(f'and i8 {byte}, {mask}')}, {nibble}")
        code.do(f"store i8 {merged}, ptr {pointer}")


def tiled_load(low: Lowering, op: Any) -> None:
    low.require(op, op.reduction is None, "loads of all copies behind multicast addresses")
    place = Place(low, op)
    low.require(op, element_type_of(op.data.type) is place.type.element_type, "conversion in a load")

    if place.kind.width == 4:
        low.fill(op.data, lambda at: _load_nibble(low, op, place, at), lanes=1)
        return

    def elements(at: At) -> Lanes:
        code, kind, count = low.code, place.kind, at.count
        type = vector(kind.stored, count)
        if not place.is_direct(at):
            offsets, inside = place.positions(at)
            data = gather(code, kind, count, _addresses(code, place, count, offsets), inside,
                            _padding(low, op, place, count))  # fmt: skip
            return Lanes(kind, count, bits=data)
        address, condition = place.direct(at)
        if not condition:
            return Lanes(kind, count, bits=code.value(f"load {type}, ptr {code.pointer(address)}, align 1"))
        ways = Ways(code, condition)
        with ways.way():
            ways.result(code.value(f"load {type}, ptr {code.pointer(address)}, align 1"))
        with ways.way(), low.together():
            ways.result(_edge_load(low, op, place, at))
        code.start(ways.after)
        return Lanes(kind, count, bits=code.phi(type, ways.incoming))

    stays = "" if wants_numbers(op.data) else low.rows.read(op, place)
    if stays:
        _read_in_place(low, op.data, place, stays, elements)
    else:
        low.fill(op.data, elements, dim=place.dim, as_numbers=wants_numbers(op.data))


def _read_in_place(low: Lowering, value: Any, place: Place, stays: str, elements: Callable[[At], Lanes]) -> None:
    """Let a value be a row of the user's memory, or a copy of it."""
    code, copy = low.code, low.allocate(value.type.shape, value.type.element_type)
    ways = Ways(code, stays, ("there", "copied"))
    with ways.way():
        ways.result(code.pointer(place.first))
    with ways.way():
        with low.each(copy.shape, dim=place.dim) as at:
            low.store(copy, at, elements(at))
        ways.result(copy.pointer)
    code.start(ways.after)
    low.hold(value, Tile(code.phi("ptr", ways.incoming), copy.shape, copy.kind, root=copy))


def _edge_load(low: Lowering, op: Any, place: Place, at: At) -> str:
    code, kind, count = low.code, place.kind, at.count
    padding = _padding(low, op, place, count)
    if count == 1 and not any(dim == place.sparse for dim in range(len(place.shape))) and not place.shape:
        return padding
    offsets, inside = place.positions(at)
    addresses = _addresses(code, place, count, offsets)
    if count > 1:
        return gather(code, kind, count, addresses, inside, padding)
    ways = Ways(code, inside, ("then", "else"))
    with ways.way():
        ways.result(code.value(f"load {kind.stored}, ptr {code.pointer(addresses)}, align 1"))
    with ways.way():
        ways.result(padding)
    code.start(ways.after)
    return code.phi(kind.stored, ways.incoming)


def tiled_store(low: Lowering, op: Any) -> None:
    low.require(op, op.multicast is None, "stores to all copies behind multicast addresses")
    place = low.rows.stored(op)
    code, kind = low.code, place.kind
    if kind.width == 4:
        with over(low, op.data, lanes=1) as at:
            _store_nibble(low, place, at, low.lanes(op.data, at))
        return
    with low.each(place.shape, low.features.lanes * 4, place.dim) if is_tile(op.data) else over(low, op.data) as at:
        lanes = low.lanes(op.data, at)
        data = lanes.stored(code)
        if not place.is_direct(at):
            offsets, inside = place.positions(at)
            scatter(code, kind, at.count, _addresses(code, place, at.count, offsets), inside, data)
            return
        address, condition = place.direct(at)
        write = f"store {lanes.stored_type} {data}, ptr "
        if not condition:
            code.do(f"{write}{code.pointer(address)}, align 1")
            return
        ways = Ways(code, condition)
        with ways.way():
            code.do(f"{write}{code.pointer(address)}, align 1")
        with ways.way(), low.together():
            _edge_store(low, place, at, data)
        code.start(ways.after)


def _edge_store(low: Lowering, place: Place, at: At, data: str) -> None:
    code, kind, count = low.code, place.kind, at.count
    offsets, inside = place.positions(at)
    addresses = _addresses(code, place, count, offsets)
    if count > 1:
        scatter(code, kind, count, addresses, inside, data)
        return
    with code.when(inside):
        code.do(f"store {kind.stored} {data}, ptr {code.pointer(addresses)}, align 1")


def tiled_atomic_rmw(low: Lowering, op: Any) -> None:
    low.require(op, op.multicast is None, "updates of all copies behind multicast addresses")
    place = Place(low, op)
    code = low.code
    with over(low, op.data, lanes=1) as at:
        lanes = low.lanes(op.data, at)
        offsets, inside = place.positions(at)
        addresses = _addresses(code, place, 1, offsets)
        with code.when(inside):
            update(low, op, op.rmw_mode.value, place.kind, addresses, lanes)




FAMILY = {
    "nv_tileaa.make_memref": make_memref,
    "nv_tileaa.get_dim_size": get_dim_size,
    "nv_tileaa.block_tile": block_tile,
    "nv_tileaa.tiled_load": tiled_load,
    "nv_tileaa.tiled_store": tiled_store,
    "nv_tileaa.tiled_atomic_rmw": tiled_atomic_rmw,
}
