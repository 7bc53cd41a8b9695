"""Matrix products: types, orders in memory, computed operands, loops around and epilogues."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tests.generator.choices import Choices
from tests.generator.kernel import CUTILE, Argument, Expected, Generated, array, odd, result, scalar, whole

TILES = (8, 16, 16, 32, 32, 64, 64, 128, 128, 256)
DEPTHS = (8, 16, 16, 32, 32, 64, 64, 128)
TYPES = {
    "f16": ("f32", 75), "bf16": ("f32", 75), "tf32": ("f32", 75), "f32": ("f32", 75), "f64": ("f64", 75),
    "i8": ("i32", 75), "f8E4M3FN": ("f32", 89), "f8E5M2": ("f32", 89),
}  # fmt: skip
"""Operand type -> accumulator type, oldest target."""
WEIGHTS = (6, 4, 3, 2, 1, 4, 4, 2)
MOST_ELEMENTS = 128 * 256
MOST_WORK = 1 << 24
"""Multiply-adds of a launch: more would only cost time in the emulator."""
LARGE_WORK = 1 << 23
"""Those of a large tile."""

LEFT = {
    "rows": "ct.load(a, (row, {k}), (TM, TK), padding_mode=ZERO)",
    "columns": "ct.load(at, (row, {k}), (TM, TK), order=(1, 0), padding_mode=ZERO)",
    "transposed": "ct.transpose(ct.load(at, ({k}, row), (TK, TM), padding_mode=ZERO))",
    "gathered": "ct.gather(a, ((row * TM + ct.arange(TM, dtype=ct.int32))[:, None],"
                " ({k} * TK + ct.arange(TK, dtype=ct.int32))[None, :]))",
}  # fmt: skip
RIGHT = {
    "rows": "ct.load(b, ({k}, column), (TK, TN), padding_mode=ZERO)",
    "columns": "ct.load(bt, ({k}, column), (TK, TN), order=(1, 0), padding_mode=ZERO)",
    "transposed": "ct.transpose(ct.load(bt, (column, {k}), (TN, TK), padding_mode=ZERO))",
}
"""`at` and `bt` are A and B with their dimensions exchanged in memory; `order` gives the tile's own."""


EPILOGUES = ("none", "none", "none", "bias", "relu", "narrow", "row sums")


def product(pick: Choices) -> Generated:
    """C = A B with one accumulator, one tile or a loop over tiles for each tile block."""
    element = pick.choices(list(TYPES), WEIGHTS)[0]
    return _product(pick, element, _tile(pick, element), pick.choice((0, 1, 1, 2, 2, 3, 4, 5, 7, 9)))


def large_product(pick: Choices) -> Generated:
    """The same with tiles that take more registers or shared memory than there are, in a loop or without one."""
    element = pick.choices(list(TYPES), WEIGHTS)[0]
    most = LARGE_WORK // (4 if element in ("f32", "f64") else 1)
    while True:
        tile = pick.choice((16, 64, 128, 256)), pick.choice((16, 64, 128, 256)), pick.choice((32, 64, 128, 256, 512))
        if most // 8 <= tile[0] * tile[1] * tile[2] <= most:
            return _product(pick, element, tile, pick.choice((1, 1, 2, 3)), pick.chance(0.4))


def product_in_one_step(pick: Choices) -> Generated:
    """A product of f32 without a loop, by many warps: a thread has few registers, and 32 to 128 elements of the larger
    operand, which multiply-adds take as a whole."""
    sides = pick.choice((16, 16, 64)), pick.choice((16, 64, 128, 256))
    m, n = sides if pick.chance(0.5) else reversed(sides)
    tile = m, n, pick.choice((1 << 14, 1 << 15)) // max(sides)
    return replace(_product(pick, "f32", tile, 1, is_straight=True), warps=(8, 16, 16))


def persistent_product(pick: Choices) -> Generated:
    """Tiles that warpgroups and tensor memory take, several for each tile block."""
    element = pick.choice(("f16", "bf16", "f8E4M3FN", "i8", "tf32"))
    tile = pick.choice((64, 128, 128)), pick.choice((32, 64, 128)), pick.choice((32, 64))
    grid = pick.choice(((2, 1), (2, 2), (3, 1), (1, 4), (3, 2), (5, 1)))
    return _product(pick, element, tile, pick.choice((1, 2, 3, 5)), grid=grid, epilogues=(*EPILOGUES, *3 * ("folded",)))


