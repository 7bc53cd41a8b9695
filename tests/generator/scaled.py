"""Block-scaled products: 8-bit floats with powers of two, 4-bit floats with scales of either format."""

from __future__ import annotations

from typing import NamedTuple

import ml_dtypes
import numpy as np

from tests.generator.choices import Choices
from tests.generator.kernel import Argument, Expected, Generated, array, odd, result, scalar, whole
from tests.kernels.views import DTYPES, in_pairs


class _Format(NamedTuple):
    element: str
    scale: str
    block: int
    """Elements along K with one scale."""
    packed: bool


FORMATS = (
    _Format("f8E4M3FN", "f8E8M0FNU", 32, False), _Format("f8E5M2", "f8E8M0FNU", 32, False),
    _Format("f4E2M1FN", "f8E8M0FNU", 32, True), _Format("f4E2M1FN", "f8E4M3FN", 16, True),
)  # fmt: skip

_LOADS = {
    (False, False): ["x = ct.load(a, (row, step), (TM, TK), padding_mode=ZERO)",
                     "y = ct.load(b, (step, column), (TK, TN), padding_mode=ZERO)"],
    (False, True): ["x = ct.load(a, (row, step), (TM, TK), padding_mode=ZERO)",
                    "y = ct.transpose(ct.load(b, (column, step), (TN, TK), padding_mode=ZERO))"],
    (True, False): [
        "x = ct.load(a, (row, step), (TM, TK // 2), padding_mode=ZERO)",
        "x = ct.unpack_from_bytes(x.reshape((TM * TK // 2,)), ct.float4_e2m1fn).reshape((TM, TK))",
        "y = ct.load(b, (step, column), (TK, TN // 2), padding_mode=ZERO)",
        "y = ct.unpack_from_bytes(y.reshape((TK * TN // 2,)), ct.float4_e2m1fn).reshape((TK, TN))",
    ],
    (True, True): [
        "x = ct.load(a, (row, step), (TM, TK // 2), padding_mode=ZERO)",
        "x = ct.unpack_from_bytes(x.reshape((TM * TK // 2,)), ct.float4_e2m1fn).reshape((TM, TK))",
        "y = ct.load(b, (column, step), (TN, TK // 2), padding_mode=ZERO)",
        "y = ct.transpose(ct.unpack_from_bytes(y.reshape((TN * TK // 2,)), ct.float4_e2m1fn).reshape((TN, TK)))",
    ],
}  # fmt: skip
"""By whether elements are packed, and whether B lies by columns in memory."""

_BODY = """
def kernel(a, sa, b, sb, c, steps, TM: ct.Constant[int], TN: ct.Constant[int], TK: ct.Constant[int],
           BLOCK: ct.Constant[int]):
    ZERO = ct.PaddingMode.ZERO
    row, column = ct.bid(0), ct.bid(1)
    total = ct.zeros((TM, TN), ct.float32)
    for step in range(steps):
        {loads}
        total = ct.mma_scaled(x, sx, y, sy, total)
    ct.store(c, (row, column), total)
"""
_SCALES = {
    False: ["sx = ct.load(sa, (row, step), (TM, TK // BLOCK))", "sy = ct.load(sb, (step, column), (TK // BLOCK, TN))"],
    True: ["sx = ct.load(sa, (row, step), (TM, TK // BLOCK))",
           "sy = ct.transpose(ct.load(sb, (column, step), (TN, TK // BLOCK)))"],
}  # fmt: skip


def scaled_product(pick: Choices) -> Generated:
    """C = A B with a scale for each block along K; M and N may end inside of a tile, K does not."""
    kind = pick.choice(FORMATS)
    while True:
        m, n, k = (pick.choice(sizes) for sizes in ((16, 16, 32, 64, 128, 128), (8, 16, 32, 64, 128, 128),
                                                    (32, 32, 64, 64, 128, 128, 256)))  # fmt: skip
        if m * n * k <= 1 << 21:
            break
    steps = pick.choice((1, 1, 2, 2, 3, 4, 5))
    columns, scales_by_columns = pick.chance(0.5), pick.chance(0.4)
    sizes = m - (odd(pick, m) & ~1), n - (odd(pick, n) & ~1)
    depth, runs = k * steps, k * steps // kind.block
    left, right = whole(pick, (sizes[0], depth), kind.element), whole(pick, (depth, sizes[1]), kind.element)
    of_left, of_right = _scales(pick, (sizes[0], runs), kind.scale), _scales(pick, (runs, sizes[1]), kind.scale)
    wide = [each.astype(np.float64) for each in (left, right, of_left, of_right)]
    wanted = (wide[0] * np.repeat(wide[2], kind.block, 1)) @ (wide[1] * np.repeat(wide[3], kind.block, 0))
    stored = np.ascontiguousarray(right.T) if columns else right
    turned = np.ascontiguousarray(of_right.T) if scales_by_columns else of_right
    arguments = (
        _operand(pick, "a", left, kind), array(pick, "sa", of_left, kind.scale), _operand(pick, "b", stored, kind),
        array(pick, "sb", turned, kind.scale), result(pick, "c", sizes, "f32"), scalar("steps", steps, "i32"),
    )  # fmt: skip
    loads = "\n        ".join([*_LOADS[kind.packed, columns], *_SCALES[scales_by_columns]])
    return Generated("scaled product", _BODY.format(loads=loads), arguments, (m, n, k, kind.block), (1, 1, 1),
                     {"c": Expected(wanted)}, needs=100)  # fmt: skip


def _scales(pick: Choices, shape: tuple[int, int], element: str) -> np.ndarray:
    generator = np.random.default_rng(pick.randrange(1 << 32))
    return (2.0 ** generator.integers(-2, 3, shape)).astype(DTYPES[element])


def _operand(pick: Choices, name: str, values: np.ndarray, kind: _Format) -> Argument:
    if not kind.packed:
        return array(pick, name, values, kind.element)
    assert values.dtype == ml_dtypes.float4_e2m1fn
    return array(pick, name, in_pairs(values), "u8")
