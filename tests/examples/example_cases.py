"""Arguments and expected results of every example: one table for the interpreter, the emulator and the GPU.

A tolerance is in units in the last place of the output's format, taken at the larger of the expected value and the
case's scale: the sum of absolute terms for a dot product, whose result may cancel to nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

Arguments = list[Any]


@dataclass(frozen=True)
class Expected:
    """The result in one argument: f64 values, and the magnitude that rounding errors are relative to."""

    values: np.ndarray
    scale: np.ndarray | float = 0.0


@dataclass(frozen=True)
class Case:
    """One launch of one kernel.

    ``arguments`` makes fresh parameters from a generator, ``reference`` maps the positions of the outputs among them
    to their expected contents after the launch, computed from the arguments before the run.
    """

    name: str
    source: str
    entry: str
    grid: tuple[int, ...]
    arguments: Callable[[np.random.Generator], Arguments]
    reference: Callable[[Arguments], dict[int, Expected]]
    ulps: float

    @property
    def path(self) -> Path:
        return EXAMPLES / self.source

    def make_arguments(self) -> Arguments:
        return self.arguments(np.random.default_rng(20251121))


def array_parameters(array: np.ndarray) -> Arguments:
    """The parameters that one cuTile Python array takes: pointer, sizes, strides in elements."""
    return [array, *array.shape, *(stride // array.itemsize for stride in array.strides)]


def ceil_div(size: int, tile: int) -> int:
    return -(-size // tile)


def check(actual: np.ndarray, expected: Expected, ulps: float) -> None:
    """Raise AssertionError unless every element is within ``ulps``; names the worst one."""
    values = expected.values
    rounded = values.astype(actual.dtype)
    unit = np.spacing(np.maximum(np.abs(values), expected.scale).astype(actual.dtype)).astype(np.float64)
    error = np.abs(actual.astype(np.float64) - rounded.astype(np.float64)) / unit
    error = np.where(np.isnan(rounded) & np.isnan(actual), 0.0, error)
    wrong = ~(error <= ulps)
    if wrong.any():
        at = np.unravel_index(np.argmax(np.where(np.isnan(error), np.inf, error)), error.shape)
        raise AssertionError(
            f"{wrong.sum()} of {wrong.size} elements are off; at {tuple(map(int, at))}: "
            f"got {actual[at]}, expected {rounded[at]} ({error[at]:.1f} ulps, {ulps} allowed)"
        )


# ---- the kernels ---------------------------------------------------------------------------------------------------


def _vector_add(n: int) -> Case:
    def arguments(generator):
        a, b = (generator.standard_normal(n).astype(np.float32) for _ in range(2))
        return [p for array in (a, b, np.full(n, np.nan, np.float32)) for p in array_parameters(array)]

    def reference(args):
        return {6: Expected(args[0].astype(np.float64) + args[3])}

    return Case(str(n), "vector_add.py", "vector_add", (ceil_div(n, 1024),), arguments, reference, 0)


def _saxpy(n: int, size: int) -> Case:
    """The arrays have ``size`` elements; ``n`` is the length passed to the kernel."""

    def arguments(generator):
        x, y = (generator.standard_normal(size).astype(np.float32) for _ in range(2))
        return [x, y, np.float32(1.7), n]

    def reference(args):
        x, y, a, _ = args
        result = y.astype(np.float64)
        result[:n] = (a.astype(np.float64) * x + y)[:n]
        return {1: Expected(result)}

    return Case(f"{n}-of-{size}", "saxpy.mlir", "saxpy", (ceil_div(n, 1024),), arguments, reference, 0)


def _relu_add_2d(rows: int, columns: int, pitch: int) -> Case:
    def arguments(generator):
        x, y = (generator.standard_normal((rows, pitch)).astype(np.float32) for _ in range(2))
        return [x, y, np.full((rows, pitch), -7, np.float32), rows, columns, pitch]

    def reference(args):
        x, y, out = args[:3]
        result = out.astype(np.float64)
        result[:, :columns] = np.maximum(x.astype(np.float64) + y, 0)[:, :columns]
        return {2: Expected(result)}

    grid = (ceil_div(rows, 32), ceil_div(columns, 64))
    return Case(f"{rows}x{columns}", "relu_add_2d.mlir", "relu_add_2d", grid, arguments, reference, 0)


def _transpose(rows: int, columns: int) -> Case:
    def arguments(generator):
        x = generator.standard_normal((rows, columns)).astype(np.float32)
        return [x, np.full((columns, rows), np.nan, np.float32), rows, columns]

    def reference(args):
        return {1: Expected(args[0].T.astype(np.float64))}

    grid = (ceil_div(rows, 32), ceil_div(columns, 32))
    return Case(f"{rows}x{columns}", "transpose.mlir", "transpose", grid, arguments, reference, 0)


def _softmax(rows: int, columns: int) -> Case:
    def arguments(generator):
        x = (4 * generator.standard_normal((rows, columns))).astype(np.float32)
        return array_parameters(x) + array_parameters(np.full_like(x, np.nan))

    def reference(args):
        x = args[0].astype(np.float64)
        powers = np.exp(x - x.max(axis=1, keepdims=True))
        return {5: Expected(powers / powers.sum(axis=1, keepdims=True))}

    # exp takes x - max with a relative error of half a unit of |x - max| < 2**5, besides its own two units.
    return Case(f"{rows}x{columns}", "softmax.py", "softmax", (rows,), arguments, reference, 40)


def _layer_norm(rows: int, columns: int) -> Case:
    eps = 1e-5

    def arguments(generator):
        x = (2 * generator.standard_normal((rows, columns)) + 0.5).astype(np.float32)
        weight, bias = (generator.standard_normal(columns).astype(np.float32) for _ in range(2))
        arrays = (x, weight, bias, np.full_like(x, np.nan))
        return [*(p for array in arrays for p in array_parameters(array)), np.float32(eps)]

    def reference(args):
        x, weight, bias = (args[position].astype(np.float64) for position in (0, 5, 8))
        centered = x - x.mean(axis=1, keepdims=True)
        scaled = centered / np.sqrt(np.square(centered).mean(axis=1, keepdims=True) + eps) * weight
        # The mean's rounding error weighs on elements near it as on any other.
        return {11: Expected(scaled + bias, np.abs(scaled) + np.abs(bias) + np.abs(weight))}

    return Case(f"{rows}x{columns}", "layer_norm.py", "layer_norm", (rows,), arguments, reference, 16)


def _matmul_f32(m: int, n: int, k: int) -> Case:
    def arguments(generator):
        a = generator.standard_normal((m, k)).astype(np.float32)
        b = generator.standard_normal((k, n)).astype(np.float32)
        return [a, b, np.full((m, n), np.nan, np.float32), m, n, k]

    def reference(args):
        a, b = (matrix.astype(np.float64) for matrix in args[:2])
        return {2: Expected(a @ b, np.abs(a) @ np.abs(b))}

    grid = (ceil_div(m, 32), ceil_div(n, 32))
    return Case(f"{m}x{n}x{k}", "matmul_f32.mlir", "matmul_f32", grid, arguments, reference, k**0.5)


def _matmul_f16(m: int, n: int, k: int) -> Case:
    def arguments(generator):
        a = generator.standard_normal((m, k)).astype(np.float16)
        b = generator.standard_normal((k, n)).astype(np.float16)
        return [p for array in (a, b, np.full((m, n), np.nan, np.float16)) for p in array_parameters(array)]

    def reference(args):
        a, b = args[0].astype(np.float64), args[5].astype(np.float64)
        return {10: Expected(a @ b, np.abs(a) @ np.abs(b) * 2.0**-10)}

    grid = (ceil_div(m, 128), ceil_div(n, 128))
    # The f32 sum is off by far less than an f16 unit, but may tip the last rounding.
    return Case(f"{m}x{n}x{k}", "matmul_f16.py", "matmul_f16", grid, arguments, reference, 1)


CASES = [
    _vector_add(2048),
    _vector_add(2500),
    _vector_add(1500),
    _saxpy(2048, 2048),
    _saxpy(1300, 1500),
    _relu_add_2d(64, 128, 128),
    _relu_add_2d(45, 100, 112),
    _transpose(64, 96),
    _transpose(50, 37),
    _softmax(3, 1024),
    _softmax(4, 520),
    _layer_norm(2, 1024),
    _layer_norm(3, 700),
    _matmul_f32(64, 32, 48),
    _matmul_f32(40, 50, 27),
    _matmul_f16(128, 256, 128),
    _matmul_f16(136, 72, 104),
]

# The same kernels as the bytecode that their files export, for installations without cuTile Python.
CASES += [
    replace(case, source=f"bytecode/{Path(case.source).stem}.tileirbc", name=f"bytecode-{case.name}")
    for case in CASES
    if case.source.endswith(".py")
]

CASE_IDS = [f"{case.entry}-{case.name}" for case in CASES]
