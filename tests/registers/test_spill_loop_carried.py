"""Small loop-carried tiles are spilled to shared memory while a dot leaves few registers."""

from __future__ import annotations

import pytest

from tests.kernels.dots import attention_like
from tests.kernels.gradients import of_keys, of_queries
from tests.kernels.views import operations
from tileiras.dialects import scf
from tileiras.ir import TensorType
from tileiras.targets.sm import FEATURES

ROWS = 64


@pytest.fixture(autouse=True)
def without_tensor_memory(monkeypatch):
    """Without the tensor memory that accumulators would use, on the GPU whose shared memory has room for spilled
    values."""
    monkeypatch.setitem(FEATURES, "tcgen05", "=110a")


@pytest.mark.parametrize(("ctas", "element", "left"), [(2, "f32", 4), (4, "f32", 2), (4, "f16", 2), (4, "f8E4M3FN", 2)])
def test_where_registers_are_few_the_loop_carries_less(ctas, element, left):
    module = attention_like(ctas, element, rows=ROWS, gpu_name="sm_100").tileas("sm_100", num_warps=4)
    (loop,) = (op for op in operations(module, scf.ForOp) if op.results)
    carried = [result.type for result in loop.results if isinstance(result.type, TensorType)]
    assert [type.shape for type in carried].count((ROWS, 1)) == left


@pytest.mark.parametrize(("ctas", "element"), [(2, "f32"), (4, "f32"), (4, "f16"), (4, "f8E4M3FN")])
def test_the_results_are_the_same(ctas, element):
    attention_like(ctas, element, rows=ROWS, gpu_name="sm_100").check("sm_100", num_warps=4)


@pytest.mark.parametrize("kernel", [of_queries(4, 128, 128), of_keys(4, 128, 128)], ids=["queries", "keys"])
def test_loops_of_agents_beside_the_buffers_of_pipes(kernel, monkeypatch):
    """Threads that compute for products of another agent hand them operands in buffers that agents share."""
    monkeypatch.undo()
    artifact = kernel.compiled("sm_100", tensor_maps="host", num_warps=4, pipeline_strategy="warp-specialize")
    kernel.emulated(artifact)
