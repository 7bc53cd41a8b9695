"""Attention: forward, decoding with shared heads, and the gradients of the queries and of the keys and values."""

from __future__ import annotations

import numpy as np

from tests.generator.choices import Choices
from tests.generator.kernel import Expected, Generated, array, normal, result, scalar

MOST_WORK = 1 << 23
"""Multiply-adds of one dot of a launch."""
TOLERANCE = {"f16": 0.01, "bf16": 0.06}
"""Absolute: values are about 1, and probabilities are rounded to the operand type."""

_FORWARD = """
def kernel(q, k, v, out, scale, TM: ct.Constant[int], TN: ct.Constant[int], D: ct.Constant[int],
           CAUSAL: ct.Constant[bool], SHARE: ct.Constant[int]):
    ZERO = ct.PaddingMode.ZERO
    block, head = ct.bid(0), ct.bid(1)
    rows = block * TM + ct.arange(TM, dtype=ct.int32)
    queries = ct.reshape(ct.load(q, (head, block, 0), (1, TM, D), padding_mode=ZERO), (TM, D))
    highest = ct.full((TM, 1), -1e30, ct.float32)
    weight = ct.zeros((TM, 1), ct.float32)
    total = ct.zeros((TM, D), ct.float32)
    stop = min((block + 1) * TM, k.shape[1]) if CAUSAL else k.shape[1]
    for step in range(ct.cdiv(stop, TN)):
        {keys}
        scores = ct.mma(queries, keys, ct.zeros((TM, TN), ct.float32)) * (scale * 1.4426950408889634)
        columns = step * TN + ct.arange(TN, dtype=ct.int32)
        visible = (columns < k.shape[1])[None, :]
        if CAUSAL:
            visible = visible & (rows[:, None] >= columns[None, :])
        scores = ct.where(visible, scores, float("-inf"))
        now = ct.maximum(highest, ct.max(scores, axis=1, keepdims=True))
        shares, fade = ct.exp2(scores - now), ct.exp2(highest - now)
        weight = weight * fade + ct.sum(shares, axis=1, keepdims=True)
        values = ct.reshape(ct.load(v, (head // SHARE, step, 0), (1, TN, D), padding_mode=ZERO), (TN, D))
        total = ct.mma(ct.astype(shares, q.dtype), values, total * fade)
        highest = now
    ct.store(out, (head, block, 0), ct.reshape(ct.astype(total / weight, out.dtype), (1, TM, D)))
"""
_KEYS = (
    "keys = ct.reshape(ct.load(k, (head // SHARE, 0, step), (1, D, TN), order=(0, 2, 1), padding_mode=ZERO), (D, TN))",
    "keys = ct.transpose(ct.reshape(ct.load(k, (head // SHARE, step, 0), (1, TN, D), padding_mode=ZERO), (TN, D)))",
)


def _sizes(pick: Choices, smallest: int = 16) -> tuple[int, int, int]:
    """Rows and columns of a tile of scores, and the depth."""
    while True:
        tile = tuple(pick.choice([size for size in (16, 32, 64, 64, 128, 128, 256) if size >= smallest])
                     for _ in range(2))  # fmt: skip
        depth = pick.choice((16, 32, 64, 64, 128))
        if tile[0] * tile[1] <= 128 * 256 and tile[0] * depth <= 128 * 256 and tile[1] * depth <= 128 * 128:
            return tile[0], tile[1], depth


def _softmax(q: np.ndarray, k: np.ndarray, scale: float, causal: bool) -> np.ndarray:
    scores = np.einsum("hmd,hnd->hmn", q.astype(np.float64), k.astype(np.float64)) * scale
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape[1:], bool)), scores, -np.inf)
    shares = np.exp(scores - scores.max(axis=2, keepdims=True))
    return shares / shares.sum(axis=2, keepdims=True)


