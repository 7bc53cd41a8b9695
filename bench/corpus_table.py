"""cuTile kernels of libraries, with the parameters of a typical launch: the table of `bench corpus`."""

from __future__ import annotations

from typing import Any, NamedTuple


class Kernel(NamedTuple):
    repository: str
    commit: str
    path: str
    digest: str
    """The first 16 digits of the file's SHA-256."""
    name: str
    signature: tuple[Any, ...]
    """As in TILEIRAS_EXPORT."""
    version: str = "13.3"
    """Of the bytecode."""


_LIGER = ("linkedin/Liger-Kernel", "ead96b618e5c67bddc6a6e9bcb99bfe6b5ab661c")
_TILEGYM = ("NVIDIA/TileGym", "75a14307776188ff0baf451cd9b9fc9fa3a87233")
_FLASHINFER = ("flashinfer-ai/flashinfer", "fb28d7242b3506a2348265962041acc1fb56cca4")

_TENSORRT_LLM = ("NVIDIA/TensorRT-LLM", "44ca991fa728d73a75eba8e349f833ab26e49e3f")
_TENSORRT_LLM_FUSED = ("NVIDIA/TensorRT-LLM", "79fc8b8d670b798434058fb57f43f0413fc87d6c")

_L, _T = "src/liger_kernel/ops/cutile/ops", "src/tilegym/ops/cutile"
_F = "flashinfer/gemm/kernels/cutile"
_R = "tensorrt_llm/_torch/cuda_tile_kernels"

_ROWS, _LINE = "bf16[?, 8*?]", "bf16[?]"
_BATCHED = "bf16[?, ?, ?, 8*?]"
_WIDE, _SUMS = "f32[?, 4*?]", "f32[?]"

