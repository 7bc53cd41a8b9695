"""Copies of boxes of tensors between global and shared memory, and reductions, in tile mode: `cp.async.bulk.tensor` and
`cp.reduce.async.bulk.tensor` (PTX ISA, "Tensors", "cp.async.bulk.tensor").

`tile::gather4` and `tile::scatter4` copy four rows of a matrix, each with its own coordinate, as one box.

As other bulk copies, they complete at a query of their barrier, or at a wait for their group. Elements of a box outside
of its tensor are filled on loads and dropped on stores; the barrier counts the whole box in both cases.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .. import tensor_map
from ..arithmetic.rounding import decode, encode
from ..launch.recording import Copy, Place, place
from ..memory.accesses import RANK_BIT, merge, resolve
from ..memory.atomics import operation_of
from ..memory.loads import address_slot, note_granule
from ..ptx.decoder import Decoder, Instruction, Modifiers, instruction
from ..ptx.module import Group
from ..ptx.types import S32, TYPES, U16, U64
from .barrier_objects import barrier_cell
from .landing import BulkCopy, begin_landing, begin_reading, check_places, in_block, ranks_of
from .map_proxy import MapSnapshot, map_at, map_bytes

if TYPE_CHECKING:
    from ..launch.warps import WarpGroup
    from ..tensor_map import TensorMap

_UNIT = np.dtype(np.complex128)  # 16 bytes, the unit that swizzles permute
_ALIGNMENT = 128
_ROWS = 4
REDUCTIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")


class _Form(NamedTuple):
    """Decoded modifiers of a tensor copy."""

    rank: int
    rows: str | None
    """`tile::gather4` or `tile::scatter4`, whose rows have separate coordinates."""
    pair: bool
    """Whether the barrier may be in the other block of the pair."""
    reduction: str | None
    loads: bool
    """Loads complete on an mbarrier, stores in a bulk group."""
    multicast: bool
    hinted: bool


def _form(decoder: Decoder, modifiers: Modifiers, reduces: bool) -> _Form:
    rank = modifiers.take(*(f"{count}d" for count in range(1, 6)))
    order = [name for name in modifiers.names if name in ("global", "shared::cta", "shared::cluster")]
    modifiers.names = [name for name in modifiers.names if name not in order]
    if modifiers.take("im2col", "im2col_no_offs", "im2col::w", "im2col::w::128"):
        raise decoder.unsupported()  # the maps of these modes are not documented
    rows = modifiers.take("tile::gather4", "tile::scatter4")
    modifiers.take("tile")
    pair = modifiers.take("cta_group::1", "cta_group::2") == "cta_group::2"
    reduction = modifiers.take(*REDUCTIONS) if reduces else None
    on_barrier = bool(modifiers.take("mbarrier::complete_tx::bytes"))
    multicast = bool(modifiers.take("multicast::cluster"))
    hinted = bool(modifiers.take("L2::cache_hint"))
    loads = order[-1:] == ["global"]
    if rank is None or len(order) != 2 or loads == ("global" == order[0]) or on_barrier != loads:
        raise decoder.unsupported()
    if not loads and not modifiers.take("bulk_group") or reduces and (loads or reduction is None):
        raise decoder.unsupported()
    if rows is not None and (rank != "2d" or loads != (rows == "tile::gather4") or reduces):
        raise decoder.unsupported()
    return _Form(int(rank[0]), rows, pair, reduction, loads, multicast, hinted)


@instruction("cp.async.bulk.tensor", "cp.reduce.async.bulk.tensor")
def decode_tensor(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    decoder.program.bulk_copies = True
    rank, rows, pair, reduction, loads, multicast, hinted = _form(decoder, modifiers, item.modifiers[0] == "reduce")
    operands = list(item.operands)
    if len(operands) != 2 + loads + multicast + hinted:
        raise decoder.error("the number of operands does not fit")
    tensor, box = (operands[1], operands[0]) if loads else (operands[0], operands[1])
    if not isinstance(tensor, Group) or len(tensor.items) != 2:
        raise decoder.error("expected a tensor map and coordinates")
    where = tensor.items[1].items if isinstance(tensor.items[1], Group) else [tensor.items[1]]
    if len(where) != (rank if rows is None else 1 + _ROWS):
        raise decoder.error(f"expected {rank if rows is None else 1 + _ROWS} coordinates")
    described = address_slot(decoder, tensor.items[0], "generic")
    coordinates = [decoder.src(each, S32) for each in where]
    shared = address_slot(decoder, box, "shared")
    barrier = address_slot(decoder, operands[2], "shared") if loads else None
    mask = decoder.src(operands[3], U16) if multicast else None
    if hinted:
        decoder.src(operands[-1], U64)
    note_granule(decoder, "shared", 16)
    note_granule(decoder, "global", 1)  # boxes may begin and end at any element

    def boxes(group: WarpGroup) -> Iterator[tuple[int, MapSnapshot, int, TensorMap, np.ndarray, np.ndarray]]:
        """(thread, its map, shared address, and the results of `_box`) for the active threads."""
        for thread in group.active().tolist():
            snapshot = MapSnapshot(address := int(group.full(described)[thread]), map_bytes(group, address))
            result = map_at(group, item, address, thread)
            if len(result.dims) != rank:
                group.fault(f"the tensor map has {len(result.dims)} dimensions", item, thread)
            at = [int(group.full(slot)[thread].astype(np.int32)) for slot in coordinates]
            base = int(group.full(shared)[thread])
            if base % _ALIGNMENT:
                group.fault(f"shared address {base:#x} of a box is not aligned to 128 bytes", item, thread, base)
            yield thread, snapshot, base, *_box(group, item, result, at, rows is not None, thread)

    def load(group: WarpGroup) -> None:
        for thread, snapshot, base, result, inside, elements in boxes(group):
            loaded = _elements(group, item, result, elements, thread, False)
            begin_reading(group, item, loaded)
            cells = []
            for number in ranks_of(None if mask is None else int(group.full(mask)[thread])):
                places = _units(group, item, result, in_block(base, number), thread, True)
                signalled = int(group.full(barrier)[thread])
                if pair and number is not None:  # in the pair of each block, the block that the address names
                    number = number & ~1 | signalled >> RANK_BIT & 1
                cell = barrier_cell(group, item, "shared", in_block(signalled, number), thread, asynchronous=True)
                check_places(group, item, places, cell, thread, pair=pair)
                begin_landing(group, item, places)
                copy = BulkCopy(group, item, thread, loaded, places, cell, _loaded(result, inside), snapshot=snapshot)
                group.batch.bulk_copies.append(copy)
                cells.append((places, place(group, cell)))
            _tell(group, item, thread, result, elements, "load", cells)

    def store(group: WarpGroup) -> None:
        copies = []
        for thread, snapshot, base, result, inside, elements in boxes(group):
            loaded = _units(group, item, result, base, thread, False)
            places = _elements(group, item, result, elements, thread, True)
            combine = None if reduction is None else _combination(decoder, group, item, result, reduction, thread)
            reader = _box_reader(result, inside)
            copies.append(BulkCopy(group, item, thread, loaded, places, None, reader, combine, snapshot=snapshot))
            _tell(group, item, thread, result, elements, "store", [])
        # All lanes of a warp may store boxes.
        begin_reading(group, item, merge([access for copy in copies for access in copy.source]))
        targets = merge([access for copy in copies for access in copy.target])
        begin_landing(group, item, targets, reads=reduction is not None)
        group.batch.bulk_copies += copies

    decoder.emit(load if loads else store)


def _tell(
    group: WarpGroup, item: Instruction, thread: int, tile: TensorMap, elements: np.ndarray, direction: str, cells: list
) -> None:
    recorder = group.launch.recorder
    if recorder is None:
        return
    stride = group.batch.shared_stride
    targets = tuple(
        int(places[0].index[0]) * places[0].data.itemsize // stride if places and places[0].index.size else cell.cta
        for places, cell in cells
    )
    barriers: tuple[Place, ...] = tuple(cell for _, cell in cells)
    count = math.prod(tile.box)
    copy = Copy("tensor", direction, count * tile.element_bytes, count // tile.box[0], targets, barriers, elements,
                tile.element_bytes)  # fmt: skip
    recorder.operation(group, item, thread, copy)


def _box(group: WarpGroup, item: Instruction, descriptor: TensorMap, at: list[int], gathers: bool, thread: int):
    """(map with the whole box, numbers of the box's elements inside the tensor, their addresses)."""
    if not gathers:
        return descriptor, *tensor_map.places(descriptor, at)
    if descriptor.box[1] != 1:
        group.fault(f"a box of {descriptor.box[1]} rows, where four are named one by one", item, thread)
    result = [tensor_map.places(descriptor, (at[0], row)) for row in at[1:]]
    inside = np.concatenate([each[0] + number * descriptor.box[0] for number, each in enumerate(result)])
    return descriptor._replace(box=(descriptor.box[0], _ROWS)), inside, np.concatenate([each[1] for each in result])


def _combination(decoder: Decoder, group: WarpGroup, item: Instruction, descriptor: TensorMap, name: str, thread: int):
    """Function that combines elements of the tensor and of the box in a reduction."""
    element = {"u8": None, "u16": None}.get(descriptor.element, descriptor.element)
    if element is None:
        group.fault(f"a reduction of elements of type {descriptor.element}", item, thread)
    if name in ("and", "or", "xor"):
        element = f"b{8 * descriptor.element_bytes}"
    compute = operation_of(decoder, name, TYPES[element])
    return lambda old, new: compute(old, new, None)


def _units(group: WarpGroup, item: Instruction, descriptor: TensorMap, base: int, thread: int, write: bool) -> list:
    addresses = tensor_map.shared_units(descriptor, base).astype(np.uint64)
    return resolve(group, item, "shared", addresses, _UNIT, write, np.full(addresses.size, thread), 16)


def _elements(
    group: WarpGroup, item: Instruction, descriptor: TensorMap, addresses: np.ndarray, thread: int, write: bool
) -> list:
    if not addresses.size:
        return []
    dtype = np.dtype(f"u{descriptor.element_bytes}")
    threads = np.full(addresses.size, thread)
    elements = resolve(group, item, "global", addresses.view(np.uint64), dtype, write, threads, 1)
    if len(elements) != 1:
        group.fault("a box of a tensor is in several allocations", item, thread)
    return elements


def _loaded(descriptor: tensor_map.TensorMap, inside: np.ndarray):
    """Function from the elements inside the tensor to the units of the whole box."""
    dtype = np.dtype(f"u{descriptor.element_bytes}")
    fill = 0
    if descriptor.fill_nan:
        fill = (1 << 8 * descriptor.element_bytes - 1) - 1

    def convert(elements: np.ndarray) -> np.ndarray:
        box = np.full(math.prod(descriptor.box), fill, dtype)
        if descriptor.to_tf32:
            # To nearest, ties to even, infinities and NaN unchanged: observed on a GPU of sm_120
            # (triton-lang/triton#11751).
            values = decode(elements.view(np.uint32), "f32")
            elements = encode(values, "tf32")
        box[inside] = elements
        return box.view(_UNIT)

    return convert


def _box_reader(descriptor: tensor_map.TensorMap, inside: np.ndarray):
    dtype = np.dtype(f"u{descriptor.element_bytes}")
    return lambda units: np.ascontiguousarray(units).view(dtype)[inside]
