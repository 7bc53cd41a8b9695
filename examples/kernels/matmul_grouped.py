"""Several products of different sizes in one launch; the matrices come as lists.

Grid: as many tile blocks as one likes.  They share out the tiles of all products: tile number t goes to tile block
t mod n, whichever product it is of.
"""

import cuda.tile as ct
from cuda.tile.compilation import ListConstraint

from tileiras.stages.export.signatures import array


@ct.kernel
def matmul_grouped(lefts, rights, outs, TM: ct.Constant[int], TN: ct.Constant[int], TK: ct.Constant[int]):
    tile = ct.bid(0)
    before = 0
    for product in range(len(lefts)):
        a, b, c = lefts[product], rights[product], outs[product]
        rows, columns = ct.num_tiles(c, 0, (TM, TN)), ct.num_tiles(c, 1, (TM, TN))
        while tile < before + rows * columns:
            row, column = (tile - before) // columns, (tile - before) % columns
            total = ct.zeros((TM, TN), ct.float32)
            for step in range(ct.num_tiles(a, 1, (TM, TK))):
                left = ct.load(a, (row, step), (TM, TK), padding_mode=ct.PaddingMode.ZERO)
                right = ct.load(b, (step, column), (TK, TN), padding_mode=ct.PaddingMode.ZERO)
                total = ct.mma(left, right, total)
            ct.store(c, (row, column), ct.astype(total, c.dtype))
            tile = tile + ct.num_blocks(0)
        before = before + rows * columns


def reference(lefts, rights, outs):
    return [a.astype("f8") @ b.astype("f8") for a, b in zip(lefts, rights)]


def matrices(text):
    return ListConstraint(array(text), alias_groups=(), elements_may_alias=False)


TILEIRAS_EXPORT = {"matmul_grouped": (matmul_grouped, *[matrices("f16[?, 8*?]")] * 3, 32, 32, 32)}
