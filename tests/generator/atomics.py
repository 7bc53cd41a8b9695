"""Atomic updates of all modes, types, orders and scopes; locks, and results of the tile block that comes last."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.generator.choices import Choices
from tests.generator.kernel import CUTILE, ELEMENTS, Argument, Expected, Generated, array, hinted, odd, result, whole

_MODES: dict[str, Any] = {
    "add": np.add, "max": np.maximum, "min": np.minimum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}  # fmt: skip
_ORDERS = ("RELAXED", "ACQUIRE", "RELEASE", "ACQ_REL", "ACQ_REL")
_SCOPES = ("DEVICE", "DEVICE", "SYS")
_INTEGERS = ("i32", "i32", "u32", "i64", "u64")
_FLOATS = ("f32", "f32", "f16", "f64", "bf16")

_UPDATES = """
def kernel({names}, R: ct.Constant[int], T: ct.Constant[int]):
    block = ct.bid(0)
    values = ct.load(x, (block, 0), (R, T), padding_mode=ct.PaddingMode.ZERO)
    down = ct.load(rows, (block,), (R,))
    columns = ct.arange(T, dtype=ct.int32)
    old = values
    for step in range({steps}):
        old = {update}
    ct.store(y, (block, 0), old)
"""
_RAW = """
def kernel({names}, R: ct.Constant[int], T: ct.Constant[int]):
    block = ct.bid(0)
    values = ct.load(x, (block, 0), (R, T), padding_mode=ct.PaddingMode.ZERO)
    down = ct.load(rows, (block,), (R,))
    memory, width = out.get_raw_memory(), out.strides[0]
    columns = ct.arange(T, dtype=ct.int32)
    places = down[:, None] * width + columns[None, :]
    inside = (down < out.shape[0])[:, None] & (columns < out.shape[1])[None, :]
    old = {old}
    for step in range({steps}):
        updated = {update}
    ct.store(y, (block, 0), old)
"""


def updated(pick: Choices) -> Generated:
    """Rows of values are combined into the rows that memory names: once each, which gives the old ones, or several
    into one.  Some numbers are behind the last row."""
    mode = pick.choice(("add", "add", "max", "min", "and", "or", "xor", "xchg", "cas"))
    element = pick.choice(_FLOATS + _INTEGERS if mode == "add" else _INTEGERS)
    rows, width, blocks = pick.choice((1, 4, 16, 32)), pick.choice((1, 8, 32, 128)), pick.choice((1, 2, 3, 4))
    height = rows * blocks
    distinct = mode in ("xchg", "cas") or pick.chance(0.5)
    raw = pick.chance(0.3)
    steps = 1 if distinct else pick.choice((1, 2, 3))
    generator = np.random.default_rng(pick.randrange(1 << 32))
    down = generator.permutation(height) if distinct else generator.integers(0, max(1, height // 3), height)
    down = np.where(generator.random(height) < 0.15, height + 1, down).astype(np.int32)
    signed = element[0] != "u"
    columns = width - odd(pick, width)
    x, out = (whole(pick, (height, columns), "i8", 3) for _ in range(2))
    x, out = (each if signed else np.abs(each) for each in (x, out))
    wide = ELEMENTS[element]
    x, out = x.astype(wide), out.astype(wide)
    before, after = np.zeros((height, columns), wide), out.copy()
    known = np.zeros((height, columns), bool)
    for number, row in enumerate(down):
        if row >= height:
            continue
        before[number], known[number] = after[row], True
        for _ in range(steps):
            after[row] = _combined(mode, after[row], x[number])
    order, scope = pick.choice(_ORDERS), pick.choice(_SCOPES)
    more = f"memory_order=ct.MemoryOrder.{order}, memory_scope=ct.MemoryScope.{scope}"
    given = "ct.astype(1 + 0 * values, values.dtype), values" if mode == "cas" else "values"
    if mode == "cas":
        after, before, known = _compared(out, x, down)
    if raw:
        update, template = f"memory.atomic_{mode}_offset(places, {given}, mask=inside, {more})", _RAW
        before[down >= height] = 5
        known[:] = True
    else:
        update, template = f"ct.atomic_{mode}(out, (down[:, None], columns[None, :]), {given}, {more})", _UPDATES
    arguments: list[Argument] = [array(pick, "x", x, element), array(pick, "rows", down, "i32"),
                                 array(pick, "out", out, element)]  # fmt: skip
    wanted = {"out": Expected(after)}
    y = array(pick, "y", np.full((height, columns), 2, wide), element)
    # The result of an update that is left out is not defined, nor is the order of updates of one element.
    if raw and distinct or distinct and known.all():
        wanted["y"] = Expected(before)
    # A load of a row that another tile block updates is a race.
    old = "memory.load_offset(places, mask=inside, padding_value=5)" if distinct or blocks == 1 else "values"
    body = template.format(names=", ".join(["x", "rows", "out", "y"]), steps=steps, update=update, old=old)
    return Generated(f"{mode} of {element}", body, (*arguments, y), (rows, width), (blocks, 1, 1), wanted,
                     75)  # fmt: skip


def _combined(mode: str, old: np.ndarray, new: np.ndarray) -> np.ndarray:
    if mode == "cas":
        return old
    return new if mode == "xchg" else _MODES[mode](old, new)


def _compared(out: np.ndarray, x: np.ndarray, down: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ones are exchanged for values."""
    after, before, known = out.copy(), np.ones(x.shape, x.dtype), np.ones(x.shape, bool)
    for number, row in enumerate(down):
        if row < len(out):
            before[number] = out[row]
            after[row] = np.where(out[row] == 1, x[number], out[row])
    return after, before, known


