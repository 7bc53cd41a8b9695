"""Larger cuTile kernels, as applications write them."""

import cuda.tile as ct

LOG2_E = 1.4426950408889634


@ct.kernel
def attention(q, k, v, out, scale, TM: ct.Constant[int], TN: ct.Constant[int], D: ct.Constant[int]):
    """Causal attention of one head per tile block column; keys and values are visited once, with a running softmax."""
    block, head = ct.bid(0), ct.bid(1)
    rows = block * TM + ct.arange(TM, dtype=ct.int32)
    queries = ct.reshape(ct.load(q, (head, block, 0), (1, TM, D), padding_mode=ct.PaddingMode.ZERO), (TM, D))
    highest = ct.full((TM, 1), float("-inf"), ct.float32)
    weight = ct.zeros((TM, 1), ct.float32)
    total = ct.zeros((TM, D), ct.float32)
    for step in range(ct.cdiv(min((block + 1) * TM, k.shape[1]), TN)):
        keys = ct.load(k, (head, 0, step), (1, D, TN), order=(0, 2, 1), padding_mode=ct.PaddingMode.ZERO)
        scores = ct.mma(queries, ct.reshape(keys, (D, TN)), ct.zeros((TM, TN), ct.float32)) * (scale * LOG2_E)
        columns = step * TN + ct.arange(TN, dtype=ct.int32)
        visible = (rows[:, None] >= columns[None, :]) & (columns < k.shape[1])[None, :]
        scores = ct.where(visible, scores, float("-inf"))
        now = ct.maximum(highest, ct.max(scores, axis=1, keepdims=True))
        shares = ct.exp2(scores - now)
        fade = ct.exp2(highest - now)
        weight = weight * fade + ct.sum(shares, axis=1, keepdims=True)
        values = ct.load(v, (head, step, 0), (1, TN, D), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(ct.astype(shares, q.dtype), ct.reshape(values, (TN, D)), total * fade)
        highest = now
    result = ct.astype(total / weight, out.dtype)
    ct.store(out, (head, block, 0), ct.reshape(result, (1, TM, D)))


@ct.kernel
def sums_of_many(arrays, out, T: ct.Constant[int]):
    """The sum of each of a list of arrays: one tile block per array, addresses from a table."""
    one = arrays[ct.bid(0)]
    total = ct.zeros((T,), ct.float32)
    for step in range(ct.num_tiles(one, 0, (T,))):
        total = total + ct.load(one, (step,), (T,), padding_mode=ct.PaddingMode.ZERO)
    ct.store(out, (ct.bid(0),), ct.reshape(ct.sum(total, axis=0), (1,)))


@ct.kernel
def histogram(values, counts, T: ct.Constant[int]):
    """How often each value occurs; values outside of the table are not counted."""
    tile = ct.load(values, (ct.bid(0),), (T,), padding_mode=ct.PaddingMode.ZERO)
    exists = ct.bid(0) * T + ct.arange(T, dtype=ct.int32) < values.shape[0]
    ct.atomic_add(counts, ct.where(exists, tile, -1), 1)


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
