"""Dots that two CTAs of a cluster execute together: each has 128 rows of A and half of B, and the one of even rank has
them issued for both."""

from __future__ import annotations

import re

import pytest

from tests.kernels.dots import Matmul
from tests.kernels.tensor_memory import GPU, ORDERS, check, fails, instructions, survivors
from tests.kernels.tile_rounds import rounds
from tests.kernels.views import Kernel

CLUSTER = r"|barrier\.cluster\.(?:arrive|wait)[^;]*;"
ONE_CTA = "each CTA multiplies by itself: "
TOGETHER = "two CTAs multiply together, each with half of B's columns"


def matmul(tiles: tuple[int, int, int], operand: str = "f16", ctas: int = 2, **options) -> Kernel:
    return Matmul(tiles, operand, hints=f"sm_100 = {{num_cta_in_cga = {ctas}}}", **options).kernel()


def remarks(kernel: Kernel, **options) -> list[str]:
    """What is said of pairs."""
    artifact = kernel.compiled(GPU, emit_remarks=True, emit="tileas", **options)
    return [d.message for d in artifact.diagnostics if d.message.startswith((ONE_CTA, TOGETHER))]


@pytest.mark.parametrize(
    ("operand", "k", "kind"),
    [("bf16", 64, "f16"), ("f8E4M3FN", 128, "f8f6f4"), ("tf32", 32, "tf32"), ("i8", 64, "i8")],
)
@pytest.mark.parametrize("b_by_columns", [False, True])
def test_kinds(operand, k, kind, b_by_columns):
    check(matmul((256, 64, k), operand, steps=3, b_by_columns=b_by_columns), f"{kind} 256x64")


@pytest.mark.parametrize("columns", [32, 128, 256])
def test_columns(columns):
    check(matmul((256, columns, 64), steps=3), f"f16 256x{columns}")


def test_rows_beyond_an_instruction():
    check(matmul((512, 64, 64), steps=2), "f16 256x64")


@pytest.mark.parametrize("ctas", [4, 8])
def test_pairs_of_a_larger_cluster(ctas):
    check(matmul((128 * ctas, 32, 64), ctas=ctas, steps=2), "f16 256x32")


def test_ragged_tiles():
    check(matmul((256, 64, 64), sizes=(200, 40, 152), steps=3), "f16 256x64")


PLANS = {
    "ring": {},
    "two stages": {"unspecialized_pipeline_num_stages": 2},
    "serial": {"pipeline_strategy": "none"},
    "boxes": {"tensor_maps": "host"},
    "agents": {"pipeline_strategy": "warp-specialize"},
}


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("start", ["zeros", "loaded"])
def test_plans(plan, start):
    check(matmul((256, 64, 64), steps=4, start=start), "f16 256x64", **PLANS[plan])


def test_without_a_loop():
    check(matmul((256, 64, 64)), "f16 256x64")


@pytest.mark.parametrize("guarded", [False, True])
def test_rounds_wait_for_what_the_peer_loads(guarded):
    """The next tile's first dot overwrites accumulators that the threads of both CTAs have loaded."""
    kernel = rounds((256, 64, 32), count=4, guarded=guarded, hints="sm_100 = {num_cta_in_cga = 2}")
    artifact = kernel.compiled(GPU)
    assert instructions(artifact.text) == {"f16 256x64"}
    for seed in (None, 0, 1):
        kernel.emulated(artifact, seed)


@pytest.mark.parametrize("gpu", ["sm_103", "sm_110"])
def test_the_rest_of_the_family(gpu):
    kernel = Matmul((256, 64, 64), steps=3, hints=f"{gpu} = {{num_cta_in_cga = 2}}").kernel()
    check(kernel, "f16 256x64", gpu=gpu)


MUTATED = {
    "ring": (lambda: matmul((256, 32, 32), steps=6), {}),
    "accumulator loaded": (lambda: matmul((256, 32, 32), steps=4, start="loaded"), {}),
    "no loop": (lambda: matmul((256, 32, 32)), {}),
}


@pytest.mark.parametrize("name", MUTATED)
def test_nothing_that_orders_is_superfluous(name):
    make, options = MUTATED[name]
    kernel = make()
    artifact = kernel.compiled(GPU, **options)
    assert not survivors(kernel, artifact, ORDERS + CLUSTER)


def test_a_commit_arrives_in_both_ctas():
    """Without the peer in the mask, its threads wait for ever."""
    kernel = matmul((256, 32, 32), steps=3)
    artifact = kernel.compiled(GPU)
    (mask,) = set(re.findall(r"multicast::cluster\.b64 \[%r\d+\], (%rs\d+)", artifact.text))
    alone = re.sub(rf"mov\.b16\s+{mask}, 3;", f"mov.b16 {mask}, 1;", artifact.text)
    assert alone != artifact.text and fails(kernel, artifact, alone)


def test_remarks_say_why_a_cta_multiplies_by_itself():
    assert remarks(matmul((256, 64, 64), steps=2)) == [TOGETHER]
    few = "tcgen05.mma of a pair is used for multiples of 128 rows of each CTA, which has 64"
    assert remarks(matmul((128, 64, 64), steps=2)) == [ONE_CTA + few]
    narrow = "tcgen05.mma of a pair has 32 to 256 columns, the dot 16"
    assert remarks(matmul((256, 16, 64), steps=2)) == [ONE_CTA + narrow]
    check(matmul((256, 16, 64), steps=2), "f16 128x16")


def test_machine_code_is_of_pairs():
    text = matmul((256, 64, 64), steps=3).compiled(GPU, emit="sass").text
    assert "UTCHMMA.2CTA" in text
