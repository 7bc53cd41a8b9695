"""Stores of tiles that threads hold transposed: not through the place that boxes give their rows, whose swizzle puts
the rows that the lanes of a warp have into the same banks."""

from __future__ import annotations

import numpy as np
import pytest

import tileiras
from tests.kernels.reasons import causes
from tests.machine_code import assemble

STORE = "cp.async.bulk.tensor"
NUMPY = {"f16": np.float16, "f32": np.float32, "i8": np.int8}


def transposed(element: str, tile: int) -> str:
    view = f"tensor_view<?x?x{element}, strides=[?,1]>"
    tiles = f"partition_view<tile=({tile}x{tile}), padding_value = zero, {view}>"
    number = f"tile<{tile}x{tile}x{element}>"
    pointer, divisor = f"tile<ptr<{element}>>", 128 // {"f16": 16, "f32": 32, "i8": 8}[element]
    return f"""cuda_tile.module @m {{ entry @k(%from: {pointer}, %to: {pointer}, %m: tile<i32>, %n: tile<i32>) {{
        %x = assume div_by<16>, %from : {pointer}
        %y = assume div_by<16>, %to : {pointer}
        %rows = assume div_by<{divisor}>, %m : tile<i32>
        %columns = assume div_by<{divisor}>, %n : tile<i32>
        %a = make_tensor_view %x, shape = [%rows, %columns], strides = [%columns, 1] : tile<i32> -> {view}
        %b = make_tensor_view %y, shape = [%columns, %rows], strides = [%rows, 1] : tile<i32> -> {view}
        %ta = make_partition_view %a : {tiles}
        %tb = make_partition_view %b : {tiles}
        %i, %j, %none = get_tile_block_id : tile<i32>
        %t, %read = load_view_tko weak %ta[%i, %j] : {tiles}, tile<i32> -> {number}, token
        %turned = permute %t [1, 0] : {number} -> {number}
        %done = store_view_tko weak %turned, %tb[%j, %i] : {number}, {tiles}, tile<i32> -> token
        return
    }} }}"""


@pytest.mark.parametrize("gpu", ["sm_90", "sm_100", "sm_120"])
@pytest.mark.parametrize("element", NUMPY)
def test_threads_store_tiles_with_conflicting_banks(element, gpu, ptxas):
    artifact = tileiras.compile(transposed(element, 64), gpu_name=gpu, tensor_maps="host", emit_remarks=True)
    assert STORE not in artifact.text
    result = causes(artifact.diagnostics, "maps.unused")
    assert "maps.bank-conflicts" in result
    assemble(artifact.text, gpu)
    rows, columns = 80, 144
    x = np.random.default_rng(0).integers(-100, 100, (rows, columns)).astype(NUMPY[element])
    y = np.zeros((columns, rows), x.dtype)
    tileiras.sim.emulate(artifact.text, "k", (2, 3), [x, y, rows, columns], artifact.kernels[0].metadata, seed=1)
    np.testing.assert_array_equal(y, x.T)