def _product(
    pick: Choices, element: str, tile: tuple[int, int, int], steps: int, is_straight: bool = False,
    grid: tuple[int, int] | None = None, epilogues: tuple[str, ...] = EPILOGUES,
) -> Generated:  # fmt: skip
    """`is_straight`: without a loop over K, which has one tile; `grid`: the tiles of a persistent loop."""
    total, needs = TYPES[element]
    m, n, k = tile
    steps = 1 if is_straight else steps
    rows, columns = grid or (pick.choice((1, 1, 1, 2)), pick.choice((1, 1, 1, 2)))
    while m * n * k * max(1, steps) * rows * columns > MOST_WORK and rows * columns * steps > 1:
        rows, columns, steps = 1, 1, max(1, steps // 2)
    sizes = m * rows - odd(pick, m), n * columns - odd(pick, n), max(0, k * steps - odd(pick, k)) if steps else 0
    stored = "f32" if element == "tf32" else element
    left, right = (whole(pick, shape, stored) for shape in ((sizes[0], sizes[2]), (sizes[2], sizes[1])))
    left_way = pick.choices(list(LEFT), (8, 2, 2, 1))[0]
    right_way = pick.choices(list(RIGHT), (5, 3, 2))[0]
    stores = {"columns": "at", "transposed": "at"}.get(left_way, "a"), "b" if right_way == "rows" else "bt"
    items = [array(pick, stores[0], left if stores[0] == "a" else np.ascontiguousarray(left.T), stored),
             array(pick, stores[1], right if stores[1] == "b" else np.ascontiguousarray(right.T), stored)]  # fmt: skip
    loads, left, right = _operands(pick, element, total, LEFT[left_way], RIGHT[right_way], left, right)
    wide = np.int64 if total == "i32" else np.float64
    wanted = left.astype(wide) @ right.astype(wide)
    epilogue = _epilogue(pick.choice(epilogues), pick, total, wanted, n)
    around = "grid"
    if rows * columns > 1:
        around = "persistent" if grid else pick.choices(("grid", "persistent", "swizzled"), (6, 2, 1))[0]
    names = [argument.name for argument in (*items, *epilogue.arguments)]
    loop = "step = 0" if is_straight else "for step in range(steps):"
    if not is_straight and pick.chance(0.15):
        loop, loads = _COUNTED, ["step = count", "count = count + 1", *loads]
    body = _body(around, names, loads, total, epilogue.lines, loop)
    blocks = {"grid": (rows, columns, 1), "persistent": (pick.randint(1, max(1, rows * columns // 2)), 1, 1),
              "swizzled": (rows * columns, 1, 1)}[around]  # fmt: skip
    items += [*epilogue.arguments, result(pick, "c", wanted.shape, epilogue.out), scalar("steps", steps, "i32")]
    return Generated("product", body, tuple(items), (m, n, k, rows, columns), blocks,
                     {"c": Expected(epilogue.wanted)}, needs)  # fmt: skip


def _tile(pick: Choices, element: str) -> tuple[int, int, int]:
    while True:
        m, n, k = pick.choice(TILES), pick.choice(TILES), pick.choice(DEPTHS)
        slow = element in ("f32", "f64")
        if m * n <= (4096 if slow else MOST_ELEMENTS) and k * max(m, n) <= (4096 if slow else 128 * 128):
            return m, n, k


def _operands(
    pick: Choices, element: str, total: str, of_left: str, of_right: str, left: np.ndarray, right: np.ndarray
) -> tuple[list[str], np.ndarray, np.ndarray]:
    """The statements that give x and y, and the operands that they compute."""
    lines = [f"x = {of_left.format(k='step')}", f"y = {of_right.format(k='step')}"]
    for name in "xy":
        kind = pick.choices(("as loaded", "negated", "clipped"), (82, 12, 6))[0]
        if kind == "negated":
            lines.append(f"{name} = ct.astype(-ct.astype({name}, ct.{CUTILE[total]}), {name}.dtype)")
            left, right = (-left, right) if name == "x" else (left, -right)
        elif kind == "clipped":
            lines.append(f"{name} = ct.astype(ct.maximum(ct.astype({name}, ct.{CUTILE[total]}), 0), {name}.dtype)")
            left, right = (np.maximum(left, left.dtype.type(0)), right) if name == "x" else (
                left, np.maximum(right, right.dtype.type(0)))  # fmt: skip
        if element == "tf32":
            lines.append(f"{name} = ct.astype({name}, ct.tfloat32)")
    return lines, left, right


class _Epilogue(NamedTuple):
    """Statements on `total` after the loop, the result, the type of C, and further arguments."""

    lines: list[str]
    wanted: np.ndarray
    out: str
    arguments: list[Argument]


def _epilogue(kind: str, pick: Choices, total: str, wanted: np.ndarray, columns: int) -> _Epilogue:
    """`columns`: of a tile of C."""
    if kind == "bias":
        bias = whole(pick, (wanted.shape[1],), total, 5)
        lines = ["total = total + ct.load(bias, (column,), (TN,), padding_mode=ZERO)[None, :]"]
        return _Epilogue(lines, wanted + bias.astype(wanted.dtype), total, [array(pick, "bias", bias, total)])
    if kind == "relu":
        lines = [f"total = ct.maximum(total, ct.zeros((TM, TN), ct.{CUTILE[total]}))"]
        return _Epilogue(lines, np.maximum(wanted, 0), total, [])
    if kind == "folded":
        # As many operations on each element as another agent can hide.
        lines = ["total = ct.maximum(ct.minimum(total * 2 + 1, 64), -64) - total"]
        return _Epilogue(lines, np.clip(wanted * 2 + 1, -64, 64) - wanted, total, [])
    if kind == "narrow" and total == "f32" and np.abs(wanted).max(initial=0) <= 2048:
        return _Epilogue(["total = ct.astype(total, ct.float16)"], wanted, "f16", [])
    if kind == "row sums" and total != "f64":
        sums = wanted.copy()
        for start in range(0, wanted.shape[1], columns):
            part = slice(start, start + columns)
            sums[:, part] += np.clip(wanted[:, part], -2, 2).sum(axis=1, keepdims=True)
        lines = ["small = ct.maximum(ct.minimum(total, 2), -2)",
                 "inside = column * TN + ct.arange(TN, dtype=ct.int32) < c.shape[1]",
                 "small = ct.where(inside[None, :], small, ct.zeros((TM, TN), small.dtype))",
                 "total = total + ct.sum(small, axis=1, keepdims=True)"]  # fmt: skip
        return _Epilogue(lines, sums, total, [])
    return _Epilogue([], wanted, total, [])


_LOOP = """
{indent}total = ct.zeros((TM, TN), ct.{total})
{indent}{loop}
{loads}
{inner}total = ct.mma(x, y, total)
{epilogue}
{indent}ct.store(c, (row, column), total)
"""
_COUNTED = "count = 0\nfor start in range(3, 3 + steps * TK, TK):"
"""A loop that counts its steps beside the induction variable."""
_AROUND = {
    "grid": ("    row, column = ct.bid(0), ct.bid(1)\n", 1),
    "swizzled": ("    row, column = ct.bid(0) % ROWS, ct.bid(0) // ROWS\n", 1),
    "persistent": ("    for tile in range(ct.bid(0), ROWS * COLUMNS, ct.num_blocks(0)):\n"
                   "        row, column = tile // COLUMNS, tile % COLUMNS\n", 2),
}  # fmt: skip


def _body(around: str, names: list[str], loads: list[str], total: str, epilogue: list[str], loop: str) -> str:
    head, depth = _AROUND[around]
    indent = "    " * depth
    inside = indent + ("    " if loop.endswith(":") else "")
    inner = _LOOP.format(
        indent=indent, inner=inside, total=CUTILE[total], loop=loop.replace("\n", "\n" + indent),
        loads="\n".join(inside + line for line in loads),
        epilogue="\n".join(indent + line for line in epilogue),
    )  # fmt: skip
    sizes = ", ".join(f"{name}: ct.Constant[int]" for name in ("TM", "TN", "TK", "ROWS", "COLUMNS"))
    return f"def kernel({', '.join(names)}, c, steps, {sizes}):\n    ZERO = ct.PaddingMode.ZERO\n{head}{inner}"


_CONSTANT = """
def kernel({names}c, TM: ct.Constant[int], TN: ct.Constant[int], TK: ct.Constant[int]):
    row, column = ct.bid(0), ct.bid(1)
    x = {x}
    y = {y}
    ct.store(c, (row, column), ct.mma(x, y, ct.full((TM, TN), {start}, ct.{total})))
"""


def product_with_constants(pick: Choices) -> Generated:
    """Sums of rows or columns by a matrix of equal elements; a few products of two such."""
    element = pick.choice(("f16", "f16", "bf16", "i8", "f32"))
    total, needs = TYPES[element]
    most = LARGE_WORK // (4 if element == "f32" else 1)
    while True:
        m, n, k = pick.choice((16, 64, 128, 256)), pick.choice((16, 64, 128, 256)), pick.choice((64, 256, 512, 1024))
        if most // 16 <= m * n * k <= most:
            break
    sizes = m - odd(pick, m), n * pick.choice((1, 2)) - odd(pick, n), k - odd(pick, k)
    loaded = pick.choices(("x", "y", ""), (2, 2, 3))[0]
    items, texts, values = list[Argument](), dict[str, str](), dict[str, np.ndarray]()
    for name, argument, place, tile, shape, whole_shape in (
        ("x", "a", "(row, 0)", "(TM, TK)", (sizes[0], sizes[2]), (sizes[0], k)),
        ("y", "b", "(0, column)", "(TK, TN)", (sizes[2], sizes[1]), (k, sizes[1])),
    ):
        if name == loaded:
            values[name] = np.zeros(whole_shape, np.int64)
            items.append(array(pick, argument, whole(pick, shape, element), element))
            values[name][: shape[0], : shape[1]] = items[-1].value.astype(np.int64)
            texts[name] = f"ct.load({argument}, {place}, {tile}, padding_mode=ct.PaddingMode.ZERO)"
        else:
            value = pick.choice((1, 1, 2, -1))
            values[name] = np.full(whole_shape, value)
            texts[name] = f"ct.full({tile}, {value}, ct.{CUTILE[element]})"
    start = pick.choice((0, 0, 3))
    wanted = values["x"] @ values["y"] + start
    names = "".join(f"{each.name}, " for each in items)
    body = _CONSTANT.format(names=names, start=start, total=CUTILE[total], **texts)
    items.append(result(pick, "c", wanted.shape, total))
    blocks = 1, -(-sizes[1] // n), 1
    return Generated("product with constants", body, tuple(items), (m, n, k), blocks, {"c": Expected(wanted)}, needs)
