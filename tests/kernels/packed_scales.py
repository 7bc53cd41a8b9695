"""Block-scaled dots whose scales have the memory layout that copies to tensor memory require: 512 bytes for 128 rows
and four runs of K, four runs of the rows r, r + 32, r + 64 and r + 96 side by side (cuBLAS, "1D Block Scaling Factors
Layout")."""

from __future__ import annotations

import numpy as np

from tests.kernels.views import DTYPES, ONE, Kernel, View, entry, in_pairs, tile_type, whole_numbers, zeros

ROWS, RUNS, LANES = 128, 4, 32


def packed(scales: np.ndarray) -> np.ndarray:
    """(rows, runs) as (rows / 128, runs / 4, 32, 16)."""
    rows, runs = scales.shape
    parts = scales.reshape(rows // ROWS, ROWS // LANES, LANES, runs // RUNS, RUNS)
    return np.ascontiguousarray(parts.transpose(0, 3, 2, 1, 4)).reshape(rows // ROWS, runs // RUNS, LANES, -1)


def _unpacked(value: str, count: int, runs: int, scale: str) -> str:
    """%VALUE, count x runs, of the tile %VALUE_packed."""
    rows, words = count // ROWS, runs // RUNS
    shapes = [(rows, words, LANES, 16), (rows, words, LANES, 4, RUNS), (rows, 4, LANES, words, RUNS), (count, runs)]
    a, b, c, d = (tile_type(shape, scale) for shape in shapes)
    return "\n".join([
        f"%{value}_parts = reshape %{value}_packed : {a} -> {b}",
        f"%{value}_rows = permute %{value}_parts [0, 3, 2, 1, 4] : {b} -> {c}",
        f"%{value} = reshape %{value}_rows : {c} -> {d}",
    ])  # fmt: skip


def packed_matmul(
    tiles: tuple[int, int, int], operand: str = "f8E4M3FN", steps: int = 3, *, scale: str = "f8E8M0FNU",
    block: int = 32, by_rows: bool = False, rounds: int = 0, ctas: int = 1, gpu: str = "sm_100",
) -> Kernel:  # fmt: skip
    """C = A B with a scale for each `block` elements along K, in a loop of `steps` tiles; `by_rows`: B is row-major.
    `rounds`: trip count of an outer loop over tiles of rows.  `ctas`: of the cluster."""
    m, n, k = tiles
    rows, depth, runs = m * max(1, rounds), k * steps, k // block
    a, c = View("a", (m, k), operand, (rows, depth)), View("c", (m, n), "f32", (rows, n))
    b = View("b", (k, n), operand, (depth, n), by_columns=not by_rows)
    x, y = (
        View(name, (extent // ROWS, runs // RUNS, LANES, 16), scale, (total // ROWS, runs * steps // RUNS, LANES, 16))
        for name, extent, total in (("x", m, rows), ("y", n, n))
    )
    of_a, of_b, turned = tile_type((m, runs), scale), tile_type((runs, n), scale), tile_type((n, runs), scale)
    tile = "%t" if rounds else "%zero"
    product = [
        f"%sum = for %i in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %none) -> ({c.tile}) {{",
        a.load("a", f"{tile}, %i"), b.load("b", "%i, %zero"),
        x.load("x_packed", f"{tile}, %i, %zero, %zero"), _unpacked("x", m, runs, scale),
        y.load("y_columns_packed", "%zero, %i, %zero, %zero"), _unpacked("y_columns", n, runs, scale),
        f"%y = permute %y_columns [1, 0] : {turned} -> {of_b}",
        f"%next = mmaf_scaled %a, %b, %acc, %x, %y : {a.tile}, {b.tile}, {c.tile}, {of_a}, {of_b}",
        f"continue %next : {c.tile}", "}",
        c.store("sum", f"{tile}, %zero"),
    ]  # fmt: skip
    count = [f"%count = constant <i32: {rounds}> : tile<i32>",
             "for %t in (%zero to %count, step %one) : tile<i32> {"]  # fmt: skip
    around = [*count, *product, "continue", "}"] if rounds else product
    body = [ONE, f"%steps = constant <i32: {steps}> : tile<i32>", zeros("none", c.tile), *around]
    generator = np.random.default_rng(4)
    left, right = whole_numbers((rows, depth), operand, 1, 2), whole_numbers((depth, n), operand, 2, 2)
    of_rows, of_columns = (
        (2.0 ** generator.integers(-2, 3, (extent, runs * steps))).astype(DTYPES[scale]) for extent in (rows, n)
    )
    wide = [each.astype(np.float64) for each in (left, right, of_rows, of_columns)]
    wanted = (wide[0] * np.repeat(wide[2], block, 1)) @ (wide[1] * np.repeat(wide[3].T, block, 0))
    stored = right if by_rows else np.ascontiguousarray(right.T)
    if operand == "f4E2M1FN":
        left, stored = in_pairs(left), in_pairs(stored)
    inputs, out = (left, stored, packed(of_rows), packed(of_columns)), np.zeros((rows, n), np.float32)
    hints = f"{gpu} = {{num_cta_in_cga = {ctas}}}" if ctas > 1 else ""
    return Kernel(entry([a, b, x, y, c], body, hints), inputs, (out,), (wanted.astype(np.float32),))
