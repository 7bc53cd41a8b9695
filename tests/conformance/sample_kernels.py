"""Kernels of the public samples, benchmarks and of TileGym, at sizes that can be emulated: one table.

The kernels stay in checkouts of their repositories; a case names a kernel there, its compile-time arguments, its
runtime arguments, and NumPy's reference.
"""

from __future__ import annotations

import importlib.util
import math
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "examples"), str(HERE.parents[1])]

import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402
from example_cases import array_parameters  # noqa: E402
from kernel_cases import _table  # noqa: E402

import tileiras  # noqa: E402

F16, BF16, F32 = np.float16, ml_dtypes.bfloat16, np.float32
E4M3, E5M2, E8M0 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float8_e8m0fnu
I32 = np.int32
NAMES = {F16: "f16", BF16: "bf16", F32: "f32", E4M3: "f8e4m3fn", E5M2: "f8e5m2", E8M0: "f8e8m0fnu", I32: "i32",
         np.int8: "i8", np.uint8: "u8"}  # fmt: skip

Generator = np.random.Generator


class Sample(NamedTuple):
    """A kernel as `vendor_kernels` runs it: ``source`` is `samples` (the front end's), `gym` or `own`; ``values``
    creates the arguments except the constants; ``reference`` gives the outputs by position.  ``tolerance`` is relative
    to the largest expected magnitude."""

    name: str
    source: str
    module: str
    kernel: str
    hints: dict[str, int]
    signature: list[Any]
    grid: tuple[int, ...]
    values: Callable[[Generator], list[Any]]
    reference: Callable[..., dict[int, np.ndarray]]
    tolerance: float
    targets: tuple[str, ...] = ()
    entry: str = "sample"

    def bytecode(self) -> bytes:
        """The kernel as the front end exports it."""
        signature = {self.entry: tuple(self.signature)}
        return tileiras.compile(kernel_of(self), signature=signature, gpu_name="sm_100", emit="bytecode").data

    def run(self, launch: Callable[[list[Any]], None]) -> None:
        values = self.values(np.random.default_rng(20251122))
        expected = self.reference(*values)
        launch(_parameters(values))
        for position, wanted in expected.items():
            pairs = zip(values[position], wanted) if isinstance(wanted, list) else [(values[position], wanted)]
            for got, want in pairs:
                error, limit = np.abs(got.astype(np.float64) - want).max(), self.tolerance * np.abs(want).max()
                assert error <= limit, f"argument {position} is off by {error:.3g}, {limit:.3g} allowed"


def _parameters(values: list[Any]) -> list[Any]:
    parameters: list[Any] = []
    for value in values:
        if isinstance(value, list):
            parameters += [_table(value), len(value)]
        else:
            parameters += array_parameters(value) if isinstance(value, np.ndarray) else [value]
    return parameters


class _Anything(types.ModuleType):
    """Replaces packages that the kernels' files import but the kernels do not use."""

    __path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything(name)

    def __call__(self, *given: Any, **_: Any) -> Any:
        return given[0] if len(given) == 1 and isinstance(given[0], types.FunctionType) else _Anything("result")

    def __or__(self, other: Any) -> Any:
        return self

    __ror__ = __or__

    def __mro_entries__(self, bases: Any) -> tuple:
        return (object,)


def prepare(samples: Path, gym: Path | None) -> None:
    """Make the modules of the checkouts importable, without torch."""
    if importlib.util.find_spec("torch") is None:
        for name in ("torch", "torch.nn", "torch.nn.functional", "torch.autograd"):
            sys.modules[name] = _Anything(name)
        for name in ("int32", "int64", "float16", "float32"):
            setattr(sys.modules["torch"], name, getattr(np, name))
    sys.path.insert(0, str(samples / "test"))
    examples = Path(__file__).resolve().parents[2] / "examples" / "kernels"
    sys.path.insert(0, str(examples))
    if gym is not None:
        for name in ("tilegym", "tilegym.backend", "tilegym.experimental", "tilegym.autotune", "tilegym.logger",
                     "tilegym.kernel_utils", "tilegym.ops"):  # fmt: skip
            sys.modules[name] = _Anything(name)
        package = _Anything("tilegym.ops.cutile")
        package.__path__ = [str(gym / "src" / "tilegym" / "ops" / "cutile")]
        sys.modules[package.__name__] = package


