"""Computed addresses: gathers at places from memory or divided from an index, scatters, sums of rows by index, counts
by atomic additions."""

from __future__ import annotations

import numpy as np

from tests.generator.choices import Choices
from tests.generator.kernel import Expected, Generated, array, odd, result, scalar, whole

_PLACES = """
def kernel(table, rows, columns, out, R: ct.Constant[int], T: ct.Constant[int]):
    block, side = ct.bid(0), ct.bid(1)
    down = ct.load(rows, (block,), (R,), padding_mode=ct.PaddingMode.ZERO)
    along = ct.load(columns, (side,), (T,), padding_mode=ct.PaddingMode.ZERO)
    {values}
    ct.store(out, (block, side), found)
"""
_VALUES = {
    "places": "found = ct.gather(table, (down[:, None], along[None, :]), padding_value=0)",
    "neighbours": "one = ct.gather(table, (down[:, None], along[None, :]), padding_value=0)\n"
                  "    found = one - ct.gather(table, (down[:, None], along[None, :] + 1), padding_value=0)",
    "turned": "found = ct.gather(table, (down[:, None] + along[None, :], along[None, :]), padding_value=0)",
}  # fmt: skip


def places(pick: Choices) -> Generated:
    """Elements at pairs of indices, some of them outside of the table: those are zero."""
    kind, element = pick.choice(list(_VALUES)), pick.choice(("f32", "f16", "i32", "i8"))
    rows, columns = pick.choice((1, 4, 16, 64)), pick.choice((1, 8, 32, 128))
    blocks, sides = pick.choice((1, 1, 2)), pick.choice((1, 1, 2))
    height, width = pick.choice((1, 7, 33)), pick.choice((1, 5, 64))
    table = whole(pick, (height, width), element, 9)
    outside = pick.choice((0, 1, 3))
    down, along = (_numbers(pick, size, most + outside) for size, most in (
        (rows * blocks - odd(pick, rows), height), (columns * sides - odd(pick, columns), width)))  # fmt: skip
    padded = np.zeros((height + width + 2 * outside + 8, width + outside + 8))
    padded[:height, :width] = table.astype(np.float64)
    at = padded[down[:, None], along[None, :]]
    wanted = {
        "places": at, "neighbours": at - padded[down[:, None], along[None, :] + 1],
        "turned": padded[np.minimum(down[:, None] + along[None, :], height), along[None, :]],
    }[kind]  # fmt: skip
    arguments = (array(pick, "table", table, element), array(pick, "rows", down, "i32"),
                 array(pick, "columns", along, "i32"), result(pick, "out", wanted.shape, element))  # fmt: skip
    return Generated(f"gathered {kind}", _PLACES.format(values=_VALUES[kind]), arguments, (rows, columns),
                     (blocks, sides, 1), {"out": Expected(wanted)})  # fmt: skip


_BAG = """
def kernel(table, numbers, out, T: ct.Constant[int]):
    bag, side = ct.bid(0), ct.bid(1)
    columns = side * T + ct.arange(T, dtype=ct.int32)
    total = ct.zeros((T,), ct.float32)
    for member in range(numbers.shape[1]):
        row = ct.gather(numbers, (bag, member))
        {leave}
        total = total + ct.astype(ct.gather(table, (row, columns), padding_value=0), ct.float32)
    ct.store(out, (bag, side), ct.reshape(total, (1, T)))
"""
_LEAVE = {
    "all": "pass",
    "until the first negative": "if row < 0:\n            break",
    "without negative ones": "if row < 0:\n            continue",
}


def bag(pick: Choices) -> Generated:
    """Sums of rows of a table, whose numbers are a row of another; a negative number ends a sum or counts nothing."""
    kind, element = pick.choice(list(_LEAVE)), pick.choice(("f32", "f16", "i8"))
    width, sides = pick.choice((1, 16, 64, 256)), pick.choice((1, 1, 2))
    bags, members, height = pick.choice((1, 2, 5)), pick.choice((0, 1, 2, 5, 9)), pick.choice((1, 7, 64))
    table = whole(pick, (height, width * sides - odd(pick, width)), element)
    numbers = _numbers(pick, bags * max(1, members), height).reshape(bags, -1)[:, :members]
    if kind != "all":
        numbers = np.where(_numbers(pick, numbers.size, 4).reshape(numbers.shape) == 0, -1, numbers)
    wanted = np.zeros((bags, table.shape[1]))
    for row, sums in zip(numbers, wanted, strict=True):
        for number in row:
            if number < 0 and kind == "until the first negative":
                break
            sums += table[number].astype(np.float64) if number >= 0 else 0
    arguments = (array(pick, "table", table, element), array(pick, "numbers", numbers.astype(np.int32), "i32"),
                 result(pick, "out", wanted.shape, "f32"))  # fmt: skip
    return Generated(f"bags, {kind}", _BAG.format(leave=_LEAVE[kind]), arguments, (width,), (bags, sides, 1),
                     {"out": Expected(wanted)})  # fmt: skip


