"""Launches of the front end's benchmarks that its tuner has no entry for: sizes of the benchmarks' own parameters.

`SOURCE` says where the sizes and tiles are from.  The samples of the front end (`samples/`) hold the same kernels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from bench.real_sizes import Constant, Launch, divided, filled, zeros
from tileiras.targets.rates import Gpu

SOURCE = (
    "cuTile Python, August 2026: parameters of test/bench_attention.py, bench_moe.py, bench_fft.py, "
    "bench_layer_norm.py, bench_vec_add.py, bench_transpose.py, tiles as they launch them; tiles of samples/MatMul.py "
    "for products, the one of samples/AttentionFMHA.py's candidates that fits every GPU for attention; 512 tokens and "
    "more of experts are sizes of layers that are served"
)


def matmul(dtype: str, tiles: tuple[int, int, int], persistent: bool = False) -> Callable[[Gpu], Launch]:
    """4096-cubed, with the tiles of `samples/MatMul.py` for the type."""

    def launch(gpu: Gpu) -> Launch:
        size, (tm, tn, tk) = 4096, tiles
        blocks = math.prod(divided((size, tm), (size, tn)))
        kernel = "persistent_matmul_kernel" if persistent else "matmul_kernel"
        return Launch(
            f"{'persistent ' * persistent}matmul {dtype} {size}^3, {tm}x{tn}x{tk}", "kernels.matmul", kernel, {},
            (min(gpu.sms, blocks) if persistent else blocks,),
            [filled((size, size), dtype), filled((size, size), dtype), zeros((size, size), dtype),
             *map(Constant, tiles)],
            2 * size**3,
        )  # fmt: skip

    return launch


def attention(
    batch: int, queries: int, keys: int, key_heads: int, dtype: str = "f16", tiles: tuple[int, int] = (128, 128),
    causal: bool = False, occupancy: int = 2,
) -> Callable[[Gpu], Launch]:  # fmt: skip
    """32 heads of 128; with fewer heads of keys, several heads of queries share one."""

    def launch(gpu: Gpu) -> Launch:
        heads, depth, (rows, columns) = 32, 128, tiles
        q, out = filled((batch, heads, queries, depth), dtype), zeros((batch, heads, queries, depth), dtype)
        k, v = (filled((batch, key_heads, keys, depth), dtype) for _ in range(2))
        constants = [depth, heads, rows, columns, heads // key_heads, causal, keys % columns == 0]
        shape = f"{batch}x{heads}/{key_heads}x{queries}x{keys}x{depth}{' causal' * causal}"
        return Launch(
            f"attention {dtype} {shape}, {rows}x{columns}",
            "kernels.attention", "fmha_kernel", {"occupancy": occupancy}, (-(-queries // rows), batch * heads),
            [q, k, v, out, 1 / math.sqrt(depth), 0 if queries == keys else keys - 1, *map(Constant, constants)],
            4 * batch * heads * queries * keys * depth // (1 + causal),
        )  # fmt: skip

    return launch


def _routed(tokens: int, experts: int, chosen: int, tile: int) -> tuple[np.ndarray, np.ndarray]:
    """Places of tokens by expert, each expert's padded to whole tiles, and the expert of each tile."""
    generator = np.random.default_rng(0)
    ids = np.concatenate([generator.permutation(experts)[:chosen] for _ in range(tokens)])
    order = np.argsort(ids, kind="stable")
    places: list[np.ndarray] = []
    owners: list[int] = []
    for expert in range(experts):
        mine = order[ids[order] == expert]
        blocks = -(-len(mine) // tile)
        places.append(np.concatenate([mine, np.full(blocks * tile - len(mine), tokens * chosen)]))
        owners += [expert] * blocks
    return np.concatenate(places).astype(np.int32), np.array(owners, np.int32)


def mixture(
    dtype: str, down: bool, tokens: int = 110, hidden: int = 1024, inner: int = 512,
    tiles: tuple[int, int, int] = (128, 128, 64),
) -> Callable[[Gpu], Launch]:  # fmt: skip
    """One of the two products of a fused mixture of 16 experts; a token has four of them."""

    def launch(gpu: Gpu) -> Launch:
        experts, chosen, (tm, tn, tk) = 16, 4, tiles
        places, owners = _routed(tokens, experts, chosen, tm)
        rows, n, k = (tokens * chosen, hidden, inner) if down else (tokens, 2 * inner, hidden)
        blocks = math.prod(divided((len(places), tm), (n, tn)))
        values = [filled((rows, k), dtype), filled((experts, n, k), dtype), zeros((tokens * chosen, n), dtype),
                  filled((tokens * chosen,), dtype), places, owners, 1 if down else chosen]  # fmt: skip
        name = f"fused MoE {'down' if down else 'up'} {dtype} {tokens}x{hidden}x{inner}, {experts} experts"
        return Launch(
            f"{name}, {tm}x{tn}x{tk}", "kernels.fused_moe", "fused_moe_kernel", {}, (blocks,),
            [*values, *map(Constant, (down, tm, tn, tk))], 2 * tokens * chosen * n * k,
        )  # fmt: skip

    return launch


def silu_and_mul(dtype: str) -> Callable[[Gpu], Launch]:
    def launch(gpu: Gpu) -> Launch:
        rows, columns = 440, 512
        result = [filled((rows, columns), dtype) for _ in range(2)]
        return Launch(
            f"silu and mul {dtype} {rows}x{columns}", "kernels.fused_moe", "silu_and_mul_kernel", {}, (rows,),
            [*result, zeros((rows, columns), dtype), Constant(columns)],
        )  # fmt: skip

    return launch


def fft(dtype: str) -> Callable[[Gpu], Launch]:
    def launch(gpu: Gpu) -> Launch:
        batch, factor, rows, depth = 16 * 1024, 16, 2, 64
        count = factor**3
        shape = (batch, count * 2 // depth, depth)
        squares = [filled((factor, factor, 2), dtype) for _ in range(3)]
        turns = [filled((factor, factor**2, 2), dtype), filled((factor, factor, 2), dtype)]
        constants = (count, factor, factor, factor, rows, depth)
        return Launch(
            f"fft {dtype} {batch}x{count}", "kernels.fft", "fft_kernel", {}, (-(-batch // rows),),
            [filled(shape, dtype), zeros(shape, dtype), *squares, *turns, *map(Constant, constants)],
            # Three complex products with a factor's matrix.
            3 * 8 * batch * count * factor,
        )  # fmt: skip

    return launch


_ROWS, _COLUMNS, _TILE = 2048, 8192, 1024


def layer_norm(dtype: str) -> Callable[[Gpu], Launch]:
    def launch(gpu: Gpu) -> Launch:
        shape, line = (_ROWS, _COLUMNS), (_COLUMNS,)
        return Launch(
            f"layer norm {dtype} {_ROWS}x{_COLUMNS}", "kernels.layer_norm", "layer_norm_fwd", {}, (_ROWS,),
            [filled(shape, dtype), filled(line, dtype), filled(line, dtype), zeros(shape, dtype),
             zeros((_ROWS,), "f32"), zeros((_ROWS,), "f32"), 1e-5, Constant(_TILE)],
        )  # fmt: skip

    return launch


_GROUPS = 64


def layer_norm_gradient(dtype: str) -> Callable[[Gpu], Launch]:
    """Of the input, with sums for the weights under locks."""

    def launch(gpu: Gpu) -> Launch:
        shape, sums = (_ROWS, _COLUMNS), (_GROUPS, _COLUMNS)
        values: list[Any] = [
            zeros(shape, dtype), filled(shape, dtype), zeros(sums, "f32"), zeros(sums, "f32"), filled(shape, dtype),
            filled((_COLUMNS,), dtype), filled((_ROWS,), "f32"), filled((_ROWS,), "f32"), zeros((_GROUPS,), np.int32),
        ]  # fmt: skip
        return Launch(
            f"layer norm gradient {dtype} {_ROWS}x{_COLUMNS}", "kernels.layer_norm", "layer_norm_bwd_dx_partial_dwdb",
            {}, (_ROWS,), [*values, Constant(_TILE)],
        )  # fmt: skip

    return launch


def layer_norm_weights(dtype: str) -> Callable[[Gpu], Launch]:
    """The gradient of the weights from its sums."""

    def launch(gpu: Gpu) -> Launch:
        sums, line = (_GROUPS, _COLUMNS), (_COLUMNS,)
        return Launch(
            f"layer norm weights {dtype} {_GROUPS}x{_COLUMNS}", "kernels.layer_norm", "layer_norm_bwd_dwdb", {},
            divided((_COLUMNS, _TILE)),
            [filled(sums, "f32"), filled(sums, "f32"), zeros(line, dtype), zeros(line, dtype), Constant(32),
             Constant(_TILE)],
        )  # fmt: skip

    return launch


def vector_sum(shape: tuple[int, ...], dtype: str, gather: bool) -> Callable[[Gpu], Launch]:
    def launch(gpu: Gpu) -> Launch:
        if len(shape) == 1:
            tiles: tuple[int, ...] = (1024,)
        else:
            columns = min(1024, 1 << (shape[1] - 1).bit_length())
            tiles = (1024 // columns, columns)
        kernel = f"vec_add_kernel_{len(shape)}d{'_gather' * gather}"
        return Launch(
            f"vector sum {'gather ' * gather}{dtype} {'x'.join(map(str, shape))}", "kernels.vec_add", kernel, {},
            divided(*zip(shape, tiles)),
            [filled(shape, dtype), filled(shape, dtype), zeros(shape, dtype), *map(Constant, tiles)],
        )  # fmt: skip

    return launch


def transpose(dtype: str) -> Callable[[Gpu], Launch]:
    def launch(gpu: Gpu) -> Launch:
        m, n, tile = 12288, 4096, 64
        return Launch(
            f"transpose {dtype} {m}x{n}, {tile}x{tile}", "kernels.transpose", "transpose_kernel", {},
            divided((m, tile), (n, tile)),
            [filled((m, n), dtype), zeros((n, m), dtype), Constant(tile), Constant(tile)],
        )  # fmt: skip

    return launch


_LONG, _NARROW = (32 << 20,), (1 << 20, 32)

FURTHER: dict[str, Callable[[Gpu], Launch]] = {
    "matmul f16 tiles of samples": matmul("f16", (128, 256, 64)),
    "persistent matmul f16 tiles of samples": matmul("f16", (128, 256, 64), persistent=True),
    "matmul f32 tiles of samples": matmul("f32", (32, 32, 32)),
    "attention prefill": attention(1, 1024, 1024, 32),
    "attention prefill grouped": attention(1, 1024, 1024, 8),
    "attention prefill bf16 64x64": attention(1, 1024, 1024, 32, "bf16", (64, 64)),
    "attention 8192 256x128": attention(1, 8192, 8192, 32, tiles=(256, 128), occupancy=1),
    "attention 8192 256x128 causal": attention(1, 8192, 8192, 32, tiles=(256, 128), causal=True, occupancy=1),
    "attention decode grouped": attention(8, 1, 1024, 8, tiles=(64, 64)),
    "fused MoE up": mixture("f16", down=False),
    "fused MoE down": mixture("f16", down=True),
    "fused MoE up 512 tokens": mixture("f16", False, 512, 2048, 1408),
    "fused MoE up 2048 tokens": mixture("f16", False, 2048, 2048, 1408),
    "fused MoE up 2048 tokens 128x256": mixture("f16", False, 2048, 2048, 1408, (128, 256, 64)),
    "fused MoE up 8192 tokens": mixture("f16", False, 8192, 2048, 1408),
    "silu and mul": silu_and_mul("f16"),
    "fft f16": fft("f16"),
    "fft f32": fft("f32"),
    "layer norm bf16": layer_norm("bf16"),
    "layer norm f32": layer_norm("f32"),
    "layer norm gradient bf16": layer_norm_gradient("bf16"),
    "layer norm weights bf16": layer_norm_weights("bf16"),
    "vector sum f32": vector_sum(_LONG, "f32", gather=False),
    "vector sum f16": vector_sum(_LONG, "f16", gather=False),
    "vector sum gather f16": vector_sum(_LONG, "f16", gather=True),
    "vector sum f32 narrow": vector_sum(_NARROW, "f32", gather=False),
    "vector sum gather f32 narrow": vector_sum(_NARROW, "f32", gather=True),
    "transpose f16 large": transpose("f16"),
    "transpose f32 large": transpose("f32"),
}
"""By a name to choose them by: the launch on a GPU."""
