"""Kernels on sm_100 with loops over tiles: a warp of its own multiplies, and hands accumulators in tensor memory to the
warps that convert and store them, while it goes on with the next tile."""

from __future__ import annotations

import re

import pytest

from tests.agents.running import SEEDS, SPECIALIZED, sites, survives, verify
from tests.kernels.deletions import deletions
from tests.kernels.dots import matmul
from tests.kernels.reasons import stated
from tests.kernels.tile_rounds import gated_products, rounds
from tests.kernels.views import Kernel
from tileiras.diagnostics import CompileError

GPU = "sm_100"
HOST = {"tensor_maps": "host", **SPECIALIZED}

#: Each with the columns of tensor memory that its accumulators take.
KERNELS = {
    "two accumulators": (lambda: rounds((64, 64, 32), count=5), 128),
    "128 rows": (lambda: rounds((128, 32, 64), count=4), 64),
    "256 rows": (lambda: rounds((256, 64, 32), count=3), 256),
    "guarded": (lambda: rounds((64, 32, 32), count=6, guarded=True), 64),
    "rows and columns exchanged": (lambda: rounds((32, 128, 32), count=4), 64),
    "f8": (lambda: rounds((128, 64, 64), count=4, element="f8E4M3FN"), 128),
    "two products a step": (lambda: gated_products((64, 32, 32)), 128),
    "two loops of products": (lambda: gated_products((64, 32, 32), apart=True), 128),
    "two loops of one group": (lambda: gated_products((64, 32, 32), apart=True, last_first=True), 128),
}
LAST_WAIT = re.compile(r"mbarrier\.try_wait[^;]*;\s*@%p\d+ (bra[^;]*;)\s*bra\.uni[^;]*;")
MULTIPLIER = re.compile(r"tcgen05\.mma[^;]*;")
COLUMNS = re.compile(r"tcgen05\.alloc[^;]*, (\d+);")
COMMIT = re.compile(r"tcgen05\.commit[^;]*;")
TENSOR_FENCE = re.compile(r"tcgen05\.fence::[^;]*;")
TENSOR_MEMORY = re.compile(r"tcgen05\.(?:alloc|dealloc|wait)[^;]*;")
OF_CLUSTER = re.compile(r"barrier\.cluster\.(?:arrive|wait)[^;]*;|mapa[^;]*;\s*mbarrier\.arrive[^;]*;")


#: Beside four warps that load there are too few registers.
OF_MANY_REGISTERS = {"all columns": (lambda: rounds((128, 256, 16), count=4), 512)}
RUN = [
    *((name, "host") for name in (*KERNELS, *OF_MANY_REGISTERS)),
    *((name, maps) for name in ("two accumulators", "guarded", "two loops of products") for maps in ("none", "device")),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("name", "maps"), RUN)
def test_kernels_in_any_order_of_their_agents(name, maps, assemble):
    make, columns = {**KERNELS, **OF_MANY_REGISTERS}[name]
    kernel: Kernel = make()
    artifact = kernel.compiled(GPU, emit="ptx", tensor_maps=maps, **SPECIALIZED)
    assert MULTIPLIER.search(artifact.text) and int(COLUMNS.search(artifact.text)[1]) == columns
    assert _agents(kernel, maps) == 3
    assert assemble(artifact.text, GPU).stack == 0
    for seed in SEEDS[:2]:
        kernel.emulated(artifact, seed)


def _agents(kernel: Kernel, maps: str) -> int:
    """The agents of a kernel, but for one that stores."""
    text = kernel.compiled(GPU, emit="tileas", tensor_maps=maps, **SPECIALIZED).text
    return len(re.search(r"num_agents_per_group = \[([^]]*)]", text)[1].split(",")) - ("tma_store_stage" in text)


@pytest.mark.parametrize("gpu", ["sm_103", "sm_110"])
def test_the_rest_of_the_family(gpu, assemble):
    kernel = rounds((128, 32, 64), count=3)
    artifact = kernel.compiled(gpu, emit="ptx", **HOST)
    assemble(artifact.text, gpu)
    kernel.emulated(artifact, 1)


