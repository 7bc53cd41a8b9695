"""Attention with its scores and probabilities in tensor memory, several CTAs on an SM: one stage of each tile, threads
that have rows for themselves, loops that hand their accumulator on."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.kernels.dots import attention_in_two_loops, attention_like
from tests.kernels.reasons import stated
from tests.kernels.tensor_memory import FENCES, GPU, TENSOR_ORDERS, check, survivors
from tests.kernels.views import Kernel
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.dialects.nv_tileas import names

SINGLE = "#nv_tileas.loop_schedule<single_buffer, 1>"
SMALL = {"rows": 128, "columns": 64, "depth": 64}
"""Four CTAs have a quarter of an SM's shared memory each: two stages of K and V, and Q, would be more."""


def attention(ctas: int = 4, steps: int = 4, rows: int = 128, columns: int = 64, depth: int = 64) -> Kernel:
    return attention_like(ctas, rows=rows, columns=columns, depth=depth, steps=steps, gpu_name=GPU, halved=True)


def schedules(kernel: Kernel, **options) -> list[str]:
    """Of the loops of a kernel, as they are in the end."""
    module = kernel.tileas(GPU, **options)
    return [f"{op.attributes[tileas.LOOP_SCHEDULE]}" for op in module.walk() if isinstance(op, scf.ForOp)]


def columns_of(kernel: Kernel, **options) -> int:
    """Columns of tensor memory that a CTA allocates."""
    return next(op.columns.value for op in kernel.tileas(GPU, **options).walk() if op.name == names.TENSOR_RESERVE)


def launch(ptx: str) -> tuple[int, int]:
    """Threads of a CTA, and CTAs that an SM is to hold."""
    match = re.search(r"\.reqntid (\d+).*?\.minnctapersm (\d+)", ptx, re.DOTALL)
    assert match is not None
    return int(match.group(1)), int(match.group(2))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("maps", ["none", "host", "device"])
def test_each_tile_has_one_stage(maps):
    kernel = attention()
    ptx = check(kernel, "f16 128x64", tensor_maps=maps)
    assert launch(ptx) == (128, 4)
    assert schedules(kernel, tensor_maps=maps) == [SINGLE]
    assert columns_of(kernel, tensor_maps=maps) == 128
    assert ("cp.async.bulk.tensor" in ptx, "st.shared.v4" in ptx) == (maps != "none", False)


def test_tiles_of_128_leave_room_for_two_ctas():
    """Of shared memory and of tensor memory; whole rows of scores take the registers of two CTAs of four warps."""
    kernel = attention(2, 2, 128, 128, 128)
    ptx = check(kernel, "f16 128x128")
    assert launch(ptx) == (128, 2)
    assert (schedules(kernel), columns_of(kernel)) == ([SINGLE], 256)


def test_warps_that_share_rows():
    """Of eight warps two have halves of the same rows: probabilities are stored behind both loads of the scores."""
    check(attention(), "f16 128x64", num_warps=8)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("maps", ["none", "host"])
@pytest.mark.parametrize("steps", [0, 1, 2])
def test_a_number_of_iterations_that_is_known_at_run_time(maps, steps):
    kernel = attention(steps=max(steps, 1))
    constant = f"%steps = constant <i32: {max(steps, 1)}> : tile<i32>"
    unknown = "%bx, %by, %bz = get_tile_block_id : tile<i32>\n    %more = constant <i32: {}> : tile<i32>\n" \
              "    %steps = addi %bx, %more : tile<i32>"  # fmt: skip
    assert kernel.text.count(constant) == 1
    nothing = (np.zeros((128, 64)), np.full((128, 1), -10000.0), np.full((128, 1), 3.0))
    wanted = kernel.expected if steps else tuple(each.astype(np.float32) for each in nothing)
    other = kernel._replace(text=kernel.text.replace(constant, unknown.format(steps)), expected=wanted)
    assert schedules(other, tensor_maps=maps) == [SINGLE]
    check(other, "f16 128x64", tensor_maps=maps)


@pytest.mark.parametrize("maps", ["none", "host"])
def test_loops_hand_their_accumulator_on(maps):
    """It stays in its columns, and the scores of the second loop are where those of the first were."""
    kernel = attention_in_two_loops(2, 3, 4, gpu_name=GPU, **SMALL)
    kernel.interpreted()
    ptx = check(kernel, "f16 128x64", tensor_maps=maps)
    assert schedules(kernel, tensor_maps=maps) == [SINGLE, SINGLE]
    assert (launch(ptx)[1], columns_of(kernel, tensor_maps=maps)) == (4, 128)


@pytest.mark.parametrize("warps", [4, 8])
def test_loops_of_a_lone_cta_hand_their_accumulator_on(warps):
    """Probabilities have columns of their own there."""
    kernel = attention_in_two_loops(2, 1, 1, gpu_name=GPU, **SMALL)
    check(kernel, "f16 128x64", num_warps=warps)
    assert SINGLE not in schedules(kernel, num_warps=warps)


