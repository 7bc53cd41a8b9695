"""The front end's samples and benchmarks at sizes that can be emulated, against torch.

One function per sample file, with the file's name; it takes the sample's module, launches its kernels through the
sample's own functions if they accept small sizes, and yields pairs of result and expected value, with the tolerance.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any

import cuda.tile as ct
import torch

Pair = tuple[torch.Tensor, torch.Tensor, float]


def VectorAddition(sample: Any) -> Iterator[Pair]:
    for use_gather in (False, True):
        for shape in ((1000,), (24, 40)):
            a, b = torch.randn(shape), torch.randn(shape)
            yield sample.vec_add(a, b, use_gather), a + b, 0


def VectorAdd_quickstart(sample: Any) -> Iterator[Pair]:
    a, b, c = torch.rand(4096), torch.rand(4096), torch.zeros(4096)
    ct.launch(torch.cuda.current_stream(), (256, 1, 1), sample.vector_add, (a, b, c, 16))
    yield c, a + b, 0


def Transpose(sample: Any) -> Iterator[Pair]:
    for dtype in (torch.float16, torch.float32):
        x = torch.randn(70, 50).to(dtype)
        yield sample.cutile_transpose(x), x.T.contiguous(), 0


def MatMul(sample: Any) -> Iterator[Pair]:
    for dtype, tolerance in ((torch.float16, 1e-2), (torch.float32, 2e-2)):
        for persistent in (False, True):
            a, b = torch.randn(40, 70).to(dtype), torch.randn(70, 48).to(dtype)
            yield sample.cutile_matmul(a, b, persistent=persistent), (a.float() @ b.float()).to(dtype), tolerance


def BatchMatMul(sample: Any) -> Iterator[Pair]:
    a, b = torch.randn(2, 24, 40).half(), torch.randn(2, 40, 16).half()
    yield sample.bmm(a, b, torch.float16), (a.float() @ b.float()).half(), 1e-2


def BlockScaledMatMul(sample: Any) -> Iterator[Pair]:
    a, b = torch.randn(128, 128), torch.randn(128, 128)
    (a, a_scale), (b, b_scale) = (sample.block_quantize(x, 32) for x in (a, b.T))
    wide = [x.float() * scale.float().repeat_interleave(32, dim=1) for x, scale in ((a, a_scale), (b, b_scale))]
    expected = wide[0] @ wide[1].T
    c = torch.zeros(128, 128)
    scales = [sample.swizzle_32_4_4(scale) for scale in (a_scale, b_scale)]
    arguments = (a, scales[0], b.T.contiguous(), scales[1], c, 128, 128, 128, 32)
    ct.launch(torch.cuda.current_stream(), (1, 1, 1), sample.block_scaled_matmul_kernel, arguments)
    yield c, expected, 1e-2


def AllGatherMatmul(sample: Any) -> Iterator[Pair]:
    inputs = [torch.randn(64, 48) for _ in range(2)]
    weights, out = torch.randn(48, 40), torch.zeros(128, 40)
    arguments = (inputs, weights, out, 32, 32, 16)
    ct.launch(torch.cuda.current_stream(), (4, 2), sample.gather_matmul_kernel, arguments)
    yield out, torch.cat(inputs) @ weights, 5e-2


def FFT(sample: Any) -> Iterator[Pair]:
    # With a larger batch the sample's later tile blocks load tiles outside of the index space.
    x = torch.randn(1, 64, dtype=torch.complex64)
    yield sample.cutile_fft(x, (4, 4, 4)), torch.fft.fft(x), 1e-1


def LayerNorm(sample: Any) -> Iterator[Pair]:
    x, weight, bias = (torch.randn(shape, requires_grad=True) for shape in ((6, 300), (300,), (300,)))
    upstream = torch.randn(6, 300)
    y = sample.cutile_layer_norm(x, weight, bias, 1e-5)
    gradients = torch.autograd.grad(y, (x, weight, bias), upstream)
    expected = torch.nn.functional.layer_norm(x, (300,), weight, bias, 1e-5)
    yield y, expected, 1e-4
    for got, want in zip(gradients, torch.autograd.grad(expected, (x, weight, bias), upstream)):
        yield got, want, 1e-3


def AttentionFMHA(sample: Any) -> Iterator[Pair]:
    for causal in (False, True):
        q = torch.randn(1, 2, 40, 32).half()
        k, v = (torch.randn(1, 1, 40, 32).half() for _ in range(2))
        got = sample.cutile_fmha(q, k, v, tile_m=32, tile_n=32, query_group_size=2, causal=causal)
        expected = torch.nn.functional.scaled_dot_product_attention(
            q.float(), k.float(), v.float(), is_causal=causal, enable_gqa=True
        )
        yield got, expected.half(), 5e-3


def MoE(sample: Any) -> Iterator[Pair]:
    tokens, hidden, inner, experts, top = 10, 48, 32, 4, 2
    x = 0.5 * torch.randn(tokens, hidden)
    up, down = 0.1 * torch.randn(experts, 2 * inner, hidden), 0.1 * torch.randn(experts, hidden, inner)
    x, up, down = (t.to(torch.bfloat16) for t in (x, up, down))
    chosen = torch.stack([torch.randperm(experts)[:top] for _ in range(tokens)])
    weights = torch.softmax(torch.randn(tokens, top), dim=-1).to(torch.bfloat16)
    got = sample.cutile_moe(x, up, down, weights, chosen, tile_m=16, tile_n=32, tile_k=16)
    yield got, sample.torch_moe(x, up, down, weights, chosen), 1e-2


def stand_ins() -> dict[str, types.ModuleType]:
    """Modules that a sample imports for its main function only: the part of cupy that torch on the CPU can replace."""
    cupy = types.ModuleType("cupy")
    doubles = types.SimpleNamespace(random=lambda size: torch.rand(size, dtype=torch.float64))
    cupy.random = types.SimpleNamespace(default_rng=lambda: doubles)
    cupy.cuda = types.SimpleNamespace(get_current_stream=torch.cuda.current_stream)
    cupy.zeros_like, cupy.asnumpy = torch.zeros_like, torch.Tensor.numpy
    return {"cupy": cupy}


NAMES = [
    "VectorAddition", "VectorAdd_quickstart", "Transpose", "MatMul", "BatchMatMul", "BlockScaledMatMul",
    "AllGatherMatmul", "FFT", "LayerNorm", "AttentionFMHA", "MoE",
]  # fmt: skip
"""The order of the table."""
NEEDS = {"BlockScaledMatMul": 100}
"""The oldest target that has a sample's element types."""

