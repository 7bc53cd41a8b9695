"""Kernels whose tiles one thread of the CTA copies in boxes, while all others wait for them."""

import pytest
from boxes_in_time import estimated

from tests.machine_code import needs_tools

pytestmark = needs_tools
GPUS = [("sm_90", "H200"), ("sm_120", "RTX PRO 6000")]


@pytest.mark.parametrize("target, gpu", GPUS)
def test_boxes_are_no_slower_than_copies_by_all_threads(target, gpu):
    """A loop of so few iterations is bound by the latency of memory, which is slightly larger for boxes."""
    none, host = (estimated((128, 128, 64), 8, target, gpu, maps) for maps in ("none", "host"))
    assert 0.5 * none.cycles < host.cycles < 1.1 * none.cycles


@pytest.mark.parametrize("target, gpu", GPUS)
def test_more_iterations_take_longer(target, gpu):
    times = [estimated((64, 64, 64), steps, target, gpu, "host").cycles for steps in (4, 8, 16)]
    assert times[0] < times[1] < times[2]
    assert times[2] - times[1] > 1.2 * (times[1] - times[0])
