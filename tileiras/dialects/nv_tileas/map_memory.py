"""Tensor maps that a kernel builds itself, in global memory of its module.

    %m = nv_tileas.map_memory.reserve {maps = 2 : i32, slots = 4096 : i32}   takes one of the slots for this CTA
    %i = nv_tileas.map_memory.assemble %view {warp = 1 : i32} : !view -> !nv_tileas.map_image<!nv_tileas.tma_desc<...>>
    %s = nv_tileas.map_memory.open %m                                        its number, read by all threads
    %d = nv_tileas.map_memory.build %i in %s {number = 0 : i32} : !nv_tileas.map_image<...> -> !nv_tileas.tma_desc<...>
    nv_tileas.map_memory.release %m, %s                                      frees the slot for other CTAs

Copies read maps from global memory only (PTX ISA, "cp.async.bulk.tensor": `.param`, `.const` or `.global`). CTAs of one
launch would write the same bytes, but those of another launch, which may run concurrently, write others: hence each CTA
has a slot of its own.
"""

from __future__ import annotations

from typing import ClassVar

from tileiras.dialects import nv_tileaa as aa
from tileiras.ir import (
    IntegerAttr,
    MemoryRead,
    MemoryWrite,
    Operation,
    Type,
    VerifyError,
    attribute,
    i32,
    operand,
    result,
)

from .buffers import WrapperType
from .names import MAP_MEMORY
from .tensor_maps import TmaDescType

MAP_BYTES = 128
"""Size of a tensor map, and the alignment of the address to which it is copied (PTX ISA, "tensormap.cp_fenceproxy")."""


class MapMemoryType(Type, name="nv_tileas.map_memory"):
    """A slot for the maps of a CTA."""


class MapImageType(WrapperType, name="nv_tileas.map_image", parameters=("desc",)):
    """The bytes of a map in shared memory, and the descriptor that it is of."""


class MapReserveOp(Operation, name=f"{MAP_MEMORY}reserve", traits=(MemoryRead, MemoryWrite)):
    """One thread takes a slot and writes its number to shared memory; the other threads may read it after a barrier.
    It is the first one, or that of another warp: the first one initialises mbarriers in the meantime."""

    maps = attribute(IntegerAttr, "of a slot")
    slots = attribute(IntegerAttr, "in all, a power of two")
    warp = attribute(IntegerAttr, "whose first thread takes it, the CTA's first one without", optional=True)
    offset = attribute(IntegerAttr, "of the slot's number, in bytes of the arena", optional=True)
    result = result(MapMemoryType)
    assembly_format = "attr-dict"

    bytes: ClassVar[int] = 4
    """Bytes of shared memory."""

    def verify_op(self) -> None:
        if self.maps.value < 1:
            raise VerifyError(f"expects at least one map, got {self.maps.value}")
        slots = self.slots.value
        if slots < 1 or slots & slots - 1:
            raise VerifyError(f"expects a power of two of slots, got {slots}")


class MapOpenOp(Operation, name=f"{MAP_MEMORY}open", traits=(MemoryRead,)):
    """The number of the slot; it stands after a barrier that follows `reserve`."""

    memory = operand(MapMemoryType)
    result = result(i32)
    assembly_format = "$memory attr-dict"

    def verify_op(self) -> None:
        if not isinstance(self.memory.defining_op, MapReserveOp):
            raise VerifyError(f"expects a result of '{MapReserveOp.name}'")


class MapAssembleOp(Operation, name=f"{MAP_MEMORY}assemble", traits=(MemoryWrite,)):
    """The map of a view, which one thread writes to shared memory.

    With `warp` it is a thread of that warp of the CTA, and others may read the map after a barrier; without, one of the
    first warp of the agent, which alone builds the map from it.
    """

    view = operand(aa.TiledViewType)
    warp = attribute(IntegerAttr, "whose thread writes", optional=True)
    offset = attribute(IntegerAttr, "of the map, in bytes of the arena", optional=True)
    result = result(MapImageType)
    assembly_format = "$view attr-dict `:` type($view) `->` type($result)"

    bytes: ClassVar[int] = MAP_BYTES
    """Bytes of shared memory."""

    def verify_op(self) -> None:
        if self.result.type.desc.view is not self.view.type:
            raise VerifyError(f"expects a descriptor of {self.view.type}, got {self.result.type.desc}")


class MapBuildOp(Operation, name=f"{MAP_MEMORY}build", traits=(MemoryRead, MemoryWrite)):
    """The descriptor of an assembled map, which the first warp of the agent copies to the slot, and whose first thread
    may use it from here on.

    All copies that used the map before are complete.
    """

    image = operand(MapImageType)
    slot = operand(i32)
    number = attribute(IntegerAttr, "of the map in the slot")
    result = result(TmaDescType)
    assembly_format = "$image `in` $slot attr-dict `:` type($image) `->` type($result)"

    @property
    def memory(self) -> MapReserveOp:
        """The reservation to which the slot belongs."""
        return self.slot.defining_op.memory.defining_op  # type: ignore[union-attr, return-value]

    def verify_op(self) -> None:
        if not isinstance(self.image.defining_op, MapAssembleOp):
            raise VerifyError(f"expects a result of '{MapAssembleOp.name}'")
        if self.result.type is not self.image.type.desc:
            raise VerifyError(f"expects a result of {self.image.type.desc}, got {self.result.type}")
        if not isinstance(self.slot.defining_op, MapOpenOp):
            raise VerifyError(f"expects a result of '{MapOpenOp.name}'")
        if not 0 <= self.number.value < self.memory.maps.value:
            raise VerifyError(f"has map {self.number.value} of {self.memory.maps.value}")


class MapReleaseOp(Operation, name=f"{MAP_MEMORY}release", traits=(MemoryRead, MemoryWrite)):
    """One thread frees the slot, after it has observed the completion of all copies that use its maps."""

    memory = operand(MapMemoryType)
    slot = operand(i32)
    assembly_format = "$memory `,` $slot attr-dict"
