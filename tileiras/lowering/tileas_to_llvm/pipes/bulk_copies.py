"""Tiles as runs of bytes that lie together in global memory and in a stage of a buffer, which bulk copies move."""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

from tileiras.ir import DYNAMIC, TensorType, Value, VerifyError
from tileiras.layout import LinearLayout
from tileiras.layout.encoding import offsets_of
from tileiras.support.named_tuple import NamedTuple

from ..emit.function import FunctionLowering
from ..emit.types import memory_type
from ..memory.views import TileAddresses

if TYPE_CHECKING:
    from tileiras.dialects.nv_tileas.bulk_copies import BulkLoadOp, BulkStoreOp

UNIT = 16
"""Bytes that a bulk copy and its addresses are multiples of (PTX ISA, "cp.async.bulk")."""


class Run(NamedTuple):
    """`bytes` at `pointer` in global memory and `offset` bytes from the start of a stage."""

    pointer: Value
    offset: int
    bytes: int


def runs(op: BulkLoadOp | BulkStoreOp, tile: TensorType, lowering: FunctionLowering) -> list[Run]:
    """The runs of the tile of a view in a stage of a buffer of such tiles; the addresses are emitted here.

    Raises VerifyError where bulk copies cannot move the tile.
    """
    offsets = offsets_of(tile)
    # One thread has every element: register n is the element at offset n of the stage.
    layout = LinearLayout({"register": offsets, "lane": (0,) * 5, "warp": ()}, tile.shape)
    addresses = TileAddresses(op, layout, lowering)
    if not addresses.surely_inside():
        raise VerifyError("expects a tile that lies inside its memref as a whole: a bulk copy pads nothing")
    size = memory_type(tile.element_type).width // 8
    strides = [addresses.memref_stride(dim) for dim in range(len(tile.shape))]
    together = _together(layout, strides)
    if (size << together) % UNIT:
        raise VerifyError(
            f"expects runs of {UNIT} bytes that lie together in memory and in the buffer, got {size << together}"
        )
    _check_alignment(addresses, op, size, strides, tile, lowering)
    result = []
    for start in range(0, tile.num_elements, 1 << together):
        pointer, immediate = addresses.address(start)
        result.append(Run(lowering.emit.gep(pointer, immediate), start * size, size << together))
    return result


def _together(layout: LinearLayout, strides: list[int]) -> int:
    """How many of the lowest bits of the offset in the stage are those of the offset in memory."""
    count = 0
    for bit in range(len(layout.bases("register"))):
        place = layout.coordinates(layout.apply(register=1 << bit))
        distance = sum(at * stride for at, stride in zip(place, strides) if at)
        if any(at and stride == DYNAMIC for at, stride in zip(place, strides)) or distance != 1 << bit:
            break
        count += 1
    return count


def _check_alignment(
    addresses: TileAddresses,
    op: BulkLoadOp | BulkStoreOp,
    size: int,
    strides: list[int],
    tile: TensorType,
    lowering: FunctionLowering,
) -> None:
    """Whether every run begins at a multiple of 16 bytes."""
    facts = lowering.facts
    multiple = facts.divisor(addresses.memref_base())
    for dim, (coordinate, stride) in enumerate(zip(op.coords, strides)):
        step = size * (stride if stride != DYNAMIC else facts.divisor(addresses.dynamic_stride(dim)))
        # Tiles begin at multiples of their size; rows inside of a tile are one stride apart.
        multiple = gcd(multiple, step * op.view.type.traversal_strides[dim] * facts.divisor(coordinate))
        if tile.shape[dim] > 1 and stride != 1:
            multiple = gcd(multiple, step)
    if multiple % UNIT:
        raise VerifyError(f"expects addresses that are multiples of {UNIT} bytes, but knows of {multiple} only")
