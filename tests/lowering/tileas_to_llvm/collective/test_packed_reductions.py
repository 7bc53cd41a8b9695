"""Rows of f32 in the registers of a thread: sums by two elements at a time, maxima by three operands."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tileiras
from tests.kernels.dots import attention_like
from tileiras.codegen import ptxas as assembler
from tileiras.sim import emulate

KERNEL = """cuda_tile.module @m {{
  entry @k(%x: tile<ptr<f32>>, %out: tile<ptr<f32>>) {{
    %offsets = iota : tile<{total}xi32>
    %x0 = reshape %x : tile<ptr<f32>> -> tile<1xptr<f32>>
    %xs = broadcast %x0 : tile<1xptr<f32>> -> tile<{total}xptr<f32>>
    %places = offset %xs, %offsets : tile<{total}xptr<f32>>, tile<{total}xi32> -> tile<{total}xptr<f32>>
    %flat, %t = load_ptr_tko weak %places : tile<{total}xptr<f32>> -> tile<{total}xf32>, token
    %tile = reshape %flat : tile<{total}xf32> -> tile<{rows}x{columns}xf32>
    %found = reduce %tile dim=1 identities=[{identity}] : tile<{rows}x{columns}xf32> -> tile<{rows}xf32>
    (%a: tile<f32>, %b: tile<f32>) {{
      %c = {combine} %a, %b {mode}: tile<f32>
      yield %c : tile<f32>
    }}
    %o0 = reshape %out : tile<ptr<f32>> -> tile<1xptr<f32>>
    %os = broadcast %o0 : tile<1xptr<f32>> -> tile<{rows}xptr<f32>>
    %rows = iota : tile<{rows}xi32>
    %to = offset %os, %rows : tile<{rows}xptr<f32>>, tile<{rows}xi32> -> tile<{rows}xptr<f32>>
    %t2 = store_ptr_tko weak %to, %found : tile<{rows}xptr<f32>>, tile<{rows}xf32> -> token
    return
  }}
}}
"""
COMBINERS = {
    "addf": ("0.0 : f32", "rounding<nearest_even> ", np.sum),
    "maxf": ("0xFF800000 : f32", "", np.max),
    "minf": ("0x7F800000 : f32", "", np.min),
    "mulf": ("1.0 : f32", "rounding<nearest_even> ", np.prod),
}


def made(combine: str, gpu: str, rows: int, columns: int) -> tileiras.Artifact:
    identity, mode, _ = COMBINERS[combine]
    text = KERNEL.format(
        combine=combine, identity=identity, mode=mode, rows=rows, columns=columns, total=rows * columns
    )
    return tileiras.compile(text, gpu_name=gpu, emit="ptx", source_name="kernel.mlir", num_warps=1)


@pytest.mark.sampled(36)
@pytest.mark.parametrize("gpu", ["sm_90", "sm_100", "sm_120"])
@pytest.mark.parametrize(("rows", "columns"), [(1, 2), (1, 512), (32, 4), (32, 8), (32, 64), (64, 16)])
@pytest.mark.parametrize("combine", sorted(COMBINERS))
def test_rows_are_combined(combine, rows, columns, gpu):
    values = np.random.default_rng(rows * columns).uniform(0.9, 1.1, (rows, columns)).astype(np.float32)
    values[:: 3] *= -1
    array = np.zeros(rows, np.float32)
    artifact = made(combine, gpu, rows, columns)
    emulate(artifact.text, "k", 1, [values, array], artifact.kernels[0].metadata)
    wanted = COMBINERS[combine][2](values.astype(np.float64), axis=1)
    np.testing.assert_allclose(array, wanted, rtol=0 if combine in ("maxf", "minf") else 2e-5)


def test_not_a_number_is_passed_over():
    values = np.full((32, 64), -1.0, np.float32)
    values[:, ::3] = np.nan
    values[5] = np.nan
    values[np.arange(32), np.arange(32)] = 7
    array = np.zeros(32, np.float32)
    artifact = made("maxf", "sm_100", 32, 64)
    emulate(artifact.text, "k", 1, [values, array], artifact.kernels[0].metadata)
    assert (array == 7).all()


@pytest.mark.parametrize(("gpu", "packed", "single"), [("sm_90", 0, 15), ("sm_100", 7, 1)])
def test_elements_stay_in_their_half_of_a_register_pair(gpu, packed, single):
    """For the 16 elements of a row in each thread, before the reduction across threads."""
    text = made("addf", gpu, 1, 512).text
    exchanged = len(re.findall(r"shfl\.sync", text))
    result = len(re.findall(r"add\.rn\.f32x2\s", text)), len(re.findall(r"add\.rn\.f32\s", text)) - exchanged
    assert (exchanged, *result) == (5, packed, single)


def test_sums_keep_nothing_of_a_row_of_scores(ptxas):
    """Two CTAs of attention; each thread has one row, with all 128 elements and the values computed from them."""
    kernel = attention_like(2, rows=128, columns=128, depth=128, steps=2, gpu_name="sm_100", halved=True)
    artifact = kernel.check("sm_100", tensor_maps="host", num_warps=4)
    assert assembler.assemble(artifact.text, "sm_100").resources["k"].stack == 0
