"""Layouts of tiles at the end of long chains, whose values have two users each: the paths double with each round."""

from __future__ import annotations

import numpy as np

import tileiras
from tests.kernels.checked import module
from tileiras.sim import emulate

ROUNDS = 40
WHOLE, REAL = "tile<128xi32>", "tile<16x32xf32>"


def _carried() -> str:
    """A loop carries the state of a generator of random numbers; no layout of an access reaches it."""
    lines = []
    for n in range(ROUNDS):
        lines += [f"%y{n} = shli %x{n}, %five : {WHOLE}", f"%x{n + 1} = xori %x{n}, %y{n} : {WHOLE}"]
    return "\n".join([
        "%zero = constant <i32: 0> : tile<i32>", "%one = constant <i32: 1> : tile<i32>",
        f"%five = constant <i32: 5> : {WHOLE}", f"%start = iota : {WHOLE}",
        f"%end = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%x0 = %start) -> ({WHOLE}) {{",
        *lines, f"continue %x{ROUNDS} : {WHOLE}", "}",
        "%t = make_tensor_view %p, shape = [128], strides = [1] : tensor_view<128xi32, strides=[1]>",
        "%v = make_partition_view %t : partition_view<tile=(128), tensor_view<128xi32, strides=[1]>>",
        f"%e = store_view_tko weak %end, %v[%zero] : {WHOLE}, "
        "partition_view<tile=(128), tensor_view<128xi32, strides=[1]>>, tile<i32> -> token",
    ])  # fmt: skip


def test_a_loop_carries_a_tile_without_a_layout():
    artifact = tileiras.compile(module(_carried(), "%p: tile<ptr<i32>>, %n: tile<i32>"), gpu_name="sm_80")
    result, state = np.zeros(128, np.int32), np.arange(128, dtype=np.int32)
    emulate(artifact.text, "k", 1, [result, 2], metadata=artifact.kernels[0].metadata)
    for _ in range(2 * ROUNDS):
        state ^= state << np.int32(5)
    assert np.array_equal(result, state)


def _broadcast() -> str:
    """A row is broadcast to the shape of a product, and goes through many rounds before the product is added."""
    lines = []
    for n in range(ROUNDS):
        lines += [f"%y{n} = minf %x{n}, %limit : {REAL}", f"%x{n + 1} = maxf %x{n}, %y{n} : {REAL}"]
    a, c, b = ("tensor_view<16x16xf16, strides=[16,1]>", "tensor_view<16x32xf32, strides=[32,1]>",
               "tensor_view<1x32xf32, strides=[32,1]>")  # fmt: skip
    w = "tensor_view<16x32xf16, strides=[32,1]>"
    return "\n".join([
        "%zero = constant <i32: 0> : tile<i32>", f"%limit = constant <f32: 8.0> : {REAL}",
        f"%none = constant <f32: 0.0> : {REAL}",
        *(f"%t{name} = make_tensor_view %p{name}, shape = [{shape}], strides = [{pitch}, 1] : {view}\n"
          f"%v{name} = make_partition_view %t{name} : partition_view<tile=({shape.replace(', ', 'x')}), {view}>"
          for name, shape, pitch, view in (("a", "16, 16", 16, a), ("w", "16, 32", 32, w), ("b", "1, 32", 32, b),
                                           ("c", "16, 32", 32, c))),
        f"%left, %k0 = load_view_tko weak %va[%zero, %zero] : partition_view<tile=(16x16), {a}>, tile<i32>"
        " -> tile<16x16xf16>, token",
        f"%right, %k1 = load_view_tko weak %vw[%zero, %zero] : partition_view<tile=(16x32), {w}>, tile<i32>"
        " -> tile<16x32xf16>, token",
        f"%row, %k2 = load_view_tko weak %vb[%zero, %zero] : partition_view<tile=(1x32), {b}>, tile<i32>"
        " -> tile<1x32xf32>, token",
        f"%product = mmaf %left, %right, %none : tile<16x16xf16>, tile<16x32xf16>, {REAL}",
        f"%x0 = broadcast %row : tile<1x32xf32> -> {REAL}", *lines,
        f"%sum = addf %product, %x{ROUNDS} : {REAL}",
        f"%e = store_view_tko weak %sum, %vc[%zero, %zero] : {REAL}, partition_view<tile=(16x32), {c}>, tile<i32>"
        " -> token",
    ])  # fmt: skip


def test_a_row_is_broadcast_to_a_long_chain():
    parameters = "%pa: tile<ptr<f16>>, %pw: tile<ptr<f16>>, %pb: tile<ptr<f32>>, %pc: tile<ptr<f32>>"
    artifact = tileiras.compile(module(_broadcast(), parameters), gpu_name="sm_80")
    rng = np.random.default_rng(0)
    a, w = rng.integers(-3, 4, (16, 16)).astype(np.float16), rng.integers(-3, 4, (16, 32)).astype(np.float16)
    row, result = rng.integers(-20, 20, 32).astype(np.float32), np.zeros((16, 32), np.float32)
    emulate(artifact.text, "k", 1, [a, w, row, result], metadata=artifact.kernels[0].metadata)
    assert np.array_equal(result, a.astype(np.float32) @ w.astype(np.float32) + row)
