"""The single array of shared memory of a kernel: alignment and sizes of its parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tileiras.ir import FloatType, IntegerType

ARENA_ALIGNMENT = 1024
"""Alignment of the array, in bytes: the period of the hardware's widest swizzle (PTX ISA, "Tensor swizzling modes")."""

AREA_ALIGNMENT = 128
"""Alignment of each buffer and scratch area in it, in bytes: the plans' bank numbers count from there, 32 banks of
4."""

WORD_ALIGNMENT = 16
"""Alignment of mbarriers, and of numbers that one thread writes for others: single words, which banks do not concern.
Those of a kernel share the kilobyte before its first buffer."""

SCRATCH_LIMIT = 48 * 1024
"""The most bytes of all scratch areas together: the amount that every SM gives a CTA without a reduction of the number
of CTAs that it runs.  Larger exchanges use the areas in rounds."""


def aligned(size: int) -> int:
    """The least offset of the next area after `size` bytes."""
    return aligned_to(size, AREA_ALIGNMENT)


def aligned_to(size: int, alignment: int) -> int:
    """The least offset of an area of this alignment after `size` bytes."""
    return -(-size // alignment) * alignment


def stored_bits(type: FloatType | IntegerType) -> int:
    """Bits of an element in shared memory: a byte at least; 32 for a tf32, as threads hold it."""
    width = getattr(type, "width", 64)
    return width if width % 8 == 0 else 8 if width < 8 else 32
