"""Attention in loops over tiles on sm_100: pipes run on across tiles, the queries of the next one come while this one
multiplies, and the agent of both products gives their stages back."""

from __future__ import annotations

import os
import random

import pytest

from tests.agents.chained_attention import GPU, ORDERS, agents, attention, two_loops
from tests.agents.running import SEEDS, SPECIALIZED, sites, survives
from tests.kernels.attention_tiles import of_tiles
from tests.kernels.reasons import stated
from tests.kernels.views import operations
from tileiras.dialects.nv_tileas.pipes import ConsumerReleaseOp
from tileiras.dialects.scf import ForOp, loops_around

SMALL = {"columns": 32, "depth": 32}
KERNELS = {
    "five steps each": lambda: of_tiles(attention(1, 5, **SMALL), 4),
    "from no step on": lambda: of_tiles(attention(1, 2, **SMALL), 4, least=0),
    "without a counter": lambda: of_tiles(attention(1, 4, **SMALL), 4, least=1, way="uncounted"),
    "two loops": lambda: of_tiles(two_loops(2, 2), 4),
    "256 rows": lambda: of_tiles(attention(1, 3, rows=256), 3),
}
RUN = [*((name, "host") for name in KERNELS), ("from no step on", "none"), ("two loops", "device")]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("name", "maps"), RUN)
def test_kernels_in_any_order_of_their_agents(name, maps, assemble):
    kernel = KERNELS[name]()
    compute = 8 if name == "256 rows" else 4
    assert agents(kernel, tensor_maps=maps).startswith(f"{compute}, {4 if maps == 'none' else 1}, 1")
    artifact = kernel.compiled(GPU, emit="ptx", tensor_maps=maps, **SPECIALIZED)
    assert "agents.dots-ahead" in stated(artifact.diagnostics)
    assemble(artifact.text, GPU)
    for seed in SEEDS[:2]:
        kernel.emulated(artifact, seed)


def test_queries_of_other_tiles_are_in_a_ring():
    text = KERNELS["five steps each"]().compiled(GPU, emit="tileas", tensor_maps="host", **SPECIALIZED).text
    assert "stages 3 producer = bulk_load consumer = tcgen05" in text


def test_the_kernel_says_the_same_as_the_interpreter():
    for name in ("from no step on", "without a counter", "two loops"):
        KERNELS[name]().interpreted()


def test_an_outer_loops_stage_is_released_after_the_inner_loop():
    """Whichever agent multiplies: if the stage were released within an inner loop of few steps, the next tiles would
    overwrite it before that loop ends."""
    module = KERNELS["five steps each"]().after("tileas-materialize-schedule", GPU, tensor_maps="host", **SPECIALIZED)
    releases = operations(module, ConsumerReleaseOp)
    outer = [op for op in releases if len(list(loops_around(op))) == 1]
    assert len(releases) == 3 and len(outer) == 1
    inner = [op for op in outer[0].parent.operations if isinstance(op, ForOp)]
    assert len(inner) == 1 and inner[0].is_before_in_block(outer[0])


@pytest.mark.slow
def test_synchronization_is_minimal():
    """One in three.  The last tiles have one step each, so that queries are loaded as early as may be."""
    kernel = of_tiles(attention(1, 4, **SMALL), 8, least=1)
    artifact = kernel.compiled(GPU, emit="ptx", tensor_maps="host", **SPECIALIZED)
    beside = ("fence.mbarrier_init", "setmaxnreg")
    code = artifact.text
    result = [(line, broken) for line, broken in sites(code) if not line.startswith(beside)]
    result += [(each[0], code[: each.start()] + code[each.end() :]) for each in ORDERS.finditer(code)]
    implied = _implied(code)

    def judge(code: str, seed: int | None) -> None:
        kernel.emulated(artifact, seed, code)

    chosen = random.Random(1).sample(result, len(result) // 3)
    left = [(line, len(os.path.commonprefix([code, broken]))) for line, broken in chosen if survives(broken, judge)]
    assert [line for line, at in left if not any(at in part for part in implied)] == []


def _implied(code: str) -> list[range]:
    """Positions of passages that are implied by others: the wait for the reads of scores before the first product of a
    tile, implied by the wait for the exponentials of the tile before, and the barrier before columns are released,
    implied by that of the last exchange."""
    product, dealloc = code.index("tcgen05.mma"), code.index("tcgen05.dealloc")
    return [range(code.rindex("mbarrier.try_wait", 0, product), product),
            range(code.rindex("bar.sync", 0, dealloc), dealloc)]  # fmt: skip
