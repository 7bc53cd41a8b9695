"""cuTile kernels with lists of arrays and with locks; more whole kernels are among the examples."""

import cuda.tile as ct


@ct.kernel
def sums_of_many(arrays, out, T: ct.Constant[int]):
    """The sum of each of a list of arrays: one tile block per array, addresses from a table."""
    one = arrays[ct.bid(0)]
    total = ct.zeros((T,), ct.float32)
    for step in range(ct.num_tiles(one, 0, (T,))):
        total = total + ct.load(one, (step,), (T,), padding_mode=ct.PaddingMode.ZERO)
    ct.store(out, (ct.bid(0),), ct.reshape(ct.sum(total, axis=0), (1,)))


@ct.kernel
def split_product(a, b, c, locks, TM: ct.Constant[int], TN: ct.Constant[int], TK: ct.Constant[int],
                  SPLIT: ct.Constant[int]):  # fmt: skip
    """A product whose K is shared out over tile blocks, which add up their parts one after the other under a lock."""
    row, column, part = ct.bid(0), ct.bid(1), ct.bid(2)
    total = ct.zeros((TM, TN), ct.float32)
    for step in range(part, ct.num_tiles(a, 1, (TM, TK)), SPLIT):
        x = ct.load(a, (row, step), (TM, TK), padding_mode=ct.PaddingMode.ZERO)
        y = ct.load(b, (step, column), (TK, TN), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(x, y, total)
    lock = row * ct.num_blocks(1) + column
    while ct.atomic_cas(locks, lock, 0, 1, memory_order=ct.MemoryOrder.ACQUIRE) == 1:
        pass
    ct.store(c, (row, column), ct.load(c, (row, column), (TM, TN)) + total)
    ct.atomic_xchg(locks, lock, 0, memory_order=ct.MemoryOrder.RELEASE)


@ct.kernel
def nested_products(a, b, w, c, T: ct.Constant[int], K: ct.Constant[int]):
    """A product in a loop around another: tiles of both run ahead, each in buffers of its own."""
    row = ct.bid(0)
    total = ct.zeros((T, T), ct.float32)
    for i in range(ct.num_tiles(a, 1, (T, K))):
        left = ct.load(a, (row, i), (T, K))
        part = ct.mma(left, ct.load(w, (i, 0), (K, T)), ct.zeros((T, T), ct.float32))
        for j in range(ct.num_tiles(b, 1, (K, T))):
            part = ct.mma(left, ct.load(b, (i, j), (K, T)), part)
        total = total + part
    ct.store(c, (row, 0), total)