def kernel_of(sample: Sample) -> Any:
    """The front end's kernel, with the hints of the case."""
    import cuda.tile as ct

    result = getattr(importlib.import_module(sample.module), sample.kernel)
    return ct.kernel(result._pyfunc, **sample.hints) if sample.hints else result


# -- products --------------------------------------------------------------------------------------------------------


def normal(generator: Generator, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    if dtype in (np.int8, np.uint8):
        return generator.integers(0 if dtype is np.uint8 else -20, 20, shape).astype(dtype)
    return generator.standard_normal(shape).astype(dtype)


def wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64)


def _two(a: Any, b: Any, c: Any, align: int = 16) -> list[str]:
    return [f"{NAMES[each]}[{align}*?, {align}*?]" for each in (a, b, c)]


def matmul(
    name: str, kernel: str, types_: tuple, sizes: tuple[int, int, int], tiles: tuple[int, int, int], hints: dict,
    tolerance: float = 1e-3, blocks: int = 0, targets: tuple[str, ...] = (), align: int = 16,
) -> Sample:  # fmt: skip
    """A kernel of the samples' `kernels.matmul` with (A, B, C, tm, tn, tk)."""
    a, b, c = types_
    (m, n, k), (tm, tn, tk) = sizes, tiles

    def values(generator: Generator) -> list[Any]:
        return [normal(generator, (m, k), a), normal(generator, (k, n), b), np.zeros((m, n), c)]

    grid = (blocks or -(-m // tm) * -(-n // tn),)
    return Sample(
        name, "samples", "kernels.matmul", kernel, hints, [*_two(a, b, c, align), tm, tn, tk], grid, values,
        lambda a, b, c: {2: wide(a) @ wide(b)}, tolerance, targets,
    )  # fmt: skip


def own_matmul(
    name: str, types_: tuple, sizes: tuple, tiles: tuple, hints: dict, tolerance: float = 1e-3, targets: tuple = ()
) -> Sample:
    """The example's kernel, whose accumulators have the type of C."""
    a, b, c = types_
    (m, n, k), (tm, tn, tk) = sizes, tiles

    def values(generator: Generator) -> list[Any]:
        return [normal(generator, (m, k), a), normal(generator, (k, n), b), np.zeros((m, n), c)]

    return Sample(name, "own", "matmul", "matmul", hints, [*_two(a, b, c), tm, tn, tk], (-(-m // tm), -(-n // tn)),
                  values, lambda a, b, c: {2: wide(a) @ wide(b)}, tolerance, targets)  # fmt: skip


def _batched(name: str, tiles: tuple[int, int, int], hints: dict) -> Sample:
    tm, tn, tk = tiles

    def values(generator: Generator) -> list[Any]:
        return [normal(generator, (2, tm, 80), F16), normal(generator, (2, 80, tn), F16), np.zeros((2, tm, tn), F16)]

    return Sample(name, "samples", "kernels.matmul", "batch_matmul_kernel", hints,
                  [*["f16[?, 16*?, 16*?]"] * 3, tm, tn, tk], (2, 1, 1), values,
                  lambda a, b, c: {2: wide(a) @ wide(b)}, 1e-3)  # fmt: skip


def _split_k(name: str, tiles: tuple[int, int, int], parts: int) -> Sample:
    tm, tn, tk = tiles

    def values(generator: Generator) -> list[Any]:
        arrays = [normal(generator, (tm, 320), F16), normal(generator, (320, tn), F16), np.zeros((tm, tn), F32)]
        return [*arrays, np.zeros(1, I32), np.zeros(1, I32)]

    return Sample(name, "samples", "kernels.matmul", "matmul_split_k_kernel", {},
                  [*_two(F16, F16, F32), "i32[?]", "i32[?]", tm, tn, tk, parts], (1, parts), values,
                  lambda a, b, *_: {2: wide(a) @ wide(b)}, 1e-3)  # fmt: skip


def _scaled(name: str, dtype: Any, tiles: tuple[int, int, int], swizzled: bool, hints: dict) -> Sample:
    tm, tn, tk = tiles
    m, n, k = tm, tn, 2 * tk

    def packed(scales: np.ndarray) -> np.ndarray:
        rows, count = scales.shape
        parts = scales.reshape(rows // 128, 4, 32, count // 4, 4).transpose(0, 3, 2, 1, 4)
        return np.ascontiguousarray(parts).reshape(rows // 128, count // 4, 32, 16)

    def values(generator: Generator) -> list[Any]:
        a, b = normal(generator, (m, k), dtype), normal(generator, (k, n), dtype)
        scales = [generator.integers(120, 134, (rows, k // 32)).astype(np.uint8).view(E8M0) for rows in (m, n)]
        if swizzled:
            scales = [packed(each.view(np.uint8)).view(E8M0) for each in scales]
        else:
            scales[1] = np.ascontiguousarray(scales[1].view(np.uint8).T).view(E8M0)
        return [a, scales[0], b, scales[1], np.zeros((m, n), F32)]

    def plain(scales: np.ndarray, rows: int) -> np.ndarray:
        if not swizzled:
            return wide(scales)
        parts = wide(scales).reshape(rows // 128, -1, 32, 4, 4).transpose(0, 3, 2, 1, 4)
        return parts.reshape(rows, -1)

    def reference(a: Any, a_scale: Any, b: Any, b_scale: Any, c: Any) -> dict[int, np.ndarray]:
        left = wide(a) * np.repeat(plain(a_scale, m), 32, axis=1)
        factors = plain(b_scale, n).T if swizzled else plain(b_scale, n)
        return {4: left @ (wide(b) * np.repeat(factors, 32, axis=0))}

    scale = "f8e8m0fnu[?, ?, 32, 16]" if swizzled else "f8e8m0fnu[?, 8*?]"
    array = f"{NAMES[dtype]}[16*?, 16*?]"
    return Sample(name, "samples", "kernels.scaled_matmul", "block_scaled_matmul_kernel", hints,
                  [array, scale, array, scale, "f32[16*?, 16*?]", tm, tn, tk, 32], (1,), values, reference,
                  1e-3)  # fmt: skip


# -- attention -------------------------------------------------------------------------------------------------------


def softmax(values: np.ndarray) -> np.ndarray:
    powers = np.exp(values - values.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def attention(
    name: str, tile: tuple[int, int], depth: int, keys: int, causal: bool, hints: dict, dtype: Any = F16,
    heads: int = 1,
) -> Sample:  # fmt: skip
    tm, tn = tile
    rows = tm

    def values(generator: Generator) -> list[Any]:
        q, out = normal(generator, (1, heads, rows, depth), dtype), np.zeros((1, heads, rows, depth), dtype)
        k, v = (normal(generator, (1, 1, keys, depth), dtype) for _ in range(2))
        return [q, k, v, out, 1 / math.sqrt(depth), keys - rows if causal else 0]

    def reference(q: Any, k: Any, v: Any, out: Any, scale: float, first: int) -> dict[int, np.ndarray]:
        weights = wide(q) @ wide(k).swapaxes(-1, -2) * scale
        if causal:
            seen = first + np.arange(rows)[:, None] >= np.arange(keys)
            weights = np.where(seen, weights, -np.inf)
        return {3: softmax(weights) @ wide(v)}

    array = f"{NAMES[dtype]}[?, ?, 16*?, 16*?]"
    constants = [depth, heads, tm, tn, heads, causal, keys % tn == 0]
    return Sample(name, "samples", "kernels.attention", "fmha_kernel", hints,
                  [*[array] * 4, "f32", "i32", *constants], (1, heads), values, reference, 5e-3)  # fmt: skip


# -- the rest --------------------------------------------------------------------------------------------------------


def _moe(name: str, tiles: tuple[int, int, int], weighted: bool) -> Sample:
    tm, tn, tk = tiles
    tokens, k, experts = 64, 96, 2

    def values(generator: Generator) -> list[Any]:
        a, b = normal(generator, (tokens, k), BF16), normal(generator, (experts, tn, k), BF16)
        c, weights = np.zeros((tokens, tn), BF16), generator.random(tokens).astype(BF16)
        order = generator.permutation(tokens)
        ids = np.full(experts * tm, tokens, I32)
        for expert in range(experts):
            ids[expert * tm :][: tokens // experts] = order[expert * 32 :][: tokens // experts]
        return [a, b, c, weights, ids, np.arange(experts, dtype=I32), 1]

    def reference(a: Any, b: Any, c: Any, weights: Any, ids: Any, which: Any, _: int) -> dict[int, np.ndarray]:
        result = np.zeros(c.shape)
        for place, token in enumerate(ids.tolist()):
            if token < tokens:
                result[token] = wide(a[token]) @ wide(b[place // tm]).T * (wide(weights[token]) if weighted else 1)
        return {2: result}

    signature = ["bf16[?, 16*?]", "bf16[?, 16*?, 16*?]", "bf16[?, 16*?]", "bf16[?]", "i32[16*?]", "i32[?]", "i32"]
    return Sample(name, "samples", "kernels.fused_moe", "fused_moe_kernel", {}, [*signature, weighted, *tiles],
                  (experts,), values, reference, 2e-2)  # fmt: skip


def _grouped(name: str, tiles: tuple[int, int, int], hints: dict) -> Sample:
    from cuda.tile.compilation import ListConstraint

    from tileiras.stages.export.signatures import _constraint

    matrices = ListConstraint(_constraint("f16[16*?, 16*?]", 0), alias_groups=(), elements_may_alias=False)
    sizes = ((128, 128, 96), (64, 160, 64))

    def values(generator: Generator) -> list[Any]:
        return [
            [normal(generator, (m, k), F16) for m, n, k in sizes],
            [normal(generator, (k, n), F16) for m, n, k in sizes], [np.zeros((m, n), F16) for m, n, k in sizes],
        ]  # fmt: skip

    return Sample(name, "samples", "kernels.group_gemm", "grouped_matmul_kernel", hints,
                  [matrices] * 3 + [2, *tiles], (2,), values,
                  lambda a, b, c: {2: [wide(x) @ wide(y) for x, y in zip(a, b)]}, 1e-3)  # fmt: skip


def _rms_norm(kernel: str) -> Sample:
    rows, columns = 4, 512

    def values(generator: Generator) -> list[Any]:
        return [normal(generator, (rows, columns), F16), normal(generator, (columns,), F16),
                np.zeros((rows, columns), F16), np.zeros(rows, F32)]  # fmt: skip

    def reference(x: Any, w: Any, out: Any, rstd: Any) -> dict[int, np.ndarray]:
        scale = 1 / np.sqrt((wide(x) ** 2).mean(1, keepdims=True) + 1e-5)
        return {2: wide(x) * scale * wide(w), 3: scale[:, 0]}

    return Sample(kernel, "samples", "kernels.rms_norm", kernel, {},
                  ["f16[?, 16*?]", "f16[16*?]", "f16[?, 16*?]", "f32[?]", columns, 1e-5, 256], (rows,), values,
                  reference, 2e-3)  # fmt: skip


def _layer_norm() -> Sample:
    rows, columns = 3, 600

    def values(generator: Generator) -> list[Any]:
        return [normal(generator, (rows, columns), F16), normal(generator, (columns,), F16),
                normal(generator, (columns,), F16), np.zeros((rows, columns), F16), np.zeros(rows, F32),
                np.zeros(rows, F32), 1e-5]  # fmt: skip

    def reference(x: Any, w: Any, b: Any, *_: Any) -> dict[int, np.ndarray]:
        mean, scale = wide(x).mean(1), 1 / np.sqrt(wide(x).var(1) + 1e-5)
        return {3: (wide(x) - mean[:, None]) * scale[:, None] * wide(w) + wide(b), 4: mean, 5: scale}

    vector = "f16[8*?]"
    return Sample("layer_norm_fwd", "samples", "kernels.layer_norm", "layer_norm_fwd", {},
                  ["f16[?, 8*?]", vector, vector, "f16[?, 8*?]", "f32[?]", "f32[?]", "f32", 256], (rows,), values,
                  reference, 3e-3)  # fmt: skip


def _softmax(name: str, kernel: str, constants: list, columns: int) -> Sample:
    rows = 4

    def values(generator: Generator) -> list[Any]:
        return [np.zeros((rows, columns), F32), normal(generator, (rows, columns), F32)]

    return Sample(name, "gym", "tilegym.ops.cutile.softmax", kernel, {},
                  ["f32[?, 16*?]", "f32[?, 16*?]", *constants], (rows,), values,
                  lambda out, x: {0: softmax(wide(x))}, 1e-4)  # fmt: skip


def _silu(values: np.ndarray) -> np.ndarray:
    return values / (1 + np.exp(-values))


def _silu_and_mul() -> Sample:
    columns = 192

    def values(generator: Generator) -> list[Any]:
        return [normal(generator, (4, 2 * columns), F16), np.zeros((4, columns), F16)]

    return Sample("silu_and_mul", "gym", "tilegym.ops.cutile.silu_and_mul", "_silu_and_mul_kernel_row_wise", {},
                  ["f16[?, 16*?]", "f16[?, 16*?]", 256, columns], (4,), values,
                  lambda x, out: {1: _silu(wide(x[:, :columns])) * wide(x[:, columns:])}, 3e-3)  # fmt: skip


def _transpose(tiles: tuple[int, int]) -> Sample:
    tm, tn = tiles

    def values(generator: Generator) -> list[Any]:
        return [normal(generator, (96, 64), F16), np.zeros((64, 96), F16)]

    return Sample(f"transpose {tm}x{tn}", "samples", "kernels.transpose", "transpose_kernel", {},
                  ["f16[16*?, 16*?]", "f16[16*?, 16*?]", tm, tn], (-(-96 // tm), -(-64 // tn)), values,
                  lambda x, y: {1: wide(x).T}, 0)  # fmt: skip


def _bmm(name: str, tiles: tuple[int, int, int]) -> Sample:
    tm, tn, tk = tiles

    def values(generator: Generator) -> list[Any]:
        return [normal(generator, (2, tm, 80), BF16), normal(generator, (2, 80, tn), BF16),
                np.zeros((2, tm, tn), BF16)]  # fmt: skip

    return Sample(name, "gym", "tilegym.ops.cutile.bmm", "_bmm_kernel", {}, [*["bf16[?, 16*?, 16*?]"] * 3, *tiles],
                  (1, 1, 2), values, lambda a, b, c: {2: wide(a) @ wide(b)}, 8e-3)  # fmt: skip


def samples() -> list[Sample]:
    """All cases, of every repository."""
    one, two, four = ({"num_ctas": count} for count in (1, 2, 4))
    plain, persistent = "matmul_kernel", "persistent_matmul_kernel"
    half = (F16, F16, F16)
    with_i8 = ("sm_90", "sm_100", "sm_110", "sm_120")
    result = [
        *(matmul(f"matmul f16 {m}x{n}x{k}, {hints['num_ctas']} blocks", plain, half, (m, n, 160), (m, n, k), hints)
          for m, n, k, hints in (
              (128, 128, 64, one), (128, 256, 64, one), (256, 128, 64, one), (256, 256, 64, one), (64, 64, 64, one),
              (64, 128, 64, one), (128, 64, 32, one), (256, 256, 64, two), (128, 256, 64, two), (128, 128, 64, two),
              (256, 256, 64, four), (32, 64, 64, one))),
        matmul("matmul bf16", plain, (BF16, BF16, BF16), (128, 128, 160), (128, 128, 64), one, 8e-3),
        matmul("matmul f16, f32 result", plain, (F16, F16, F32), (128, 128, 160), (128, 128, 64), one),
        matmul("matmul f16, ragged", plain, half, (144, 176, 80), (128, 128, 64), one),
        matmul("matmul f16, ragged, 2 blocks", plain, half, (144, 176, 80), (256, 256, 64), two),
        matmul("matmul f16, sizes that divide nothing", plain, half, (37, 51, 29), (128, 128, 64), one, align=1),
        matmul("matmul tf32", plain, (F32, F32, F32), (128, 128, 96), (128, 128, 32), one, 2e-3),
        matmul("matmul tf32, 2 blocks", plain, (F32, F32, F32), (256, 128, 96), (256, 128, 32), two, 2e-3),
        matmul("matmul f8e4m3", plain, (E4M3, E4M3, F32), (128, 128, 256), (128, 128, 128), one),
        matmul("matmul f8e5m2", plain, (E5M2, E5M2, F32), (128, 256, 256), (128, 256, 128), one),
        matmul("matmul f8e4m3, 2 blocks", plain, (E4M3, E4M3, F32), (256, 256, 256), (256, 256, 128), two),
        own_matmul("matmul f16, f16 accumulators", half, (128, 128, 96), (128, 128, 64), one, 2e-2),
        own_matmul("matmul f8e4m3, f16 accumulators", (E4M3, E4M3, F16), (128, 64, 128), (128, 64, 64), one, 2e-2),
        own_matmul("matmul i8", (np.int8, np.int8, I32), (128, 128, 256), (128, 128, 128), one, 0, with_i8),
        own_matmul("matmul u8", (np.uint8, np.uint8, I32), (128, 128, 256), (128, 128, 128), one, 0, with_i8),
        own_matmul("matmul i8, 2 blocks", (np.int8, np.int8, I32), (256, 256, 256), (256, 256, 128), two, 0, with_i8),
        matmul("persistent f16, 2 tiles", persistent, half, (256, 128, 160), (128, 128, 64), one, blocks=1),
        matmul("persistent f16 128x256, 3 tiles", persistent, half, (384, 256, 128), (128, 256, 64), one, blocks=1),
        matmul("persistent f16, 2 blocks", persistent, half, (512, 256, 128), (256, 256, 64), two, blocks=1),
        _batched("batched f16", (128, 128, 64), one), _batched("batched f16, 2 blocks", (256, 128, 64), two),
        _split_k("split-K f16", (128, 128, 64), 3), _split_k("split-K f16 64x64", (64, 64, 64), 2),
        _grouped("grouped f16", (128, 128, 64), {}), _grouped("grouped f16 64x64", (64, 64, 64), {}),
        _scaled("scaled f8e4m3", E4M3, (128, 128, 128), False, one),
        _scaled("scaled f8e4m3 128x256", E4M3, (128, 256, 128), False, one),
        _scaled("scaled f8e4m3, swizzled scales", E4M3, (128, 128, 128), True, one),
        _scaled("scaled f8e5m2, swizzled scales", E5M2, (128, 256, 128), True, one),
        _scaled("scaled f8e4m3, 2 blocks", E4M3, (256, 256, 128), False, two),
        _scaled("scaled f8e4m3, swizzled scales, 2 blocks", E4M3, (256, 256, 128), True, two),
        attention("attention 128x128 d64", (128, 128), 64, 256, False, {"occupancy": 2}),
        attention("attention 128x128 d128", (128, 128), 128, 256, False, {"occupancy": 2}),
        attention("attention 128x128 d128, causal", (128, 128), 128, 256, True, {"occupancy": 2}),
        attention("attention 128x128 d128, 1 block a processor", (128, 128), 128, 256, False, {"occupancy": 1}),
        attention("attention 256x128 d128", (256, 128), 128, 256, False, {"occupancy": 1}),
        attention("attention 64x64 d64, ragged keys", (64, 64), 64, 144, False, {"occupancy": 2}),
        attention("attention bf16 128x64 d64, causal", (128, 64), 64, 128, True, {"occupancy": 2}, BF16),
        _moe("MoE 128x128x64", (128, 128, 64), True), _moe("MoE 64x64x64", (64, 64, 64), False),
        _rms_norm("rms_norm_kernel"), _rms_norm("rms_norm_kernel_gather"), _layer_norm(),
        _transpose((32, 32)), _transpose((64, 64)),
        _softmax("softmax", "_softmax_kernel", [4, 256, 240], 240),
        _softmax("softmax, one row a block", "_softmax_kernel_multi_wave_full_row_reg_cached_ldg", [240, 256], 240),
        _silu_and_mul(), _bmm("bmm bf16", (128, 128, 64)), _bmm("bmm bf16 128x256", (128, 256, 64)),
    ]  # fmt: skip
    return result
