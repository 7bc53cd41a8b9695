"""Scans of rows longer than a tile: each step scans a tile and hands its end on to the next."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tests.generator.choices import Choices
from tests.generator.kernel import CUTILE, Expected, Generated, array, odd, result, whole
from tests.kernels.views import DTYPES


class _Kind(NamedTuple):
    """`scanned` gives a tile from `values` (and `factors`), `joined` adds the result of the tiles before."""

    scanned: str
    joined: str
    start: str
    elements: tuple[str, ...]
    helper: str = ""


_KINDS = {
    "sum": _Kind("ct.cumsum(values, axis={axis})", "part + state", "0", ("i32", "f32", "i64")),
    "largest": _Kind("ct.scan(values, {axis}, larger, {lowest})", "ct.maximum(part, state)", "-9", ("i32", "f32"),
                     "def larger(first, second):\n    return ct.maximum(first, second)"),
    "product": _Kind("ct.cumprod(values, axis={axis})", "part * state", "1", ("i32", "f32")),
    "recurrence": _Kind("ct.scan((factors, values), {axis}, both, (1.0, 0.0))", "decay * state + part", "0", ("f32",),
                        "def both(first, one, second, other):\n    return first * second, one * second + other"),
}  # fmt: skip

_BODY = """
def kernel(x, a, y, last, R: ct.Constant[int], T: ct.Constant[int]):
    block = ct.bid(0)
    state = ct.full({edge}, {start}, ct.{element})
    for step in range(ct.num_tiles(x, {axis}, {tile})):
        values = ct.load(x, {index}, {tile}, padding_mode=ct.PaddingMode.ZERO)
        {factors}
        {parts} = {scanned}
        states = {joined}
        ct.store(y, {index}, states)
        state = ct.extract(states, {place}, {edge})
    ct.store(last, {last}, state)
"""


def carried(pick: Choices) -> Generated:
    """One tile block for some rows, or for some columns, in steps along the other dimension."""
    name = pick.choice(list(_KINDS))
    kind = _KINDS[name]
    element = pick.choice(kind.elements)
    axis = pick.choice((1, 1, 0))
    lines, length = pick.choice((1, 1, 2, 4, 8, 16)), pick.choice((2, 8, 16, 64, 128, 256))
    steps, blocks = pick.choice((1, 2, 2, 3, 5)), pick.choice((1, 2, 3))
    shape = (lines * blocks - odd(pick, lines), length * steps - (odd(pick, length) if name == "sum" else 0))
    x = whole(pick, shape, element, 1 if name in ("product", "recurrence") else 3)
    if name == "product":
        x = np.where(x == 0, 1, x).astype(DTYPES[element])
    factors = np.sign(whole(pick, shape, element)).astype(DTYPES[element])
    wanted = _meaning(name, x, factors)
    # Elements beyond the row in its last tile are zero and do not change sums.
    ends = wanted[:, -1:]
    turned = (lambda values: np.ascontiguousarray(values.T)) if axis == 0 else (lambda values: values)
    x, factors, wanted, ends = (turned(each) for each in (x, factors, wanted, ends))
    tile, index, edge = ("(R, T)", "(block, step)", "(R, 1)") if axis else ("(T, R)", "(step, block)", "(1, R)")
    pair = name == "recurrence"
    body = _BODY.format(
        edge=edge, start=kind.start, element=CUTILE[element], axis=axis, tile=tile,
        index=index, parts="decay, part" if pair else "part", joined=kind.joined,
        scanned=kind.scanned.format(axis=axis, lowest="-9" if element == "i32" else "-9.0"),
        factors=f"factors = ct.load(a, {index}, {tile}, padding_mode=ct.PaddingMode.ZERO)" if pair else "",
        place="(0, T - 1)" if axis else "(T - 1, 0)", last="(block, 0)" if axis else "(0, block)",
    )  # fmt: skip
    arguments = (array(pick, "x", x, element), array(pick, "a", factors, element),
                 result(pick, "y", wanted.shape, element), result(pick, "last", ends.shape, element))  # fmt: skip
    return Generated(f"carried {name}", body, arguments, (lines, length), (blocks, 1, 1),
                     {"y": Expected(wanted), "last": Expected(ends)}, helper=kind.helper)  # fmt: skip


def _meaning(name: str, x: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """Along rows."""
    wide = x.astype(np.float64 if x.dtype.kind == "f" else np.int64)
    if name == "sum":
        return np.cumsum(wide, axis=1)
    if name == "largest":
        return np.maximum(np.maximum.accumulate(wide, axis=1), -9)
    if name == "product":
        return np.cumprod(wide, axis=1)
    states, state = np.zeros_like(wide), np.zeros(len(wide))
    for place in range(wide.shape[1]):
        state = factors[:, place] * state + wide[:, place]
        states[:, place] = state
    return states
