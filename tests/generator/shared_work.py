"""Products whose work is shared out: K over tile blocks, groups of rows, a queue of tiles for each tile block."""

from __future__ import annotations

import numpy as np

from tests.generator.choices import Choices
from tests.generator.kernel import CUTILE, Expected, Generated, array, odd, result, whole

OPERANDS = {"f16": "f32", "bf16": "f32", "i8": "i32"}
"""Operand type -> accumulator type."""

_SPLIT = """
def kernel(a, b, c, parts, TM: ct.Constant[int], TN: ct.Constant[int], TK: ct.Constant[int]):
    ZERO = ct.PaddingMode.ZERO
    row, column, part = ct.bid(0), ct.bid(1), ct.bid(2)
    total = ct.zeros((TM, TN), ct.{total})
    for step in range({steps}):
        x = ct.load(a, (row, step), (TM, TK), padding_mode=ZERO)
        y = ct.load(b, (step, column), (TK, TN), padding_mode=ZERO)
        total = ct.mma(x, y, total)
    {store}
"""
_STEPS = {
    "in turns": "part, ct.num_tiles(a, 1, (TM, TK)), ct.num_blocks(2)",
    "in runs": "part * ct.cdiv(ct.num_tiles(a, 1, (TM, TK)), ct.num_blocks(2)),"
               " min((part + 1) * ct.cdiv(ct.num_tiles(a, 1, (TM, TK)), ct.num_blocks(2)),"
               " ct.num_tiles(a, 1, (TM, TK)))",
}  # fmt: skip
_STORES = {
    "added": "rows = row * TM + ct.arange(TM, dtype=ct.int32)\n"
             "    columns = column * TN + ct.arange(TN, dtype=ct.int32)\n"
             "    ct.atomic_add(c, (rows[:, None], columns[None, :]), total)",
    "kept": "ct.store(parts, (part, row, column), ct.reshape(total, (1, TM, TN)))",
}  # fmt: skip


def split_k(pick: Choices) -> Generated:
    """K is shared out over tile blocks, in turns or in runs; parts are added atomically or kept apart."""
    element = pick.choice(list(OPERANDS))
    total = OPERANDS[element]
    store, way = pick.choice(list(_STORES)), pick.choice(list(_STEPS))
    m, n, k = pick.choice((16, 32, 64, 128)), pick.choice((16, 32, 64, 128)), pick.choice((16, 32, 64))
    tiles, parts, rows = pick.choice((1, 2, 3, 5, 7)), pick.choice((1, 2, 3, 4)), pick.choice((1, 1, 2))
    sizes = m * rows - odd(pick, m), n - odd(pick, n), k * tiles - odd(pick, k)
    a, b = whole(pick, (sizes[0], sizes[2]), element), whole(pick, (sizes[2], sizes[1]), element)
    per_part = np.arange(sizes[2]) // k
    owner = per_part % parts if way == "in turns" else per_part // -(-tiles // parts)
    wide = [each.astype(np.float64) for each in (a, b)]
    shares = np.stack([wide[0][:, owner == part] @ wide[1][owner == part] for part in range(parts)])
    value = shares if store == "kept" else np.full(shares.shape, -7.0)
    wanted = shares.sum(0) - 7 if store == "added" else np.full(shares.shape[1:], -7.0)
    body = _SPLIT.format(total=CUTILE[total], steps=_STEPS[way], store=_STORES[store])
    arguments = (array(pick, "a", a, element), array(pick, "b", b, element), result(pick, "c", wanted.shape, total),
                 result(pick, "parts", value.shape, total))  # fmt: skip
    return Generated(f"split K, {store}", body, arguments, (m, n, k), (rows, 1, parts),
                     {"c": Expected(wanted), "parts": Expected(value)})  # fmt: skip


