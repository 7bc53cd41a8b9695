"""The walk of attention whose threads issue the dots themselves, on sm_100."""

from __future__ import annotations

import numpy as np
import pytest

import tileiras
from tests.generator import attention
from tests.generator.kernel import Argument, Generated, scalar
from tests.machine_code import needs_tools
from tileiras.sim import estimate

SIZES = (128, 64, 64)


def forward(positions: int) -> Generated:
    values = np.ones((1, positions, SIZES[2]), np.float16)
    arrays = [Argument(name, values, "f16[?, ?, 8*?]", SIZES[2]) for name in ("q", "k", "v", "out")]
    arguments = (*arrays, scalar("scale", 0.125, "f32"))
    body = attention._FORWARD.format(keys=attention._KEYS[0])
    return Generated("attention", body, arguments, (*SIZES, False, 1), (-(-positions // SIZES[0]), 1, 1), {})


@needs_tools
@pytest.mark.parametrize("warps", [4, 8])
def test_each_step_has_its_waits(warps):
    """The exit of a wait has a move with the line of the branch back, which no warp takes; the next step's wait is not
    an event of this one."""
    times = []
    for positions in (128, 512):
        kernel = forward(positions)
        artifact = tileiras.compile(kernel.source(), gpu_name="sm_100", emit="ptx", tensor_maps="host", num_warps=warps)
        metadata = artifact.kernels[0].metadata
        result = estimate(artifact.text, "kernel", 1, kernel.slots()[0], gpu="B200", metadata=metadata)
        assert not result.doubt
        times.append(result.microseconds)
    assert times[1] > times[0] + 1
