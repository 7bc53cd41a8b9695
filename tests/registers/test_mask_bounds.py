"""Masks of a number between, or beyond, two bounds are as the program states, up to the ends of their type."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.kernels.views import Kernel, View, entry, names

ROWS, COLUMNS = 32, 64
LEAST, MOST = -(1 << 31), (1 << 31) - 1
COMPARED = {"less_than": np.less, "less_than_or_equal": np.less_equal,
            "greater_than": np.greater, "greater_than_or_equal": np.greater_equal}  # fmt: skip
MIRRORED = {"less_than": "greater_than", "less_than_or_equal": "greater_than_or_equal",
            "greater_than": "less_than", "greater_than_or_equal": "less_than_or_equal"}  # fmt: skip


def masked(first: str, second: str, n: int, rows: str, turned: bool = False) -> Kernel:
    """mask[r, c] = (columns[c] FIRST n) and (columns[c] SECOND rows[r]), of numbers that a kernel loads; with `rows`
    "counted" they are 0, 1, ... in the place of those loaded; `turned`: the second one is `rows MIRRORED columns`."""
    c = View("c", (1, COLUMNS), "i32")
    r = View("r", (ROWS, 1), "i32")
    end = View("n", (1, 1), "i32")
    out = View("out", (ROWS, COLUMNS), "i32")
    mask, wide = f"tile<{ROWS}x{COLUMNS}xi1>", f"tile<{ROWS}x{COLUMNS}xi32>"
    row = f"tile<1x{COLUMNS}xi1>"
    sides = "%rows, %columns" if turned else "%columns, %rows"
    body = [
        c.load("c"), r.load("loaded"), end.load("n"),
        f"%count = iota : tile<{ROWS}xi32>",
        f"%counted = reshape %count : tile<{ROWS}xi32> -> {r.tile}",
        f"%n1 = broadcast %n : {end.tile} -> {c.tile}",
        f"%in = cmpi {first} %c, %n1, signed : {c.tile} -> {row}",
        f"%in1 = broadcast %in : {row} -> {mask}",
        f"%columns = broadcast %c : {c.tile} -> {wide}",
        f"%rows = broadcast %{rows} : {r.tile} -> {wide}",
        f"%past = cmpi {MIRRORED[second] if turned else second} {sides}, signed : {wide} -> {mask}",
        f"%mask = andi %in1, %past : {mask}",
        f"%zeros = constant <i32: 0> : {wide}",
        f"%ones = constant <i32: 1> : {wide}",
        f"%found = select %mask, %ones, %zeros : {mask}, {wide}",
        out.store("found"),
    ]  # fmt: skip
    numbers = np.random.default_rng(5)
    ends = [LEAST, LEAST + 1, -1, 0, 1, MOST - 1, MOST]
    columns = np.concatenate([ends, numbers.integers(-40, 40, COLUMNS - len(ends))]).astype(np.int32)[None]
    loaded = np.concatenate([ends, numbers.integers(-40, 40, ROWS - len(ends))]).astype(np.int32)[:, None]
    used = np.arange(ROWS, dtype=np.int32)[:, None] if rows == "counted" else loaded
    expected = COMPARED[first](columns, np.int32(n)) & COMPARED[second](columns, used)
    inputs = columns, loaded, np.full((1, 1), n, np.int32)
    return Kernel(
        entry([c, r, end, out], body), inputs, (np.zeros(expected.shape, np.int32),), (expected.astype("i4"),)
    )


def conjunctions(kernel: Kernel, gpu_name: str) -> int:
    return names(kernel.after("tileas-join-mask-bounds", gpu_name)).count("arith.andi")


@pytest.mark.sampled(16)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("rows", ["loaded", "counted"])
@pytest.mark.parametrize(("first", "second"), list(itertools.product(COMPARED, repeat=2)))
def test_a_mask_follows_from_the_program(first, second, rows, turned):
    """Joined where both bounds are on one side, unless one is within and the other one beyond, and the step between
    might leave the type's numbers."""
    one_side = first.split("_")[0] == second.split("_")[0]
    kernel = masked(first, second, 7, rows, turned)
    assert conjunctions(kernel, "sm_90") == (0 if one_side and (first == second or rows == "counted") else 1)
    artifact = kernel.check("sm_90", emit="ptx")
    for n in (LEAST, MOST):
        kernel = masked(first, second, n, rows, turned)
        kernel.interpreted()
        kernel.emulated(artifact)


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_100", "sm_120"])
def test_on_every_target(gpu_name):
    masked("less_than", "less_than_or_equal", 20, "counted").check(gpu_name, emit="ptx")
