"""The kernels that stand for the steps of a hand-written product: right, and in their order by the estimate."""

import ml_dtypes
import numpy as np
import pytest

from bench import hand_written_gemm
from bench.hand_written_gemm import ENTRY, STEPS
from tests.machine_code import needs_tools
from tileiras.sim import emulate


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
@pytest.mark.parametrize("seed", [None, 0])
def test_a_step_multiplies(step, seed):
    random = np.random.default_rng(0)
    sizes = 256, step.columns * (2 if step.persistent else 1), max(256, 2 * step.depth)
    a, b = (random.integers(-3, 4, (size, sizes[2])).astype(ml_dtypes.bfloat16) for size in sizes[:2])
    result = hand_written_gemm.launch(step._replace(persistent=2 if step.persistent else 0), *sizes, (a, b))
    emulate(
        hand_written_gemm.ptx(step), ENTRY, result.grid, result.args, metadata={"kernels": [result.metadata]}, seed=seed
    )
    assert (result.result == (a.astype(np.float32) @ b.astype(np.float32).T).astype(ml_dtypes.bfloat16)).all()


@needs_tools
def test_steps_before_the_persistent_one_are_in_order():
    rates = [hand_written_gemm.estimated(step) for step in STEPS[:-1]]
    assert not hand_written_gemm.wrong_pairs([*rates, None])
    # Nothing multiplies faster than the chip's power lets it.
    assert max(rates) < 1_420


def test_a_pair_in_the_wrong_order_is_named():
    first, second = STEPS[:2]
    assert hand_written_gemm.wrong_pairs([2.0, 1.0, None, None, None]) == [(first, second)]
    assert not hand_written_gemm.wrong_pairs([1.0, 2.0, None, None, None])