KERNELS = (
    Kernel(*_LIGER, f"{_L}/softmax.py", "3346606a92b55c3d", "_softmax_single_tma", (_WIDE, _WIDE, 4096, 4096)),
    Kernel(*_LIGER, f"{_L}/softmax.py", "3346606a92b55c3d", "_softmax_single_gather", (_ROWS, _ROWS, 4096, 4096, True)),
    Kernel(*_LIGER, f"{_L}/rms_norm.py", "98e12f5a4e056a62", "_rms_norm_fwd_kernel_ct",
           (_ROWS, _LINE, _ROWS, _SUMS, 4096, 1e-6, 0.0, 0, True, 4096, True)),
    Kernel(*_LIGER, f"{_L}/swiglu.py", "77e43b233b5c4652", "_swiglu_fwd_ct", (_ROWS, _ROWS, _ROWS, 14336, 4096, 1.0)),
    Kernel(*_LIGER, f"{_L}/geglu.py", "0c3b3ae4ab224f45", "_geglu_fwd_kernel_ct",
           (_ROWS, _ROWS, _ROWS, 16384, 4096, False)),
    Kernel(*_LIGER, f"{_L}/layer_norm.py", "3a7da6e509543c28", "_layer_norm_fwd_kernel_ct",
           (_ROWS, _ROWS, _LINE, _LINE, _SUMS, _SUMS, 4096, 1e-5, 4096, True)),
    Kernel(*_LIGER, f"{_L}/fused_add_rms_norm.py", "fca53db295d6a600", "_fused_add_rms_norm_fwd_ct",
           (_ROWS, _ROWS, _ROWS, _ROWS, _LINE, _SUMS, 4096, 1e-6, 0.0, 4096, 0)),
    Kernel(*_TILEGYM, f"{_T}/rms_norm.py", "fe8cb5ed11207985", "_rms_norm_kernel_multi_wave_cached",
           (_ROWS, _LINE, _ROWS, _SUMS, 4096, 1e-6, 0.0, 4096)),
    Kernel(*_TILEGYM, f"{_T}/softmax.py", "875a3707b4824d9e", "_softmax_kernel_tma", (_ROWS, _ROWS, 4096, 4096, 4096)),
    Kernel(*_TILEGYM, f"{_T}/silu_and_mul.py", "b93530e67fab492c", "_silu_and_mul_kernel_row_wise",
           (_ROWS, _ROWS, 4096, 8192)),
    Kernel(*_TILEGYM, f"{_T}/activation/gelu.py", "0762ed2698c537eb", "_gelu_kernel", (_LINE, _LINE, 1 << 20, 1024, 1)),
    Kernel(*_TILEGYM, f"{_T}/matmul.py", "472e27b912df2cc8", "_matmul_kernel", (_ROWS, _ROWS, _ROWS, 128, 128, 64)),
    Kernel(*_TILEGYM, f"{_T}/bmm.py", "733c2898d4db08b0", "_bmm_kernel",
           ("bf16[?, ?, 8*?]", "bf16[?, ?, 8*?]", "bf16[?, ?, 8*?]", 128, 128, 64)),
    Kernel(*_TILEGYM, f"{_T}/splitk_reduce.py", "fcf380f8497090ef", "_splitk_reduce_kernel",
           ("f32[?, ?, ?, 4*?]", "f32[?, ?, ?]", "bf16[?, ?, 8*?]", 4, 4096, 32, 128, 8, 8, 128, False)),
    Kernel(*_TILEGYM, f"{_T}/attention.py", "11f38aab8ee3876c", "_fmha_fwd_kernel_with_lse",
           (_BATCHED, _BATCHED, _BATCHED, _BATCHED, _SUMS, "f32", "i32", 128, 32, 4, 4096, 128, 64, 4, True, True)),
    Kernel(*_TILEGYM, f"{_T}/moe.py", "6971e8c1ebfa9c03", "_fused_moe_kernel",
           ("bf16[8*?]", "bf16[?, ?, 8*?]", _ROWS, _SUMS, _SUMS, _SUMS, "i32[?]", "i32[?]", "i32[?]", 4096,
            4096, "i32", "i32", 0, 0, 128, 128, 64, 8, 0, 2, 0, 0, 1, 4096)),
    Kernel(*_FLASHINFER, f"{_F}/bmm_bf16_cutile.py", "5d2d6effeb6aff4d", "_bmm_bf16_kernel_cutile",
           (_ROWS, "bf16[?, ?, 8*?]", _ROWS, "i32[?]", "i32", "i32", "i32", 0, 1, 128, 128, 64, 8)),
    Kernel(*_FLASHINFER, f"{_F}/gemm_fp8_nt_groupwise_cutile.py", "8f6ccace4d91a73d", "_w8a8_block_fp8_matmul_kernel",
           ("f8e4m3fn[?, 16*?]", "f8e4m3fn[?, 16*?]", _ROWS, "f32[?, ?]", "f32[?, ?]", 4096, 4096, 4096, 128, 128,
            4096, 1, 1, 4096, 4096, 1, 32, 1, 1, 32, 128, 128, 128, 8, 2, 0)),
    Kernel(*_FLASHINFER, f"{_F}/mm_bf16_cutile.py", "70d38f667a983a8a", "_gemm_alpha_beta_kernel_cutile",
           (_ROWS, _ROWS, _ROWS, 1.0, 0.0, 4096, 4096, 4096, 1024, 132, 32, 32, 0, 1, 128, 128, 64, 8, 0)),
    Kernel(*_TENSORRT_LLM, f"{_R}/rms_norm.py", "20ba74b6350ee62c", "rms_norm_kernel",
           (_ROWS, _LINE, _ROWS, _SUMS, 4096, 1e-6, 1024)),
    Kernel(*_TENSORRT_LLM, f"{_R}/rms_norm.py", "20ba74b6350ee62c", "rms_norm_kernel_gather",
           (_ROWS, _LINE, _ROWS, _SUMS, 4096, 1e-6, 1024)),
    Kernel(*_TENSORRT_LLM, f"{_R}/rms_norm.py", "20ba74b6350ee62c", "rms_norm_kernel_static_persistent",
           (_ROWS, _ROWS, _LINE, 4, 4096, 1e-6)),
    Kernel(*_TENSORRT_LLM_FUSED, f"{_R}/rms_norm_fuse_residual.py", "ecb4c3acd5770760", "rms_norm_fuse_residual_kernel",
           (_ROWS, _ROWS, _LINE, _SUMS, 4096, 1e-6, 1024, False)),
    Kernel(*_TENSORRT_LLM_FUSED, f"{_R}/rms_norm_fuse_residual.py", "ecb4c3acd5770760",
           "rms_norm_fuse_residual_kernel_gather", (_ROWS, _ROWS, _LINE, _SUMS, 4096, 1e-6, 1024, True)),
    Kernel(*_TENSORRT_LLM_FUSED, f"{_R}/rms_norm_fuse_residual.py", "ecb4c3acd5770760",
           "rms_norm_fuse_residual_kernel_static_persistent", (_ROWS, _ROWS, _LINE, 4, 4096, 1e-6, False)),
)  # fmt: skip
