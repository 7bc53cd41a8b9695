"""How the examples use the machine: golden counts of costly instructions."""

from __future__ import annotations

import re

import pytest
from example_cases import EXAMPLES

import tileiras

ELEMENTWISE = ["vector_add.py", "bytecode/vector_add.tileirbc", "saxpy.mlir", "relu_add_2d.mlir"]
ROW_REDUCTIONS = ["softmax.py", "layer_norm.py"]


def product(source: str, emit: str, target: str = "sm_90") -> str:
    if source.endswith(".py"):
        pytest.importorskip("cuda.tile")
    return tileiras.compile(EXAMPLES / source, gpu_name=target, emit=emit).text


@pytest.mark.parametrize("source", ELEMENTWISE)
def test_elementwise_kernels_use_no_smem_and_no_barriers(source):
    text = product(source, "ptx")
    assert not re.search(r"\b(ld|st)\.shared|\bbar(rier)?\.", text)


@pytest.mark.parametrize("source", ROW_REDUCTIONS)
def test_row_reductions_meet_once_per_reduction(source):
    """Two reductions: each goes through shuffles and then, between warps, once through shared memory."""
    text = product(source, "ptx")
    assert len(re.findall(r"\bst\.shared", text)) == 2
    assert len(re.findall(r"\bbar(?:rier)?\.sync", text)) == 2
    assert "shfl.sync" in text


@pytest.mark.parametrize(("source", "loads"), [("vector_add.py", 4), ("relu_add_2d.mlir", 4), ("softmax.py", 2)])
def test_aligned_accesses_are_16_bytes_wide(source, loads):
    text = product(source, "ptx")
    assert len(re.findall(r"ld\.global[.\w]*\.v4\.(?:b|u|f)32", text)) == loads


WARPS, WARPGROUPS = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "k16.f32.f16.f16 {"
TENSOR_MEMORY = "tcgen05.mma.cta_group::1.kind::f16"


@pytest.mark.parametrize(
    ("target", "instruction"), [("sm_80", WARPS), ("sm_90", WARPGROUPS), ("sm_100", TENSOR_MEMORY), ("sm_120", WARPS)]
)
def test_half_precision_product_runs_on_tensor_cores(target, instruction):
    assert instruction in product("matmul_f16.py", "ptx", target)


def test_single_precision_product_is_made_of_fused_multiply_adds():
    text = product("matmul_f32.mlir", "ptx")
    assert "fma.rn.f32" in text and "mma." not in text
