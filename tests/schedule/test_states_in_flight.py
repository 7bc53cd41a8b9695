"""A tile that dots add to, and that the next iteration also reads in registers, is waited for before it: ptxas
serializes products otherwise (C7517)."""

from __future__ import annotations

import pytest

from tests.kernels.linear_attention import linear_attention
from tests.machine_code import assemble, needs_tools
from tileiras.dialects import nv_tileas as tileas


@pytest.mark.sampled(3)
@pytest.mark.parametrize("maps", ["host", "none"])
@pytest.mark.parametrize("sizes", [(64, 64, 64), (64, 64, 128), (128, 64, 64)])
@needs_tools
def test_ptxas_serializes_no_product(sizes, maps):
    kernel = linear_attention(3, *sizes)
    artifact = kernel.compiled("sm_90", emit="ptx", tensor_maps=maps)
    assert "wgmma" in artifact.text
    assemble(artifact.text, "sm_90")
    for seed in (None, 1):
        kernel.emulated(artifact, seed)


def test_a_dot_adds_to_the_tile_of_the_wait():
    """No dot takes a future that a wait has returned as a tile."""
    module = linear_attention(3).tileas("sm_90", tensor_maps="host")
    waits = [op for op in module.walk() if isinstance(op, tileas.FutureWaitOp) and op.operands]
    assert waits
    for wait in waits:
        for future in wait.operands:
            behind = [user for user in future.users if isinstance(user, tileas.AsyncDotOp)]
            assert not any(user.parent is wait.parent and wait.is_before_in_block(user) for user in behind)
