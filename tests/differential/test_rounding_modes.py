"""Every rounding mode of every float conversion: compiled results equal interpreted ones, and those computed on
bits."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.kernels.tiles import Tile, assert_same, run_both
from tileiras.dialects.cuda_tile import FToFOp
from tileiras.ir import FloatType

DTYPES = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "f32": np.float32, "f64": np.float64,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2,
}  # fmt: skip
COUNT = 64


def numbers(element: str) -> np.ndarray:
    """Ties of narrower formats and their neighbours, subnormal, large and special numbers, of both signs."""
    ties = [1 + 2.0**-k for k in (4, 8, 9, 11, 12, 24, 25)] + [1 + 3 * 2.0**-11, 1 + 3 * 2.0**-8]
    near = [value * (1 + sign * 2.0**-20) for value in ties[:6] for sign in (-1, 1)]
    wild = [0.0, 2.0**-24, 3 * 2.0**-26, 65504.0, 65519.9, 65520.0, np.inf, np.nan, 1 / 3, 2.0**-130, 3.4e38]
    values = np.array([*ties, *near, *wild][: COUNT // 2])
    with np.errstate(over="ignore"):
        result = np.concatenate([values, -values]).astype(DTYPES[element])
    if element == "tf32":
        result = (result.view(np.int32) & ~0x1FFF).view(np.float32)
    return result


@pytest.mark.parametrize("gpu_name", ["sm_89", "sm_100"])
@pytest.mark.parametrize("source", DTYPES)
def test_conversions_round_alike(source, gpu_name):
    inputs = [Tile("a", source, numbers(source))]
    body, outputs = [], []
    for target in ("f16", "bf16", "tf32", "f32", "f64"):
        if target == source:
            continue
        modes, _ = FToFOp.modes(FloatType(source), FloatType(target))
        for mode in modes:
            name = f"r{len(outputs)}"
            how = "" if mode == "nearest_even" else f" rounding<{mode}>"
            body.append(f"%{name} = ftof %a{how} : tile<{COUNT}x{source}> -> tile<{COUNT}x{target}>")
            outputs.append(Tile(name, target, np.zeros(COUNT, DTYPES[target])))
    expected, actual = run_both(inputs, "\n".join(body), outputs, gpu_name)
    for line, want, got in zip(body, expected, actual):
        assert_same(line, got, want, inputs)


def test_ties_of_tf32_go_to_even_or_away():
    tie = np.array([1 + 2.0**-11, 1 + 3 * 2.0**-11, -1 - 2.0**-11, 1 + 2.0**-12], np.float32)
    body = [
        f"%{name} = ftof %a{how} : tile<4xf32> -> tile<4xtf32>"
        for name, how in (("e", ""), ("z", " rounding<zero>"), ("w", " rounding<nearest_away>"))
    ]
    outputs = [Tile(name, "tf32", np.zeros(4, np.float32)) for name in "ezw"]
    step = 2.0**-10
    wanted = [[1, 1 + 2 * step, -1, 1], [1, 1 + step, -1, 1], [1 + step, 1 + 2 * step, -1 - step, 1]]
    for results in run_both([Tile("a", "f32", tie)], "\n".join(body), outputs):
        assert [list(result) for result in results] == wanted
