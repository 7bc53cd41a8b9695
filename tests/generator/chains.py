"""Several dots at once: gates, low-rank corrections, chains, transposed chains, recurrences with a state, transforms.

All values are whole numbers that the operand types hold: results are clipped before they become operands again.
"""

from __future__ import annotations

import numpy as np

from tests.generator.choices import Choices
from tests.generator.kernel import CUTILE, Expected, Generated, array, hinted, odd, result, scalar, whole

OPERANDS = {"f16": "f32", "bf16": "f32", "i8": "i32", "f32": "f32", "f8E4M3FN": "f32"}
_ELEMENTS = ("f16", "f16", "bf16", "bf16", "i8", "f32", "f8E4M3FN")
NEEDS = {"f8E4M3FN": 89}
CLIP = 4
"""Whole numbers up to it are exact in all operand types."""
MOST_WORK = 1 << 22
"""Multiply-adds of a tile's dots of one step."""


def _clip(values: np.ndarray) -> np.ndarray:
    return np.clip(values, -CLIP, CLIP)


def _narrow(text: str, element: str) -> str:
    """A sum as an operand."""
    return f"ct.astype(ct.maximum(ct.minimum({text}, {CLIP}), -{CLIP}), ct.{CUTILE[element]})"


def _wide(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float64)


def _element(pick: Choices) -> tuple[str, str, int]:
    """The types of operands and sums, and the oldest target."""
    element = pick.choice(_ELEMENTS)
    return element, OPERANDS[element], NEEDS.get(element, 75)


def _sizes(pick: Choices, *choices: tuple[int, ...], most: int = MOST_WORK) -> tuple[int, ...]:
    while True:
        drawn = tuple(pick.choice(sizes) for sizes in choices)
        if np.prod(drawn[:3]) <= most:
            return drawn


_GATED = """
def kernel({names}, TM: ct.Constant[int], TN: ct.Constant[int], TK: ct.Constant[int], TP: ct.Constant[int]):
    ZERO = ct.PaddingMode.ZERO
    row, column = ct.bid(0), ct.bid(1)
    gate, up = ct.zeros((TM, TN), ct.{total}), ct.zeros((TM, TN), ct.{total})
    for step in range(ct.num_tiles(x, 1, (TM, TK))):
        rows = ct.load(x, (row, step), (TM, TK), padding_mode=ZERO{hint})
        gate = ct.mma(rows, ct.load(g, (step, column), (TK, TN), padding_mode=ZERO{hint}), gate)
        up = ct.mma(rows, {up}, up)
    both = ct.maximum(gate, 0) * ct.minimum(up, {clip})
    {end}
"""
_ENDS = {
    "both": "ct.store(y, (row, column), both)",
    "third": "part = ct.mma({narrow}, ct.load(d, (column, 0), (TN, TP), padding_mode=ZERO),"
             " ct.zeros((TM, TP), ct.{total}))\n    ct.store(y, (column, row, 0), ct.reshape(part, (1, TM, TP)))",
}  # fmt: skip


def gated(pick: Choices) -> Generated:
    """Two products of the same rows, their gated product, and in some kernels a third product of that."""
    element, total, needs = _element(pick)
    m, n, k, p = _sizes(pick, (16, 32, 64, 128), (16, 32, 64, 128), (16, 32, 64), (16, 32, 64))
    steps, rows, columns = pick.choice((0, 1, 2, 3, 5)), pick.choice((1, 1, 2)), pick.choice((1, 1, 2))
    depth = max(0, k * steps - odd(pick, k))
    x = whole(pick, (m * rows - odd(pick, m), depth), element, 1)
    g = whole(pick, (depth, n * columns - odd(pick, n)), element, 1)
    u = whole(pick, g.shape, element, 1)
    by_columns, third = pick.chance(0.4), pick.chance(0.4)
    gate, up = _wide(x) @ _wide(g), _wide(x) @ _wide(u)
    both = np.maximum(gate, 0) * np.minimum(up, CLIP)
    up_text = "ct.load(u, (column, step), (TN, TK), padding_mode=ZERO)" if by_columns else (
        f"ct.load(u, (step, column), (TK, TN), padding_mode=ZERO{hinted(pick)})")  # fmt: skip
    arguments = [array(pick, "x", x, element), array(pick, "g", g, element),
                 array(pick, "u", np.ascontiguousarray(u.T) if by_columns else u, element)]  # fmt: skip
    wanted, end = both, _ENDS["both"]
    if third:
        d = whole(pick, (g.shape[1], p - odd(pick, p)), element, 1)
        arguments.append(array(pick, "d", d, element))
        parts = [_clip(both[:, at : at + n]) @ _wide(d[at : at + n]) for at in range(0, n * columns, n)]
        wanted, end = np.stack(parts), _ENDS["third"].format(narrow=_narrow("both", element), total=CUTILE[total])
    arguments.append(result(pick, "y", wanted.shape, total))
    body = _GATED.format(names=", ".join(each.name for each in arguments), total=CUTILE[total], hint=hinted(pick),
                         up=f"ct.transpose({up_text})" if by_columns else up_text, clip=CLIP, end=end)  # fmt: skip
    return Generated("gated", body, tuple(arguments), (m, n, k, p), (rows, columns, 1), {"y": Expected(wanted)}, needs)


