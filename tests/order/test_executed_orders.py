"""Executed certificates of order: equal bits under other orders of warps and tile blocks, other grids, launches of few
rows and of many, other CTAs and options."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from certificates import built, certificate, output  # noqa: E402

from tests.kernels import summed  # noqa: E402
from tests.kernels.dots import attention_like  # noqa: E402
from tileiras.dialects import nv_tileas as tileas  # noqa: E402
from tileiras.ir import parse_module  # noqa: E402
from tileiras.layout.encoding import layout_of  # noqa: E402
from tileiras.layout.reduction_order import reduction_steps  # noqa: E402
from tileiras.sim import emulate  # noqa: E402
from tileiras.targets import target  # noqa: E402

SEEDS = (None, 0, 1, 2)
COLUMNS = {"row_sums": 250, "long_row_sums": 700, "every_nth_row": 250, "centered_rows": 256, "running_sums": 250}


def numbers(*shape: int, dtype=np.float32) -> np.ndarray:
    """Of very different sizes, so that another order rounds to other bits."""
    draw = np.random.default_rng(sum(shape))
    return (draw.standard_normal(shape) * np.exp2(draw.integers(-12, 12, shape))).astype(dtype)


def run(
    text: str, grid, arguments: list, out: int, seed: int | None = 0, gpu: str = "sm_90", turns=(None,), **options
) -> np.ndarray:
    """The bits of an argument behind a launch; `turns`: the tile blocks that run together, one turn after the other."""
    artifact = built(text, gpu, **options)
    result = [value.copy() if isinstance(value, np.ndarray) else value for value in arguments]
    for blocks in turns:
        emulate(artifact.text, "k", grid, result, metadata=artifact.kernels[0].metadata, seed=seed, blocks=blocks)
    return result[out].view(np.uint32)


def turns(count: int, members: int = 1) -> list[list[list[int]]]:
    """Orders of tile blocks, of `members` CTAs each, that run alone: seeds advance the warps of all blocks together."""
    blocks = [list(range(first, first + members)) for first in range(0, count * members, members)]
    return [blocks, blocks[::-1], blocks[1::2] + blocks[::2]]


def of_rows(name: str, x: np.ndarray, grid=None, seed: int | None = 0, gpu: str = "sm_90", **options) -> np.ndarray:
    """The bits of the result of each row."""
    text, (rows, columns) = summed.OF_ROWS[name](), x.shape
    width = 1 if name.endswith(("sums", "row")) and name != "running_sums" else columns
    out = np.zeros((rows, width), np.float32)
    return run(text, grid or (rows, 1, 1), [x, out, rows, columns], 1, seed, gpu, **options)


def product(x: np.ndarray, w: np.ndarray, seed: int | None = 0, gpu: str = "sm_90", k: int = 32, **options):
    (rows, columns), width = x.shape, w.shape[1]
    out = np.zeros((rows, width), np.float32)
    grid = -(-rows // 16), -(-width // 16), 1
    return run(summed.product(k=k), grid, [x, w, out, rows, columns, width], 2, seed, gpu, **options)


# ---- from run to run -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ctas", [1, 2, 4])
@pytest.mark.parametrize("name", summed.OF_ROWS)
def test_repeatable_outputs_are_equal_in_all_runs(name, ctas):
    x = numbers(8, COLUMNS[name])
    options = {"num_ctas": ctas}
    assert output(summed.OF_ROWS[name](), 1, **options).repeatable == "yes"
    grid = (8 * ctas, 1, 1)
    result = [of_rows(name, x, grid, seed, **options) for seed in SEEDS]
    result += [of_rows(name, x, grid, turns=order, **options) for order in turns(8, ctas)]
    for each in result[1:]:
        np.testing.assert_array_equal(each, result[0])


def test_atomic_float_additions_differ_between_runs():
    text, x = summed.shared_sums(), numbers(4, 2000)
    assert output(text, 1).repeatable == "no"
    result = {run(text, (4, 1, 3), [x, np.zeros(4, np.float32), 4, 2000], 1, seed).tobytes() for seed in range(4)}
    result.add(run(text, (4, 1, 3), [x, np.zeros(4, np.float32), 4, 2000], 1, None).tobytes())
    assert len(result) > 1
    orders = turns(12)
    assert len({run(text, (4, 1, 3), [x, np.zeros(4, np.float32), 4, 2000], 1, turns=o).tobytes() for o in orders}) > 1


def test_integers_that_are_added_atomically_are_the_same():
    text, x = summed.counts(), np.random.default_rng(0).integers(0, 8, 500, np.int32)
    assert output(text, 1).repeatable == "yes"
    for order in ((None,), *turns(4)):
        result = run(text, 4, [x, np.zeros(8, np.int32), 500], 1, turns=order)
        np.testing.assert_array_equal(result, np.bincount(x, minlength=8))


@pytest.mark.parametrize("gpu", ["sm_90", "sm_120"])
def test_attention_is_the_same_from_run_to_run(gpu):
    kernel = attention_like(2)
    value = certificate(kernel.text, gpu)
    assert {out.repeatable for out in value.outputs} == {"yes"}
    assert {"reduce", "dot", "loop"} <= {each.kind for each in value.sums}
    first = len(kernel.inputs)
    result = set()
    for seed in SEEDS:
        inputs = [numbers(*each.shape, dtype=each.dtype) / 64 for each in kernel.inputs]
        arguments = [*inputs, *(each.copy() for each in kernel.outputs)]
        emulate(
            built(kernel.text, gpu).text, "k", kernel.grid, arguments, seed=seed,
            metadata=built(kernel.text, gpu).kernels[0].metadata,
        )  # fmt: skip
        result.add(b"".join(each.tobytes() for each in arguments[first:]))
    assert len(result) == 1


# ---- over sizes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gpu", ["sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize("name", summed.OF_ROWS)
def test_a_row_does_not_depend_on_other_rows(name, gpu):
    result = certificate(summed.OF_ROWS[name](), gpu)
    assert {"grid", "block", "p2"} <= set(result.invariant(result.outputs[0]))
    x = numbers(9, COLUMNS[name])
    together = of_rows(name, x, gpu=gpu)
    for row in (0, 5, 8):
        np.testing.assert_array_equal(of_rows(name, x[row : row + 1].copy(), gpu=gpu)[0], together[row])


@pytest.mark.parametrize("blocks", [1, 2, 5])
def test_rows_do_not_depend_on_the_grid_that_loops_over_them(blocks):
    x = numbers(9, 250)
    wanted = of_rows("row_sums", x)
    np.testing.assert_array_equal(of_rows("every_nth_row", x, (blocks, 1, 1)), wanted)


@pytest.mark.parametrize("gpu", ["sm_80", "sm_90", "sm_100"])
def test_a_row_of_a_product_does_not_depend_on_other_rows(gpu):
    result = certificate(summed.product(), gpu)
    assert {"grid", "block", "p3", "p5"} <= set(result.invariant(result.outputs[0]))
    x, w = numbers(35, 72, dtype=np.float16) / 256, numbers(72, 40, dtype=np.float16) / 256
    together = product(x, w, gpu=gpu)
    for row in (0, 17, 34):
        np.testing.assert_array_equal(product(x[row : row + 1].copy(), w, gpu=gpu)[0], together[row])


def test_a_sum_that_the_grid_shares_out_depends_on_it():
    text, x = summed.shared_sums(), numbers(4, 2000)
    assert "grid.z" in output(text, 1).order
    one, three = (run(text, (4, 1, parts), [x, np.zeros(4, np.float32), 4, 2000], 1) for parts in (1, 3))
    assert (one != three).any()


# ---- over builds -----------------------------------------------------------------------------------------------------

BUILDS = ({}, {"num_warps": 1}, {"num_warps": 8}, {"pipeline_strategy": "none"}, {"opt_level": 0}, {"num_ctas": 2})


@pytest.mark.parametrize("name", ["row_sums", "long_row_sums", "centered_rows", "running_sums"])
def test_builds_with_equal_keys_have_equal_bits(name):
    """And of builds with other keys some have others."""
    x = numbers(8, COLUMNS[name])
    by_key: dict[tuple, set[bytes]] = {}
    for options in BUILDS:
        keys = tuple(each.key for each in certificate(summed.OF_ROWS[name](), **options).sums)
        assert all(keys)
        grid = (8 * options.get("num_ctas", 1), 1, 1)
        by_key.setdefault(keys, set()).add(of_rows(name, x, grid, **options).tobytes())
    assert all(len(item) == 1 for item in by_key.values())
    assert 1 < len(by_key) < len(BUILDS)
    assert len(set().union(*by_key.values())) > 1


def words(text: str, gpu: str = "sm_90", **options) -> str:
    (only,) = certificate(text, gpu, **options).sums
    return only.order


def count(what: str, order: str) -> int:
    match = re.search(rf"(\d+) {what}", order)
    return int(match[1]) if match else 1


def test_slices_are_added_one_after_the_other():
    """Of a tile that is too large for a warp."""
    text, options = summed.row_sums(1, 16384), {"num_warps": 1}
    parts = count("slices", words(text, **options))
    module = parse_module(built(text, emit="tileas", **options).text, "k.mlir")
    (op,) = [op for op in module.walk() if isinstance(op, tileas.ReduceOp)]
    x = numbers(1, 16384)
    slices = x.reshape(parts, -1)
    added = slices[0]
    for each in slices[1:]:
        added = added + each
    wanted = summed.in_order(reduction_steps(op, layout_of(op.inputs[0].type), target("sm_90")), added)
    assert parts > 1
    assert run(text, 1, [x, np.zeros(1, np.float32), 1, 16384], 1, **options) == wanted.view(np.uint32)


@pytest.mark.parametrize("columns, warps", [(256, 1), (1024, 4), (32, 2)])
def test_scans_have_the_bits_of_their_order(columns, warps):
    text = summed.running_sums(columns)
    order = words(text, num_warps=warps)
    held, lanes, crossed = (count(what, order) for what in ("of a thread", "lanes", "warps"))
    assert held * lanes * crossed == columns
    x = numbers(1, columns)
    result = run(text, 1, [x, np.zeros_like(x), 1, columns], 1, num_warps=warps)
    np.testing.assert_array_equal(result[0], scanned(x[0], held, lanes, crossed).view(np.uint32))


def scanned(row: np.ndarray, held: int, lanes: int, warps: int) -> np.ndarray:
    parts = row.reshape(warps, lanes, held).copy()
    for i in range(1, held):
        parts[:, :, i] = parts[:, :, i - 1] + parts[:, :, i]
    running = parts[:, :, -1].copy()
    for distance in (1 << bit for bit in range(lanes.bit_length() - 1)):
        running = np.concatenate((running[:, :distance], running[:, :-distance] + running[:, distance:]), 1)
    done = parts.copy()
    earlier = None
    for warp in range(warps):
        for lane in range(lanes):
            before = running[warp, lane - 1] if lane else None
            if earlier is not None:
                before = earlier if before is None else earlier + before
            if before is not None:
                done[warp, lane] = before + parts[warp, lane]
        last = running[warp, -1]
        earlier = last if earlier is None else earlier + last
    return done.reshape(-1)


def test_products_do_not_depend_on_the_tile_of_k():
    x, w = numbers(16, 192, dtype=np.float16) / 256, numbers(192, 16, dtype=np.float16) / 256
    result, keys = set(), set()
    for k in (16, 32, 64):
        for warps in (1, 4):
            (only,) = certificate(summed.product(k=k), num_warps=warps).sums
            keys.add(only.key)
            result.add(product(x, w, k=k, num_warps=warps).tobytes())
    assert len(keys) == 1 and len(result) == 1
