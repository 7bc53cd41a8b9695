"""Groups of products into tensor memory without a wait, followed by others in numbers that differ from round to round:
a phase of an mbarrier without a wait may end as late as the wait for a later group of that mbarrier."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pytest

from bench.plans import PLANS
from tests.kernels.dots import dot
from tests.kernels.views import ONE, Kernel, View, entry, whole_numbers, zeros

ROUNDS = 5
M, N, K = 128, 32, 16
A, B = View("a", (M, K), "f16", (M, K * ROUNDS)), View("b", (K, N), "f16", (K * ROUNDS, N))
C, D, E = (View(name, (M, N), "f32") for name in "cde")
TYPES = A.tile, B.tile, C.tile
SKIPPED = 1
"""The round of an inner loop without products."""


def _branch(carried: Sequence[str], products: Sequence[str], results: Sequence[str]) -> list[str]:
    """An inner loop over the values `carried`; all rounds but one compute `products` of the tiles %x and %y."""
    types = ", ".join([C.tile] * len(carried))
    begin, taken, end = (", ".join(f"%{name}{suffix}" for name in carried) for suffix in ("1", "j", "n"))
    values = ", ".join(f"%{name}j = %{name}0" for name in carried)
    return [
        f"{begin} = for %j in (%zero to %times, step %one) : tile<i32> iter_values({values}) -> ({types}) {{",
        "%skipped = cmpi equal %j, %skip, signed : tile<i32> -> tile<i1>",
        f"{end} = if %skipped -> ({types}) {{", f"yield {taken} : {types}", "} else {",
        f"%turned = negf %x : {A.tile}", *products, f"yield {', '.join(results)} : {types}", "}",
        f"continue {end} : {types}", "}",
    ]  # fmt: skip


def _rounds(inner: int, body: Sequence[str], last: str, before: Sequence[str] = ()) -> list[str]:
    return [
        ONE, zeros("none", C.tile), f"%rounds = constant <i32: {ROUNDS}> : tile<i32>",
        f"%times = constant <i32: {inner}> : tile<i32>", f"%skip = constant <i32: {SKIPPED}> : tile<i32>", *before,
        "%p, %q = for %i in (%zero to %rounds, step %one) : tile<i32>"
        f" iter_values(%p0 = %none, %q0 = %none) -> ({C.tile}, {C.tile}) {{",
        A.load("x", "%zero, %i"), B.load("y", "%i, %zero"), *body, f"continue {last} : {C.tile}, {C.tile}", "}",
        C.store("p"), D.store("q"),
    ]  # fmt: skip


def _products() -> tuple[tuple[np.ndarray, np.ndarray], list[np.ndarray]]:
    """The arguments, and the product of each round."""
    left, right = (whole_numbers(view.shape, "f16", number, 2) for number, view in enumerate((A, B)))
    steps = [slice(i * K, (i + 1) * K) for i in range(ROUNDS)]
    return (left, right), [np.float32(left[:, step]) @ np.float32(right[step]) for step in steps]


def _kernel(views: list[View], body: list[str], given: tuple[np.ndarray, ...], wanted: list[np.ndarray]) -> Kernel:
    return Kernel(entry([A, B, *views], body), given, tuple(map(np.zeros_like, wanted)), tuple(wanted))


def two_and_one(inner: int, in_flight: bool = False) -> Kernel:
    """Rounds with two products in a branch of an inner loop, and one behind that: groups come by threes.  `in_flight`:
    behind a loop of products, each in flight when the next one begins."""
    result, products = _products()
    before = [
        "%e = for %l in (%zero to %rounds, step %one) : tile<i32>"
        f" iter_values(%el = %none) -> ({C.tile}) {{",
        A.load("ex", "%zero, %l"), B.load("ey", "%l, %zero"), dot("en", "ex", "ey", "el", TYPES),
        f"continue %en : {C.tile}", "}", E.store("e"),
    ]  # fmt: skip
    both = [dot("pd", "x", "y", "pj", TYPES), dot("qd", "turned", "y", "qj", TYPES)]
    body = [*_branch("pq", both, ("%pd", "%qd")), dot("q2", "x", "y", "q1", TYPES)]
    times = sum(j != SKIPPED for j in range(inner))
    total = np.add.reduce(products)
    wanted = [times * total, (1 - times) * total, *([total] if in_flight else [])]
    views = [C, D, *([E] if in_flight else [])]
    return _kernel(views, _rounds(inner, body, "%p1, %q2", before if in_flight else ()), result, wanted)


def before_a_loop(inner: int) -> Kernel:
    """Rounds with a product, and behind it one in a branch of an inner loop."""
    result, products = _products()
    body = [dot("p1", "x", "y", "p0", TYPES), *_branch("q", [dot("qd", "turned", "y", "qj", TYPES)], ("%qd",))]
    times = sum(j != SKIPPED for j in range(inner))
    total = np.add.reduce(products)
    return _kernel([C, D], _rounds(inner, body, "%p1, %q1"), result, [total, -times * total])


KERNELS = {
    "two and one": two_and_one,
    "behind products in flight": lambda inner: two_and_one(inner, in_flight=True),
    "before a loop": before_a_loop,
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("inner", [0, 1, 3, 5])
@pytest.mark.parametrize("name", list(KERNELS))
def test_groups_that_come_unevenly(name, inner):
    kernel = KERNELS[name](inner)
    artifact = kernel.compiled("sm_100", **PLANS["plain"], tensor_maps="none")
    assert "tcgen05.mma" in artifact.text
    for seed in (None, 1):
        kernel.emulated(artifact, seed)


def _count(kernel: Kernel, instruction: str) -> int:
    artifact = kernel.compiled("sm_100", **PLANS["plain"], tensor_maps="none")
    return len(re.findall(rf"\btcgen05\.{instruction}", artifact.text))


@pytest.mark.parametrize(("in_flight", "products"), [(False, 3), (True, 4)])
def test_one_commit_for_two_dots_awaited_together(in_flight, products):
    kernel = two_and_one(3, in_flight)
    assert _count(kernel, "mma") == products
    assert _count(kernel, "commit") == products - 1
