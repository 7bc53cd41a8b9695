"""Exponentials flush subnormal results only where the program cannot tell these from zero."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.views import DTYPES, ONE, Kernel, View, entry, reduced, tile_type, zeros
from tileiras.dialects import math
from tileiras.sim import emulate

ROWS, COLUMNS, STEPS = 16, 32, 4
SQUARE, ROW, LINE = (tile_type(shape, "f32") for shape in ((ROWS, COLUMNS), (ROWS, 1), (ROWS,)))


def softmax(
    start: str = "0xFF800000", element: str = "f16", scale: str = "", maximum: str = "x", kept: str = "l",
    shift: str = "m_2", further: bool = False,
) -> Kernel:  # fmt: skip
    """The exponentials of a row's steps, as `element`, and their running sum.  `scale`: the factor of loaded numbers,
    where `maximum` is x (of the product) or s (of the loaded numbers, times the factor); `kept`: the sum that a step
    rescales, `shift`: the number that it subtracts, `further`: another use of
    the exponentials, by which they are stored times 1e20."""
    x, out = View("x", (ROWS, COLUMNS), "f32", (ROWS, COLUMNS * STEPS)), View("o", (ROWS, COLUMNS), element,
                                                                             (ROWS, COLUMNS * STEPS))  # fmt: skip
    sums = View("l", (ROWS, 1), "f32")
    product = [f"%c = constant <f32: {scale}> : {SQUARE}", f"%x = mulf %s, %c : {SQUARE}"] if scale else []
    scaled = [f"%c_1 = constant <f32: {scale}> : {ROW}", f"%highest = mulf %column, %c_1 : {ROW}"]
    body = [
        ONE, f"%steps = constant <i32: {STEPS}> : tile<i32>", zeros("l_0", ROW),
        f"%m_0 = constant <f32: {start}> : {ROW}",
        f"%l, %m = for %i in (%zero to %steps, step %one) : tile<i32> iter_values(%l_1 = %l_0, %m_1 = %m_0)"
        f" -> ({ROW}, {ROW}) {{",
        x.load("s" if scale else "x", "%zero, %i"), *product,
        reduced("most", maximum, (ROWS, COLUMNS), 1, "maxf", "0xFF800000"),
        f"%{'column' if maximum == 's' else 'highest'} = reshape %most : {LINE} -> {ROW}",
        *(scaled if maximum == "s" else []),
        f"%m_2 = maxf %m_1, %highest : {ROW}",
        f"%m_all = broadcast %{shift} : {ROW} -> {SQUARE}",
        f"%d = subf %x, %m_all : {SQUARE}", f"%p = exp2 %d : {SQUARE}",
        f"%step = subf %m_1, %{shift} : {ROW}", f"%fade = exp2 %step : {ROW}",
        reduced("sum", "p", (ROWS, COLUMNS), 1),
        f"%sums = reshape %sum : {LINE} -> {ROW}",
        f"%old = mulf %{kept}_1, %fade : {ROW}", f"%l_2 = addf %old, %sums : {ROW}",
        f"%large = constant <f32: 1.0e20> : {SQUARE}\n%q = mulf %p, %large : {SQUARE}" if further else "",
        f"%h = ftof %{'q' if further else 'p'} : {SQUARE} -> {out.tile}" if element != "f32" else "",
        out.store("h" if element != "f32" else "p", "%zero, %i"),
        f"continue %l_2, %m_2 : {ROW}, {ROW}", "}",
        sums.store("l"),
    ]  # fmt: skip
    numbers = np.random.default_rng(3)
    loaded = numbers.uniform(-150, 0, (ROWS, COLUMNS * STEPS)).round().astype(np.float32)
    loaded[1, :COLUMNS] = -140.0  # a step whose exponentials are all subnormal, behind a larger one
    loaded[1, 0], loaded[2] = 0.0, loaded[2] - 1000.0
    wanted, total = np.zeros(loaded.shape, DTYPES[element]), np.zeros((ROWS, 1))
    highest = np.full((ROWS, 1), -np.inf)
    used = (loaded * np.float32(scale or 1.0)).astype(np.float64)
    for step in range(STEPS):
        part = used[:, step * COLUMNS : (step + 1) * COLUMNS]
        now = np.maximum(highest, part.max(1, keepdims=True))
        shares = np.exp2(part - now)
        total = total * np.exp2(highest - now) + shares.sum(1, keepdims=True)
        wanted[:, step * COLUMNS : (step + 1) * COLUMNS] = shares.astype(np.float32).astype(DTYPES[element])
        highest = now
    expected = wanted, total.astype(np.float32)
    return Kernel(entry([x, out, sums], body), (loaded,), tuple(map(np.zeros_like, expected)), expected)


def flushed(kernel: Kernel) -> list[bool]:
    """Of each exponential of the kernel, whether it flushes."""
    module = kernel.after("tileas-flush-exponentials", "sm_90")
    return ["flush_to_zero" in op.attributes for op in module.walk() if isinstance(op, math.Exp2Op)]


FLUSHED = {
    "-inf": softmax,
    "far below": lambda: softmax("-1.0e30"),
    "scaled": lambda: softmax(scale="0.5"),
    "maximum scaled": lambda: softmax(scale="0.5", maximum="s"),
    "f8": lambda: softmax(element="f8E5M2"),
}
KEPT = {
    "bf16 has such numbers": lambda: softmax(element="bf16"),
    "results are stored": lambda: softmax(element="f32"),
    "the first maximum is near": lambda: softmax("-100.0"),
    "not the maximum is subtracted": lambda: softmax(shift="m_1"),
    "another sum is rescaled": lambda: softmax(kept="m"),
    "a product of them is stored": lambda: softmax(further=True),
}


@pytest.mark.parametrize("name", FLUSHED)
def test_results_that_no_use_tells_from_zero_are_flushed(name):
    """The rescaling of sums, whose results are not bounded, keeps subnormal numbers."""
    assert flushed(FLUSHED[name]()) == [True, False]


@pytest.mark.parametrize("name", KEPT)
def test_results_that_a_use_tells_from_zero_are_kept(name):
    assert flushed(KEPT[name]()) == [False, False]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("gpu", ["sm_89", "sm_90"])
@pytest.mark.parametrize("name", FLUSHED)
def test_results_are_the_same(name, gpu):
    kernel = FLUSHED[name]()
    artifact = kernel.compiled(gpu, emit="ptx")
    assert "ex2.approx.ftz" in artifact.text
    result = [array.copy() for array in kernel.outputs]
    raw = [array.view(np.uint8) if array.itemsize == 1 else array for array in result]
    emulate(artifact.text, "k", 1, [*kernel.inputs, *raw], metadata=artifact.kernels[0].metadata)
    np.testing.assert_array_equal(result[0].astype(np.float32), kernel.expected[0].astype(np.float32))
    np.testing.assert_allclose(result[1], kernel.expected[1], rtol=1e-5)


def test_sums_of_a_tile_of_rank_one_are_flushed():
    """The maximum of the tile is a scalar."""
    x, total, tile = View("x", (ROWS,), "f32"), View("l", (1,), "f32"), tile_type((ROWS,), "f32")
    body = [
        x.load("x"), reduced("most", "x", (ROWS,), 0, "maxf", "0xFF800000"),
        "%m = reshape %most : tile<f32> -> tile<1xf32>", f"%m_all = broadcast %m : tile<1xf32> -> {tile}",
        f"%d = subf %x, %m_all : {tile}", f"%p = exp2 %d : {tile}", reduced("sum", "p", (ROWS,), 0),
        "%l = reshape %sum : tile<f32> -> tile<1xf32>", total.store("l"),
    ]  # fmt: skip
    numbers = np.linspace(-200, 5, ROWS, dtype=np.float32)
    expected = np.exp2(numbers - 5).sum(keepdims=True)
    kernel = Kernel(entry([x, total], body), (numbers,), (np.zeros(1, np.float32),), (expected,))
    assert flushed(kernel) == [True]