BENCHMARKS: dict[tuple[str, str], list[tuple]] = {
    ("bench_attention.py", "qkv_shape"): [
        ((1, 2, 40, 32), (1, 2, 40, 32)), ((1, 4, 70, 32), (1, 1, 70, 32)),
        ((2, 2, 1, 32), (2, 2, 40, 32)), ((1, 4, 1, 32), (1, 1, 70, 32)),
    ],
    ("bench_fft.py", "shape"): [(2, 8, 8, 8)],
    ("bench_layer_norm.py", "shape"): [(5, 1500), (3, 2048)],
    ("bench_matmul.py", "matmul_shape"): [(48, 80, 96), (50, 70, 30)],
    ("bench_matmul.py", "split_k_shape"): [(48, 64, 512), (33, 40, 300)],
    ("bench_matmul.py", "batch_matmul_shape"): [(2, 48, 64, 96), (2, 33, 40, 50)],
    ("bench_matmul.py", "persistent_shape"): [(48, 80, 96), (50, 70, 30)],
    ("bench_matmul.py", "scaled_matmul_shape"): [(128, 128, 128)],
    ("bench_moe.py", "shape"): [(20, 64, 4, 48, 2)],
    ("bench_rms_norm.py", "shape"): [(5, 1024), (9, 1024)],
    ("bench_transpose.py", "shape"): [(70, 100), (64, 48)],
    ("bench_vec_add.py", "shape"): [(1000,), (24, 40)],
}  # fmt: skip
"""File of benchmarks -> replacement values of one of its fixtures."""
