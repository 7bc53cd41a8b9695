"""Loops of dots that threads execute, whose loads have one stage each since no ring of two fits, or only without
another CTA."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.kernels.dots import attention_like, dot
from tests.kernels.dots import with_steps_at_run_time as at_run_time
from tests.kernels.views import ONE, Kernel, View, entry, whole_numbers, zeros
from tileiras.dialects import nv_tileaa as aa
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


def shared(steps: int = 3, ctas: int = 2, columns: int = 64) -> Kernel:
    """With 64 columns two stages of K and V have 64 KB: an SM of 100 KB holds one CTA."""
    return attention_like(ctas, rows=64, columns=columns, depth=128, steps=steps, gpu_name=GPU)


def occupancy(kernel: Kernel, gpu_name: str = GPU, **options) -> int:
    (func,) = (op for op in kernel.tileas(gpu_name, **WARPS, **options).walk() if isinstance(op, aa.FuncOp))
    return func.kernel_spec.occupancy


def test_where_two_stages_would_leave_an_sm_one_cta():
    assert schedules(shared()) == [SINGLE] and occupancy(shared()) == 2
    # No more CTAs than fit on an SM, however few stages there are; two stages where they fit.
    assert occupancy(shared(ctas=4)) == 3
    assert schedules(shared(columns=32)) != [SINGLE] and occupancy(shared(columns=32)) == 2
    assert occupancy(shared(columns=128)) == 1


RINGS = [{"pipeline_strategy": "warp-specialize"}, {"unspecialized_pipeline_num_stages": 2}]


@pytest.mark.parametrize("options", RINGS, ids=lambda options: next(iter(options)))
def test_not_where_something_else_was_asked_for(options):
    assert schedules(shared(), **options) != [SINGLE] and occupancy(shared(), **options) == 1


@pytest.mark.sampled(3)
@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_result_beside_another_cta(steps, seed):
    kernel = shared(steps)
    kernel.emulated(kernel.compiled(GPU, **WARPS), seed=seed)


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
    """All threads copy the tiles of single stages, with tensor maps at hand as well."""
    kernel = attention(2)
    result = kernel.compiled(GPU, tensor_maps="host", pipeline_strategy="unspecialize", **WARPS)
    assert schedules(kernel, tensor_maps="host", pipeline_strategy="unspecialize") == [SINGLE]
    kernel.emulated(result)


SYNCHRONIZATION = re.compile(r"^\t(?:bar\.sync|barrier\.sync|cp\.async\.wait_group)[^\n]*;\n", re.MULTILINE)


def test_nothing_waits_in_vain():
    """Without any one wait or barrier of the loop a launch fails: three iterations of two waits and three barriers."""
    kernel = attention(3)
    artifact = kernel.compiled(GPU, **WARPS)
    ptx = artifact.text
    start = ptx.index(":", ptx.index("$L__BB0_1"))
    end = ptx.rindex("bra")
    matches = [match for match in SYNCHRONIZATION.finditer(ptx, start, end)]
    assert len([match for match in matches if "wait" in match.group()]) == 2 and len(matches) == 5
    for match in matches:
        without = ptx[: match.start()] + ptx[match.end() :]
        with pytest.raises((SimulationError, AssertionError)):
            for seed in range(4):
                kernel.emulated(artifact, seed=seed, ptx=without)


def multiply_adds(steps: int = 3, size: int = 32) -> Kernel:
    """Two sums of products of f32, which no matrix instruction multiplies, of one A that is computed; in 8 CTAs."""
    whole = steps * size, size
    x = View("x", (size, size), "i8", whole, aligned=None)  # too little at a time to be copied ahead
    y, z = (View(name, (size, size), "f32", whole) for name in "yz")
    c, d = (View(name, (size, size), "f32") for name in "cd")
    tile = c.tile
    body = [
        ONE, f"%steps = constant <i32: {steps}> : tile<i32>", zeros("none", tile),
        f"%c, %d = for %i in (%zero to %steps, step %one) : tile<i32> iter_values(%c_1 = %none, %d_1 = %none)"
        f" -> ({tile}, {tile}) {{",
        x.load("x", "%i, %zero"), f"%x_f = itof %x signed : {x.tile} -> {tile}",
        f"%a = permute %x_f [1, 0] : {tile} -> {tile}",
        y.load("y", "%i, %zero"), dot("c_2", "a", "y", "c_1", (tile, tile, tile)),
        z.load("z", "%i, %zero"), dot("d_2", "a", "z", "d_1", (tile, tile, tile)),
        f"continue %c_2, %d_2 : {tile}, {tile}", "}",
        c.store("c"), d.store("d"),
    ]  # fmt: skip
    inputs = tuple(whole_numbers(v.shape, v.element, seed) for seed, v in enumerate((x, y, z)))
    left = inputs[0].astype(np.float32).T
    wanted = left @ inputs[1], left @ inputs[2]
    hints = "default = {occupancy = 8, num_worker_warps_per_cta = 8}"
    return Kernel(entry([x, y, z, c, d], body, hints), inputs, tuple(map(np.zeros_like, wanted)), wanted)


@pytest.mark.parametrize("gpu", ["sm_80", "sm_90", "sm_100", "sm_120"])
def test_multiply_adds_beside_other_ctas(gpu):
    kernel = multiply_adds()
    kernel.emulated(kernel.compiled(gpu))
