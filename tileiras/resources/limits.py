"""Registers of a thread that no estimate counts, and limits for tiles; determined from spills of ptxas.

The estimates differ in their inputs.  Before layouts, a tile's share is its elements over all threads; with layouts, it
is the elements that each thread holds, copies included, while addresses and masks do not exist yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras.targets import registers_per_thread

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa

RESERVE = 40
"""Left beside tiles for addresses, masks, counters, and fragments on their way from shared memory to a dot."""

LEAST_RESERVE = 20
"""The same once everything rematerializable is rematerialized: then ptxas spills a few at most."""

SMALL_TILE = 32
"""Tiles with at most this many elements per thread are never sliced."""

WHOLE_LIMIT = 128
"""Most registers for tiles of a group, or for a dot, that are not sliced: with half of a thread's maximum, ptxas
does not spill and an SM still holds two CTAs of 256 threads.  A dot above it, as a loop, has a half to a third of the
instructions and of the registers, and loads while it multiplies."""


MOST_ELEMENTS = 8192
"""Maximum elements per thread of a tile that is not sliced: 32 times the registers of a thread.  Code grows with them,
by an instruction for each element and operation, and ptxas, which has to spill nearly all, takes minutes for a
quarter."""


def threads_of(func: aa.FuncOp) -> int:
    """Threads of a CTA that compute a tile together."""
    return 32 * func.kernel_spec.num_warps


def registers_for_tiles(threads: int, ctas: int = 1) -> int:
    """Registers of each of a CTA's `threads` threads that tiles may take when an SM is to hold `ctas` CTAs."""
    return registers_per_thread(threads, ctas) - RESERVE