def forward(pick: Choices) -> Generated:
    """One or two tiles of queries, keys of any number, heads that share keys."""
    element = pick.choice(("f16", "bf16"))
    tm, tn, depth = _sizes(pick)
    causal, share = pick.chance(0.4), pick.choice((1, 1, 1, 2))
    heads = share * pick.choice((1, 1, 2)) if tm * tn * depth < 1 << 19 else share
    positions = pick.choice((1, tn // 2, tn, tn + 1, tn + 8, 2 * tn, 2 * tn + 3, 3 * tn, 4 * tn + 8, 5 * tn))
    queries = positions if causal else pick.choice((1, tm - 1, tm, tm, tm, tm + 8, 2 * tm))
    while heads * queries * positions * depth > MOST_WORK:
        positions = positions // 2
        queries = positions if causal else min(queries, tm)
        heads = share
    q, k, v = (normal(pick, shape, element) for shape in (
        (heads, queries, depth), (heads // share, positions, depth), (heads // share, positions, depth)))  # fmt: skip
    scale = depth**-0.5
    wide = [np.repeat(each, share, axis=0) for each in (k, v)]
    wanted = _softmax(q, wide[0], scale, causal) @ wide[1].astype(np.float64)
    arguments = (
        array(pick, "q", q, element), array(pick, "k", k, element), array(pick, "v", v, element),
        result(pick, "out", q.shape, element), scalar("scale", scale, "f32"),
    )  # fmt: skip
    return Generated(
        "attention", _FORWARD.format(keys=pick.choice(_KEYS)), arguments, (tm, tn, depth, causal, share),
        (-(-queries // tm), heads, 1), {"out": Expected(wanted, 0.01, TOLERANCE[element])},
    )  # fmt: skip


_DECODE = """
def kernel(q, keys, values, lengths, out, scale, GROUP: ct.Constant[int], TN: ct.Constant[int],
           D: ct.Constant[int]):
    ZERO = ct.PaddingMode.ZERO
    sequence, head = ct.bid(0), ct.bid(1)
    length = ct.gather(lengths, sequence)
    queries = ct.reshape(ct.load(q, (sequence, head, 0), (1, GROUP, D)), (GROUP, D))
    highest = ct.full((GROUP, 1), -1e30, ct.float32)
    weight = ct.zeros((GROUP, 1), ct.float32)
    total = ct.zeros((GROUP, D), ct.float32)
    for step in range(ct.cdiv(length, TN)):
        k = ct.load(keys, (sequence, head, step, 0), (1, 1, TN, D), padding_mode=ZERO)
        k = ct.transpose(ct.reshape(k, (TN, D)))
        scores = ct.mma(queries, k, ct.zeros((GROUP, TN), ct.float32)) * (scale * 1.4426950408889634)
        filled = step * TN + ct.arange(TN, dtype=ct.int32) < length
        scores = ct.where(filled[None, :], scores, float("-inf"))
        now = ct.maximum(highest, ct.max(scores, axis=1, keepdims=True))
        shares, fade = ct.exp2(scores - now), ct.exp2(highest - now)
        weight = weight * fade + ct.sum(shares, axis=1, keepdims=True)
        v = ct.load(values, (sequence, head, step, 0), (1, 1, TN, D), padding_mode=ZERO)
        total = ct.mma(ct.astype(shares, v.dtype), ct.reshape(v, (TN, D)), total * fade)
        highest = now
    ct.store(out, (sequence, head, 0), ct.reshape(ct.astype(total / weight, out.dtype), (1, GROUP, D)))
"""


def decode(pick: Choices) -> Generated:
    """One position per sequence; the heads that share keys are the rows of the dots."""
    element = pick.choice(("f16", "bf16"))
    group, tn, depth = pick.choice((1, 2, 4, 8, 16, 32, 64)), pick.choice((16, 32, 64, 128)), pick.choice((16, 64, 128))
    sequences, heads = pick.choice((1, 2)), pick.choice((1, 1, 2))
    most = pick.choice((1, tn // 2, tn, tn + 1, 2 * tn, 3 * tn + 5, 5 * tn))
    lengths = np.array([pick.choice((1, most, max(1, most - 1))) for _ in range(sequences)], np.int32)
    lengths[0] = most
    scale = depth**-0.5
    q = normal(pick, (sequences, heads * group, depth), element)
    k, v = (normal(pick, (sequences, heads, most, depth), element) for _ in range(2))
    wanted = np.zeros(q.shape)
    for sequence, length in enumerate(lengths):
        wide = [np.repeat(each[sequence, :, :length], group, axis=0) for each in (k, v)]
        shares = _softmax(q[sequence][:, None], wide[0], scale, False)
        wanted[sequence] = (shares @ wide[1].astype(np.float64))[:, 0]
    arguments = (
        array(pick, "q", q, element), array(pick, "keys", k, element), array(pick, "values", v, element),
        array(pick, "lengths", lengths, "i32"), result(pick, "out", q.shape, element), scalar("scale", scale, "f32"),
    )  # fmt: skip
    return Generated("decoding", _DECODE, arguments, (group, tn, depth), (sequences, heads, 1),
                     {"out": Expected(wanted, 0.01, TOLERANCE[element])})  # fmt: skip


_QUERY_GRADIENT = """
def kernel(q, k, v, do, lse, delta, dq, scale, TM: ct.Constant[int], TN: ct.Constant[int], D: ct.Constant[int],
           CAUSAL: ct.Constant[bool]):
    ZERO = ct.PaddingMode.ZERO
    block = ct.bid(0)
    rows = block * TM + ct.arange(TM, dtype=ct.int32)
    queries = ct.load(q, (block, 0), (TM, D), padding_mode=ZERO)
    upstream = ct.load(do, (block, 0), (TM, D), padding_mode=ZERO)
    log_sum = ct.load(lse, (block,), (TM,), padding_mode=ZERO)[:, None]
    offset = ct.load(delta, (block,), (TM,), padding_mode=ZERO)[:, None]
    total = ct.zeros((TM, D), ct.float32)
    stop = min((block + 1) * TM, k.shape[0]) if CAUSAL else k.shape[0]
    for step in range(ct.cdiv(stop, TN)):
        keys = ct.load(k, (step, 0), (TN, D), padding_mode=ZERO)
        values = ct.load(v, (step, 0), (TN, D), padding_mode=ZERO)
        scores = ct.mma(queries, ct.transpose(keys), ct.zeros((TM, TN), ct.float32)) * scale
        columns = step * TN + ct.arange(TN, dtype=ct.int32)
        visible = (columns < k.shape[0])[None, :]
        if CAUSAL:
            visible = visible & (rows[:, None] >= columns[None, :])
        shares = ct.where(visible, ct.exp(scores - log_sum), 0.0)
        slopes = ct.mma(upstream, ct.transpose(values), ct.zeros((TM, TN), ct.float32))
        slopes = shares * (slopes - offset) * scale
        total = ct.mma(ct.astype(slopes, q.dtype), keys, total)
    ct.store(dq, (block, 0), total)
"""
_KEY_GRADIENT = """
def kernel(q, k, v, do, lse, delta, dk, dv, scale, TM: ct.Constant[int], TN: ct.Constant[int], D: ct.Constant[int],
           CAUSAL: ct.Constant[bool]):
    ZERO = ct.PaddingMode.ZERO
    block = ct.bid(0)
    columns = block * TN + ct.arange(TN, dtype=ct.int32)
    keys = ct.load(k, (block, 0), (TN, D), padding_mode=ZERO)
    values = ct.load(v, (block, 0), (TN, D), padding_mode=ZERO)
    of_keys, of_values = ct.zeros((TN, D), ct.float32), ct.zeros((TN, D), ct.float32)
    start = (block * TN) // TM if CAUSAL else 0
    for step in range(start, ct.cdiv(q.shape[0], TM)):
        queries = ct.load(q, (step, 0), (TM, D), padding_mode=ZERO)
        upstream = ct.load(do, (step, 0), (TM, D), padding_mode=ZERO)
        log_sum = ct.load(lse, (step,), (TM,), padding_mode=ZERO)[:, None]
        offset = ct.load(delta, (step,), (TM,), padding_mode=ZERO)[:, None]
        rows = step * TM + ct.arange(TM, dtype=ct.int32)
        visible = (rows < q.shape[0])[:, None] & (columns < k.shape[0])[None, :]
        if CAUSAL:
            visible = visible & (rows[:, None] >= columns[None, :])
        scores = ct.mma(queries, ct.transpose(keys), ct.zeros((TM, TN), ct.float32)) * scale
        shares = ct.where(visible, ct.exp(scores - log_sum), 0.0)
        of_values = ct.mma(ct.transpose(ct.astype(shares, do.dtype)), upstream, of_values)
        slopes = ct.mma(upstream, ct.transpose(values), ct.zeros((TM, TN), ct.float32))
        slopes = shares * (slopes - offset) * scale
        of_keys = ct.mma(ct.transpose(ct.astype(slopes, q.dtype)), queries, of_keys)
    ct.store(dk, (block, 0), of_keys)
    ct.store(dv, (block, 0), of_values)
"""


def query_gradient(pick: Choices) -> Generated:
    return _gradient(pick, of_queries=True)


def key_gradient(pick: Choices) -> Generated:
    return _gradient(pick, of_queries=False)


def _gradient(pick: Choices, of_queries: bool) -> Generated:
    """dQ by a loop over keys, or dK and dV by a loop over queries."""
    element = pick.choice(("f16", "bf16"))
    tm, tn, depth = _sizes(pick)
    causal = pick.chance(0.35)
    inner = tn if of_queries else tm
    looped = pick.choice((1, inner // 2, inner, inner + 8, 2 * inner, 2 * inner + 3, 3 * inner, 4 * inner))
    while looped * depth * max(tm, tn) > MOST_WORK // 2:
        looped //= 2
    outer = tm if of_queries else tn
    other = looped if causal else pick.choice((1, outer - 1, outer, outer, outer + 8))
    queries, positions = (other, looped) if of_queries else (looped, other)
    scale = depth**-0.5
    q, do = (normal(pick, (queries, depth), element) for _ in range(2))
    k, v = (normal(pick, (positions, depth), element) for _ in range(2))
    wide = [each.astype(np.float64) for each in (q, k, v, do)]
    scores = wide[0] @ wide[1].T * scale
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape, bool)), scores, -np.inf)
    log_sum = np.log(np.exp(scores - scores.max(1, keepdims=True)).sum(1)) + scores.max(1)
    shares = np.exp(scores - log_sum[:, None])
    delta = (wide[3] * (shares @ wide[2])).sum(1)
    slopes = shares * (wide[3] @ wide[2].T - delta[:, None]) * scale
    value = [array(pick, name, each, element) for name, each in (("q", q), ("k", k), ("v", v), ("do", do))]
    value += [array(pick, name, each.astype(np.float32), "f32") for name, each in (("lse", log_sum), ("delta", delta))]
    wanted = {"dq": slopes @ wide[1]} if of_queries else {"dk": slopes.T @ wide[0], "dv": shares.T @ wide[3]}
    value += [result(pick, name, values.shape, "f32") for name, values in wanted.items()]
    value.append(scalar("scale", scale, "f32"))
    tolerance = TOLERANCE[element] * max(1.0, max(np.abs(each).max() for each in wanted.values()) / 4)
    return Generated(
        "query gradient" if of_queries else "key gradient", _QUERY_GRADIENT if of_queries else _KEY_GRADIENT,
        tuple(value), (tm, tn, depth, causal), (-(-(queries if of_queries else positions) // outer), 1, 1),
        {name: Expected(values, 0.01, tolerance) for name, values in wanted.items()},
    )  # fmt: skip
