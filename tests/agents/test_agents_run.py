"""Kernels of agents in the emulator: right in the order of every seed, wrong if any of their synchronization is
deleted."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.agents.running import SEEDS, check, described, ptx, run, sites, survives
from tests.kernels import agent_matmuls
from tests.kernels import agents as kernels
from tileiras.sim import EmulationError, emulate
from tileiras.targets import target
from tileiras.targets.pipe_protocol import PIPE_PROTOCOLS

TARGETS = ("sm_80", "sm_90", "sm_100", "sm_120")
DEPTHS = (1, 2, 3, 4)
OF_DOTS = {"wgmma", "tcgen05", "tcgen05_pair", "tcgen05_st"}
EXECUTED = [kinds for kinds in PIPE_PROTOCOLS if not OF_DOTS & set(kinds)]
"""Pairs of kinds without dots and their accumulators, which kernels with dots execute."""

PAIRS = [
    (kinds, gpu) for kinds in EXECUTED for gpu in TARGETS if target(gpu).meets(PIPE_PROTOCOLS[kinds].requires)
]


def judge_copy(kinds, code, seed):
    a, b, _ = run(code, seed)
    check(b, a if kinds[1] == "bulk_store" else 2 * a)


@pytest.mark.sampled(10)
@pytest.mark.parametrize("kinds, gpu", PAIRS, ids=lambda value: value if isinstance(value, str) else "-".join(value))
def test_every_protocol_on_every_target(kinds, gpu, assemble):
    code = ptx(kernels.copy_kernel(*kinds, 2, gpu), gpu)
    assemble(code, gpu)
    judge_copy(kinds, code, 0)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("kinds", EXECUTED, ids="-".join)
def test_rings_of_every_depth(kinds, depth):
    code = ptx(kernels.copy_kernel(*kinds, depth, "sm_90"))
    for seed in SEEDS[:2]:
        judge_copy(kinds, code, seed)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("producers, consumers", [(1, 1), (2, 4), (4, 4), (4, 1)])
@pytest.mark.parametrize("kinds", [("st_shared", "ld_shared"), ("cp_async", "ld_shared")], ids="-".join)
def test_agents_of_any_number_of_warps(kinds, producers, consumers, assemble):
    code = ptx(kernels.copy_kernel(*kinds, 2, "sm_80", producers, consumers, warps=consumers), "sm_80")
    assemble(code, "sm_80")
    assert f".reqntid {32 * (producers + consumers)}\n" in code
    for seed in SEEDS[:2]:
        judge_copy(kinds, code, seed)


@pytest.mark.parametrize("kind", ["st_shared", "cp_async", "bulk_load"])
def test_two_groups_of_consumers(kind, assemble):
    code = ptx(kernels.two_consumers(kind, 3, "sm_90"))
    assemble(code, "sm_90")
    for seed in SEEDS[:2]:
        a, b, c = run(code, seed)
        check(b, 2 * a)
        check(c, a * a)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("depth", (1, 2, 4))
@pytest.mark.parametrize("kind", ("cp_async", "bulk_load"))
def test_a_persistent_loop_keeps_its_pipe_running(kind, depth, assemble):
    code = ptx(kernels.persistent(kind, depth, "sm_90"))
    assemble(code, "sm_90")
    for seed in SEEDS[:2]:
        a, b, _ = run(code, seed, rows=5, grid=2)
        sums = a[: 15 * kernels.TILE].reshape(5, 3, kernels.TILE).sum(1).reshape(-1)
        check(b, np.concatenate([sums, a]), 5)


def test_no_rounds_at_all():
    code = ptx(kernels.copy_kernel("cp_async", "ld_shared", 2, "sm_90"))
    a, b, _ = run(code, 0, rows=0)
    assert (b == -1).all()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kinds", EXECUTED, ids="-".join)
def test_synchronization_of_agents_is_minimal(kinds):
    code = ptx(kernels.copy_kernel(*kinds, 2, "sm_90", producers=2, consumers=2, warps=2))
    result = sites(code)
    assert len(result) >= 10

    def judge(code, seed):
        judge_copy(kinds, code, seed)

    assert survives(code, judge)
    assert [line for line, broken in result if survives(broken, judge)] == []


@pytest.mark.slow
def test_no_synchronization_of_two_consumers_is_superfluous():
    code = ptx(kernels.two_consumers("bulk_load", 2, "sm_90"))

    def judge(code, seed):
        a, b, c = run(code, seed)
        check(b, 2 * a)
        check(c, a * a)

    assert survives(code, judge)
    assert [line for line, broken in sites(code) if survives(broken, judge)] == []


def test_stages_from_beginning_to_end():
    code = ptx(kernels.whole_stages("sm_90"))

    def judge(code, seed):
        a, b, _ = run(code, seed)
        check(b, (a + 1) ** 2)

    assert survives(code, judge)
    assert [line for line, broken in sites(code) if survives(broken, judge)] == []


@pytest.mark.parametrize("depth", (2, 3))
def test_a_stage_that_is_released_a_round_later(depth):
    code = ptx(kernels.held_stage("sm_90", depth))
    for seed in SEEDS[:2]:
        a, b, _ = run(code, seed)
        check(b, a)


@pytest.mark.parametrize("block_warps", [0, 8])
def test_agents_exchange_elements_in_scratch_memory_of_their_own(block_warps, assemble):
    """Their barriers count their threads, independently of other warps of the CTA."""
    code = ptx(kernels.exchanging("sm_90", block_warps))
    assemble(code, "sm_90")
    barriers = re.findall(r"bar(?:rier)?\.sync\s+([^;]*);", code)
    assert sorted(set(barriers)) == ["0", "1, 64", "2, 64"]
    assert f".reqntid {32 * (block_warps or 5)}\n" in code
    for seed in SEEDS[:2]:
        a, b, c = run(code, seed)
        check(b, 2 * a)
        check(c, 2 * a)


@pytest.mark.parametrize("at", [1, 2])
def test_agents_may_not_share_a_barrier(at):
    """With one number for both, their threads are counted together."""
    code = ptx(kernels.exchanging("sm_90"))

    def judge(code, seed):
        a, b, c = run(code, seed)
        check(b, 2 * a)
        check(c, 2 * a)

    assert not survives(re.sub(r"(bar(?:rier)?\.sync)\s+[12], 64;", rf"\1 {at}, 64;", code), judge)


@pytest.mark.parametrize("kind", ["cp_async", "bulk_load"])
def test_one_agent_that_fills_and_drains(kind, assemble):
    code = ptx(kernels.one_agent(kind, 2, "sm_90"))
    assemble(code, "sm_90")

    def judge(code, seed):
        a, b, _ = run(code, seed)
        check(b, 2 * a)

    assert survives(code, judge)
    first_wait, *result = sites(code)[[line.startswith("mbarrier.try_wait") for line, _ in sites(code)].index(True) :]
    assert survives(first_wait[1], judge), "the first stages have never been used"
    assert [line for line, broken in result if survives(broken, judge)] == []


def test_agents_that_take_turns(assemble):
    code = ptx(kernels.taking_turns("sm_90"))
    assemble(code, "sm_90")
    expected = -1.0
    for _ in range(3):
        expected = 2 * (3 * expected + 3) + 2
    for seed in SEEDS[:2]:
        _, b, _ = run(code, seed, rows=3)
        assert (b[: kernels.TILE] == expected).all()


def test_agent_switch_orders_before_and_after():
    code = ptx(kernels.before_and_after("sm_90"))

    def judge(code, seed):
        a, _, c = run(code, seed)
        check(c[: kernels.TILE], 8 * a[: kernels.TILE], 1)

    assert survives(code, judge)
    barriers = [(line, broken) for line, broken in sites(code) if line == "bar.sync 0;"]
    assert len(barriers) == 3
    assert [line for line, broken in barriers if survives(broken, judge)] == []


REGISTERS = {
    # Warps of consumers, registers of agents, warps of the CTA, emitted instructions.
    "two warpgroups": ([4, 1], [240, 40], 8, {"dec.sync.aligned.u32 240": 1, "dec.sync.aligned.u32 40": 2}),
    "three warpgroups": ([4, 4, 1], [232, 232, 40], 12, {"inc.sync.aligned.u32 232": 2, "dec.sync.aligned.u32 40": 2}),
    "as many as at the beginning": ([4, 4, 1], [168, 0, 40], 12, {"dec.sync.aligned.u32 40": 2}),
}  # fmt: skip


@pytest.mark.sampled(5)
@pytest.mark.parametrize("gpu", ["sm_90", "sm_100", "sm_120"])
@pytest.mark.parametrize("name", REGISTERS)
def test_registers_by_agent(name, gpu, assemble):
    """The warps of the producer's warpgroup that have nothing to do give up registers as well."""
    warps, registers, total, emitted = REGISTERS[name]
    consumers = [(4, kernels.consumer("ld_shared", 4, view)) for view in ("%vb", "%vc")[: len(warps) - 1]]
    agents = [*consumers, (1, kernels.producer("cp_async", 1, 2))]
    text = kernels.kernel(agents, 2, ("cp_async", "ld_shared"), gpu, registers, total)
    code = ptx(text, gpu)
    matches = re.findall(r"setmaxnreg\.([^;]*);", code)
    assert {line: matches.count(line) for line in matches} == emitted
    assert re.search(rf"^\.target {gpu}[af]$", code, re.MULTILINE)
    assemble(code, gpu)
    for seed in SEEDS[:2]:
        a, b, _ = run(code, seed)
        check(b, 2 * a)