def at_run_time(kernel: Kernel, first: int, second: int) -> Kernel:
    """A kernel of two loops, whose trip counts are known only at launch."""
    text, block = kernel.text, "%{0}_b, %{0}_y, %{0}_z = get_tile_block_id : tile<i32>"
    for name, count in (("middle", first), ("steps", first + second)):
        known = f"%{name} = constant <i32: {count}> : tile<i32>"
        assert text.count(known) == 1
        parts = known.replace(name, f"{name}_n"), block.format(name), f"%{name} = addi %{name}_n, %{name}_b : tile<i32>"
        text = text.replace(known, "\n".join(parts))
    return kernel._replace(text=text)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("maps", ["none", "host"])
@pytest.mark.parametrize(("first", "second"), [(0, 2), (1, 1), (2, 0), (2, 3)])
def test_copies_of_a_loop_wait_for_products_of_the_last(first, second, maps):
    """Rings of both loops lie in the same place: the last product of the first one still reads its stage."""
    kernel = attention_in_two_loops(first, second, 1, rows=64, columns=32, depth=64, gpu_name=GPU)
    kernel = at_run_time(kernel, first, second)
    artifact = kernel.compiled(GPU, tensor_maps=maps, num_warps=4)
    for seed in (None, 0, 1):
        kernel.emulated(artifact, seed)


def test_an_accumulator_used_between_loops_is_not_forwarded():
    kernel = attention_in_two_loops(1, 2, 1, gpu_name=GPU, **SMALL)
    lines = kernel.text.split("\n")
    at = next(number for number, line in enumerate(lines) if line.strip().startswith("%o, %l"))
    lines.insert(at, "    %o_2f = addf %o_f, %o_f : tile<128x64xf32>")
    text = "\n".join(lines).replace("(%o_1_b = %o_f", "(%o_1_b = %o_2f")
    assert text.count("%o_2f") == 2
    q, k, v = (x.astype(np.float64) for x in kernel.inputs)
    o, most = np.zeros((128, 64)), np.full((128, 1), -10000.0)
    for step in range(3):
        part = slice(64 * step, 64 * step + 64)
        s = q @ k[:, part]
        most = np.maximum(most, s.max(axis=1, keepdims=True))
        o = (o if step == 1 else o / 2) + (s - most).astype(np.float16).astype(np.float64) @ v[part]
    other = kernel._replace(text=text, expected=(o.astype(np.float32), *kernel.expected[1:]))
    check(other, "f16 128x64", num_warps=4)


def test_accumulators_that_tensor_memory_holds_of_fewer_ctas():
    """Scores of 64 x 256 take 256 columns, the accumulator 128."""
    kernel = attention(4, 2, 64, 256, 128)
    ptx = check(kernel, "f16 64x128", "f16 64x256")
    assert (launch(ptx)[1], columns_of(kernel)) == (1, 512)
    result = stated(kernel.compiled(GPU, emit="tileas").diagnostics)
    assert "kernel.fewer-ctas ctas=1 asked=4; kernel.columns-needed columns=384" in result


@pytest.mark.sampled(2)
@pytest.mark.parametrize("maps", ["none", "host"])
@pytest.mark.parametrize("warps", [4, 8])
def test_probabilities_of_64_rows_lie_in_tensor_memory(maps, warps):
    """In 16 of every 32 lanes, as accumulators of 64 rows: a thread has half a row of scores, stores its probabilities,
    and exchanges maxima with one other thread."""
    kernel = attention(2, 4, 64, 64, 64)
    ptx = check(kernel, "f16 64x64", tensor_maps=maps, num_warps=warps)
    assert re.search(r"tcgen05\.st\.sync\.aligned\.16x32bx2\.x\d+\.b32", ptx)
    before = ptx[: ptx.rindex("tcgen05.mma")]  # the result goes through shared memory to its boxes
    assert "st.shared.v4" not in before and "stmatrix" not in before


MUTATED = {
    # More iterations than stages, so that each stage is filled again.
    "64 rows": (lambda: attention(2, 8, 64, 32, 32), {"tensor_maps": "host"}, FENCES),
    "copies": (lambda: attention(), {}, rf"{FENCES}|cp\.async\.wait_group[^;]*;"),
    "boxes": (lambda: attention(), {"tensor_maps": "host"}, FENCES),
    "two loops": (lambda: attention_in_two_loops(2, 2, 4, gpu_name=GPU, **SMALL), {}, TENSOR_ORDERS),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", sorted(MUTATED))
def test_synchronization_is_minimal(name):
    make, options, orders = MUTATED[name]
    kernel = make()
    artifact = kernel.compiled(GPU, **options)
    # Loads and their waits are one sequence.
    assert not survivors(kernel, artifact, orders.replace("|wait|", "|wait::st|"))