_LOW_RANK = """
def kernel(x, w, a, b, y, TM: ct.Constant[int], TN: ct.Constant[int], TK: ct.Constant[int], R: ct.Constant[int]):
    ZERO = ct.PaddingMode.ZERO
    row, column = ct.bid(0), ct.bid(1)
    total, low = ct.zeros((TM, TN), ct.{total}), ct.zeros((TM, R), ct.{total})
    for step in range(ct.num_tiles(x, 1, (TM, TK))):
        rows = ct.load(x, (row, step), (TM, TK), padding_mode=ZERO{hint})
        {condition}total = ct.mma(rows, ct.load(w, (step, column), (TK, TN), padding_mode=ZERO{hint}), total)
        low = ct.mma(rows, ct.load(a, (step, 0), (TK, R), padding_mode=ZERO), low)
    total = ct.mma({narrow}, ct.load(b, (0, column), (R, TN), padding_mode=ZERO), total)
    ct.store(y, (row, column), total)
"""


def low_rank(pick: Choices) -> Generated:
    """A product and its correction by two thin matrices; in some kernels the loop leaves out steps of one product."""
    element, total, needs = _element(pick)
    m, n, k, rank = _sizes(pick, (16, 32, 64, 128), (16, 32, 64, 128), (16, 32, 64), (8, 16, 16, 32))
    steps, rows, columns = pick.choice((0, 1, 2, 3, 5)), pick.choice((1, 1, 2)), pick.choice((1, 1, 2))
    depth, sparse = max(0, k * steps - odd(pick, k)), pick.chance(0.25)
    x = whole(pick, (m * rows - odd(pick, m), depth), element)
    w, a = whole(pick, (depth, n * columns - odd(pick, n)), element), whole(pick, (depth, rank), element, 1)
    b = whole(pick, (rank, w.shape[1]), element)
    kept = np.arange(depth) // k % 2 == 0 if sparse else np.ones(depth, bool)
    wanted = (_wide(x) * kept) @ _wide(w) + _clip(_wide(x) @ _wide(a)) @ _wide(b)
    body = _LOW_RANK.format(total=CUTILE[total], hint=hinted(pick), narrow=_narrow("low", element),
                            condition="if step % 2 == 0:\n            " if sparse else "")  # fmt: skip
    arguments = (*(array(pick, *each, element) for each in (("x", x), ("w", w), ("a", a), ("b", b))),
                 result(pick, "y", wanted.shape, total))  # fmt: skip
    return Generated("low rank", body, arguments, (m, n, k, rank), (rows, columns, 1), {"y": Expected(wanted)}, needs)


_CHAIN = """
def kernel(q, k, v, y, low, split, TM: ct.Constant[int], TN: ct.Constant[int], D: ct.Constant[int],
           E: ct.Constant[int]):
    ZERO = ct.PaddingMode.ZERO
    row, head = ct.bid(0), ct.bid(1)
    queries = ct.reshape(ct.load(q, (head, row, 0), (1, TM, D), padding_mode=ZERO{hint}), (TM, D))
    {begin}
    for step in range(low, split):
        {body}
    for step in range(max(low, split), ct.num_tiles(k, 1, (1, TN, D))):
        {body}
        {second}
    {end}
"""
_STRAIGHT = """
        keys = ct.reshape(ct.load(k, (head, step, 0), (1, TN, D), padding_mode=ZERO{hint}), (TN, D))
        scores = ct.mma(queries, ct.transpose(keys), ct.zeros((TM, TN), ct.{total}))
        values = ct.reshape(ct.load(v, (head, step, 0), (1, TN, E), padding_mode=ZERO), (TN, E))
        total = ct.mma({narrow}, values, total)
"""
_TRANSPOSED = """
        scores = ct.mma(ct.reshape(ct.load(k, (head, step, 0), (1, TN, D), padding_mode=ZERO{hint}), (TN, D)),
                        ct.transpose(queries), ct.zeros((TN, TM), ct.{total}))
        values = ct.reshape(ct.load(v, (head, 0, step), (1, E, TN), order=(0, 2, 1), padding_mode=ZERO), (E, TN))
        total = ct.mma(values, {narrow}, total)
"""


