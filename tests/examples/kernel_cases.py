"""Arguments of the launches of every kernel of examples/kernels: one table.

Expected results are computed by the NumPy function beside the kernel (`reference`, or `reference_NAME` where a file
has several kernels), which takes the kernel's arguments without its constants and returns the outputs in order.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from example_cases import Expected, array_parameters, ceil_div, check

from tileiras.sim import Memory

KERNELS = Path(__file__).resolve().parents[2] / "examples" / "kernels"

TARGETS = ("sm_80", "sm_90", "sm_100", "sm_120")
#: The targets that have an element type; the front end checks this for its exports.
F8_TARGETS = ("sm_90", "sm_100", "sm_120")
SCALED_TARGETS = ("sm_100", "sm_120")

Generator = np.random.Generator


@dataclass(frozen=True)
class KernelCase:
    """One launch.  ``values`` makes the kernel's arguments; ``outputs`` are positions among them, lists excepted.

    ``ulps`` are units in the last place of the result's type at the larger of the expected value and ``scale``; 0 says
    that every operation is exact.
    """

    source: str
    entry: str
    grid: tuple[int, ...]
    values: Callable[[Generator], list[Any]]
    outputs: tuple[int, ...]
    ulps: float = 0
    scale: float = 0.0
    targets: tuple[str, ...] = TARGETS
    note: str = ""

    @property
    def path(self) -> Path:
        return KERNELS / self.source

    @property
    def id(self) -> str:
        return f"{self.entry}-{self.note}" if self.note else self.entry

    def make_values(self) -> list[Any]:
        return self.values(np.random.default_rng(20251121))

    def expected(self, values: list[Any]) -> list[np.ndarray]:
        """The expected outputs, from the arguments before the launch."""
        reference = REFERENCES.get(self.entry)
        if reference is None:
            module = _load(self.path)
            reference = getattr(module, f"reference_{self.entry}", None) or module.reference
        with np.errstate(all="ignore"):
            return [np.asarray(result) for result in reference(*values)]

    def slots(self, values: list[Any]) -> list[Any]:
        """The entry's parameters: arrays and lists as the front end flattens them; text kernels take their values."""
        if self.path.suffix == ".mlir":
            return list(values)
        parameters: list[Any] = []
        for value in values:
            if isinstance(value, list):
                parameters += [_table(value), len(value)]
            else:
                parameters += array_parameters(value) if isinstance(value, np.ndarray) else [value]
        return parameters

    def check(self, values: list[Any], expected: list[np.ndarray], before: list[Any]) -> None:
        """Raise AssertionError unless the outputs are as expected and nothing else has changed."""
        results = [array for position in self.outputs for array in _arrays(values[position])]
        assert len(results) == len(expected)
        for result, wanted in zip(results, expected):
            if result.dtype.kind in "iu":
                np.testing.assert_array_equal(result, wanted.astype(result.dtype))
            else:
                check(result, Expected(wanted.astype(np.float64), self.scale), self.ulps)
        for position, (now, then) in enumerate(zip(values, before)):
            if position not in self.outputs:
                for array, untouched in zip(_arrays(now), _arrays(then)):
                    assert (array == untouched).all(), f"argument {position} was written to"


def _arrays(value: Any) -> list[np.ndarray]:
    return value if isinstance(value, list) else [value] if isinstance(value, np.ndarray) else []


_MEMORY = Memory()


def _table(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """A list of arrays in memory: the parameters of each, 64 bits wide."""
    return np.array([[_MEMORY.allocate(array), *array_parameters(array)[1:]] for array in arrays], np.int64)


@functools.cache
def _load(path: Path) -> Any:
    name = f"examples_kernels_{path.stem}"
    sys.path.insert(0, str(path.parent))
    try:
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent))
    return module


# ---- references of the kernels written as text ----------------------------------------------------------------------


