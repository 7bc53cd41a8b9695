"""Dots of batches are loops over matrices where warpgroups, or tensor memory, multiply these."""

from __future__ import annotations

import pytest

from tests.kernels.batches import product, scaled
from tests.kernels.reasons import causes
from tests.kernels.tensor_memory import FENCES, ORDERS, SEEDS, survivors
from tests.kernels.views import Kernel, operations, trip_counts
from tests.machine_code import assemble
from tileiras.codegen import toolkit
from tileiras.dialects import nv_tileas

ATOMS = {"sm_90": "wgmma.mma_async", "sm_100": "tcgen05.mma"}
TILES = (2, 64, 64, 32)


def checked(kernel: Kernel, gpu: str, **options) -> str:
    """The kernel is right, ptxas takes it, and no warp multiplies by itself; its PTX."""
    kernel.interpreted()
    artifact = kernel.compiled(gpu, **options)
    assert ATOMS[gpu] in artifact.text and "mma.sync" not in artifact.text
    for seed in SEEDS:
        kernel.emulated(artifact, seed)
    if toolkit.find_program("ptxas") is not None:
        assemble(artifact.text, gpu)
    return artifact.text


def ranks(kernel: Kernel, gpu: str, **options) -> list[int]:
    module = kernel.after("convert-tileaa-to-tileas", gpu, **options)
    return [op.result.type.rank for op in operations(module, nv_tileas.DotOp)]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("gpu", ATOMS)
@pytest.mark.parametrize("start", ["zeros", "loaded"])
@pytest.mark.parametrize("per_step", [0, 2])
def test_a_loop_over_matrices(gpu, start, per_step):
    kernel = product(TILES, start=start, per_step=per_step)
    assert ranks(kernel, gpu) == [2]
    assert trip_counts(kernel.after("tileas-slice-batches", gpu)) == [2, 3]
    checked(kernel, gpu)


PLANS = [
    {"pipeline_strategy": plan, "tensor_maps": maps}
    for plan in ("none", "unspecialize", "warp-specialize") for maps in ("none", "host", "device")
]  # fmt: skip


@pytest.mark.sampled(4)
@pytest.mark.parametrize("options", PLANS, ids=lambda options: " ".join(options.values()))
@pytest.mark.parametrize(("gpu", "tiles"), [("sm_90", (2, 64, 64, 64)), ("sm_100", (2, 128, 32, 64))])
def test_under_every_plan(gpu, tiles, options):
    checked(product(tiles), gpu, **options)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("gpu", "tiles", "element"),
    [("sm_90", (2, 16, 64, 32), "f16"), ("sm_90", (2, 64, 32, 32), "bf16"), ("sm_90", (2, 64, 64, 64), "f8E4M3FN"),
     ("sm_100", (2, 16, 64, 32), "f16"), ("sm_100", (8, 64, 64, 64), "f8E5M2"), ("sm_100", (2, 128, 32, 32), "bf16")],
)  # fmt: skip
def test_types_and_shapes(gpu, tiles, element):
    checked(product(tiles, element), gpu)


@pytest.mark.parametrize("gpu", ATOMS)
@pytest.mark.parametrize("form", [{"outside": True}, {"added": True}, {"steps": 1}], ids=lambda form: next(iter(form)))
def test_batches_with_operations_around_their_dots(gpu, form):
    """A tile that all steps multiply; a sum over the batch; dots outside of loops."""
    checked(product(TILES, **form), gpu)


@pytest.mark.parametrize("tiles", [(2, 128, 64, 128), (2, 32, 128, 64)])
def test_block_scales(tiles):
    assert "block_scale" in checked(scaled(tiles), "sm_100")


@pytest.mark.parametrize("gpu", ["sm_103", "sm_107", "sm_110"])
def test_the_rest_of_the_family(gpu):
    kernel = product(TILES)
    artifact = kernel.compiled(gpu, tensor_maps="host")
    kernel.emulated(artifact)
    assert ATOMS["sm_100"] in artifact.text
    if toolkit.find_program("ptxas") is not None:
        assemble(artifact.text, gpu)


@pytest.mark.parametrize(("gpu", "tiles"), [("sm_90", (2, 16, 32, 32)), ("sm_100", (2, 32, 32, 32))])
def test_dots_without_an_instruction_stay_a_batch(gpu, tiles):
    kernel = product(tiles)
    assert ranks(kernel, gpu) == [3]
    assert "mma.sync" in kernel.check(gpu).text


@pytest.mark.parametrize("gpu", ATOMS)
def test_a_batch_that_cannot_be_sliced_stays_with_a_remark(gpu):
    """A store with an order is one store."""
    kernel = product(TILES, order="relaxed")
    artifact = kernel.check(gpu, emit_remarks=True)
    (reason,) = causes(artifact.diagnostics, "dots.tensor-cores")
    assert reason.startswith("dots.batch instruction=")


@pytest.mark.slow
def test_synchronization_is_minimal():
    kernel = product((2, 64, 64, 32), steps=5)
    assert not survivors(kernel, kernel.compiled("sm_100", pipeline_strategy="unspecialize"), ORDERS)


def test_synchronization_is_minimal_without_copies():
    kernel = product((2, 64, 64, 32), steps=4)
    assert not survivors(kernel, kernel.compiled("sm_100", pipeline_strategy="none"), FENCES)


def test_no_wait_of_warpgroups_is_superfluous():
    kernel = product((2, 64, 64, 32), steps=5)
    orders = r"wgmma\.(?:fence|commit|wait)[^;]*;|fence\.proxy[^;]*;|bar\.sync[^;]*;|cp\.async\.wait_group[^;]*;"
    options = {"pipeline_strategy": "unspecialize", "unspecialized_pipeline_num_stages": 3}
    assert not survivors(kernel, kernel.compiled("sm_90", **options), orders)