_VIEW = """
def kernel(x, out, R: ct.Constant[int], T: ct.Constant[int]):
    block, parts = ct.bid(0), out.tiled_view((R, T){steps})
    for step in range(ct.num_tiles(x, 1, (R, T))):
        values = ct.load(x, (block, step), (R, T), padding_mode=ct.PaddingMode.ZERO{hint})
        parts.atomic_store_{mode}(({row}, step), {value})
"""


def through_views(pick: Choices) -> Generated:
    """Whole tiles combined into tiles of a view, which several tile blocks share and whose tiles may overlap."""
    mode = pick.choice(("add", "add", "max", "min", "and", "or", "xor"))
    element = pick.choice(_FLOATS[:4] + _INTEGERS if mode == "add" else _INTEGERS)
    rows, width = pick.choice((1, 4, 16, 32)), pick.choice((1, 8, 32, 128))
    blocks, steps, shared = pick.choice((1, 2, 3)), pick.choice((1, 2, 3)), pick.choice((1, 1, 2))
    x = whole(pick, (rows * blocks, width * steps - odd(pick, width)), "i8", 3)
    x = (x if element[0] != "u" else np.abs(x)).astype(ELEMENTS[element])
    down = pick.choice((rows, rows, max(1, rows // 2), rows + 1))
    along = pick.choice((width, width, max(1, width // 2)))
    tiles = -(-blocks // shared)
    shape = (down * (tiles - 1) + rows - odd(pick, rows), along * (steps - 1) + width - odd(pick, width))
    out = np.full(shape, 2).astype(ELEMENTS[element])
    wanted = out.copy()
    for block in range(blocks):
        for step in range(steps):
            tile = np.zeros((rows, width), x.dtype)
            part = x[block * rows : (block + 1) * rows, step * width : (step + 1) * width]
            tile[: part.shape[0], : part.shape[1]] = part
            at = block // shared * down, step * along
            inside = wanted[at[0] : at[0] + rows, at[1] : at[1] + width]
            inside[...] = _MODES[mode](inside, tile[: inside.shape[0], : inside.shape[1]])
    body = _VIEW.format(
        mode=mode, hint=hinted(pick), row=f"block // {shared}", value="values",
        steps="" if (down, along) == (rows, width) else f", traversal_steps=({down}, {along})",
    )  # fmt: skip
    arguments = array(pick, "x", x, element), array(pick, "out", out, element)
    return Generated(f"{mode} of tiles of {element}", body, arguments, (rows, width), (blocks, 1, 1),
                     {"out": Expected(wanted)})  # fmt: skip


_LOCKED = """
def kernel(x, out, locks, R: ct.Constant[int], T: ct.Constant[int], GROUPS: ct.Constant[int]):
    block = ct.bid(0)
    group = block % GROUPS
    for step in range(ct.num_tiles(x, 1, (R, T))):
        values = ct.astype(ct.load(x, (block, step), (R, T), padding_mode=ct.PaddingMode.ZERO{hint}), ct.{total})
        part = {part}
        while ct.atomic_cas(locks, group, 0, 1, memory_order=ct.MemoryOrder.ACQUIRE) == 1:
            pass
        part = part + ct.load(out, (group, step), (1, T), padding_mode=ct.PaddingMode.ZERO)
        ct.store(out, (group, step), part)
        ct.atomic_xchg(locks, group, 0, memory_order=ct.MemoryOrder.RELEASE)
"""
_LAST = """
def kernel(x, parts, out, counts, R: ct.Constant[int], T: ct.Constant[int], GROUPS: ct.Constant[int]):
    block = ct.bid(0)
    group = block % GROUPS
    for step in range(ct.num_tiles(x, 1, (R, T))):
        values = ct.astype(ct.load(x, (block, step), (R, T), padding_mode=ct.PaddingMode.ZERO{hint}), ct.{total})
        ct.store(parts, (block, step), {part})
    before = ct.atomic_add(counts, group, 1, memory_order=ct.MemoryOrder.ACQ_REL)
    if before == ct.num_blocks(0) // GROUPS - 1:
        for step in range(ct.num_tiles(x, 1, (R, T))):
            total = ct.zeros((1, T), ct.{total})
            for other in range(ct.num_blocks(0) // GROUPS):
                total = total + ct.load(parts, (other * GROUPS + group, step), (1, T), padding_mode=ct.PaddingMode.ZERO)
            ct.store(out, (group, step), total)
"""


def shared(pick: Choices) -> Generated:
    """Sums of columns of several tile blocks: in memory under a lock, or by the one that comes last."""
    element, total = pick.choice((("f32", "f32"), ("f16", "f32"), ("i32", "i32"), ("i8", "i32")))
    rows, width, groups = pick.choice((1, 4, 16, 64)), pick.choice((1, 16, 64, 256)), pick.choice((1, 2))
    members, steps, locked = pick.choice((1, 2, 3)), pick.choice((1, 2, 3)), pick.chance(0.5)
    blocks = groups * members
    x = whole(pick, (rows * blocks - odd(pick, rows), width * steps - odd(pick, width)), element)
    sums = np.zeros((blocks, x.shape[1]))
    for block in range(blocks):
        sums[block] = x[block * rows : (block + 1) * rows].astype(np.float64).sum(axis=0)
    wanted = np.stack([sums[group::groups].sum(axis=0) for group in range(groups)])
    arguments = [array(pick, "x", x, element)]
    expected = {"out": Expected(wanted)}
    counters = np.zeros(groups, np.int32)
    if locked:
        arguments += [array(pick, "out", np.zeros(wanted.shape, ELEMENTS[total]), total),
                      array(pick, "locks", counters, "i32")]  # fmt: skip
    else:
        arguments += [result(pick, "parts", sums.shape, total), result(pick, "out", wanted.shape, total),
                      array(pick, "counts", counters, "i32")]  # fmt: skip
        expected["counts"] = Expected(np.full(groups, members, np.int32))
    body = (_LOCKED if locked else _LAST).format(
        hint=hinted(pick), total=CUTILE[total], part="ct.sum(values, axis=0, keepdims=True)")  # fmt: skip
    return Generated("lock" if locked else "last block", body, tuple(arguments), (rows, width, groups), (blocks, 1, 1),
                     expected)  # fmt: skip