_SCATTER = """
def kernel(x, rows, out, counts, R: ct.Constant[int], T: ct.Constant[int], BINS: ct.Constant[int]):
    block = ct.bid(0)
    values = ct.load(x, (block, 0), (R, T), padding_mode=ct.PaddingMode.ZERO)
    inside = block * R + ct.arange(R, dtype=ct.int32) < rows.shape[0]
    down = ct.where(inside, ct.load(rows, (block,), (R,), padding_mode=ct.PaddingMode.ZERO), -1)
    columns = ct.arange(T, dtype=ct.int32)
    {store}
    bins = ct.astype(values, ct.int32) + BINS // 2
    bins = ct.where(inside[:, None] & (columns < x.shape[1])[None, :], bins, -1)
    ct.atomic_add(counts, (ct.reshape(bins, (R * T,)),), ct.ones((R * T,), ct.int32))
"""


def scattered(pick: Choices) -> Generated:
    """Rows go where a permutation says, or are added up where several have one number; values are counted."""
    adds, element = pick.chance(0.4), pick.choice(("f32", "i32"))
    rows, width, blocks = pick.choice((1, 4, 16)), pick.choice((1, 16, 64)), pick.choice((1, 2, 3))
    height = rows * blocks - odd(pick, rows)
    x = whole(pick, (height, width - odd(pick, width) or 1), element, 3)
    generator = np.random.default_rng(pick.randrange(1 << 32))
    down = (generator.integers(0, height, height) if adds else generator.permutation(height)).astype(np.int32)
    wanted = np.full((height, x.shape[1]), -7.0)
    if adds:
        np.add.at(wanted, down, x.astype(np.float64))
    else:
        wanted[down] = x.astype(np.float64)
    counts = np.bincount(x.astype(np.int64).reshape(-1) + 4, minlength=8).astype(np.int32)
    places = "(down[:, None], columns[None, :])"
    store = f"ct.atomic_add(out, {places}, values)" if adds else f"ct.scatter(out, {places}, values)"
    arguments = (array(pick, "x", x, element), array(pick, "rows", down, "i32"),
                 result(pick, "out", wanted.shape, element),
                 array(pick, "counts", np.zeros(8, np.int32), "i32"))  # fmt: skip
    return Generated("scatter", _SCATTER.format(store=store), arguments, (rows, width, 8), (blocks, 1, 1),
                     {"out": Expected(wanted), "counts": Expected(counts)})  # fmt: skip


_DIVIDED = """
def kernel(x, y{arguments}, T: ct.Constant[int]):
    {constants}
    index = ct.bid(0) * T + ct.arange(T, dtype=ct.int32)
    row, column = index // N, index % N
    first = ct.gather(x, (row * X + column,), padding_value=0)
    second = ct.gather(x, (row * X + {column},), padding_value=0)
    ct.scatter(y, ({place},), first + second + second)
"""
_COLUMNS = {
    "halves": ("column + N", lambda column, n: column + n),
    "rotated": ("(column + S) % N", lambda column, n: (column + n // 2) % n),
    "turned": ("(column - S) % N", lambda column, n: (column - n // 2) % n),
    "pairs": ("column // 2 * 2", lambda column, n: column // 2 * 2),
}  # fmt: skip


def divided(pick: Choices) -> Generated:
    """Elements whose row and column a flat index is divided into, as elementwise kernels over matrices are written:
    sums of two columns of a row, stored by rows or by columns."""
    kind, element = pick.choice(list(_COLUMNS)), pick.choice(("f32", "f16", "i32", "i8"))
    columns, tile = pick.choice((1, 2, 6, 16, 48, 64, 100, 256)), pick.choice((32, 64, 256, 1024))
    rows = pick.choice((1, 3, 16, 37))
    pitch = 2 * columns + pick.choice((0, 0, 8, 3))
    by_columns, is_constant = pick.chance(0.3), pick.chance(0.6)
    x = whole(pick, (rows, pitch), element, 4)
    text, other = _COLUMNS[kind]
    at = np.arange(columns)
    wanted = x[:, at].astype(np.float64) + 2 * x[:, other(at, columns)].astype(np.float64)
    numbers = {"N": columns, "X": pitch, "S": columns // 2, "R": rows}
    kernel = _DIVIDED.format(
        column=text, place="ct.where(row < R, column * R + row, -1)" if by_columns else "index",
        arguments="" if is_constant else "".join(f", {name}" for name in numbers),
        constants="; ".join(f"{name} = {number}" for name, number in numbers.items()) if is_constant else "pass",
    )  # fmt: skip
    arguments = (array(pick, "x", x.reshape(-1), element), result(pick, "y", (rows * columns,), element))
    if not is_constant:
        arguments += tuple(scalar(name, number, "i32") for name, number in numbers.items())
    blocks = -(-rows * columns // tile)
    return Generated(f"divided {kind}", kernel, arguments, (tile,), (blocks, 1, 1),
                     {"y": Expected((wanted.T if by_columns else wanted).reshape(-1))})  # fmt: skip


def _numbers(pick: Choices, size: int, most: int) -> np.ndarray:
    return np.random.default_rng(pick.randrange(1 << 32)).integers(0, most, size).astype(np.int32)