def chained(pick: Choices) -> Generated:
    """The dots of attention with clipped scores, in two loops that hand on their sums; scores may be transposed."""
    element, total, needs = _element(pick)
    m, n, d, e = _sizes(pick, (16, 32, 64, 128), (16, 32, 64, 128), (16, 32, 64, 128), (16, 32, 64, 128))
    e = min(e, (1 << 14) // max(m, n))
    steps, heads, rows = pick.choice((0, 1, 2, 3, 5)), pick.choice((1, 1, 2)), pick.choice((1, 1, 2))
    low, split = pick.choice((0, 0, 1)), pick.choice((0, 1, 2, steps))
    low, split = min(low, steps), min(split, steps)
    positions = max(0, n * steps - odd(pick, n))
    q = whole(pick, (heads, m * rows - odd(pick, m), d - odd(pick, min(d, 8))), element, 1)
    k = whole(pick, (heads, positions, q.shape[2]), element, 1)
    v = whole(pick, (heads, positions, e), element)
    transposed, doubled = pick.chance(0.4), pick.chance(0.5)
    scores = _clip(np.einsum("hmd,hnd->hmn", _wide(q), _wide(k)))
    scores[:, :, : low * n] = 0
    wanted = scores @ _wide(v)
    if doubled:
        # The second loop adds one for each of its steps.
        wanted = wanted + max(0, steps - max(low, split))
    part = _TRANSPOSED if transposed else _STRAIGHT
    shape = "(E, TM)" if transposed else "(TM, E)"
    body = _CHAIN.format(
        hint=hinted(pick), begin=f"total = ct.zeros({shape}, ct.{CUTILE[total]})",
        body=part.format(narrow=_narrow("scores", element), total=CUTILE[total], hint=hinted(pick)).strip(),
        second="total = total + 1" if doubled else "",
        end=f"ct.store(y, (head, row, 0), ct.reshape({'ct.transpose(total)' if transposed else 'total'}, (1, TM, E)))",
    )  # fmt: skip
    arguments = (*(array(pick, *each, element) for each in (("q", q), ("k", k), ("v", v))),
                 result(pick, "y", wanted.shape, total), scalar("low", low, "i32"),
                 scalar("split", split, "i32"))  # fmt: skip
    return Generated("chain", body, arguments, (m, n, d, e), (rows, heads, 1), {"y": Expected(wanted)}, needs)


_STATE = """
def kernel(q, k, v, s, y, last, C: ct.Constant[int], D: ct.Constant[int], E: ct.Constant[int]):
    ZERO = ct.PaddingMode.ZERO
    head, part = ct.bid(0), ct.bid(1)
    state = ct.reshape(ct.load(s, (head, 0, part), (1, D, E), padding_mode=ZERO), (D, E))
    places = ct.arange(C, dtype=ct.int32)
    for step in range(ct.num_tiles(q, 0, (C, 1, D))):
        queries = ct.reshape(ct.load(q, (step, head, 0), (C, 1, D), padding_mode=ZERO{hint}), (C, D))
        keys = ct.reshape(ct.load(k, (step, head, 0), (C, 1, D), padding_mode=ZERO{hint}), (C, D))
        values = ct.reshape(ct.load(v, (step, head, part), (C, 1, E), padding_mode=ZERO), (C, E))
        scores = ct.mma(queries, ct.transpose(keys), ct.zeros((C, C), ct.{total}))
        scores = ct.where(places[:, None] >= places[None, :], scores, 0)
        seen = ct.mma({scores}, values, ct.zeros((C, E), ct.{total}))
        seen = ct.mma(queries, {state}, seen)
        {fade}state = ct.mma(ct.transpose(keys), values, state)
        ct.store(y, (step, head, part), ct.reshape(seen, (C, 1, E)))
    ct.store(last, (head, 0, part), ct.reshape(state, (1, D, E)))
"""


def recurrent(pick: Choices) -> Generated:
    """Chunks of linear attention: a state is an operand and a sum at once, and each step stores its result."""
    element = pick.choice(("f16", "bf16", "f32", "i8"))
    total = OPERANDS[element]
    c, d, e = _sizes(pick, (16, 32, 64), (16, 32, 64, 128), (16, 32, 64))
    steps, heads, parts = pick.choice((0, 1, 2, 3, 5)), pick.choice((1, 2)), pick.choice((1, 1, 2))
    length = max(0, c * steps - odd(pick, c))
    q, k = (whole(pick, (length, heads, d), element, 1) for _ in range(2))
    v, s = whole(pick, (length, heads, e * parts), element, 1), whole(pick, (heads, d, e * parts), total)
    fades = pick.chance(0.4)
    wanted, state = np.zeros((length, heads, e * parts)), _wide(s)
    for at in range(0, length, c):
        queries, keys, values = (_wide(each[at : at + c]).transpose(1, 0, 2) for each in (q, k, v))
        scores = np.tril(queries @ keys.transpose(0, 2, 1))
        wanted[at : at + c] = (_clip(scores) @ values + queries @ _clip(state)).transpose(1, 0, 2)
        state = (_clip(state) if fades else state) + keys.transpose(0, 2, 1) @ values
    fade = f"state = ct.maximum(ct.minimum(state, {CLIP}), -{CLIP})\n        " if fades else ""
    body = _STATE.format(total=CUTILE[total], hint=hinted(pick), scores=_narrow("scores", element),
                         state=_narrow("state", element), fade=fade)  # fmt: skip
    arguments = (*(array(pick, *each, element) for each in (("q", q), ("k", k), ("v", v))), array(pick, "s", s, total),
                 result(pick, "y", wanted.shape, total), result(pick, "last", state.shape, total))  # fmt: skip
    return Generated("state", body, arguments, (c, d, e), (heads, parts, 1),
                     {"y": Expected(wanted), "last": Expected(state)})  # fmt: skip


_TRANSFORM = """
def kernel(x, a, b, y, B: ct.Constant[int], F: ct.Constant[int], G: ct.Constant[int]):
    block = ct.bid(0)
    values = ct.reshape(ct.load(x, (block, 0), (B, F * G), padding_mode=ct.PaddingMode.ZERO), (B, F, G))
    left = ct.broadcast_to(ct.reshape(ct.load(a, (0, 0), (F, F)), (1, F, F)), (B, F, F))
    values = {first}
    values = ct.reshape(ct.permute(values, {axes}), {between})
    right = ct.broadcast_to(ct.reshape(ct.load(b, (0, 0), (G, G)), (1, G, G)), (B, G, G))
    values = ct.matmul({again}, right)
    ct.store(y, (block, 0), ct.reshape(values, (B, F * G)))
"""


def transformed(pick: Choices) -> Generated:
    """A transform in two factors, as the FFT: batched products with permutes between them."""
    element = pick.choice(("f16", "bf16", "f32", "i8"))
    total = OPERANDS[element]
    batch, f, g = _sizes(pick, (1, 2, 4, 8), (8, 16, 32), (8, 16, 32), most=4096)
    blocks = pick.choice((1, 2))
    x = whole(pick, (batch * blocks - odd(pick, batch), f * g), element, 1)
    a, b = whole(pick, (f, f), element, 1), whole(pick, (g, g), element, 1)
    zeros = f"ct.zeros((B, F, G), ct.{CUTILE[total]})"
    swapped = pick.chance(0.5)
    wide = _clip(np.einsum("fh,bhg->bfg", _wide(a), _wide(x).reshape(-1, f, g)))
    if swapped:
        # The second dot is of the same numbers, read in the order of the transposed matrices.
        wide = wide.transpose(0, 2, 1).reshape(-1, f, g)
    wanted = (wide @ _wide(b)).reshape(-1, f * g)
    body = _TRANSFORM.format(
        first=f"ct.mma(left, values, {zeros})", axes="(0, 2, 1)" if swapped else "(0, 1, 2)",
        between="(B, F, G)", again=_narrow("values", element),
    )  # fmt: skip
    stored = "i32" if element == "i8" else element
    exact = stored not in ("f16", "bf16") or np.abs(wanted).max(initial=0) <= 256
    arguments = (array(pick, "x", x, element), array(pick, "a", a, element), array(pick, "b", b, element),
                 result(pick, "y", wanted.shape, stored))  # fmt: skip
    return Generated("transform", body, arguments, (batch, f, g), (blocks, 1, 1),
                     {"y": Expected(wanted, 0 if exact else 0.01)})  # fmt: skip


_EXPERTS = """
def kernel({names}, y, used, TM: ct.Constant[int], TN: ct.Constant[int], TK: ct.Constant[int], TOP: ct.Constant[int]):
    ZERO = ct.PaddingMode.ZERO
    row, column = ct.bid(0), ct.bid(1)
    if row * TM < used:
        places = ct.gather(tokens, row * TM + ct.arange(TM, dtype=ct.int32), padding_value=0)
        expert = ct.load(experts, (row,), (1,)).item()
        total = ct.zeros((TM, TN), ct.{total})
        for step in range(ct.cdiv(x.shape[1], TK)):
            {rows}
            y_ = ct.reshape({weights}, (TK, TN))
            total = ct.mma(values, y_, total)
        {scale}
        columns = column * TN + ct.arange(TN, dtype=ct.int32)
        ct.scatter(y, (places[:, None], columns[None, :]), total)
"""
_ROWS = {
    "gather": "values = ct.gather(x, ((places // TOP)[:, None], (step * TK + ct.arange(TK, dtype=ct.int32))[None, :]))",
    "view": "values = ct.load_advanced_indexing(x, (places // TOP, ct.Slice(step * TK, TK)), padding_mode=ZERO{hint})",
}


def experts(pick: Choices) -> Generated:
    """Rows in the order of their experts, by gathers or views of scattered rows; results go where they came from."""
    element, total, needs = _element(pick)
    m, n, k = _sizes(pick, (8, 16, 32, 64, 128), (16, 32, 64, 128), (16, 32, 64))
    steps, blocks = pick.choice((1, 2, 3, 5)), pick.choice((1, 2, 3))
    columns, top = pick.choice((1, 1, 2)), pick.choice((1, 2))
    count, size = pick.choice((1, 2, 3)), m * blocks
    generator = np.random.default_rng(pick.randrange(1 << 32))
    tokens = generator.permutation(size).astype(np.int32)
    # Numbers behind the last one: rows that are padding.
    tokens = np.where(generator.random(size) < 0.2, size + 5, tokens).astype(np.int32)
    depth = k * steps - odd(pick, k)
    x = whole(pick, (-(-(size + 6) // top), depth), element)
    w = whole(pick, (count, depth, n * columns - odd(pick, n)), element)
    numbers = generator.integers(0, count, blocks).astype(np.int32)
    used = pick.choice((size, size, m * (blocks - 1) + 1, 0))
    by_columns, scaled, how = pick.chance(0.5), pick.chance(0.4), pick.choice(list(_ROWS))
    wanted = np.full((size, w.shape[2]), -7.0)
    for block in range(blocks if used else 0):
        if block * m < used:
            for token in tokens[block * m : (block + 1) * m]:
                if token < size:
                    row = _wide(x[token // top]) @ _wide(w[numbers[block]])
                    wanted[token] = row * (1 + token % 3) if scaled else row
    load = f"ct.load(w, (expert, {{at}}), {{shape}}, padding_mode=ZERO{hinted(pick)}{{order}})"
    load = load.format(at="step, column", shape="(1, TK, TN)", order=", order=(0, 2, 1)" if by_columns else "")
    arguments = [array(pick, "x", x, element),
                 array(pick, "w", np.ascontiguousarray(w.transpose(0, 2, 1)) if by_columns else w, element),
                 array(pick, "tokens", tokens, "i32"), array(pick, "experts", numbers, "i32")]  # fmt: skip
    scale = f"total = total * ct.astype(1 + places % 3, ct.{CUTILE[total]})[:, None]" if scaled else ""
    body = _EXPERTS.format(names=", ".join(each.name for each in arguments), total=CUTILE[total], weights=load,
                           rows=_ROWS[how].format(hint=hinted(pick)), scale=scale)  # fmt: skip
    arguments += [result(pick, "y", wanted.shape, total), scalar("used", used, "i32")]
    return Generated(f"experts, {how}", body, tuple(arguments), (m, n, k, top), (blocks, columns, 1),
                     {"y": Expected(wanted)}, needs)  # fmt: skip
