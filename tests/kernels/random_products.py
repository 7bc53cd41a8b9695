"""Random dots, with block scales or without: tiles from the smallest size up, arrays that need not be multiples of
them, for any target, with any tensor maps, strategy and number of CTAs."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import numpy as np

from .dots import ACCUMULATORS, dot
from .views import DTYPES, ONE, Kernel, View, entry, in_pairs, tile_type, whole_numbers, zeros

ELEMENTS = ("f16", "f16", "bf16", "f8E4M3FN", "f8E5M2", "i8", "tf32")
SCALED_TARGETS = ("sm_100", "sm_103", "sm_120")
TARGETS = ("sm_90", *SCALED_TARGETS)


class Case(NamedTuple):
    """A kernel with a grid of tiles, and how to compile it."""

    kernel: Kernel
    gpu_name: str
    options: dict[str, Any]


def _loop(views: list[View], loads: list[str], multiply: str, steps: int) -> str:
    """The module that adds the dots of `steps` steps along K to each tile of C, the last view."""
    c = views[-1]
    body = [
        ONE, f"%steps = constant <i32: {steps}> : tile<i32>", "%row, %column, %z = get_tile_block_id : tile<i32>",
        zeros("none", c.tile),
        f"%sum = for %i in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %none) -> ({c.tile}) {{",
        *loads, multiply, f"continue %next : {c.tile}", "}",
        c.store("sum", "%row, %column"),
    ]  # fmt: skip
    return entry(views, body)


def _turned(array: np.ndarray, by_columns: bool) -> np.ndarray:
    """The array as it lies in memory."""
    return np.ascontiguousarray(array.T) if by_columns else array


def _grid(sizes: tuple[int, ...], tiles: tuple[int, ...]) -> tuple[int, int, int]:
    return -(-sizes[0] // tiles[0]), -(-sizes[1] // tiles[1]), 1


def product(
    tiles: tuple[int, int, int], element: str, sizes: tuple[int, int, int], a_by_columns: bool = False,
    b_by_columns: bool = False,
) -> Kernel:  # fmt: skip
    """C = A B of `sizes` (m, n, k); tf32 is stored as f32."""
    (m, n, k), (rows, columns, depth) = tiles, sizes
    stored = "f32" if element == "tf32" else element
    result = ACCUMULATORS.get(element, "f32")
    a = View("a", (m, k), stored, (rows, depth), by_columns=a_by_columns, padding="zero")
    b = View("b", (k, n), stored, (depth, columns), by_columns=b_by_columns, padding="zero")
    c = View("c", (m, n), result, (rows, columns))
    types = tile_type((m, k), element), tile_type((k, n), element), c.tile
    loads = []
    for view, where, type in ((a, "%row, %i", types[0]), (b, "%i, %column", types[1])):
        name = view.name
        loads.append(view.load(name if element == stored else f"{name}_wide", where))
        if element != stored:
            loads.append(f"%{name} = ftof %{name}_wide : {view.tile} -> {type}")
    text = _loop([a, b, c], loads, dot("next", "a", "b", "acc", types), -(-depth // k))
    left, right = whole_numbers((rows, depth), stored, 1, 2), whole_numbers((depth, columns), stored, 2, 2)
    wanted = (left.astype(np.float64) @ right.astype(np.float64)).astype(DTYPES[result])
    inputs = _turned(left, a_by_columns), _turned(right, b_by_columns)
    return Kernel(text, inputs, (np.zeros_like(wanted),), (wanted,), _grid(sizes, tiles))


def scaled_product(
    tiles: tuple[int, int, int], element: str, sizes: tuple[int, int, int], block: int = 32, scale: str = "f8E8M0FNU",
    b_by_columns: bool = False, scales_by_columns: bool = False,
) -> Kernel:  # fmt: skip
    """The same with a scale for each `block` elements along K, which the tiles divide; `scales_by_columns`: B's."""
    (m, n, k), (rows, columns, depth) = tiles, sizes
    runs, every = k // block, depth // block
    a = View("a", (m, k), element, (rows, depth), padding="zero")
    b = View("b", (k, n), element, (depth, columns), by_columns=b_by_columns, padding="zero")
    x = View("x", (m, runs), scale, (rows, every), padding="zero")
    y = View("y", (runs, n), scale, (every, columns), by_columns=scales_by_columns, padding="zero")
    c = View("c", (m, n), "f32", (rows, columns))
    loads = [a.load("a", "%row, %i"), b.load("b", "%i, %column"), x.load("x", "%row, %i"), y.load("y", "%i, %column")]
    multiply = f"%next = mmaf_scaled %a, %b, %acc, %x, %y : {a.tile}, {b.tile}, {c.tile}, {x.tile}, {y.tile}"
    text = _loop([a, b, x, y, c], loads, multiply, depth // k)
    left, right = whole_numbers((rows, depth), element, 1, 2), whole_numbers((depth, columns), element, 2, 2)
    generator = np.random.default_rng(4)
    of_rows, of_columns = (
        (2.0 ** generator.integers(-2, 3, shape)).astype(DTYPES[scale]) for shape in ((rows, every), (every, columns))
    )
    wide = [each.astype(np.float64) for each in (left, right, of_rows, of_columns)]
    wanted = (wide[0] * np.repeat(wide[2], block, 1)) @ (wide[1] * np.repeat(wide[3], block, 0))
    right = _turned(right, b_by_columns)
    if element == "f4E2M1FN":
        left, right = in_pairs(left), in_pairs(right)
    inputs = left, right, of_rows, _turned(of_columns, scales_by_columns)
    output = np.zeros(wanted.shape, np.float32)
    return Kernel(text, inputs, (output,), (wanted.astype(np.float32),), _grid(sizes, tiles))


def _product(choose: random.Random) -> Kernel:
    element = choose.choice(ELEMENTS)
    size = np.dtype(DTYPES["f32" if element == "tf32" else element]).itemsize
    large = choose.random() < 0.25
    m = choose.choice((64, 128) if large else (8, 16, 16, 32, 64))
    n = choose.choice((64, 128, 256) if large else (8, 16, 16, 32, 64))
    k = min(choose.choice((16, 32, 32, 64, 128)), 128 // size)
    a_by_columns, b_by_columns = choose.random() < 0.35, choose.random() < 0.5
    # Rows of maps are multiples of 16 bytes, and as many as the array has.
    unit = 16 // size
    rows = choose.choice((m, 2 * m, m - 1, 2 * m - 3))
    columns = choose.choice((n, 2 * n, n - 1, 2 * n - 3))
    depth = k * choose.choice((2, 2, 3, 4, 5)) - unit * choose.choice((0, 0, 1))
    rows, columns = -(-rows // unit) * unit if a_by_columns else rows, (
        columns if b_by_columns else -(-columns // unit) * unit
    )
    return product((m, n, k), element, (rows, columns, max(unit, depth)), a_by_columns, b_by_columns)


def _scaled(choose: random.Random) -> Kernel:
    element = choose.choice(("f8E4M3FN", "f8E5M2", "f8E4M3FN", "f4E2M1FN"))
    four = element == "f4E2M1FN"
    block = choose.choice((16, 32)) if four else 32
    scale = "f8E8M0FNU" if block == 32 else "f8E4M3FN"
    m, n = choose.choice((16, 16, 32, 64, 128, 128)), choose.choice((8, 16, 32, 64, 128))
    k = choose.choice((64, 128, 256) if four else (32, 64, 128, 128, 256))
    b_by_columns = four or choose.random() < 0.6
    rows = choose.choice((m, 2 * m, 2 * m - 1))
    columns = choose.choice((n, 2 * n, 2 * n - 1 if b_by_columns else n))
    sizes = rows, columns, k * choose.choice((2, 3, 4, 5))
    return scaled_product((m, n, k), element, sizes, block, scale, b_by_columns, choose.random() < 0.6)


def drawn(seed: int) -> Case:
    """The kernel of a seed."""
    choose = random.Random(seed)
    has_scales = choose.random() < 0.4
    kernel = (_scaled if has_scales else _product)(choose)
    options: dict[str, Any] = {"tensor_maps": choose.choice(("host", "host", "device", "none"))}
    options["pipeline_strategy"] = choose.choice(("auto", "auto", "none", "unspecialize", "warp-specialize"))
    options["num_ctas"] = choose.choice((1, 1, 2, 4))
    if choose.random() < 0.3:
        options["num_warps"] = choose.choice((4, 8))
    return Case(kernel, choose.choice(SCALED_TARGETS if has_scales else TARGETS), options)
