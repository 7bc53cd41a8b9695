"""Register layouts through which a tile in shared memory changes its contiguous dimension there.

A thread reads runs along one dimension and writes runs along the other, so it has blocks of both.  A layout that reads
without bank conflicts would write with some, all lanes to the same units of a few rows: lanes that follow the dimension
of the reads therefore move along the other one as well, by XOR.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator

from tileiras.layout.linear_layout import LinearLayout, log2_exact
from tileiras.layout.shared import INSTRUCTION_COST, VECTOR_BITS, WORD_BITS
from tileiras.layout.staging import access_cost, load_access, store_access
from tileiras.layout.tensor_box import box_layout
from tileiras.support import gf2

_LANE_BITS = 5
_PHASE_BITS = 3
"""The number of bits for the eight lanes whose accesses of 16 bytes are one wavefront."""


@functools.lru_cache(maxsize=256)
def transposing_layout(
    source: int, target: LinearLayout, element_bits: int, warps: int
) -> LinearLayout | None:
    """The layout of registers in which a tile goes from shared memory, where its dimension `source` is contiguous, to
    the layout `target` there, in which the other one is; None where threads have no blocks of several elements.

    Where the tile comes from is taken to be laid out as boxes lay it, which other copies can do as well.
    """
    shape = target.shape
    origin = box_layout(shape, source, element_bits)
    if len(shape) != 2 or origin is None:
        return None
    before, after = origin.bases("offset"), target.bases("offset")
    probe = LinearLayout({}, shape)
    own = probe.out_bits - _LANE_BITS - log2_exact(warps)
    best, least = None, 0.0
    for free, read_bits, write_bits in sorted(_blocks(shape, source, element_bits, own)):
        if best is not None and least <= free:
            break
        for layout in _layouts(probe, source, (read_bits, write_bits), own):
            reads, writes = load_access(layout, before, element_bits), store_access(layout, after, element_bits)
            cost = access_cost(reads, element_bits) + access_cost(writes, element_bits)
            if best is None or cost < least:
                best, least = layout, cost
            if least <= free:
                break
    return best


def _blocks(shape: tuple[int, ...], source: int, element_bits: int, own: int) -> Iterator[tuple[float, int, int]]:
    """Sizes of a thread's reads and writes, as powers of two, each with the cost of the tile without bank conflicts."""
    least, most = (log2_exact(max(1, bits // element_bits)) for bits in (WORD_BITS, VECTOR_BITS))
    for reads, writes in itertools.product(range(least, most + 1), repeat=2):
        fits = 1 << reads <= shape[source] and 1 << writes <= shape[1 - source] and reads + writes <= own
        if fits and writes:
            accesses = ((element_bits << own) / VECTOR_BITS) * 4
            yield 2 * accesses + INSTRUCTION_COST * ((1 << own - reads) + (1 << own - writes)), reads, writes


def _layouts(probe: LinearLayout, source: int, block: tuple[int, int], own: int) -> Iterator[LinearLayout]:
    """Layouts of threads that have blocks of these powers of two and 2**own elements in all."""
    along, across = (
        [1 << probe.dim_shift(axis) + bit for bit in range(log2_exact(probe.shape[axis]))]
        for axis in (source, 1 - source)
    )
    read_bits, write_bits = block
    lanes = (along[read_bits:] + across[write_bits:])[:_LANE_BITS]
    terms = [0, *across[write_bits : write_bits + _PHASE_BITS]]
    for mixed in itertools.product(terms, repeat=min(_PHASE_BITS, len(along) - read_bits)):
        lane = [vector ^ (mixed[i] if i < len(mixed) else 0) for i, vector in enumerate(lanes)]
        result = _complete([*along[:read_bits], *across[:write_bits]], lane, across + along, own, probe)
        if result is not None:
            yield result


def _complete(
    register: list[int], lane: list[int], others: list[int], own: int, probe: LinearLayout
) -> LinearLayout | None:
    """The layout with these bases, completed by registers and then warps; None if the bases are dependent."""
    items = [*register, *lane]
    if gf2.rank(items) < len(items):
        return None
    missing = []
    for vector in others:
        if gf2.rank([*items, *missing, vector]) > len(items) + len(missing):
            missing.append(vector)
    more = own - len(register)
    return LinearLayout({"register": [*register, *missing[:more]], "lane": lane, "warp": missing[more:]}, probe.shape)