_GROUPED = """
def kernel(a, b, c, offsets, TM: ct.Constant[int], TN: ct.Constant[int], TK: ct.Constant[int]):
    ZERO = ct.PaddingMode.ZERO
    tile = ct.bid(0)
    before = 0
    columns = ct.cdiv(c.shape[1], TN)
    for group in range(b.shape[0]):
        start, stop = ct.gather(offsets, group), ct.gather(offsets, group + 1)
        rows = ct.cdiv(stop - start, TM)
        left = a.slice(axis=0, start=start, stop=stop)
        out = c.slice(axis=0, start=start, stop=stop)
        while tile < before + rows * columns:
            row, column = (tile - before) // columns, (tile - before) % columns
            total = ct.zeros((TM, TN), ct.{total})
            for step in range(ct.num_tiles(a, 1, (TM, TK))):
                x = ct.load(left, (row, step), (TM, TK), padding_mode=ZERO)
                y = ct.reshape(ct.load(b, (group, step, column), (1, TK, TN), padding_mode=ZERO), (TK, TN))
                total = ct.mma(x, y, total)
            ct.store(out, (row, column), total)
            tile = tile + ct.num_blocks(0)
        before = before + rows * columns
"""


def grouped(pick: Choices) -> Generated:
    """Groups of rows, each with a matrix of its own; tile blocks share out the tiles of all groups."""
    element = pick.choice(list(OPERANDS))
    total = OPERANDS[element]
    m, n, k = pick.choice((16, 32, 64)), pick.choice((16, 32, 64)), pick.choice((16, 32, 64))
    groups, steps, columns = pick.choice((1, 2, 3)), pick.choice((1, 2, 3, 5)), pick.choice((1, 1, 2))
    sizes = [pick.choice((0, 1, m, m, m - 1, m + 8, 2 * m)) for _ in range(groups)]
    sizes[0] = sizes[0] or 1
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    depth, width = k * steps - odd(pick, k), n * columns - odd(pick, n)
    a, b = whole(pick, (offsets[-1], depth), element), whole(pick, (groups, depth, width), element)
    wanted = np.concatenate([
        a[start:stop].astype(np.float64) @ matrix.astype(np.float64)
        for start, stop, matrix in zip(offsets, offsets[1:], b, strict=False)
    ])  # fmt: skip
    arguments = (array(pick, "a", a, element), array(pick, "b", b, element), result(pick, "c", wanted.shape, total),
                 array(pick, "offsets", offsets, "i32"))  # fmt: skip
    return Generated("grouped product", _GROUPED.format(total=CUTILE[total]), arguments, (m, n, k),
                     (pick.choice((1, 2, 3)), 1, 1), {"c": Expected(wanted)})  # fmt: skip


_BATCHED = """
def kernel(a, b, c, TB: ct.Constant[int], TM: ct.Constant[int], TN: ct.Constant[int], TK: ct.Constant[int]):
    ZERO = ct.PaddingMode.ZERO
    batch, row, column = ct.bid(2), ct.bid(0), ct.bid(1)
    total = ct.zeros((TB, TM, TN), ct.{total})
    for step in range(ct.num_tiles(a, 2, (TB, TM, TK))):
        x = ct.load(a, (batch, row, step), (TB, TM, TK), padding_mode=ZERO)
        y = ct.load(b, (batch, step, column), (TB, TK, TN), padding_mode=ZERO)
        total = ct.mma(x, y, total)
    ct.store(c, (batch, row, column), total)
"""


def batched(pick: Choices) -> Generated:
    """Tiles of several matrices in one product."""
    element = pick.choice(list(OPERANDS))
    total = OPERANDS[element]
    batch = pick.choice((1, 2, 4))
    m, n, k = pick.choice((16, 32, 64)), pick.choice((16, 32, 64)), pick.choice((16, 32))
    steps, blocks = pick.choice((1, 2, 3)), pick.choice((1, 1, 2))
    matrices, depth = batch * blocks - pick.choice((0, 0, batch - 1)), k * steps - odd(pick, k)
    a = whole(pick, (matrices, m - odd(pick, m), depth), element)
    b = whole(pick, (matrices, depth, n - odd(pick, n)), element)
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    arguments = (array(pick, "a", a, element), array(pick, "b", b, element), result(pick, "c", wanted.shape, total))
    return Generated("batched product", _BATCHED.format(total=CUTILE[total]), arguments, (batch, m, n, k),
                     (1, 1, blocks), {"c": Expected(wanted)})  # fmt: skip
