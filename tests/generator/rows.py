"""Rows: norms, softmax, cross entropy, gathers, reductions and scans along either dimension."""

from __future__ import annotations

import numpy as np

from tests.generator.choices import Choices
from tests.generator.kernel import Expected, Generated, array, normal, odd, result, whole
from tests.kernels.views import DTYPES

FLOATS = ("f32", "f32", "f16", "bf16")
UNITS = {"f32": 1e-5, "f16": 2e-3, "bf16": 1.6e-2}

_NORMALISED = {
    "softmax": "shares = ct.exp(values - ct.max(values, axis=1, keepdims=True))\n"
               "        found = shares / ct.sum(shares, axis=1, keepdims=True)",
    "log softmax": "below = values - ct.max(values, axis=1, keepdims=True)\n"
                   "        found = below - ct.log(ct.sum(ct.exp(below), axis=1, keepdims=True))",
    "root mean square": "mean = ct.sum(values * values, axis=1, keepdims=True) / x.shape[1]\n"
                        "        found = values * ct.rsqrt(mean + 0.01)",
    "layer norm": "mean = ct.sum(values, axis=1, keepdims=True) / x.shape[1]\n"
                  "        inner = ct.where(inside[None, :], values - mean, 0.0)\n"
                  "        variance = ct.sum(inner * inner, axis=1, keepdims=True) / x.shape[1]\n"
                  "        found = inner * ct.rsqrt(variance + 0.01)",
}  # fmt: skip
_ROWS = """
def kernel(x, y, R: ct.Constant[int], T: ct.Constant[int]):
    inside = ct.arange(T, dtype=ct.int32) < x.shape[1]
    for row in range(ct.bid(0), ct.cdiv(x.shape[0], R), ct.num_blocks(0)):
        values = ct.astype(ct.load(x, (row, 0), (R, T), padding_mode=ct.PaddingMode.ZERO), ct.float32)
        {masked}
        {work}
        ct.store(y, (row, 0), ct.astype(found, y.dtype))
"""


