"""Narrow types, every optimisation level and number of warps, collectives and atomics: compiled against interpreted."""

from __future__ import annotations

import json

import numpy as np
import pytest

import tileiras
from tests.kernels.tiles import Tile, assert_same, check, kernel_text, own_code, run_both
from tests.kernels.views import DTYPES, tile_type
from tileiras.sim import EmulationError, emulate, interpret


def truths(shape, seed=0):
    return np.random.default_rng(seed).integers(0, 2, shape).astype(np.bool_)


# ---- booleans --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", ["andi %a, %b", "ori %a, %b", "xori %a, %b", "addi %a, %b", "muli %a, %b",
                                       "maxi %a, %b signed", "mini %a, %b unsigned"])  # fmt: skip
def test_boolean_arithmetic(operation):
    inputs = [Tile("a", "i1", truths((128,), 1)), Tile("b", "i1", truths((128,), 2))]
    check(f"%r = {operation} : tile<128xi1>", inputs, ((128,), "i1"))


@pytest.mark.parametrize("sign", ["signed", "unsigned"])
@pytest.mark.parametrize("target", ["i8", "i64", "f16", "f32", "f64"])
def test_boolean_conversions(target, sign):
    name = "exti" if target[0] == "i" else "itof"
    body = f"%r = {name} %a {sign} : tile<128xi1> -> tile<128x{target}>"
    check(body, [Tile("a", "i1", truths((128,)))], ((128,), target))


@pytest.mark.parametrize("shape", [(128,), (8, 32), (1,)])
def test_boolean_comparison_and_select(shape):
    t = tile_type(shape, "i1")
    body = f"""%c = cmpi less_than %a, %b, unsigned : {t} -> {t}
               %r = select %c, %b, %a : {t}, {t}"""
    check(body, [Tile("a", "i1", truths(shape, 1)), Tile("b", "i1", truths(shape, 2))], (shape, "i1"))


def test_nonzero_bytes_are_true():
    raw = np.random.default_rng(1).integers(0, 3, 128).astype(np.uint8)
    body = "%r = exti %a unsigned : tile<128xi1> -> tile<128xi32>"
    # Memory of an i1 may hold any byte.
    check(body, [Tile("a", "i1", raw)], ((128,), "i32"))


# ---- narrow floats ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["sm_90", "sm_100"])
@pytest.mark.parametrize("narrow", ["f8E4M3FN", "f8E5M2"])
@pytest.mark.parametrize("wide", ["f16", "bf16", "f32", "f64"])
def test_conversions_of_8_bit_floats(narrow, wide, target):
    codes = np.arange(256, dtype=np.uint8).view(DTYPES[narrow])
    body = f"%r = ftof %a : tile<256x{narrow}> -> tile<256x{wide}>"
    check(body, [Tile("a", narrow, codes)], ((256,), wide), gpu_name=target)
    values = (np.random.default_rng(3).standard_normal(256) * 100).astype(DTYPES[wide])
    values[:8] = np.array([0.0, -0.0, 1e-3, -1e-6, 448.0, 464.0, 60000.0, -65504.0]).astype(DTYPES[wide])
    body = f"%r = ftof %a : tile<256x{wide}> -> tile<256x{narrow}>"
    check(body, [Tile("a", wide, values)], ((256,), narrow), gpu_name=target)


def test_conversion_to_tf32_rounds():
    values = np.random.default_rng(1).standard_normal(128).astype(np.float32)
    check("%r = ftof %a : tile<128xf32> -> tile<128xtf32>", [Tile("a", "f32", values)], ((128,), "tf32"))


# ---- products of narrow types ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("m", "n", "k"), [(16, 8, 32), (32, 32, 64), (4, 4, 8)])
@pytest.mark.parametrize(("left", "right"), [("signed", "signed"), ("unsigned", "unsigned"), ("signed", "unsigned")])
def test_integer_matrix_product(m, n, k, left, right):
    generator = np.random.default_rng(m + n + k)
    a, b = (generator.integers(-128, 128, shape).astype(np.int8) for shape in ((m, k), (k, n)))
    c = generator.integers(-(2**31), 2**31, (m, n)).astype(np.int32)
    types = f"{tile_type((m, k), 'i8')}, {tile_type((k, n), 'i8')}, {tile_type((m, n), 'i32')}"
    inputs = [Tile("a", "i8", a), Tile("b", "i8", b), Tile("c", "i32", c)]
    check(f"%r = mmai %a, %b, %c {left} {right} : {types}", inputs, ((m, n), "i32"))


