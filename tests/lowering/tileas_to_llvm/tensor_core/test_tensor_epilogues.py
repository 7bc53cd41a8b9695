"""Accumulators in tensor memory that are larger than registers: operations after the dots read them in slices of
columns, and no product is computed twice."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.kernels.dots import Matmul, matmul
from tests.kernels.tensor_memory import GPU, ORDERS, check, survivors
from tests.kernels.views import Kernel, View, reduced, tile_type
from tileiras.codegen import ptxas, toolkit
from tileiras.sim import EmulationError


def products(ptx: str) -> int:
    return ptx.count("tcgen05.mma")


@pytest.mark.parametrize(
    ("tiles", "warps", "shape", "loads"),
    [
        ((128, 256, 32), 4, "128x256", "32x32b.x64"),
        ((256, 128, 32), 4, "128x128", "32x32b.x128"),
        ((256, 256, 32), 4, "128x256", "32x32b.x64"),
        ((256, 256, 32), 8, "128x256", "32x32b.x128"),
        ((64, 512, 32), 4, "64x256", "16x256b.x16"),
    ],
)
def test_slices_of_columns(tiles, warps, shape, loads):
    """Rows beyond the 128 of tensor memory are columns of their own; each dot has as many instructions as it has
    results of one, and no copy for each slice."""
    ptx = check(matmul(tiles, steps=3), f"f16 {shape}", num_warps=warps)
    assert set(re.findall(r"tcgen05\.ld\.sync\.aligned\.(\w+\.x\d+)", ptx)) == {loads}
    m, n = map(int, shape.split("x"))
    assert products(ptx) == tiles[0] * tiles[1] // (m * n) * tiles[2] // 16


def rounded(tiles: tuple[int, int, int], **options) -> Kernel:
    """Half of a product, beside twice an array of its size, rounded to f16."""
    parts = Matmul(tiles, **options)
    m, n, _ = tiles
    wide, half = tile_type((m, n), "f32"), tile_type((m, n), "f16")
    bias, out = View("bias", (m, n), "f16"), View("c", (m, n), "f16")
    parts.c = out
    text = (
        parts.text(
            tail=f"""%zeroes = constant <f32: 0.5> : {wide}
        %x = mulf %sum, %zeroes : {wide}
        {bias.load("near")}
        %wide = ftof %near : {half} -> {wide}
        %y = addf %x, %wide : {wide}
        %r = ftof %y : {wide} -> {half}""",
            more=[bias],
        )
        .replace(f"%c = constant <f16: 0.0> : {half}", f"%c = constant <f32: 0.0> : {wide}")
        .replace(f"(%acc = %c) -> ({half})", f"(%acc = %c) -> ({wide})")
        .replace(f"continue %next : {half}", f"continue %next : {wide}")
    )
    kernel = parts.kernel(text)
    near = np.arange(m * n).reshape(m, n) % 7
    a, b = (x.astype(np.float64) for x in kernel.inputs)
    wanted = ((a @ b) / 2 + near).astype(np.float16)
    return kernel._replace(
        outputs=(np.zeros((m, n), np.float16), near.astype(np.float16)), expected=(wanted, near.astype(np.float16))
    )


@pytest.mark.parametrize(("tiles", "warps"), [((128, 256, 32), 4), ((256, 256, 32), 8)])
def test_results_of_a_slice_are_stored_with_it(tiles, warps):
    kernel = rounded(tiles, steps=2)
    kernel.interpreted()
    ptx = check(kernel, "f16 128x256", num_warps=warps)
    assert products(ptx) == tiles[0] // 128 * 2


def test_sums_of_rows_go_on_from_slice_to_slice():
    """Rows of the accumulator are read once for their sums, and again for the store."""
    parts = Matmul((128, 256, 32), steps=2)
    sums = View("sums", (128,), "f32")
    store = [reduced("total", "sum", (128, 256), 1), sums.store("total"), parts.c.store("sum")]
    kernel = parts.kernel(parts.text(store=store, more=[sums]))
    total = kernel.expected[0].sum(axis=1)
    kernel = kernel._replace(outputs=(*kernel.outputs, np.zeros(128, np.float32)), expected=(*kernel.expected, total))
    ptx = check(kernel, "f16 128x256", num_warps=4)
    assert products(ptx) == 2


def test_a_loop_that_does_not_run_leaves_zeros_in_every_slice():
    parts = Matmul((128, 256, 32), steps=3)
    text = parts.text().replace("%steps = constant <i32: 3> : tile<i32>", "%steps = constant <i32: 0> : tile<i32>")
    kernel = parts.kernel(text, lambda a, b: np.zeros((128, 256)))
    kernel.emulated(kernel.compiled(GPU, num_warps=4))


def test_an_accumulator_that_is_loaded_is_multiplied_in_slices():
    """It comes through registers, which do not hold it whole."""
    check(matmul((128, 256, 32), steps=2, start="loaded"), "f16 128x128", num_warps=4)


@pytest.mark.slow
@pytest.mark.parametrize("maps", ["none", "host"])
def test_synchronization_is_minimal(maps):
    kernel = matmul((128, 256, 64), steps=3 if maps == "none" else 5)
    # Two stages, so that each is filled again: otherwise its release would be superfluous.
    stages = {} if maps == "none" else {"unspecialized_pipeline_num_stages": 2}
    artifact = kernel.compiled(GPU, num_warps=4, tensor_maps=maps, **stages)
    orders = ORDERS if maps == "none" else r"tcgen05\.(?:alloc|dealloc|fence|wait|commit)[^;]*;"
    assert not survivors(kernel, artifact, orders)


def test_columns_that_are_freed_before_the_last_slice_is_read():
    kernel = matmul((128, 256, 32), steps=2)
    artifact = kernel.compiled(GPU, num_warps=4)
    lines = artifact.text.splitlines()
    freed = next(n for n, line in enumerate(lines) if "tcgen05.dealloc" in line)
    load = next(n for n, line in enumerate(lines) if "tcgen05.ld." in line)
    assert load < freed
    wrong = [*lines[:load], lines[freed], *lines[load:freed], *lines[freed + 1 :]]
    with pytest.raises(EmulationError):
        kernel.emulated(artifact, 0, "\n".join(wrong))


@pytest.mark.parametrize(("tiles", "warps"), [((128, 256, 64), 4), ((256, 256, 64), 4), ((256, 256, 64), 8)])
@pytest.mark.parametrize("kind", [matmul, rounded])
def test_no_thread_has_local_memory(tiles, warps, kind):
    if toolkit.find_program("ptxas") is None:
        pytest.skip("the assembler is not installed")
    artifact = kind(tiles, steps=4).compiled(GPU, num_warps=warps)
    resources = ptxas.assemble(artifact.text, GPU).resources["k"]
    assert resources.stack == resources.spill_stores == 0
