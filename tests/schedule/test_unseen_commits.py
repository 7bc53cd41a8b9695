"""Groups of products into tensor memory that nobody waits for have no commit: a phase of an mbarrier that is not seen
may end as late as a later group of the same mbarrier is waited for."""

from __future__ import annotations

import re

import numpy as np
import pytest

from bench.plans import PLANS
from tests.kernels.dots import dot
from tests.kernels.views import ONE, Kernel, View, entry, whole_numbers, zeros

ROUNDS = 3
M, N, K = 128, 32, 16


def two_and_one(inner: int) -> Kernel:
    """Rounds with two products in a branch of an inner loop, and one behind that: groups come by threes."""
    a, b = View("a", (M, K), "f16", (M, K * ROUNDS)), View("b", (K, N), "f16", (K * ROUNDS, N))
    c, d = View("c", (M, N), "f32"), View("d", (M, N), "f32")
    types = a.tile, b.tile, c.tile
    body = [
        ONE, zeros("none", c.tile),
        f"%rounds = constant <i32: {ROUNDS}> : tile<i32>", f"%times = constant <i32: {inner}> : tile<i32>",
        f"%p, %q = for %i in (%zero to %rounds, step %one) : tile<i32>"
        f" iter_values(%p0 = %none, %q0 = %none) -> ({c.tile}, {c.tile}) {{",
        a.load("x", "%zero, %i"), b.load("y", "%i, %zero"),
        f"%p1, %q1 = for %j in (%zero to %times, step %one) : tile<i32>"
        f" iter_values(%pj = %p0, %qj = %q0) -> ({c.tile}, {c.tile}) {{",
        "%skipped = cmpi equal %j, %one, signed : tile<i32> -> tile<i1>",
        f"%pn, %qn = if %skipped -> ({c.tile}, {c.tile}) {{", f"yield %pj, %qj : {c.tile}, {c.tile}", "} else {",
        dot("pd", "x", "y", "pj", types), f"%turned = negf %x : {a.tile}", dot("qd", "turned", "y", "qj", types),
        f"yield %pd, %qd : {c.tile}, {c.tile}", "}", f"continue %pn, %qn : {c.tile}, {c.tile}", "}",
        dot("q2", "x", "y", "q1", types), f"continue %p1, %q2 : {c.tile}, {c.tile}", "}",
        c.store("p"), d.store("q"),
    ]  # fmt: skip
    left, right = (whole_numbers(view.shape, "f16", seed, 2) for seed, view in enumerate((a, b)))
    p, q = np.zeros(c.shape, np.float32), np.zeros(c.shape, np.float32)
    for i in range(ROUNDS):
        product = np.float32(left[:, i * K : (i + 1) * K]) @ np.float32(right[i * K : (i + 1) * K])
        for j in range(inner):
            if j != 1:
                p, q = p + product, q - product
        q = q + product
    before = tuple(np.zeros(c.shape, np.float32) for _ in range(2))
    return Kernel(entry([a, b, c, d], body), (left, right), before, (p, q))


@pytest.mark.parametrize("inner", [0, 1, 3])
def test_groups_that_come_unevenly(inner):
    kernel = two_and_one(inner)
    artifact = kernel.compiled("sm_100", **PLANS["plain"])
    assert "tcgen05.mma" in artifact.text
    for seed in (None, 1):
        kernel.emulated(artifact, seed)


def test_one_commit_for_two_products_that_are_waited_for_together():
    text = two_and_one(3).compiled("sm_100", **PLANS["plain"]).text
    assert len(re.findall(r"\btcgen05\.mma", text)) == 3
    assert len(re.findall(r"\btcgen05\.commit", text)) == 2