def normalised(pick: Choices) -> Generated:
    """Whole rows in one tile, in a loop over groups of rows."""
    kind, element = pick.choice(list(_NORMALISED)), pick.choice(FLOATS)
    rows, length = pick.choice((1, 1, 2, 4, 8, 16)), pick.choice((16, 64, 128, 256, 512, 1024, 2048))
    rows = min(rows, 8192 // length) or 1
    groups = pick.choice((1, 2, 3))
    x = normal(pick, (rows * groups - odd(pick, rows), length - odd(pick, length) or 1), element)
    wide = x.astype(np.float64)
    if kind.endswith("softmax"):
        below = wide - wide.max(1, keepdims=True)
        sums = np.exp(below).sum(1, keepdims=True)
        wanted = np.exp(below) / sums if kind == "softmax" else below - np.log(sums)
    elif kind == "root mean square":
        wanted = wide / np.sqrt((wide * wide).mean(1, keepdims=True) + 0.01)
    else:
        inner = wide - wide.mean(1, keepdims=True)
        wanted = inner / np.sqrt((inner * inner).mean(1, keepdims=True) + 0.01)
    masked = 'values = ct.where(inside[None, :], values, float("-inf"))' if kind.endswith("softmax") else ""
    work, template = _NORMALISED[kind], _ROWS
    if is_vector := rows == 1 and pick.chance(0.4):
        template, masked = _OF_RANK_ONE, masked.replace("[None, :]", "")
        work = work.replace("[None, :]", "").replace("axis=1, keepdims=True", pick.choice(("axis=0", "0")))
    body = template.format(masked=masked, work=work)
    return Generated(
        kind, body, (array(pick, "x", x, element), result(pick, "y", x.shape, element)),
        (length,) if is_vector else (rows, length),
        (pick.randint(1, groups), 1, 1), {"y": Expected(wanted, 4 * UNITS[element], 4 * UNITS[element])},
    )  # fmt: skip


_OF_RANK_ONE = """
def kernel(x, y, T: ct.Constant[int]):
    columns = ct.arange(T, dtype=ct.int32)
    inside = columns < x.shape[1]
    for row in range(ct.bid(0), x.shape[0], ct.num_blocks(0)):
        values = ct.astype(ct.gather(x, (row, columns), padding_value=0), ct.float32)
        {masked}
        {work}
        ct.scatter(y, (row, columns), ct.astype(found, y.dtype))
"""
_COMBINED = """
def kernel(parts, logs, y, S: ct.Constant[int], D: ct.Constant[int]):
    row, side = ct.bid(0), ct.bid(1)
    values = ct.reshape(ct.load(parts, (row, 0, side), (1, S, D), padding_mode=ct.PaddingMode.ZERO), (S, D))
    log = ct.gather(logs, (row, ct.arange(S, dtype=ct.int32)), padding_value=float("-inf"))
    shares = ct.{power}(log - ct.max(log))
    whole = ct.sum(shares)
    total = ct.sum(shares[:, None] * ct.astype(values, ct.float32), axis=0)
    ct.store(y, (row, side), ct.astype(ct.reshape(total / whole, (1, D)), y.dtype))
"""


def combined(pick: Choices) -> Generated:
    """Parts of rows weighted by exponentials, as attention that is split along the keys ends: a softmax of a tile of
    rank 1 beside one of rank 2."""
    element, power = pick.choice(FLOATS), pick.choice(("exp", "exp2"))
    parts, width, sides = pick.choice((1, 2, 16, 32, 256)), pick.choice((1, 16, 64)), pick.choice((1, 2))
    rows, count = pick.choice((1, 3)), parts - odd(pick, parts) or 1
    values = normal(pick, (rows, count, width * sides - odd(pick, width) or 1), element)
    logs = normal(pick, (rows, count), "f32", 4.0)
    shares = {"exp": np.exp, "exp2": np.exp2}[power]((logs - logs.max(1, keepdims=True)).astype(np.float64))
    wanted = (shares[:, :, None] * values.astype(np.float64)).sum(1) / shares.sum(1, keepdims=True)
    arguments = (array(pick, "parts", values, element), array(pick, "logs", logs, "f32"),
                 result(pick, "y", wanted.shape, element))  # fmt: skip
    return Generated("combined parts", _COMBINED.format(power=power), arguments, (parts, width), (rows, sides, 1),
                     {"y": Expected(wanted, 4 * UNITS[element], 4 * UNITS[element])})  # fmt: skip


_ALONG = """
def kernel(x, y, z, A: ct.Constant[int], B: ct.Constant[int]):
    values = ct.load(x, (ct.bid(0), ct.bid(1)), (A, B), padding_mode=ct.PaddingMode.ZERO)
    {work}
    ct.store(y, (ct.bid(0), ct.bid(1)), found)
    ct.store(z, (ct.bid(0), ct.bid(1)), {second})
"""


def along(pick: Choices) -> Generated:
    """Scans, reductions and positions of extremes along one dimension of a tile, and values derived from them."""
    element = pick.choice(("i32", "i32", "f32", "i64", "f16"))
    shape = tuple(pick.choice((1, 2, 8, 16, 32, 64, 128, 256, 512)) for _ in range(2))
    while shape[0] * shape[1] > 8192:
        shape = (shape[0], shape[1] // 2) if shape[1] >= shape[0] else (shape[0] // 2, shape[1])
    axis, kind = pick.randrange(2), pick.choice(("cumsum", "reverse", "sum", "max", "argmax", "argmin", "both"))
    blocks = pick.choice((1, 1, 2)), pick.choice((1, 1, 2))
    x = whole(pick, (shape[0] * blocks[0], shape[1] * blocks[1]), element, 1 if element == "f16" else 3)
    if kind.startswith("arg"):
        # Equal extremes have no defined position.
        generator = np.random.default_rng(pick.randrange(1 << 32))
        x = _distinct(x, shape, axis, generator).astype(DTYPES[element])
    work = {
        "cumsum": f"found = ct.cumsum(values, axis={axis})",
        "reverse": f"found = ct.cumsum(values, axis={axis}, reverse=True)",
        "sum": f"found = values + ct.sum(values, axis={axis}, keepdims=True)",
        "max": f"found = values - ct.max(values, axis={axis}, keepdims=True)",
        "argmax": f"found = values - ct.astype(ct.argmax(values, axis={axis}, keepdims=True), values.dtype)",
        "argmin": f"found = values - ct.astype(ct.argmin(values, axis={axis}, keepdims=True), values.dtype)",
        "both": f"scanned = ct.cumsum(values, axis={axis})\n"
                f"    found = scanned - ct.min(scanned, axis={axis}, keepdims=True)",
    }[kind]  # fmt: skip
    wanted = np.concatenate([
        np.concatenate([_along(x[i * shape[0]:(i + 1) * shape[0], j * shape[1]:(j + 1) * shape[1]], kind, axis)
                        for j in range(blocks[1])], axis=1)
        for i in range(blocks[0])
    ])  # fmt: skip
    doubled = pick.chance(0.5)
    body = _ALONG.format(work=work, second="found + values" if doubled else "ct.astype(found, ct.float32)")
    second = (wanted + x.astype(wanted.dtype), element) if doubled else (wanted, "f32")
    return Generated(
        f"{kind} along {axis}", body,
        (array(pick, "x", x, element), result(pick, "y", x.shape, element), result(pick, "z", x.shape, second[1])),
        shape, (*blocks, 1), {"y": Expected(wanted), "z": Expected(second[0])},
    )  # fmt: skip


def _distinct(x: np.ndarray, shape: tuple[int, int], axis: int, generator: np.random.Generator) -> np.ndarray:
    """Numbers that differ along `axis` inside of each tile."""
    lines = np.arange(x.shape[axis]) % shape[axis]
    other = np.empty(x.shape, np.int64)
    for line in range(x.shape[1 - axis]):
        for start in range(0, x.shape[axis], shape[axis]):
            part = generator.permutation(lines[start : start + shape[axis]])
            if axis == 0:
                other[start : start + shape[axis], line] = part
            else:
                other[line, start : start + shape[axis]] = part
    return other


def _along(tile: np.ndarray, kind: str, axis: int) -> np.ndarray:
    wide = tile.astype(np.float64 if tile.dtype.kind == "f" else np.int64)
    if kind in ("cumsum", "both"):
        scanned = np.cumsum(wide, axis=axis)
        return scanned if kind == "cumsum" else scanned - scanned.min(axis=axis, keepdims=True)
    if kind == "reverse":
        return np.flip(np.cumsum(np.flip(wide, axis), axis=axis), axis)
    if kind == "sum":
        return wide + wide.sum(axis=axis, keepdims=True)
    if kind == "max":
        return wide - wide.max(axis=axis, keepdims=True)
    place = (np.argmax if kind == "argmax" else np.argmin)(wide, axis=axis)
    return wide - np.expand_dims(place, axis)


_GATHERED = """
def kernel(table, rows, out, counts, R: ct.Constant[int], T: ct.Constant[int]):
    block = ct.bid(0)
    places = ct.load(rows, (block,), (R,), padding_mode=ct.PaddingMode.ZERO)
    columns = ct.arange(T, dtype=ct.int32)
    values = ct.gather(table, (places[:, None], columns[None, :]), padding_value=0)
    old = ct.atomic_add(counts, (places,), ct.ones((R,), ct.int32))
    ct.store(out, (block, 0), values {extra})
"""


def gathered(pick: Choices) -> Generated:
    """Rows of a table by index, and a count of how often each row is read."""
    element = pick.choice(("f32", "f16", "i32", "i8"))
    rows, length, blocks = pick.choice((1, 4, 16, 64)), pick.choice((1, 16, 64, 256)), pick.choice((1, 2, 3))
    height = pick.choice((1, 7, 64))
    table = whole(pick, (height, length - odd(pick, length) or 1), element, 9)
    places = np.array([pick.randrange(height) for _ in range(rows * blocks)], np.int32)
    wanted = np.zeros((rows * blocks, length))
    wanted[:, : table.shape[1]] = table[places].astype(np.float64)
    counts = np.bincount(places, minlength=height).astype(np.int32)
    doubled = pick.chance(0.5)
    return Generated(
        "gather", _GATHERED.format(extra="+ values" if doubled else ""),
        (array(pick, "table", table, element), array(pick, "rows", places, "i32"),
         result(pick, "out", wanted.shape, element), array(pick, "counts", np.zeros(height, np.int32), "i32")),
        (rows, length), (blocks, 1, 1), {"out": Expected(wanted * (1 + doubled)), "counts": Expected(counts)},
    )  # fmt: skip
