"""The best published throughput of dense products by GPU and type of operands: faster estimates are flagged."""

from __future__ import annotations

from tileiras.targets.rate_tables import Figure

_CORES = "waynehacking8/blackwell-tensorcore-kernels, README and results/bench.csv"
_02B, _02C = (f"gau-nernst/learn-cuda, README of {part}" for part in ("02b", "02c"))

BEST: dict[tuple[str, str], Figure] = {
    ("A100", "f16"): Figure(261.82, f"cuBLAS, 8192 cubed on A100 40GB, {_02B}"),
    ("A100 40GB", "f16"): Figure(261.82, f"cuBLAS, 8192 cubed, {_02B}"),
    ("H100", "f16"): Figure(830.0, f"DeepGEMM's bf16, {_CORES}"),
    ("H100", "f8"): Figure(1523.0, f"DeepGEMM's f8, {_CORES}"),
    ("H100", "tf32"): Figure(417.64, f"cuBLAS, 8192 cubed, {_CORES}"),
    ("B200", "f16"): Figure(1427.0, "cuTile Python, test/benchmark_tuning.json: 96.3 us for 4096 cubed", "derived"),
    ("RTX 5090", "f16"): Figure(203.61, "cuDNN's attention, gau-nernst/learn-cuda, README of 07_attention"),
    ("RTX 5090", "i8"): Figure(485.84, f"v1, 8192 cubed, {_02C}"),
    ("RTX PRO 6000", "f16"): Figure(426.7, f"rate probe of the Max-Q, {_CORES}"),
    ("RTX PRO 6000 Max-Q", "f16"): Figure(243.7, f"mma_warptile, 8192 cubed, {_CORES}"),
    ("RTX PRO 6000 Max-Q", "f8"): Figure(552.0, f"cuBLASLt, 8192 cubed, {_CORES}"),
}  # fmt: skip
"""(GPU, type) -> TFLOP/s.  A GPU and type without a row has no publication that was read."""
_LIKE = {"H200": "H100"}
"""GPUs with the tensor cores and the power limit of another."""


def best(gpu: str, element: str) -> Figure | None:
    """The figure for a GPU and a key of `rates.Gpu.tensor`, if one is known."""
    return BEST.get((gpu, element)) or BEST.get((_LIKE.get(gpu, gpu), element))