def test_ctas_that_copy_boxes_for_each_other(assemble):
    """The pipe of tiles is one of the cluster, that of accumulators the CTA's own."""
    kernel = rounds((128, 64, 32), count=3, hints="sm_100 = {num_cta_in_cga = 2}")
    assert _agents(kernel, "host") == 3
    artifact = kernel.compiled(GPU, emit="ptx", **HOST)
    assert ".multicast::cluster" in artifact.text and "tcgen05.mma" in artifact.text
    assemble(artifact.text, GPU)
    for seed in SEEDS[:2]:
        kernel.emulated(artifact, seed)


def _pairs(tiles: tuple[int, int, int], ctas: int = 2, gpu: str = GPU, **options) -> Kernel:
    """Products of two CTAs of a cluster."""
    return rounds(tiles, hints=f"{gpu} = {{num_cta_in_cga = {ctas}}}", **options)


#: Each with the columns of tensor memory that its accumulators take in each CTA, and the stages of their pipe.
PAIRS = {
    "two accumulators": (lambda: _pairs((256, 32, 32), count=5), 64, 2),
    "guarded": (lambda: _pairs((256, 32, 32), count=6, guarded=True), 64, 2),
    "f8": (lambda: _pairs((256, 64, 64), count=4, element="f8E4M3FN"), 128, 2),
    "256 rows of a CTA": (lambda: _pairs((512, 64, 32), count=3), 256, 2),
    "all columns": (lambda: _pairs((512, 256, 16), count=3), 512, 1),
    "64 rows of a CTA": (lambda: _pairs((128, 64, 32), count=4), 64, 2),
    "two pairs": (lambda: _pairs((512, 32, 32), ctas=4, count=4), 64, 2),
    "two loops of products": (
        lambda: gated_products((256, 32, 32), apart=True, hints="sm_100 = {num_cta_in_cga = 2}"), 128, 2,
    ),
}  # fmt: skip


PAIR_RUNS = [*((name, "host") for name in PAIRS), *((name, "device") for name in ("guarded", "two loops of products"))]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("name", "maps"), PAIR_RUNS)
def test_pairs_of_ctas(name, maps, assemble):
    """Threads of both CTAs signal the CTA that multiplies after they have loaded an accumulator."""
    make, columns, stages = PAIRS[name]
    kernel = make()
    options = {**SPECIALIZED, "tensor_maps": maps}
    text = kernel.compiled(GPU, emit="tileas", **options).text
    assert f"stages {stages} producer = tcgen05_pair consumer = tcgen05_ld" in text
    artifact = kernel.compiled(GPU, emit="ptx", **options)
    assert "tcgen05.mma.cta_group::2" in artifact.text and "tcgen05.mma.cta_group::1" not in artifact.text
    assert int(COLUMNS.search(artifact.text)[1]) == columns
    # With eight warps that compute, a kernel starts with fewer registers than a slice of 256x256 takes.
    assert assemble(artifact.text, GPU).stack <= (8 if columns == 512 else 0)
    for seed in SEEDS[:2]:
        kernel.emulated(artifact, seed)


def test_pairs_have_an_mma_agent_unless_another_plan_is_given():
    """Although an iteration loads less than the rule of `auto` requires for other products."""
    kernel = _pairs((256, 32, 16), count=3)
    artifact = kernel.compiled(GPU, emit="ptx", tensor_maps="host")
    assert "tcgen05.mma.cta_group::2" in artifact.text and artifact.kernels[0].metadata["block"][0] == 192
    kernel.emulated(artifact, 0)
    alone = rounds((128, 32, 16), count=3).compiled(GPU, emit="ptx", tensor_maps="host")
    assert alone.kernels[0].metadata["block"][0] == 128


@pytest.mark.parametrize("gpu", ["sm_103", "sm_110"])
def test_pairs_of_the_rest_of_the_family(gpu, assemble):
    kernel = _pairs((256, 32, 32), gpu=gpu, count=4)
    artifact = kernel.compiled(gpu, emit="ptx", **HOST)
    assert "tcgen05.mma.cta_group::2" in artifact.text
    assemble(artifact.text, gpu)
    kernel.emulated(artifact, 1)