@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_120"])
@pytest.mark.parametrize("sign", [1, -1])
def test_integer_sums_saturate_in_matrix_instructions(sign, target):
    """As in the vendor's code; the interpreter leaves these open."""
    a, b = np.full((16, 32), 127, np.int8), np.full((32, 16), 127 * sign, np.int8)
    c = np.full((16, 16), 2**31 - 9 if sign > 0 else -(2**31) + 9, np.int32)
    types = f"{tile_type((16, 32), 'i8')}, {tile_type((32, 16), 'i8')}, {tile_type((16, 16), 'i32')}"
    out = Tile("r", "i32", np.zeros((16, 16), np.int32))
    text = kernel_text(
        [Tile("a", "i8", a), Tile("b", "i8", b), Tile("c", "i32", c)], f"%r = mmai %a, %b, %c signed signed : {types}",
        [out],
    )  # fmt: skip
    ptx, metadata = own_code(text, target)
    emulate(ptx, "k", 1, [a, b, c, out.array], metadata=metadata)
    assert (out.array == (2**31 - 1 if sign > 0 else -(2**31))).all()


@pytest.mark.parametrize(("element", "target"), [("tf32", "sm_80"), ("f8E4M3FN", "sm_90"), ("f8E5M2", "sm_100")])
@pytest.mark.parametrize(("m", "n", "k"), [(16, 8, 32), (32, 32, 32), (64, 16, 64)])
def test_matrix_product_of_narrow_floats(element, target, m, n, k):
    generator = np.random.default_rng(m + n + k)
    a, b = (generator.integers(-3, 4, shape).astype(DTYPES[element]) for shape in ((m, k), (k, n)))
    c = generator.integers(-3, 4, (m, n)).astype(np.float32)
    types = f"{tile_type((m, k), element)}, {tile_type((k, n), element)}, {tile_type((m, n), 'f32')}"
    inputs = [Tile("a", element, a), Tile("b", element, b), Tile("c", "f32", c)]
    check(f"%r = mmaf %a, %b, %c : {types}", inputs, ((m, n), "f32"), gpu_name=target)


@pytest.mark.parametrize("element", ["f16", "f32", "f64"])
def test_batched_matrix_product(element):
    acc = "f64" if element == "f64" else "f32"
    generator = np.random.default_rng(1)
    a, b = (generator.integers(-3, 4, shape).astype(DTYPES[element]) for shape in ((2, 16, 16), (2, 16, 8)))
    c = generator.integers(-3, 4, (2, 16, 8)).astype(DTYPES[acc])
    types = f"{tile_type(a.shape, element)}, {tile_type(b.shape, element)}, {tile_type(c.shape, acc)}"
    inputs = [Tile("a", element, a), Tile("b", element, b), Tile("c", acc, c)]
    check(f"%r = mmaf %a, %b, %c : {types}", inputs, ((2, 16, 8), acc))


# ---- collectives -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reverse", ["false", "true"])
@pytest.mark.parametrize(("shape", "axis"), [((128,), 0), ((8, 32), 0), ((8, 32), 1), ((2, 256), 1), ((4, 4, 16), 1)])
@pytest.mark.parametrize("element", ["i32", "i64", "f32"])
def test_scan(element, shape, axis, reverse):
    scalar = tile_type((), element)
    add, zero = ("addi", "0") if element[0] == "i" else ("addf", "0.0")
    t = tile_type(shape, element)
    body = f"""%r = scan %a dim={axis} reverse={reverse} identities=[{zero} : {element}] : {t} -> {t}
      (%x: {scalar}, %y: {scalar}) {{
        %z = {add} %x, %y : {scalar}
        yield %z : {scalar}
      }}"""
    values = np.random.default_rng(1).integers(-50, 50, shape).astype(DTYPES[element])
    check(body, [Tile("a", element, values)], (shape, element))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("reverse", ["false", "true"])
