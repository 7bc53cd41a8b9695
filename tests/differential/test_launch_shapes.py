"""Clusters, warps and occupancy that a kernel requests: the shape of its launch, and that its effects happen once."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.reasons import stated
from tests.kernels.tiles import compiled
from tests.machine_code import on_an_sm
from tileiras.sim import emulate, interpret

KERNEL = """cuda_tile.module @m {{
  entry @k(%p: tile<ptr<f32>>, %counter: tile<ptr<i32>>) optimization_hints=<{hints}> {{
    %x, %y, %z = get_tile_block_id : tile<i32>
    %nx, %ny, %nz = get_num_tile_blocks : tile<i32>
    %row = muli %y, %nx : tile<i32>
    %block = addi %row, %x : tile<i32>
    %t = make_tensor_view %p, shape = [6144], strides = [1] : tensor_view<6144xf32, strides=[1]>
    %v = make_partition_view %t : partition_view<tile=(1024), tensor_view<6144xf32, strides=[1]>>
    %a, %t0 = load_view_tko weak %v[%block]
        : partition_view<tile=(1024), tensor_view<6144xf32, strides=[1]>>, tile<i32> -> tile<1024xf32>, token
    %s = reduce %a dim=0 identities=[0.0 : f32] : tile<1024xf32> -> tile<f32> (%l: tile<f32>, %r: tile<f32>) {{
      %sum = addf %l, %r : tile<f32>
      yield %sum : tile<f32>
    }}
    %s1 = reshape %s : tile<f32> -> tile<1xf32>
    %sb = broadcast %s1 : tile<1xf32> -> tile<1024xf32>
    %b = addf %a, %sb : tile<1024xf32>
    %t1 = store_view_tko weak %b, %v[%block] token=%t0
        : tile<1024xf32>, partition_view<tile=(1024), tensor_view<6144xf32, strides=[1]>>, tile<i32> -> token
    %old, %t2 = atomic_rmw_tko relaxed device %counter, add, %nx : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
    return
  }}
}}
"""


def compiled_with(hints: str, gpu_name: str, **options):
    artifact, metadata = compiled(KERNEL.format(hints=hints), gpu_name, **options)
    return artifact, metadata["k"]


def check(artifact, metadata) -> None:
    items = [np.arange(6144).astype(np.float32) % 7, np.zeros(1, np.int32)]
    expected, actual = ([array.copy() for array in items] for _ in range(2))
    interpret(KERNEL.format(hints="default = {}"), "k", (3, 2), expected)
    emulate(artifact.text, "k", (3, 2), actual, metadata=metadata)
    assert all((got == want).all() for got, want in zip(actual, expected))
    assert actual[1][0] == 18


@pytest.mark.parametrize("num_ctas", [2, 8])
@pytest.mark.parametrize("gpu_name", ["sm_90", "sm_100", "sm_120"])
def test_a_tile_block_is_a_cluster(gpu_name, num_ctas):
    artifact, metadata = compiled_with(f"{gpu_name} = {{num_cta_in_cga = {num_ctas}}}", gpu_name)
    kernel = metadata["kernels"][0]
    assert kernel["cluster"] == [num_ctas, 1, 1] and kernel["blocks_are_clusters"]
    text = f"slices.first-cta ctas={num_ctas}; slices.dependent parts={num_ctas}"
    assert text in stated(artifact.diagnostics)
    check(artifact, metadata)


def test_without_clusters_a_tile_block_is_one_cta():
    artifact, metadata = compiled_with("default = {}", "sm_80", num_ctas=4)
    assert metadata["kernels"][0]["cluster"] == [1, 1, 1]
    assert "kernel.no-clusters target=sm_80" in stated(artifact.diagnostics)
    check(artifact, metadata)


def test_warps_and_occupancy_are_as_the_hints_say(ptxas):
    artifact, metadata = compiled_with("sm_90 = {num_worker_warps_per_cta = 2, occupancy = 3}", "sm_90")
    assert metadata["kernels"][0]["block"] == [64, 1, 1]
    assert on_an_sm(artifact, "sm_90")[0] >= 3
    check(artifact, metadata)
    # An option is stronger than the source.
    _, metadata = compiled_with("sm_90 = {num_worker_warps_per_cta = 2}", "sm_90", num_warps=8)
    assert metadata["kernels"][0]["block"] == [256, 1, 1]


@pytest.mark.parametrize("occupancy", [1, 2, 16])
@pytest.mark.parametrize("gpu_name", ["sm_75", "sm_80", "sm_90", "sm_120"])
def test_occupancy_of_a_kernel_without_shared_memory(gpu_name, occupancy, ptxas):
    text = f"""cuda_tile.module @m {{
      entry @k(%p: tile<ptr<f32>>) optimization_hints=<default = {{occupancy = {occupancy}}}> {{
        %one = constant <f32: 1.0> : tile<f32>
        %t = store_ptr_tko weak %p, %one : tile<ptr<f32>>, tile<f32> -> token
        return
      }}
    }}
    """
    artifact, metadata = compiled(text, gpu_name)
    assert on_an_sm(artifact, gpu_name)[0] >= occupancy
    output = np.zeros(1, np.float32)
    emulate(artifact.text, "k", 1, [output], metadata=metadata["k"])
    assert output[0] == 1
