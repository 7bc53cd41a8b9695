"""Loops of dots that threads execute, whose loads have one stage each since no ring of two fits."""

from __future__ import annotations

import re

import pytest

from tests.kernels.dots import attention_like
from tests.kernels.dots import with_steps_at_run_time as at_run_time
from tests.kernels.views import Kernel
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.sim.errors import SimulationError

GPU = "sm_120"
SINGLE, PLAIN = (f"#nv_tileas.loop_schedule<{kind}>" for kind in ("single_buffer, 1", "plain, 2"))
WARPS = {"num_warps": 4}


def attention(steps: int = 3, columns: int = 128, **options) -> Kernel:
    """With 128 columns K and V have 32 KB each and Q 16: two stages of each are more than the 99 KB of a CTA."""
    return attention_like(1, rows=64, columns=columns, depth=128, steps=steps, gpu_name=GPU, **options)


def schedules(kernel: Kernel, gpu_name: str = GPU, **options) -> list[str]:
    module = kernel.tileas(gpu_name, **WARPS, **options)
    return [f"{op.attributes[tileas.LOOP_SCHEDULE]}" for op in module.walk() if isinstance(op, scf.ForOp)]


def test_where_no_ring_of_two_fits():
    assert schedules(attention()) == [SINGLE]
    assert schedules(attention(columns=64)) != [SINGLE]
    # sm_80 has 163 KB.
    text = attention()
    assert schedules(text._replace(text=text.text.replace("sm_120", "sm_80")), "sm_80") == [PLAIN]


@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_result_is_the_same(steps, seed):
    kernel = attention(steps)
    kernel.emulated(kernel.compiled(GPU, **WARPS), seed=seed)


def test_as_the_interpreter_has_it():
    attention(2, halved=True).check(GPU, **WARPS)


def test_a_number_of_steps_that_only_the_launch_knows():
    for count in (1, 3):
        at_run_time(attention(count), count).check(GPU, **WARPS)


def test_boxes_give_way():
    """All threads copy what single stages get, with tensor maps at hand as well."""
    kernel = attention(2)
    made = kernel.compiled(GPU, tensor_maps="host", pipeline_strategy="unspecialize", **WARPS)
    assert schedules(kernel, tensor_maps="host", pipeline_strategy="unspecialize") == [SINGLE]
    kernel.emulated(made)


SYNCHRONIZATION = re.compile(r"^\t(?:bar\.sync|barrier\.sync|cp\.async\.wait_group)[^\n]*;\n", re.MULTILINE)


def test_nothing_waits_in_vain():
    """Without any one wait or barrier of the loop a launch fails: three iterations of two waits and three barriers."""
    kernel = attention(3)
    artifact = kernel.compiled(GPU, **WARPS)
    ptx = artifact.text
    start = ptx.index(":", ptx.index("$L__BB0_1"))
    end = ptx.rindex("bra")
    found = [match for match in SYNCHRONIZATION.finditer(ptx, start, end)]
    assert len([match for match in found if "wait" in match.group()]) == 2 and len(found) == 5
    for match in found:
        without = ptx[: match.start()] + ptx[match.end() :]
        with pytest.raises((SimulationError, AssertionError)):
            for seed in range(4):
                kernel.emulated(artifact, seed=seed, ptx=without)