def test_registers_that_are_never_released_are_awaited():
    warps, registers, total, _ = REGISTERS["three warpgroups"]
    consumers = [(4, kernels.consumer("ld_shared", 4, view)) for view in ("%vb", "%vc")]
    agents = [*consumers, (1, kernels.producer("cp_async", 1, 2))]
    code = ptx(kernels.kernel(agents, 2, ("cp_async", "ld_shared"), "sm_90", registers, total))
    result = [(line, broken) for line, broken in sites(code) if line.startswith("setmaxnreg.dec")]
    assert len(result) == 2
    for _, broken in result:
        with pytest.raises(EmulationError, match="deadlock|setmaxnreg"):
            run(broken, 0)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("released_first", [False, True])
@pytest.mark.parametrize("kind", ["cp_async", "bulk_load"])
def test_a_dot_reads_its_operands_from_a_stage(kind, released_first, assemble):
    """A step at a time while the stage is held, at once where it is released before the dot."""
    code = ptx(agent_matmuls.matmul(kind, 2, "sm_90", released_first))
    assert not assemble(code, "sm_90").spill_stores
    random = np.random.default_rng(0)
    a, b = (random.integers(-3, 4, shape).astype(np.float16) for shape in ((32, 256), (256, 16)))
    expected = a[:, :160].astype(np.float32) @ b[:160].astype(np.float32)

    def judge(code, seed):
        c = np.zeros((32, 16), np.float32)
        assert emulate(code, "k", 1, [a.copy(), b.copy(), c, 5], seed=seed).searched_races
        np.testing.assert_array_equal(c, expected)

    assert survives(code, judge)
    if not released_first:
        result = [site for site in sites(code) if not site[0].startswith("setmaxnreg")]
        assert [line for line, broken in result if survives(broken, judge, (None, 0))] == []


@pytest.mark.sampled(3)
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("kind", ["cp_async", "st_shared", "tma"])
def test_warpgroups_multiply_tiles_of_a_stage(kind, groups, assemble):
    """The products follow a fence between the proxies, run by the threads that see the stage written, unless boxes of
    tensors fill it; ptxas serialises no product."""
    code, metadata = described(agent_matmuls.warpgroup_matmul(kind, 2, groups))
    assert not assemble(code, "sm_90").spill_stores
    random = np.random.default_rng(0)
    a, b = (random.integers(-3, 4, shape).astype(np.float16) for shape in ((64, 256), (256, 16)))
    expected = a[:, :192].astype(np.float32) @ b[:192].astype(np.float32)

    def judge(code, seed):
        results = [np.zeros((64, 16), np.float32) for _ in range(2)]
        arguments = [a.copy(), b.copy(), *results, 3]
        assert emulate(code, "k", 1, arguments, metadata, seed=seed).searched_races
        for result in results[:groups]:
            np.testing.assert_array_equal(result, expected)

    assert survives(code, judge)
    if groups == 1:
        assert [line for line, broken in sites(code) if survives(broken, judge, (None, 0))] == []