def _mandelbrot(counts, width, height, left, top, pitch, limit):
    """In f32, operation by operation: where a point leaves may hang on the last bit."""
    f32 = np.float32
    # A fused multiply-add: the product of two f32 is exact in f64.
    c_real = (np.arange(width) * np.float64(pitch) + np.float64(left)).astype(f32)[None, :].repeat(height, 0)
    c_imaginary = (np.arange(height) * np.float64(pitch) + np.float64(top)).astype(f32)[:, None].repeat(width, 1)
    real, imaginary = np.zeros((height, width), f32), np.zeros((height, width), f32)
    count = np.zeros((height, width), np.int32)
    for _ in range(limit):
        inside = real * real + imaginary * imaginary <= 4
        product = real * imaginary
        next_real = real * real - imaginary * imaginary + c_real
        next_imaginary = product + product + c_imaginary
        real, imaginary = np.where(inside, next_real, real), np.where(inside, next_imaginary, imaginary)
        count += inside
    return [count]


def _spin_lock(values, total, lock):
    return [total + values.sum(axis=0), lock]


def _last_block_reduction(values, n, partial, arrived, result):
    padded = np.zeros(256 * ceil_div(n, 256), np.float32)
    padded[:n] = values[:n]
    return [padded.reshape(-1, 256).sum(axis=1), arrived, values[:n].sum(keepdims=True)]


def _prefix_sum(values, out, n, published):
    sums = np.cumsum(values, dtype=np.int32)
    blocks = ceil_div(n, 256)
    through = sums[np.minimum(np.arange(1, blocks + 1) * 256, n) - 1]
    return [sums, np.stack([np.ones(blocks, np.int32), through], axis=1)]


REFERENCES: dict[str, Callable[..., list]] = {
    "mandelbrot": _mandelbrot,
    "spin_lock": _spin_lock,
    "last_block_reduction": _last_block_reduction,
    "prefix_sum": _prefix_sum,
}


# ---- arguments -------------------------------------------------------------------------------------------------------


def normal(generator: Generator, shape, dtype=np.float32, factor: float = 1.0) -> np.ndarray:
    return (factor * generator.standard_normal(shape)).astype(dtype)


def whole(generator: Generator, shape, dtype=np.float32, low: int = -4, high: int = 4) -> np.ndarray:
    """Small whole numbers, whose products and sums are exact in any order."""
    return generator.integers(low, high, shape, endpoint=True).astype(dtype)


def unset(shape, dtype=np.float32) -> np.ndarray:
    """Initial contents of an output: numbers that no kernel computes."""
    dtype = np.dtype(dtype)
    return np.full(shape, -77 if dtype.kind == "i" else 77).astype(dtype)


def _product(left, right, out=np.float32, sizes=(40, 70, 33)):
    m, k, n = sizes
    return lambda g: [
        whole(g, (m, k), left, low=0 if np.dtype(left).kind == "u" else -4), whole(g, (k, n), right), unset((m, n), out)
    ]  # fmt: skip


def _matmul(entry, left, right, out, sizes, tile, source="matmul.py", targets=TARGETS, note=""):
    m, _, n = sizes
    grid = (ceil_div(m, tile[0]), ceil_div(n, tile[1]))
    return KernelCase(source, entry, grid, _product(left, right, out, sizes), (2,), targets=targets, note=note)


def _cross_entropy(g):
    return [normal(g, (3, 100), factor=3), whole(g, 3, np.int32, 0, 99), unset(3), unset((3, 100))]


def _top_k(g):
    x = normal(g, (3, 90))
    x[1, 40] = x[1, 7] = 9  # equals
    return [x, unset((3, 5)), unset((3, 5), np.int32)]


def _argmax(g):
    x = normal(g, (3, 150))
    x[2, [20, 70, 140]] = 9
    return [x, unset(3, np.int32)]


def _fft(span):
    return lambda g: [normal(g, 256), normal(g, 256), unset(256), unset(256), span]


