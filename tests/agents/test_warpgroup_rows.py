"""Attention of 256 rows on sm_100: two warpgroups have 128 of them each, and hand these on by themselves, so that one
computes under the products of the other; where columns are few, exponentials take the place of scores."""

from __future__ import annotations

import random
import re

import pytest

from tests.agents.chained_attention import GPU, ORDERS, agents, attention, rounds, two_loops, with_unknown_steps
from tests.agents.running import SEEDS, SPECIALIZED, sites, survives, verify
from tests.kernels.dots import attention_in_two_loops, attention_like
from tests.kernels.views import Kernel
from tileiras.diagnostics import CompileError


def in_turn(steps: int = 3) -> Kernel:
    """256 columns of scores and 256 of the result leave no columns for exponentials."""
    return attention(1, steps, rows=256, columns=128, depth=128)


def two_loops_in_turn(first: int, second: int) -> Kernel:
    return attention_in_two_loops(first, second, 1, rows=256, columns=128, depth=128, gpu_name=GPU)


KERNELS = {
    "own columns": lambda: attention(1, 6, rows=256),
    "own columns, two loops": lambda: two_loops(2, 3, rows=256),
    "in turn": in_turn,
    "in turn, two steps": lambda: in_turn(2),
    "in turn, four steps": lambda: in_turn(4),
    "in turn, two loops": lambda: two_loops_in_turn(2, 2),
}
RUN = [
    *((name, "host") for name in KERNELS if name != "in turn, four steps"), ("own columns", "none"),
    ("own columns", "device"), ("in turn", "device"),
]  # fmt: skip


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("name", "maps"), RUN)
def test_kernels_in_any_order_of_their_warpgroups(name, maps, assemble):
    kernel = KERNELS[name]()
    corrects = name.startswith("own columns")
    """Whether other warps rescale the accumulator: its iterations have 64 columns, those of the others 128."""
    warps = f"8, {'8, ' * corrects}{4 if maps == 'none' else 1}, 1"
    assert agents(kernel, tensor_maps=maps).startswith(warps)
    text = kernel.compiled(GPU, emit="tileas", tensor_maps=maps, **SPECIALIZED).text
    assert len(re.findall(r"create_pipeline [^\n]*groups = 2", text)) == 2 + corrects
    assert (re.search(r"tensor_memory\.alloc %\d+ over %\d+", text) is not None) is name.startswith("in turn")
    artifact = kernel.compiled(GPU, emit="ptx", tensor_maps=maps, **SPECIALIZED)
    assemble(artifact.text, GPU)
    for seed in SEEDS[:2]:
        kernel.emulated(artifact, seed)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("steps", [0, 1, 3])
def test_a_number_of_iterations_that_is_known_at_run_time(steps):
    kernel = with_unknown_steps(in_turn(max(steps, 1)), steps)
    assert agents(kernel, tensor_maps="host") == "8, 1, 1"
    artifact = kernel.compiled(GPU, emit="ptx", tensor_maps="host", **SPECIALIZED)
    for seed in SEEDS[:2]:
        kernel.emulated(artifact, seed)


def test_two_rounds_of_a_loop_around():
    """The scores of the second one are behind the last product of the first one."""
    kernel = rounds(in_turn(2), 2)
    assert agents(kernel, tensor_maps="host").startswith("8, 1, 1")
    artifact = kernel.compiled(GPU, emit="ptx", tensor_maps="host", **SPECIALIZED)
    for seed in SEEDS[:2]:
        kernel.emulated(artifact, seed)


@pytest.mark.parametrize("gpu", ["sm_103", "sm_110"])
def test_the_rest_of_the_family(gpu, assemble):
    kernel = attention_like(1, rows=256, columns=128, depth=128, steps=2, gpu_name=gpu, halved=True)
    artifact = kernel.compiled(gpu, emit="ptx", tensor_maps="host", **SPECIALIZED)
    assert artifact.kernels[0].metadata["block"][0] == 384 and "tcgen05.ld.red" in artifact.text
    assemble(artifact.text, gpu)
    kernel.emulated(artifact, 1)


IMPLIED = {"in turn, four steps": ["tcgen05.wait::ld.sync.aligned;"]}
"""The wait behind the load of scores.  The emulator requires it only before the columns of the scores are written, and
the waits for two loads of rescaled values precede those writes.  Hardware requires it before the registers are read
(PTX ISA, tcgen05.wait)."""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["own columns", pytest.param("in turn, four steps", marks=pytest.mark.slow)])
def test_synchronization_is_minimal(name):
    """One in three: all are many launches of large tiles.  `setmaxnreg` orders nothing.  Every stage of a ring of two
    is filled again behind four iterations."""
    kernel = KERNELS[name]()
    artifact = kernel.compiled(GPU, emit="ptx", tensor_maps="host", **SPECIALIZED)
    beside = ("fence.mbarrier_init", "setmaxnreg")
    result = [(line, broken) for line, broken in sites(artifact.text) if not line.startswith(beside)]
    code = artifact.text
    result += [(each[0], code[: each.start()] + code[each.end() :]) for each in ORDERS.finditer(code)]

    def judge(code: str, seed: int | None) -> None:
        kernel.emulated(artifact, seed, code)

    chosen = random.Random(name).sample(result, len(result) // 3)
    assert {line for line, broken in chosen if survives(broken, judge)} <= set(IMPLIED.get(name, []))


def test_groups_of_warps_are_named_by_the_thread_that_is_alone():
    text = in_turn().compiled(GPU, emit="tileas", tensor_maps="host", **SPECIALIZED).text
    wait = re.search(r"consumer_wait [^\n]*{group = 1 : i32}", text)
    assert wait is not None
    for broken, reason in (
        (wait[0].replace(" {group = 1 : i32}", ""), "names a group of warps where one thread"),
        (wait[0].replace("group = 1", "group = 2"), "names group 2, on a pipe of 2"),
    ):
        with pytest.raises(CompileError, match=reason):
            verify(text.replace(wait[0], broken), GPU)
    with pytest.raises(CompileError, match="is on a pipe of 4 groups of warps, in an agent of 8 warps"):
        verify(text.replace("groups = 2", "groups = 4"), GPU)
