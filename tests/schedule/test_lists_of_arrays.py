"""Arrays whose addresses are in a table in memory: no host can know them, so that their maps are made by the kernel,
which loads the address first."""

from __future__ import annotations

import numpy as np
import pytest

import tileiras
from tests.agents.running import SPECIALIZED
from tests.kernels import tensor_maps as kernels
from tests.kernels.reasons import stated
from tests.kernels.views import whole_numbers
from tileiras.sim import Memory, emulate

BOX, RUN = "mbarrier::complete_tx::bytes", "cp.async.cg"
COUNT, ROWS, DEPTH = 3, 60, 160

FROM_TABLE = """
    %number, %unused_y, %unused_z = get_tile_block_id : tile<i32>
    %table = ptr_to_ptr %p_a : tile<ptr<f16>> -> tile<ptr<i64>>
    %slot = offset %table, %number : tile<ptr<i64>>, tile<i32> -> tile<ptr<i64>>
    %address, %k_table = load_ptr_tko weak %slot : tile<ptr<i64>> -> tile<i64>, token
    %p_g = int_to_ptr %address : tile<i64> -> tile<ptr<f16>>
"""


def products() -> str:
    """Row x of tiles of C is the product of array x of the table with B."""
    view = kernels.view("a", "64x32").replace("%p_a :", "%p_g :")
    return kernels.matmul(FROM_TABLE + view).replace("%v_a[%x, %i]", "%v_a[%zero, %i]")


def launch(artifact, seed: int | None) -> None:
    memory = Memory()
    arrays = [whole_numbers((ROWS, DEPTH + 8), "f16", number) for number in range(COUNT)]
    b, c = whole_numbers((DEPTH, 64), "f16", COUNT), np.full((COUNT * 64, 64), -7, np.float32)
    table = np.array([memory.allocate(array) for array in arrays], np.int64)
    arguments = [table, ROWS, DEPTH, DEPTH + 8, b, DEPTH, 64, 64, c, COUNT * 64, 64, 64, DEPTH // 32]
    assert emulate(artifact.text, "k", (COUNT, 1), arguments, artifact.kernels[0].metadata, seed=seed).searched_races
    for number, array in enumerate(arrays):
        wanted = np.zeros((64, 64), np.float32)
        wanted[:ROWS] = array[:, :DEPTH].astype(np.float32) @ b.astype(np.float32)
        np.testing.assert_array_equal(c[64 * number : 64 * (number + 1)], wanted)


@pytest.mark.parametrize("gpu", ["sm_90", "sm_100", "sm_120"])
def test_the_kernel_makes_the_map_of_each(gpu):
    artifact = tileiras.compile(products(), gpu_name=gpu, tensor_maps="device")
    assert BOX in artifact.text and RUN not in artifact.text
    for seed in (None, 0, 1):
        launch(artifact, seed)


@pytest.mark.parametrize(
    ("maps", "options", "said"),
    [
        ("host", {}, "maps.unused; maps.base-computed"),
        ("device", SPECIALIZED, "agents.loads-stay variant=heavy; agents.map-in-agent"),
    ],
    ids=["host", "agents"],
)
def test_impossible_requests_are_reported(maps, options, said):
    artifact = tileiras.compile(products(), gpu_name="sm_90", tensor_maps=maps, emit_remarks=True, **options)
    assert said in stated(artifact.diagnostics)
    launch(artifact, 0)
