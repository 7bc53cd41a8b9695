"""How many CTAs of a kernel an SM holds is known before its loops have their buffers."""

from __future__ import annotations

import pytest

import tileiras
from tests.kernels.dots import attention_like, matmul
from tests.kernels.views import Kernel, after_decision, operations
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.resources.shared_memory import scratch_before
from tileiras.schedule.agents import budget as judged

ASKED = {"pipeline_strategy": "unspecialize"}


def attention(rows: int) -> Kernel:
    return attention_like(1, "f16", rows=rows, columns=64, depth=64, steps=16)


@pytest.mark.parametrize("rows", [64, 128])
def test_the_plain_schedule_converts_before_the_loop(rows, monkeypatch):
    """Q changes hands just before the loop, when the copies of its first iterations are under way."""
    items: list[int] = []
    occupancy = judged.occupancy
    monkeypatch.setattr(judged, "occupancy", lambda *args: items.append(args[3]) or occupancy(*args))
    attention(rows).tileas("sm_120", pipeline_strategy="auto")
    (func,) = operations(attention(rows).tileas("sm_120", **ASKED), aa.FuncOp)
    assert items[0] == tileas.number_of(func, tileas.SHARED_MEMORY)


def test_a_conversion_that_something_else_uses_is_elsewhere():
    module = after_decision(attention(64).text, "tileas-generate-schedule", "sm_120", **ASKED)
    (loop,) = operations(module, scf.ForOp)
    assert scratch_before(loop, 100_000) == 64 * 64 * 2
    (q,) = (op for op in loop.parent.operations if isinstance(op, tileas.ConvertLayoutOp) and
            any(loop.is_ancestor_of(user) for user in op.result.users))  # fmt: skip
    q.move_before(loop.parent.last)
    assert scratch_before(loop, 100_000) == 0


def _plan(kernel: Kernel, **options) -> tuple[int | None, int]:
    """The CTAs of an SM that the plan of a kernel asks for, and the stages of its loop."""
    module = kernel.after("tileas-generate-schedule", "sm_100", **options)
    (func,), (loop, *_) = operations(module, aa.FuncOp), operations(module, scf.ForOp)
    return func.kernel_spec.occupancy, loop.attributes[tileas.LOOP_SCHEDULE].stages


def test_another_cta_instead_of_a_deep_ring():
    """A CTA multiplies while the other one begins or ends, where their threads only wait for dots."""
    assert _plan(matmul((128, 128, 64), "f16", steps=5)) == (2, 3)
    assert _plan(matmul((128, 256, 64), "f16", steps=5))[0] is None, "three stages of it fit once"
    assert _plan(matmul((128, 128, 64), "f16", steps=5), tensor_maps="none")[0] is None, "all threads copy"
    assert _plan(matmul((128, 128, 64), "f16", steps=5), unspecialized_pipeline_num_stages=4)[1] == 4


def test_results_of_two_ctas_on_an_sm():
    kernel = matmul((128, 128, 64), "f16", steps=5)
    artifact = tileiras.compile(kernel.text, gpu_name="sm_100")
    for seed in (None, 0):
        kernel.emulated(artifact, seed)
