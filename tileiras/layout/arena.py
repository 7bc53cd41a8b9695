"""The one array of shared memory that a kernel has: where its parts begin, and how large they get."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tileiras.ir import FloatType, IntegerType

ARENA_ALIGNMENT = 1024
"""Of the array, in bytes: the period of the widest swizzle of the hardware repeats (PTX ISA, "Tensor swizzling
modes")."""

AREA_ALIGNMENT = 128
"""Of each buffer and each scratch area in it, in bytes: the plans' bank numbers count from there, 32 banks of 4."""

SCRATCH_LIMIT = 48 * 1024
"""Bytes that scratch areas take together at most: what every SM gives a CTA without cutting into how many of them it
runs.  What needs more goes through them in rounds."""


def aligned(size: int) -> int:
    """Where the next area may begin, behind `size` bytes."""
    return aligned_to(size, AREA_ALIGNMENT)


def aligned_to(size: int, alignment: int) -> int:
    """Where an area of this alignment may begin, behind `size` bytes."""
    return -(-size // alignment) * alignment


def stored_bits(type: FloatType | IntegerType) -> int:
    """What an element takes in shared memory: a byte at least, a tf32 the 32 bits in which threads hold it."""
    width = getattr(type, "width", 64)
    return width if width % 8 == 0 else 8 if width < 8 else 32
