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