def _quantized(g):
    return [whole(g, (13, 104), np.int8, -127, 127), g.uniform(0.5, 2, 13).astype(np.float32), unset((13, 104), "f2")]


def _scaled(type, sizes=(40, 128, 24)):
    m, k, n = sizes

    def values(g):
        scales = [np.exp2(whole(g, shape, np.float32, -2, 2)).astype(F8E8M0)
                  for shape in ((m, k // 32), (k // 32, n))]  # fmt: skip
        return [whole(g, (m, k), type), scales[0], whole(g, (k, n), type), scales[1], unset((m, n))]

    return values


def _scaled_f4(scale, block, sizes):
    """All bytes are two numbers; scales of f8E4M3FN are whole numbers, so that products stay exact."""
    m, k, n = sizes

    def values(g):
        powers = scale == F8E8M0
        a_scales, b_scales = (
            (np.exp2(whole(g, shape, np.float32, -2, 2)) if powers else whole(g, shape, low=0)).astype(scale)
            for shape in ((m, k // block), (k // block, n))
        )
        return [whole(g, (m, k // 2), U8, 0, 255), a_scales, whole(g, (k, n // 2), U8, 0, 255), b_scales,
                unset((m, n))]  # fmt: skip

    return values


def _grouped(g):
    sizes = [(40, 24, 16), (8, 72, 40), (33, 16, 72)]
    lefts = [whole(g, (m, k), np.float16) for m, k, n in sizes]
    rights = [whole(g, (k, n), np.float16) for m, k, n in sizes]
    return [lefts, rights, [unset((m, n), np.float16) for m, k, n in sizes]]


def _attention(queries, keys):
    return lambda g: [
        normal(g, (2, queries, 32), np.float16), *(normal(g, (2, keys, 32), np.float16) for _ in range(2)),
        unset((2, queries, 32), np.float16), np.float32(32**-0.5),
    ]  # fmt: skip


def _decode(g):
    bf16 = ml_dtypes.bfloat16
    cache = [normal(g, (2, 2, 80, 32), bf16) for _ in range(2)]
    lengths = np.array([70, 9], np.int32)
    return [normal(g, (2, 8, 32), bf16), *cache, lengths, unset((2, 8, 32), bf16), np.float32(32**-0.5)]


def _moe(g):
    none = 37
    order = np.full(64, none, np.int32)
    tokens = g.permutation(37).astype(np.int32)
    order[:20], order[32:45], order[48:52] = tokens[:20], tokens[20:33], tokens[33:]
    return [whole(g, (37, 40), np.float16), whole(g, (3, 40, 48), np.float16), order,
            np.array([0, 0, 2, 1], np.int32), unset((37, 48), np.float16)]  # fmt: skip


F16, F32, F64, I8, U8, I32 = np.float16, np.float32, np.float64, np.int8, np.uint8, np.int32
BF16, F8E4M3, F8E5M2 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
F8E8M0 = ml_dtypes.float8_e8m0fnu

CASES = [
    # Functions are within two or three units, sums in another order within a few more; a difference of two numbers
    # keeps the larger one's error.
    KernelCase("long_softmax.py", "long_softmax", (3,), lambda g: [normal(g, (3, 600), factor=4), unset((3, 600))],
               (1,), ulps=40),
    KernelCase("rms_norm.py", "rms_norm", (3,),
               lambda g: [normal(g, (3, 400), F16), normal(g, 400), unset((3, 400), F16), np.float32(1e-5)], (2,),
               ulps=1),
    KernelCase("cross_entropy.py", "cross_entropy", (3,), _cross_entropy, (2, 3), ulps=40),
    KernelCase("rope.py", "rope", (9,), lambda g: [normal(g, (9, 4, 32)), unset((9, 4, 32)), np.float32(13.287712)],
               (1,), ulps=16, scale=2.0),
    KernelCase("swiglu.py", "swiglu", (2, 2), lambda g: [normal(g, (21, 180), BF16, 2), unset((21, 90), BF16)], (1,),
               ulps=1),
    KernelCase("embedding.py", "embedding", (3, 2),
               lambda g: [normal(g, (50, 40), F16), whole(g, 37, I32, -3, 53), unset((37, 40), F16)], (2,)),
    KernelCase("scatter_add.py", "scatter_add", (3, 2),
               lambda g: [whole(g, (37, 40)), whole(g, 37, I32, 0, 9), whole(g, (10, 40))], (2,)),
    KernelCase("histogram.py", "histogram", (3,), lambda g: [whole(g, 500, U8, 0, 255), whole(g, 256, I32)], (1,)),
    KernelCase("prefix_sum.mlir", "prefix_sum", (4,),
               lambda g: [whole(g, 900, I32, -99, 99), unset(900, I32), 900, np.zeros((4, 2), I32)], (1, 3)),
    KernelCase("linear_recurrence.py", "linear_recurrence", (2,),
               lambda g: [g.uniform(0.2, 0.9, (2, 150)).astype(F32), normal(g, (2, 150)), unset((2, 150))], (2,),
               ulps=16, scale=1.0),
    KernelCase("top_k.py", "top_k", (3,), _top_k, (1, 2)),
    KernelCase("argmax.py", "argmax", (3,), _argmax, (1,)),
    KernelCase("fft.py", "fft_stage", (2,), _fft(1), (2, 3), ulps=4, scale=2.0, note="first"),
    KernelCase("fft.py", "fft_stage", (2,), _fft(128), (2, 3), ulps=16, scale=2.0, note="last"),
    KernelCase("conv2d.py", "conv2d", (2, 2, 3),
               lambda g: [whole(g, (11, 19, 2)), whole(g, (3, 3, 2, 3)), unset((11, 19, 3))], (2,)),
    KernelCase("conv2d.py", "conv2d_matmul", (3, 2),
               lambda g: [whole(g, (7, 11, 16), F16), whole(g, (3, 3, 16, 20), F16), unset((7, 11, 20))], (2,)),
    KernelCase("stencil.py", "heat", (2, 2), lambda g: [normal(g, (25, 40)), unset((25, 40)), np.float32(0.3)], (1,),
               ulps=4, scale=4.0),
    KernelCase("quantize.py", "quantize", (3,),
               lambda g: [normal(g, (3, 200), F16), unset((3, 200), I8), unset(3)], (1, 2), ulps=0),
    KernelCase("quantize.py", "dequantize", (2, 2), _quantized, (2,), ulps=0),
    KernelCase("mandelbrot.mlir", "mandelbrot", (2, 6),
               lambda g: [unset((6, 100), I32), 100, 6, np.float32(-2), np.float32(-0.4), np.float32(0.03), 30], (0,)),
    KernelCase("dropout.py", "dropout", (3,),
               lambda g: [normal(g, 700), unset(700), np.uint32(99), np.uint32(2**31), np.float32(2)], (1,)),
    KernelCase("black_scholes.py", "black_scholes", (2,),
               lambda g: [*(g.uniform(a, b, 200).astype(F32) for a, b in ((5, 30), (5, 30), (0.3, 9))), unset(200),
                          unset(200), np.float32(0.02), np.float32(0.3)], (3, 4), ulps=8, scale=32.0),
    KernelCase("spin_lock.mlir", "spin_lock", (5,), lambda g: [whole(g, (5, 64)), whole(g, 64), np.zeros(1, I32)],
               (1, 2)),
    KernelCase("last_block_reduction.mlir", "last_block_reduction", (5,),
               lambda g: [whole(g, 1100), 1100, unset(5), np.zeros(1, I32), unset(1)], (2, 3, 4)),
    _matmul("matmul_f16", F16, F16, F32, (40, 70, 33), (32, 32)),
    _matmul("matmul_f16", F16, F16, F32, (5, 3, 1), (32, 32), note="tiny"),
    _matmul("matmul_f16_f16", F16, F16, F16, (70, 40, 48), (64, 32)),
    _matmul("matmul_bf16", BF16, BF16, F32, (64, 40, 72), (64, 64)),
    _matmul("matmul_f32", F32, F32, F32, (33, 19, 50), (16, 32)),
    _matmul("matmul_tf32", F32, F32, F32, (40, 36, 44), (32, 32)),
    _matmul("matmul_tf32", F32, F32, F32, (40, 20, 44), (32, 32), note="few steps"),
    _matmul("matmul_f64", F64, F64, F64, (20, 37, 30), (16, 16)),
    _matmul("matmul_i8", I8, I8, I32, (40, 80, 48), (32, 32)),
    _matmul("matmul_u8", U8, U8, I32, (40, 80, 48), (32, 64)),
    _matmul("matmul_i8_u8", I8, U8, I32, (35, 70, 21), (32, 16)),
    _matmul("matmul_u8_i8", U8, I8, I32, (19, 37, 21), (16, 16)),
    _matmul("matmul_f8e4m3fn", F8E4M3, F8E4M3, F32, (40, 80, 48), (32, 32), "matmul_f8.py", F8_TARGETS),
    _matmul("matmul_f8e4m3fn_f16", F8E4M3, F8E4M3, F16, (35, 70, 21), (32, 16), "matmul_f8.py", F8_TARGETS),
    _matmul("matmul_f8e5m2_f16", F8E5M2, F8E5M2, F16, (40, 48, 80), (32, 64), "matmul_f8.py", F8_TARGETS),
    _matmul("matmul_f8e5m2", F8E5M2, F8E5M2, F32, (19, 37, 21), (16, 32), "matmul_f8.py", F8_TARGETS),
    KernelCase("matmul_batched.py", "matmul_batched", (2, 2, 2),
               lambda g: [whole(g, (3, 40, 48), F16), whole(g, (3, 48, 24), F16), unset((3, 40, 24), F16)], (2,)),
    KernelCase("matmul_split_k.py", "matmul_split_k", (2, 1, 3),
               lambda g: [whole(g, (20, 150), BF16), whole(g, (150, 24), BF16), whole(g, (20, 24))], (2,)),
    KernelCase("matmul_grouped.py", "matmul_grouped", (4,), _grouped, (2,)),
    # The shares are rounded to the type of the values before the second product.
    KernelCase("attention.py", "attention", (2, 2), _attention(40, 70), (3,), ulps=4, scale=0.5),
    KernelCase("attention.py", "causal_attention", (3, 2), _attention(70, 70), (3,), ulps=4, scale=0.5),
    KernelCase("attention_decode.py", "attention_decode", (2, 2), _decode, (4,), ulps=4, scale=0.5),
    KernelCase("moe_matmul.py", "moe_matmul", (4, 2), _moe, (4,)),
    KernelCase("matmul_scaled.py", "matmul_scaled", (2, 1), _scaled(F8E4M3), (4,), targets=SCALED_TARGETS),
    KernelCase("matmul_scaled.py", "matmul_scaled_f8e5m2", (1, 2), _scaled(F8E5M2, (40, 640, 48)), (4,),
               targets=SCALED_TARGETS),
    KernelCase("matmul_scaled.py", "matmul_scaled_f8e5m2", (1, 2), _scaled(F8E5M2, (40, 128, 48)), (4,),
               targets=SCALED_TARGETS, note="few steps"),
    KernelCase("matmul_scaled.py", "matmul_scaled_mxf4", (2, 1), _scaled_f4(F8E8M0, 32, (40, 128, 24)), (4,),
               targets=SCALED_TARGETS),
    KernelCase("matmul_scaled.py", "matmul_scaled_nvf4", (2, 1), _scaled_f4(F8E4M3, 16, (33, 128, 64)), (4,),
               targets=SCALED_TARGETS),
]  # fmt: skip
