"""Published throughput of libraries on the tasks of `bench code`, as a divisor of the estimates of our code.

A library has the tiles that are best for it, while a row has those of its benchmark.
"""

from __future__ import annotations

import fnmatch
from typing import NamedTuple


class Library(NamedTuple):
    """The best published throughput of a library on one task."""

    gpus: tuple[str, ...]
    """GPUs of rows that it is compared with."""
    tasks: str
    """Pattern of the rows' names."""
    name: str
    teraflops: float
    source: str
    measured_on: str
    numerics: str = ""
    """The difference of its results from those of the row, where they are not comparable."""


_FAST = "pranjalssh/fast.cu, README"
_CORES = "waynehacking8/blackwell-tensorcore-kernels, results"
_PROMOTED = "sums of blocks of 128 along K are scaled and added in f32"
_HOPPER = ("H200", "H100")
_TORCH = "zzc0721/torch-performance-test-data"
_VLLM = "vllm-project/vllm, pull request 17126: N 6144, K 4096; weights may stay in L2"
_ROWS_SCALED = "sums are scaled by row and column"


def _products(gpus: tuple[str, ...], kind: str, name: str, source: str, measured_on: str, numerics: str = "",
              **sizes: float) -> tuple[Library, ...]:  # fmt: skip
    """Those of `bench products` by size, `n8192` for 8192 cubed or `m16n6144k4096`, as TFLOP/s."""
    products = []
    for size, teraflops in sizes.items():
        shape = size[1:].replace("n", "x").replace("k", "x")
        shape = "x".join([shape] * 3) if "x" not in shape else shape
        products.append(Library(gpus, f"product {kind} {shape}", name, teraflops, source, measured_on, numerics))
    return tuple(products)