@pytest.mark.parametrize(("shape", "axis"), [((512,), 0), ((2048,), 0), ((2, 1024), 1), ((512, 2), 0)])
@pytest.mark.parametrize("num_warps", [2, 4, 8])
def test_scan_over_warps(num_warps, shape, axis, reverse):
    """Steps of a linear recurrence, which may be put together but not change places, and truth values beside them."""
    types = [tile_type(shape, element) for element in ("i32", "i64", "i1")]
    all_types = ", ".join(types)
    body = f"""%none = constant <i32: 0> : {types[0]}
      %c = cmpi greater_than %a, %none, signed : {types[0]} -> {types[2]}
      %r, %s, %t = scan %a, %b, %c dim={axis} reverse={reverse} identities=[1 : i32, 0 : i64, false]
        : {all_types} -> {all_types}
      (%xa: tile<i32>, %ya: tile<i32>, %xb: tile<i64>, %yb: tile<i64>, %xc: tile<i1>, %yc: tile<i1>) {{
        %p = muli %xa, %ya : tile<i32>
        %w = exti %ya signed : tile<i32> -> tile<i64>
        %q = muli %w, %xb : tile<i64>
        %o = addi %q, %yb : tile<i64>
        %d = xori %xc, %yc : tile<i1>
        yield %p, %o, %d : tile<i32>, tile<i64>, tile<i1>
      }}
      %u = exti %t unsigned : {types[2]} -> tile<{"x".join(map(str, shape))}xi32>"""
    generator = np.random.default_rng(1)
    inputs = [Tile(name, f"i{width}", generator.choice([-1, 1], shape).astype(f"i{width // 8}"))
              for name, width in (("a", 32), ("b", 64))]  # fmt: skip
    outputs = [Tile("r", "i32", np.zeros(shape, np.int32)), Tile("s", "i64", np.zeros(shape, np.int64)),
               Tile("u", "i32", np.zeros(shape, np.int32))]  # fmt: skip
    expected, actual = run_both(inputs, body, outputs, num_warps=num_warps)
    for got, wanted in zip(actual, expected, strict=True):
        assert_same(body, got, wanted, inputs)


def test_no_barrier_of_a_scan_over_warps_can_be_left_out():
    t = "tile<2048xi32>"
    body = f"""%r = scan %a dim=0 reverse=false identities=[0 : i32] : {t} -> {t} (%x: tile<i32>, %y: tile<i32>) {{
        %z = addi %x, %y : tile<i32>
        yield %z : tile<i32>
      }}"""
    values = np.arange(2048, dtype=np.int32)
    text = kernel_text([Tile("a", "i32", values)], body, [Tile("r", "i32", values)])
    artifact = tileiras.compile(text, gpu_name="sm_80", num_warps=4)
    lines = artifact.text.splitlines()
    barriers = [number for number, line in enumerate(lines) if "bar.sync" in line]
    assert len(barriers) == 3  # a conversion, the warps' totals, a conversion back
    for number in barriers:
        broken = "\n".join(lines[:number] + lines[number + 1 :])
        with pytest.raises(EmulationError):
            emulate(broken, "k", 1, [values.copy(), np.zeros_like(values)], metadata=artifact.kernels[0].metadata)


@pytest.mark.parametrize(("shape", "axis"), [((64,), 0), ((8, 16), 0), ((8, 16), 1), ((2, 4, 8), 1)])
@pytest.mark.parametrize("element", ["i8", "f32"])
def test_cat_and_extract(element, shape, axis):
    double = tuple(size * (1 + (dim == axis)) for dim, size in enumerate(shape))
    generator = np.random.default_rng(2)
    a, b = (generator.integers(-50, 50, shape).astype(DTYPES[element]) for _ in range(2))
    t, d = tile_type(shape, element), tile_type(double, element)
    indices = ", ".join("%one" if dim == axis else "%zero" for dim in range(len(shape)))
    inputs = [Tile("a", element, a), Tile("b", element, b)]
    check(f"%r = cat %a, %b dim = {axis} : {t}, {t} -> {d}", inputs, (double, element))
    body = f"""%one = constant <i32: 1> : tile<i32>
      %c = cat %a, %b dim = {axis} : {t}, {t} -> {d}
      %r = extract %c[{indices}] : {d} -> {t}"""
    check(body, inputs, (shape, element))


# ---- options ---------------------------------------------------------------------------------------------------------

MIXED = """%m = reduce %a dim=1 identities=[0xFF800000 : f32] : tile<16x64xf32> -> tile<16xf32>
      (%x: tile<f32>, %y: tile<f32>) {
        %z = maxf %x, %y : tile<f32>
        yield %z : tile<f32>
      }
      %c = reshape %m : tile<16xf32> -> tile<16x1xf32>
      %d = broadcast %c : tile<16x1xf32> -> tile<16x64xf32>
      %e = subf %a, %d : tile<16x64xf32>
      %t = permute %e [1, 0] : tile<16x64xf32> -> tile<64x16xf32>
      %zeros = constant <f32: 0.0> : tile<64x64xf32>
      %p = mmaf %t, %a, %zeros : tile<64x16xf32>, tile<16x64xf32>, tile<64x64xf32>
      %r = mulf %p, %p : tile<64x64xf32>"""


@pytest.mark.parametrize("opt_level", [0, 1, 2, 3])
def test_optimisation_levels_agree(opt_level):
    a = np.random.default_rng(1).integers(-9, 9, (16, 64)).astype(np.float32)
    check(MIXED, [Tile("a", "f32", a)], ((64, 64), "f32"), opt_level=opt_level)


