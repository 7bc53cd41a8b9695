"""Loops whose loads run one iteration ahead in registers, where nothing copies in the background."""

from __future__ import annotations

import pytest

from tests.kernels.pipelined import TOKEN, K, N, check, matmul, view
from tests.kernels.views import names
from tests.tileas_stage import pipelined, ptx
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.ir import TensorType


def loop_of(module):
    return next(op for op in module.walk() if isinstance(op, scf.ForOp))


def test_the_tiles_of_the_next_iteration_are_carried():
    loop = loop_of(pipelined(matmul(), gpu="sm_75"))
    shapes = [v.type.shape for v in loop.iter_args if isinstance(v.type, TensorType)]
    assert (32, 32) in shapes and (32, 16) in shapes
    branch = next(op for op in loop.body.block.operations if isinstance(op, scf.IfOp))
    assert sum(isinstance(op, tileas.TiledLoadOp) for op in branch.walk()) == 2
    before = [op for op in loop.body.block.operations if op.is_before_in_block(branch)]
    assert not any(isinstance(op, (tileas.DotOp, tileas.ConvertLayoutOp)) for op in before)


@pytest.mark.parametrize("steps", [0, 1, 2, 3])
def test_any_number_of_iterations(steps):
    check(ptx(matmul(), "sm_75", stages=3), 32, K * max(1, steps), K * max(1, steps), steps)


@pytest.mark.parametrize(("m", "k", "pitch"), [(9, 64, 64), (1, 71, 72)])
def test_edges_are_filled_with_zeros(m, k, pitch):
    check(ptx(matmul(), "sm_75", stages=3), m, k, pitch, -(-k // K))


def test_one_stage_leaves_the_loop_as_it_is():
    assert names(pipelined(matmul(), 1, gpu="sm_75")).count("tiled_load") == 2
    assert names(pipelined(matmul(), 2, gpu="sm_75")).count("tiled_load") == 4


def test_loads_after_a_store_of_the_loop_stay():
    _, b_view = view(K, N, "16, 1")
    body = f"""
      %w = nv_tileaa.tiled_store %y, %vb[%i, %zero] token = %both
        : tensor<{K}x{N}xf16>, {b_view}, (i32, i32) -> {TOKEN}"""
    source = matmul(body=body).replace("scf.yield %d, %both", "scf.yield %d, %w")
    assert names(pipelined(source, gpu="sm_75")).count("tiled_load") == 2
