"""Block-scaled dots into tensor memory: scales go through shared memory, rearranged by the threads that loaded them,
and are copied to tensor memory by the thread that issues the dot.  The emulator reads them by the ISA's own layout."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.kernels.dots import scaled
from tests.kernels.reasons import causes
from tests.kernels.tensor_memory import FENCES, GPU, ORDERS, check, survivors
from tests.machine_code import assemble
from tileiras.codegen import toolkit
from tileiras.sim import interpret

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


@pytest.mark.sampled(2)
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


FOUR_BITS = [("f8E8M0FNU", 32, "mxf4.block_scale.block32"), ("f8E4M3FN", 16, "mxf4nvf4.block_scale.block16"),
             ("f8E8M0FNU", 16, "mxf4nvf4.block_scale.block16")]  # fmt: skip


def four_bits(scale: str = "f8E8M0FNU", block: int = 32, steps: int = 3, **options):
    return scaled((128, 128, 256), "f4E2M1FN", steps, scale=scale, block=block, **options)


def checked_four_bits(kernel, gpu: str = GPU, **options) -> str:
    artifact = kernel.compiled(gpu, **{"tensor_maps": "none", **options})
    for seed in (None, 0):
        kernel.emulated(artifact, seed)
    if toolkit.find_program("ptxas") is not None:
        assemble(artifact.text, gpu)
    return artifact.text


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("scale", "block", "kind"), FOUR_BITS)
@pytest.mark.parametrize("by_rows", [False, True])
def test_elements_of_four_bits(scale, block, kind, by_rows):
    """Pairs along K come in copies of bytes; where B lies along N, threads make them of elements."""
    kernel = four_bits(scale, block, by_rows=by_rows)
    kernel.interpreted()
    ptx = checked_four_bits(kernel)
    assert ptx.count(f"kind::{kind}") == 4 and "mma.sync" not in ptx
    assert (ptx.count("st.shared") == 0) != by_rows


@pytest.mark.sampled(3)
@pytest.mark.parametrize("gpu", ["sm_103", "sm_107", "sm_110"])
@pytest.mark.parametrize(("scale", "block", "kind"), FOUR_BITS[:2])
def test_elements_of_four_bits_on_the_rest_of_the_family(gpu, scale, block, kind):
    assert f"kind::{kind}" in checked_four_bits(four_bits(scale, block), gpu)


FOUR_BIT_PLANS = [{"pipeline_strategy": "none"}, {"tensor_maps": "host"}, {"pipeline_strategy": "warp-specialize"},
                  {"pipeline_strategy": "warp-specialize", "tensor_maps": "host"}]  # fmt: skip


@pytest.mark.parametrize("options", FOUR_BIT_PLANS, ids=lambda value: " ".join(map(str, value.values())))
def test_elements_of_four_bits_under_every_plan(options):
    ptx = checked_four_bits(four_bits("f8E4M3FN", 16), **options)
    assert "kind::mxf4nvf4" in ptx and ("cp.async.bulk.tensor" in ptx or options != {"tensor_maps": "host"})


@pytest.mark.parametrize("options", [{}, {"tensor_maps": "host"}], ids=lambda value: " ".join(map(str, value.values())))
def test_bytes_with_packed_four_bit_elements_stay_bytes(options):
    kernel = four_bits("f8E4M3FN", 16, from_bytes=True)
    kernel.interpreted()
    ptx = checked_four_bits(kernel, **options)
    assert "kind::mxf4nvf4" in ptx and "prmt" not in ptx
    # With maps the result goes through shared memory.
    assert ("cp.async.bulk.tensor" in ptx) == ("st.shared" in ptx) == bool(options)


def test_elements_of_four_bits_without_tensor_memory():
    """Scales that are no exponents become numbers where no instruction takes them."""
    kernel = scaled((128, 128, 64), "f4E2M1FN", 1, scale="f8E4M3FN", block=16)
    artifact = kernel.compiled(GPU, opt_level=0)
    assert "tcgen05" not in artifact.text
    kernel.emulated(artifact)


def test_pairs_in_an_array_of_odd_width_are_made_of_elements():
    """A row that ends within a byte: its other half is padding."""
    kernel = ragged_four_bits()
    kernel.interpreted()
    ptx = checked_four_bits(kernel)
    assert "kind::mxf4" in ptx and "st.shared" in ptx


def ragged_four_bits():
    """A is 100 x 255 in an array whose rows are 128 bytes apart; elements beyond its edges are not zero."""
    whole = four_bits(steps=1)
    text = whole.text.replace("shape = [128, 256]", "shape = [100, 255]", 1)
    text = text.replace("tensor_view<128x256xf4E2M1FN", "tensor_view<100x255xf4E2M1FN")
    text = text.replace("tile=(128x256)", "tile=(128x256), padding_value = zero")
    zeroed = whole.inputs[0].copy()
    zeroed[100:] = 0
    zeroed[:, -1] &= 15
    wanted = np.zeros_like(whole.outputs[0])
    interpret(whole.text, "k", 1, [each.view(np.uint8) for each in (zeroed, *whole.inputs[1:])] + [wanted])
    assert text != whole.text and (wanted != whole.expected[0]).any()
    return whole._replace(text=text, expected=(wanted,))


@pytest.mark.slow
def test_synchronization_of_four_bit_elements_is_minimal():
    kernel = four_bits(steps=4)
    artifact = kernel.compiled(GPU, tensor_maps="none")
    assert not survivors(kernel, artifact, rf"{ORDERS}|tcgen05\.cp[^;]*;")


@pytest.mark.slow
def test_synchronization_is_minimal():
    kernel = scaled((128, 128, 128), steps=5)
    artifact = kernel.compiled(GPU, tensor_maps="none")
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


PARTS = [((128, 64, 128), 2), ((128, 16, 64), 2), ((128, 128, 32), 2), ((256, 32, 64), 3), ((128, 64, 256), 3)]
"""Tiles whose scales leave parts of the copies empty, except in the last one, where words of two runs lie together; and
the number of copies in each step."""


@pytest.mark.sampled(6)
@pytest.mark.parametrize("options", FOUR_BIT_PLANS, ids=lambda value: " ".join(map(str, value.values())))
@pytest.mark.parametrize(("tiles", "copies"), PARTS)
def test_few_columns_and_runs(tiles, copies, options):
    kernel = scaled(tiles, steps=3)
    kernel.interpreted()
    ptx = checked_four_bits(kernel, **options)
    m, n, k = tiles
    assert len(MMA.findall(ptx)) == m // 128 * (k // 32) and "mma.sync" not in ptx
    assert ptx.count("32x128b.warpx4") == copies


@pytest.mark.parametrize("tiles", [(128, 32, 64), (128, 16, 128), (32, 128, 64)])
@pytest.mark.parametrize(("scale", "block", "kind"), FOUR_BITS)
def test_few_columns_of_elements_of_four_bits(tiles, scale, block, kind):
    kernel = scaled(tiles, "f4E2M1FN", steps=3, scale=scale, block=block)
    kernel.interpreted()
    ptx = checked_four_bits(kernel)
    assert ptx.count(f"kind::{kind}") == tiles[2] // 64 and "mma.sync" not in ptx


@pytest.mark.sampled(4)
@pytest.mark.parametrize("operand", ["f8E4M3FN", "f8E5M2"])
@pytest.mark.parametrize("by_rows", [False, True])
@pytest.mark.parametrize("tiles", [(64, 128, 128), (16, 256, 64)])
def test_fewer_rows_than_columns_are_exchanged(tiles, operand, by_rows):
    kernel = scaled(tiles, operand, by_rows=by_rows)
    for options in ({}, {"tensor_maps": "host"}):
        ptx = checked_four_bits(kernel, **options)
        assert len(MMA.findall(ptx)) == tiles[1] // 128 * (tiles[2] // 32) and "mma.sync" not in ptx


@pytest.mark.parametrize("gpu", ["sm_103", "sm_107", "sm_110"])
@pytest.mark.parametrize("tiles", [(128, 32, 64), (32, 128, 128)])
def test_few_columns_on_the_rest_of_the_family(gpu, tiles):
    assert MMA.search(checked_four_bits(scaled(tiles), gpu))


@pytest.mark.slow
@pytest.mark.parametrize(("tiles", "orders"), [((32, 128, 128), ORDERS), ((128, 32, 64), FENCES)])
def test_synchronization_of_few_columns_is_minimal(tiles, orders):
    """Scales of two runs are loaded and stored by threads."""
    kernel = scaled(tiles, steps=4)
    artifact = kernel.compiled(GPU, tensor_maps="none")
    assert not survivors(kernel, artifact, rf"{orders}|tcgen05\.cp[^;]*;")


SPREAD = [(64, 64, 128), (64, 16, 64), (32, 64, 128), (64, 32, 32), (64, 64, 512)]
"""Tiles whose longer side is in every second 16 of the 128 rows that instructions with block scales have."""


@pytest.mark.sampled(5)
@pytest.mark.pairwise(tiles=SPREAD, by_rows=[False, True], options=FOUR_BIT_PLANS)
def test_sixty_four_rows(tiles, by_rows, options):
    """The rows between are undefined, and their results are not read."""
    kernel = scaled(tiles, steps=3, by_rows=by_rows)
    ptx = checked_four_bits(kernel, **options)
    assert len(MMA.findall(ptx)) == tiles[2] // 32 and "mma.sync" not in ptx
    words = [int(word) for word in re.findall(r"mov\.b32 \s*i, (\d+);", ptx)]
    assert {word >> 27 & 3 for word in words} == {1} and {word >> 17 & 63 for word in words} == {min(tiles[:2]) >> 3}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("by_rows", [False, True])
@pytest.mark.parametrize("tiles", [(64, 64, 256), (16, 64, 64)])
@pytest.mark.parametrize(("scale", "block", "kind"), FOUR_BITS)
def test_sixty_four_rows_of_elements_of_four_bits(tiles, scale, block, kind, by_rows):
    kernel = scaled(tiles, "f4E2M1FN", steps=3, scale=scale, block=block, by_rows=by_rows)
    ptx = checked_four_bits(kernel, tensor_maps="host")
    assert ptx.count(f"kind::{kind}") == tiles[2] // 64 and "mma.sync" not in ptx


@pytest.mark.parametrize("options", [{"num_warps": 8}, {"num_ctas": 2, "tensor_maps": "host"}], ids=str)
def test_64_rows_of_two_warpgroups_and_of_each_cta_of_a_pair(options):
    """The second CTA's tile of A comes in boxes of its own, that of B is shared out."""
    ptx = checked_four_bits(scaled((64 * options.get("num_ctas", 1), 64, 128), "f8E5M2", steps=3), **options)
    assert len(MMA.findall(ptx)) == 4 and ("multicast" in ptx) == ("num_ctas" in options)


@pytest.mark.parametrize("gpu", ["sm_103", "sm_107", "sm_110"])
def test_sixty_four_rows_on_the_rest_of_the_family(gpu):
    assert MMA.search(checked_four_bits(scaled((64, 64, 128)), gpu))


@pytest.mark.slow
def test_synchronization_of_sixty_four_rows_is_minimal():
    kernel = scaled((64, 64, 128), steps=5)
    artifact = kernel.compiled(GPU)
    assert not survivors(kernel, artifact, rf"{ORDERS}|tcgen05\.cp[^;]*;")


@pytest.mark.parametrize("tiles", [(32, 32, 128), (128, 8, 128)])
def test_small_dots_go_to_warps_with_a_remark(tiles):
    artifact = scaled(tiles).compiled(GPU, emit_remarks=True)
    assert "tcgen05" not in artifact.text
    scaled(tiles).emulated(artifact)
    reasons = causes(artifact.diagnostics, "dots.tensor-cores")
    assert reasons and all(reason.startswith("dots.small instruction=tcgen05.mma.block_scale ") for reason in reasons)
