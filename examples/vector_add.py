"""c = a + b, one tile of 1024 elements per tile block.

Grid: (n + 1023) // 1024 tile blocks.  The last tile may hang over the end of the arrays: elements read there
are undefined, and stores there are dropped.
"""

import cuda.tile as ct


@ct.kernel
def vector_add(a, b, c, TILE: ct.Constant[int]):
    block = ct.bid(0)
    x = ct.load(a, index=(block,), shape=(TILE,))
    y = ct.load(b, index=(block,), shape=(TILE,))
    ct.store(c, index=(block,), tile=x + y)


TILEIRAS_EXPORT = {
    "vector_add": (vector_add, "f32[?]", "f32[?]", "f32[?]", 1024),
}