LIBRARIES = (
    Library(_HOPPER, "matmul_*f16 8192x8192", "cuBLAS", 795, f"{_FAST}: bf16, 8192 cubed", "H100"),
    Library(_HOPPER, "*matmul f16 4096^3,*", "cuBLAS", 716, f"{_FAST}: bf16, 4096 cubed", "H100"),
    Library(_HOPPER, "matmul_tf32 8192x8192", "cuBLAS", 412.04, f"{_CORES}/bench_sm90a.csv: 8192 cubed", "H100"),
    Library(_HOPPER, "matmul_f32 4096x4096", "cuBLAS", 45.68, f"{_CORES}/bench_sm90a.csv: 4096 cubed", "H100"),
    Library(_HOPPER, "matmul f32 4096^3,*", "cuBLAS", 45.68, f"{_CORES}/bench_sm90a.csv: 4096 cubed", "H100"),
    Library(_HOPPER, "matmul_f8e4m3fn 8192x8192", "DeepGEMM", 1523, f"{_CORES}/reference: best of its shapes", "H100",
            _PROMOTED),
    Library(_HOPPER, "attention *8192x8192x128 causal,*", "FlashAttention-3", 738.3,
            f"{_CORES}/reference/fa3.txt: 8192 positions of 128, causal", "H100"),
    Library(_HOPPER, "attention *8192x8192x128,*", "FlashAttention-3", 756.9,
            f"{_CORES}/reference/fa3.txt: 8192 positions of 128", "H100"),
    Library(("A100",), "matmul_*f16 8192x8192", "cuBLAS", 261.82,
            "gau-nernst/learn-cuda, README of 02b: bf16, 8192 cubed", "A100 40GB"),
    Library(("A100",), "*matmul f16 4096^3,*", "cuBLAS", 246.29,
            "gau-nernst/learn-cuda, README of 02b: bf16, 4096 cubed", "A100 40GB"),
    Library(("B200",), "matmul_*f16 8192x8192", "cuBLAS", 1414.29,
            "gau-nernst/learn-cuda, README of 02e: bf16, 8192 cubed", "B200"),
    Library(("B200",), "*matmul f16 4096^3,*", "cuBLAS", 1358.69,
            "gau-nernst/learn-cuda, README of 02e: bf16, 4096 cubed", "B200"),
    Library(("RTX 5090",), "matmul_*f16 8192x8192", "cuBLAS", 166.78,
            "gau-nernst/learn-cuda, README of 02c: bf16, 8192 cubed, at 400 W", "RTX 5090"),
    Library(("RTX PRO 6000 Max-Q",), "matmul_*f16 8192x8192", "cuBLAS", 229.0,
            f"{_CORES}/mma_ablation.md: f16, 8192 cubed", "RTX PRO 6000 Max-Q"),
    *_products(_HOPPER, "*f16", "cuBLAS", f"{_FAST}: bf16", "H100", n8192=795, n4096=716),
    *_products(_HOPPER, "tf32", "cuBLAS", f"{_CORES}/bench_sm90a.csv", "H100", n8192=412.04),
    *_products(_HOPPER, "f32", "cuBLAS", f"{_CORES}/bench_sm90a.csv", "H100", n4096=45.68),
    *_products(_HOPPER, "f8", "DeepGEMM", f"{_CORES}/reference: best of its shapes", "H100", _PROMOTED, n8192=1523),
    *_products(_HOPPER, "bf16", "cuBLAS", _VLLM, "H100", m1n6144k4096=2.513, m16n6144k4096=39.11,
               m64n6144k4096=160.6, m128n6144k4096=307.9, m256n6144k4096=544.3),
    *_products(_HOPPER, "f8", "CUTLASS", _VLLM, "H100", _ROWS_SCALED, m1n6144k4096=5.45, m16n6144k4096=88.9,
               m64n6144k4096=405.4, m128n6144k4096=693.3, m256n6144k4096=956.0),
    *_products(("A100",), "*f16", "cuBLAS", "gau-nernst/learn-cuda, README of 02b: bf16", "A100 40GB",
               n8192=261.82, n4096=246.29),
    *_products(("B200",), "*f16", "cuBLAS", "gau-nernst/learn-cuda, README of 02e: bf16", "B200",
               n8192=1414.29, n4096=1358.69),
    *_products(("B200",), "f8", "Helion", "pytorch/helion, pull request 2987", "B200", _ROWS_SCALED, n4096=2953),
    *_products(("B200",), "mxf8", "CUTLASS", "flashinfer-ai/flashinfer, pull request 2464", "B200",
               m8192n8192k4096=3200.87),
    *_products(("B200",), "nvf4", "cuBLAS", "deepseek-ai/DeepGEMM, pull request 348: mxf4, cuBLAS of CUDA 13.3", "B200",
               "scales of 32 elements", n8192=5239),
    *_products(("RTX PRO 6000",), "f16", "cuBLAS", f"{_TORCH}, issue 162", "RTX PRO 6000", n8192=406.97, n4096=397.22),
    *_products(("RTX PRO 6000",), "bf16", "cuBLAS", f"{_TORCH}, issue 162", "RTX PRO 6000", n8192=417.34, n4096=399.93),
    *_products(("RTX PRO 6000",), "tf32", "cuBLAS", f"{_TORCH}, issue 162", "RTX PRO 6000", n8192=205.23, n4096=193.44),
    *_products(("RTX 4090",), "f16", "cuBLAS", f"{_TORCH}, issue 78", "RTX 4090", n8192=155.50, n4096=168.38),
    *_products(("RTX 4090",), "bf16", "cuBLAS", f"{_TORCH}, issue 78", "RTX 4090", n8192=160.17, n4096=151.50),
    *_products(("RTX 4090",), "tf32", "cuBLAS", f"{_TORCH}, issue 78", "RTX 4090", n8192=85.65, n4096=84.44),
)  # fmt: skip


class Divisor(NamedTuple):
    """A library's time for the work of a row."""

    library: str
    microseconds: float
    numerics: str


def divisor(task: str, gpu: str, flops: float) -> Divisor | None:
    """The library that is published for a row, None without one."""
    for each in LIBRARIES:
        if gpu in each.gpus and fnmatch.fnmatchcase(task, each.tasks) and flops:
            name = each.name if each.measured_on == gpu else f"{each.name} on {each.measured_on}"
            return Divisor(name, flops / each.teraflops / 1e6, each.numerics)
    return None
