"""Block-scaled dots into tensor memory: scales go through shared memory, rearranged by the threads that loaded them,
and are copied to tensor memory by the thread that issues the dot.  The emulator reads them by the ISA's own layout."""

from __future__ import annotations

import re

import pytest

from tests.kernels.dots import scaled
from tests.kernels.tensor_memory import FENCES, GPU, ORDERS, check, survivors

MMA = re.compile(r"tcgen05\.mma\.cta_group::1\.kind::mxf8f6f4\.block_scale\.block32")


def checked(kernel, gpu: str = GPU, **options) -> str:
    kernel.interpreted()
    ptx = check(kernel, *shapes_of(kernel, gpu, **options), gpu=gpu, **options)
    assert MMA.search(ptx) and "32x128b.warpx4" in ptx
    return ptx


def shapes_of(kernel, gpu: str, **options) -> set[str]:
    """Descriptors of these kinds have M elsewhere, and one for each byte of the words of scales."""
    text = kernel.compiled(gpu, **options).text
    words = [int(word) for word in re.findall(r"mov\.b32 \s*i, (\d+);", text)]
    assert {word >> 27 & 3 for word in words} == {1} and {word >> 23 & 1 for word in words} == {1}
    assert {word >> 29 & 3 for word in words} == {word >> 4 & 3 for word in words} == {0, 1, 2, 3}
    return {f"mxf8f6f4 {(word >> 24 & 31) << 4}x{(word >> 17 & 63) << 3}" for word in words[:1]} if words else set()


@pytest.mark.parametrize("operand", ["f8E4M3FN", "f8E5M2"])
@pytest.mark.parametrize("by_rows", [False, True])
def test_types_and_orders(operand, by_rows):
    ptx = checked(scaled((128, 128, 128), operand, by_rows=by_rows))
    assert len(MMA.findall(ptx)) == 4 and ptx.count("32x128b.warpx4") == 2


@pytest.mark.parametrize(
    ("tiles", "warps", "products", "copies"),
    [((128, 256, 128), 4, 4, 3), ((256, 128, 128), 8, 8, 3), ((128, 128, 256), 8, 8, 4), ((256, 256, 128), 8, 4, 3)],
)
def test_words_of_scales(tiles, warps, products, copies):
    """Copies of 512 bytes are for 128 rows and four runs; beyond, words are in further columns.  512 columns of
    accumulators leave none: their rows are cut."""
    ptx = checked(scaled(tiles, steps=2), num_warps=warps)
    assert len(MMA.findall(ptx)) == products and ptx.count("32x128b.warpx4") == copies


@pytest.mark.parametrize("gpu", ["sm_103", "sm_107", "sm_110"])
def test_the_rest_of_the_family(gpu):
    checked(scaled((128, 128, 128)), gpu)


def test_nothing_that_orders_is_superfluous():
    kernel = scaled((128, 128, 128), steps=5)
    artifact = kernel.compiled(GPU)
    # Scales come in copies that run ahead as well, of four bytes each, and no thread stores any.
    assert "cp.async.ca.shared.global" in artifact.text and "st.shared" not in artifact.text
    assert not survivors(kernel, artifact, rf"{ORDERS}|tcgen05\.cp[^;]*;")


def test_scales_that_are_loaded_by_threads_are_stored_and_fenced():
    kernel = scaled((128, 128, 128), steps=3)
    artifact = kernel.compiled(GPU, pipeline_strategy="none")
    for seed in (None, 0):
        kernel.emulated(artifact, seed)
    assert MMA.search(artifact.text)
    assert not survivors(kernel, artifact, rf"{FENCES}|tcgen05\.cp[^;]*;")


@pytest.mark.parametrize("tiles", [(64, 128, 128), (128, 64, 128), (128, 128, 64)])
def test_what_does_not_fill_words_goes_to_warps_with_a_remark(tiles):
    artifact = scaled(tiles).compiled(GPU, emit_remarks=True)
    assert "tcgen05" not in artifact.text
    scaled(tiles).emulated(artifact)
    reasons = [d.reason for d in artifact.diagnostics if getattr(d, "name", "") == "RemarkTensorCoreMMA"]
    assert reasons and all(
        reason.startswith("tcgen05.mma with block scales is used from 128 rows and columns and 4 runs of K on")
        for reason in reasons
    )
