"""Products whose weights are stored in 8 or 4 bits, with a scale and a zero point for each group along K."""

from __future__ import annotations

import numpy as np

from tests.generator.choices import Choices
from tests.generator.kernel import CUTILE, Expected, Generated, array, odd, result, scalar, whole
from tests.kernels.views import DTYPES

_BODY = """
def kernel(a, weights, scales, zeros, c, steps, TM: ct.Constant[int], TN: ct.Constant[int], TK: ct.Constant[int],
           GROUP: ct.Constant[int]):
    ZERO = ct.PaddingMode.ZERO
    row, column = ct.bid(0), ct.bid(1)
    total = ct.zeros((TM, TN), ct.float32)
    for step in range(steps):
        x = ct.load(a, (row, step), (TM, TK), padding_mode=ZERO)
        {weights}
        {scaled}
    ct.store(c, (row, column), total)
"""
_WEIGHTS = {
    "bytes": "q = ct.astype(ct.load(weights, (step, column), (TK, TN), padding_mode=ZERO), ct.{wide})",
    "turned bytes": "q = ct.transpose(ct.load(weights, (column, step), (TN, TK), padding_mode=ZERO))\n"
                    "        q = ct.astype(q, ct.{wide})",
    "halves": "packed = ct.astype(ct.load(weights, (step, column), (TK, TN // 2), padding_mode=ZERO), ct.int32)\n"
              "        low, high = packed & 15, packed >> 4\n"
              "        both = ct.cat((low[:, :, None], high[:, :, None]), 2)\n"
              "        q = ct.astype(ct.reshape(both, (TK, TN)), ct.{wide})",
    "turned halves": "packed = ct.load(weights, (column, step), (TN, TK // 2), padding_mode=ZERO)\n"
                     "        both = ct.cat(((packed & 15)[:, :, None], (packed >> 4)[:, :, None]), 2)\n"
                     "        q = ct.astype(ct.transpose(ct.reshape(both, (TN, TK))), ct.{wide})",
    "floats": "packed = ct.load(weights, (column, step), (TN, TK // 2), padding_mode=ZERO)\n"
              "        packed = ct.reshape(packed, (TN * TK // 2,))\n"
              "        q = ct.reshape(ct.unpack_from_bytes(packed, ct.float4_e2m1fn), (TN, TK))\n"
              "        q = ct.astype(ct.transpose(q), ct.{wide})",
}  # fmt: skip
_SCALED = {
    "operand": "scale = ct.load(scales, (step * TK // GROUP, column), (1, TN), padding_mode=ZERO)\n"
               "        {zeros}\n"
               "        y = ct.astype({shifted} * scale, a.dtype)\n"
               "        total = ct.mma(x, y, total)",
    "sum": "scale = ct.load(scales, (step * TK // GROUP, column), (1, TN), padding_mode=ZERO)\n"
           "        {zeros}\n"
           "        part = ct.mma(x, ct.astype({shifted}, a.dtype), ct.zeros((TM, TN), ct.float32))\n"
           "        total = total + part * ct.astype(scale, ct.float32)",
}  # fmt: skip


_FLOATS = np.arange(16, dtype=np.uint8).view(DTYPES["f4E2M1FN"]).astype(np.float64)
"""The values of f4E2M1FN by their bits."""


def dequantised(pick: Choices) -> Generated:
    """C = A (q - z) s: the weights are made of the stored ones in each step, or the sum of a step is scaled."""
    element = pick.choice(("f16", "bf16"))
    stored, way = pick.choice(list(_WEIGHTS)), pick.choice(list(_SCALED))
    m, n, k = pick.choice((16, 32, 64, 128)), pick.choice((16, 32, 64, 128)), pick.choice((16, 32, 64))
    steps, blocks = pick.choice((1, 2, 3, 4, 6)), (pick.choice((1, 1, 2)), pick.choice((1, 1, 2)))
    group = k * pick.choice((1, 1, 2))
    wide = pick.choice(("float32", CUTILE[element]))
    rows, columns, depth = m * blocks[0] - odd(pick, m), n * blocks[1] - (odd(pick, n) & ~1), k * steps
    a = whole(pick, (rows, depth), element)
    generator = np.random.default_rng(pick.randrange(1 << 32))
    packed = "halves" in stored
    low, high = (0, 8) if packed or stored == "floats" else (-3, 4)
    weights = generator.integers(low, high, (depth, columns)).astype(np.uint8 if packed else np.int8)
    groups = -(-depth // group)
    scale_type = "f32" if wide == "float32" else element
    scales = (2.0 ** generator.integers(-1, 2, (groups, columns))).astype(np.float32)
    with_zeros = pick.chance(0.4)
    zeros = generator.integers(0, 3, (groups, columns)).astype(np.float32) * with_zeros
    each = np.arange(depth) // group
    numbers = _FLOATS[weights] if stored == "floats" else weights.astype(np.float64)
    meant = (numbers - zeros[each]) * scales[each]
    wanted = a.astype(np.float64) @ meant
    entry = {"bytes": weights, "turned bytes": np.ascontiguousarray(weights.T),
            "halves": weights[:, 0::2] | weights[:, 1::2] << 4,
            "turned halves": weights.T[:, 0::2] | weights.T[:, 1::2] << 4,
            "floats": (weights.T[:, 0::2] | weights.T[:, 1::2] << 4).astype(np.uint8)}[stored]  # fmt: skip
    load = "zero = ct.load(zeros, (step * TK // GROUP, column), (1, TN), padding_mode=ZERO)" if with_zeros else "pass"
    shifted = "(q - zero)" if with_zeros else "q"
    body = _BODY.format(weights=_WEIGHTS[stored].format(wide=wide),
                        scaled=_SCALED[way].format(zeros=load, shifted=shifted))  # fmt: skip
    arguments = (
        array(pick, "a", a, element), array(pick, "weights", entry, "i8" if "bytes" in stored else "u8"),
        array(pick, "scales", scales.astype(DTYPES[scale_type]), scale_type),
        array(pick, "zeros", zeros.astype(DTYPES[scale_type]), scale_type),
        result(pick, "c", wanted.shape, "f32"), scalar("steps", steps, "i32"),
    )  # fmt: skip
    return Generated(f"dequantised {stored}", body, arguments, (m, n, k, group), (*blocks, 1),
                     {"c": Expected(wanted)}, needs=100 if stored == "floats" else 75)  # fmt: skip