@pytest.mark.slow
def test_synchronization_of_pairs_of_ctas_is_minimal():
    kernel = _pairs((256, 32, 32), count=5)
    artifact = kernel.compiled(GPU, emit="ptx", **HOST)
    # As below; of a wait that goes on by a branch, the way back would stay.
    value = ("fence.mbarrier_init", "mbarrier.try_wait")
    result = [
        (line, broken) for line, broken in sites(artifact.text) if not line.startswith(value) or "not.pred" in line
    ]
    for last in LAST_WAIT.finditer(artifact.text):
        # The last wait of the agent that multiplies is implied by `tcgen05.dealloc` of the emulator.
        if "acquire.cluster" not in last[0]:
            result.append((last[0], artifact.text[: last.start()] + last[1] + artifact.text[last.end() :]))
    for pattern in (COMMIT, TENSOR_FENCE, TENSOR_MEMORY, OF_CLUSTER):
        result += _without(pattern, artifact.text)
    assert sum("mapa" in line for line, _ in result) == 1 and sum("fence.acq_rel" in line for line, _ in result) == 1

    def judge(code: str, seed: int | None) -> None:
        kernel.emulated(artifact, seed, code)

    assert [line for line, broken in result if survives(broken, judge)] == []


@pytest.mark.slow
@pytest.mark.parametrize("maps", ["none", "host"])
def test_synchronization_of_agents_is_minimal(maps):
    kernel = rounds((64, 16, 32), count=6)
    artifact = kernel.compiled(GPU, emit="ptx", tensor_maps=maps, **SPECIALIZED)
    # Commits arrive by the asynchronous proxy; the emulator asks for the fence behind `mbarrier.init` of copies only.
    result = [each for each in deletions(artifact.text) if not each.deleted.startswith("fence.mbarrier_init")]
    assert sum("tcgen05.commit" in each.deleted for each in result) == 2
    assert sum("tcgen05.fence" in each.deleted for each in result) == 3
    assert {"tensor memory", "wait for a phase"} <= {each.kind for each in result}

    def judge(code: str, seed: int | None) -> None:
        kernel.emulated(artifact, seed, code)

    assert [each.deleted for each in result if survives(each.text, judge)] == []


def _without(pattern: re.Pattern[str], code: str) -> list[tuple[str, str]]:
    return [(match[0], code[: match.start()] + code[match.end() :]) for match in pattern.finditer(code)]


def test_products_of_one_cta_do_not_fill_accumulators_of_a_pair():
    text = rounds((64, 32, 32), count=3).compiled(GPU, emit="tileas", **HOST).text
    changed = text.replace("producer = tcgen05 consumer = tcgen05_ld", "producer = tcgen05_pair consumer = tcgen05_ld")
    verify(text, GPU)
    with pytest.raises(CompileError, match="is of kind 'tcgen05', on a pipe of 'tcgen05_pair'"):
        verify(changed, GPU)


def test_a_single_tile_stays_with_two_agents():
    """Nothing is there to multiply for while the only tile is stored."""
    assert _agents(matmul((128, 64, 64), steps=5), "host") == 2


KEPT = {
    "accumulators that are loaded": (rounds((64, 32, 32), loaded=True), "host", "agents.accumulator-written"),
    "few columns": (rounds((128, 512, 16)), "host", "agents.dot-columns taken=1024 scales=0 most=512"),
    "few registers": (rounds((256, 128, 16)), "none", "agents.too-few-at-entry needed=154 most=128"),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", KEPT)
def test_products_that_cannot_leave_say_why(name):
    kernel, maps, reason = KEPT[name]
    artifact = kernel.compiled(GPU, emit="ptx", tensor_maps=maps, emit_remarks=True, **SPECIALIZED)
    assert f"agents.dots-stay; {reason}" in stated(artifact.diagnostics)
    kernel.emulated(artifact, 0)
