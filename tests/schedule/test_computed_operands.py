"""Dots of warpgroups whose operands threads compute and put into shared memory: memory that a dot in flight reads is
written again only behind the wait for the dot."""

import random

import pytest

from tests.kernels.dots import attention_in_two_loops, attention_like, with_steps_at_run_time

SEEDS = (None, 1)


def _run(kernel, gpu_name, **options):
    artifact = kernel.compiled(gpu_name, **options)
    for seed in SEEDS:
        kernel.emulated(artifact, seed)
    return artifact


@pytest.mark.parametrize("rows, maps", [(16, "none"), (16, "host"), (32, "none")])
def test_exchanged_operands_of_a_dot_under_way_are_kept(rows, maps):
    """Fewer than 64 rows: P of the second dot is its second operand, in shared memory."""
    kernel = attention_like(1, rows=rows, columns=64, depth=128, halved=True, gpu_name="sm_90")
    kernel = with_steps_at_run_time(kernel, 3)
    assert "wgmma.mma_async" in _run(kernel, "sm_90", tensor_maps=maps).text


@pytest.mark.parametrize("strategy", ["unspecialize", "warp-specialize"])
@pytest.mark.parametrize("steps", [0, 1, pytest.param(5, marks=pytest.mark.slow)])
def test_no_step_and_more_than_stages(steps, strategy):
    kernel = attention_like(1, rows=16, columns=64, depth=128, steps=max(steps, 1), halved=True, gpu_name="sm_90")
    kernel = with_steps_at_run_time(kernel, max(steps, 1))
    if not steps:
        kernel = _without_steps(kernel)
    _run(kernel, "sm_90", pipeline_strategy=strategy)


def _without_steps(kernel):
    """The kernel whose loop's trip count is zero at run time."""
    text = kernel.text.replace("muli %each, %grid", "subi %grid, %grid")
    total, most, sums = (array.copy() for array in kernel.expected)
    total[:], most[:], sums[:] = 0, -10000, 3
    return kernel._replace(text=text, expected=(total, most, sums))


def test_a_second_loop_waits_before_it_fills_a_stage():
    """Its ring lies where the last dot of the first loop may still read."""
    kernel = attention_in_two_loops(2, 3, 1, rows=128, columns=64, depth=64, gpu_name="sm_100")
    _run(kernel, "sm_100", tensor_maps="host", pipeline_strategy="unspecialize")


def _drawn(count):
    rng = random.Random(11)
    for _ in range(count):
        sizes = {"rows": rng.choice((8, 16, 32)), "columns": rng.choice((32, 64, 128)), "depth": rng.choice((64, 128))}
        options = {"tensor_maps": rng.choice(("none", "host")),
                   "pipeline_strategy": rng.choice(("auto", "unspecialize", "warp-specialize"))}  # fmt: skip
        yield sizes, rng.choice((1, 2, 4, 7)), rng.choice(("sm_90", "sm_90", "sm_100", "sm_120")), options


@pytest.mark.slow
@pytest.mark.parametrize("sizes, steps, gpu_name, options", list(_drawn(40)))
def test_small_products_of_computed_operands(sizes, steps, gpu_name, options):
    kernel = attention_like(1, steps=steps, halved=True, gpu_name=gpu_name, **sizes)
    _run(with_steps_at_run_time(kernel, steps), gpu_name, **options)