@pytest.mark.parametrize("num_warps", [1, 2, 4, 8])
def test_numbers_of_warps_agree(num_warps):
    a = np.random.default_rng(1).integers(-9, 9, (16, 64)).astype(np.float32)
    check(MIXED, [Tile("a", "f32", a)], ((64, 64), "f32"), num_warps=num_warps)


@pytest.mark.parametrize(
    ("m", "n", "k", "warps"), [(1, 128, 256, 8), (128, 1, 256, 8), (1, 64, 64, 1), (16, 16, 256, 1), (16, 16, 1024, 4)]
)
def test_large_factors_of_small_dots_are_shared_by_warps(m, n, k, warps):
    """A vector by a matrix: one warp would have a thousand elements of it in each thread."""
    generator = np.random.default_rng(k)
    a, b = (Tile(v, "f16", generator.integers(-2, 3, s).astype(np.float16)) for v, s in (("a", (m, k)), ("b", (k, n))))
    c = Tile("c", "f32", np.zeros((m, n), np.float32))
    body = f"%r = mmaf %a, %b, %c : {a.type}, {b.type}, {c.type}"
    check(body, [a, b, c], ((m, n), "f32"))
    text = kernel_text([a, b, c], body, [c._replace(name="r")])
    (kernel,) = tileiras.compile(text, gpu_name="sm_80").kernels
    assert json.loads(kernel.artifacts[".json"])["kernels"][0]["block"] == [32 * warps, 1, 1]


# ---- atomics ---------------------------------------------------------------------------------------------------------

ATOMIC = """cuda_tile.module @m {{
  entry @k(%p: tile<ptr<{t}>>, %q: tile<ptr<{t}>>, %i: tile<ptr<i32>>) {{
    %lane = iota : tile<64xi32>
    %i1 = reshape %i : tile<ptr<i32>> -> tile<1xptr<i32>>
    %ib = broadcast %i1 : tile<1xptr<i32>> -> tile<64xptr<i32>>
    %ip = offset %ib, %lane : tile<64xptr<i32>>, tile<64xi32> -> tile<64xptr<i32>>
    %places, %t0 = load_ptr_tko weak %ip : tile<64xptr<i32>> -> tile<64xi32>, token
    %p1 = reshape %p : tile<ptr<{t}>> -> tile<1xptr<{t}>>
    %pb = broadcast %p1 : tile<1xptr<{t}>> -> tile<64xptr<{t}>>
    %pp = offset %pb, %places : tile<64xptr<{t}>>, tile<64xi32> -> tile<64xptr<{t}>>
    %q1 = reshape %q : tile<ptr<{t}>> -> tile<1xptr<{t}>>
    %qb = broadcast %q1 : tile<1xptr<{t}>> -> tile<64xptr<{t}>>
    %qp = offset %qb, %lane : tile<64xptr<{t}>>, tile<64xi32> -> tile<64xptr<{t}>>
    %v, %t1 = load_ptr_tko weak %qp : tile<64xptr<{t}>> -> tile<64x{t}>, token
    %limit = constant <i32: 50> : tile<64xi32>
    %mask = cmpi less_than %lane, %limit, signed : tile<64xi32> -> tile<64xi1>
    %old, %t2 = atomic_rmw_tko relaxed device %pp, {mode}, %v, %mask token=%t1
        : tile<64xptr<{t}>>, tile<64x{t}>, tile<64xi1> -> tile<64x{t}>, token
    return
  }}
}}
"""


@pytest.mark.parametrize(
    ("mode", "element"),
    [(m, element) for m in ("add", "max", "min", "umax", "umin", "and", "or", "xor") for element in ("i32", "i64")]
    + [("addf", element) for element in ("f16", "f32", "f64")],
)
def test_atomics_with_collisions(mode, element):
    generator = np.random.default_rng(1)
    memory = generator.integers(0, 100, 20).astype(DTYPES[element])
    values = generator.integers(0, 100, 64).astype(DTYPES[element])
    places = generator.integers(0, 20, 64).astype(np.int32)
    text = ATOMIC.format(t=element, mode=mode)
    artifact = tileiras.compile(text, gpu_name="sm_80", source_name="kernel.mlir")
    metadata = json.loads(artifact.kernels[0].artifacts[".json"])
    expected, actual = memory.copy(), memory.copy()
    interpret(text, "k", 2, [expected, values, places])
    emulate(artifact.text, "k", 2, [actual, values, places], metadata=metadata)
    assert_same(mode, actual, expected, [])
