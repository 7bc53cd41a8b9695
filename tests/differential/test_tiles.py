"""Shapes, reductions, products, memory and control flow: compiled code agrees with the interpreter."""

from __future__ import annotations

import json

import numpy as np
import pytest

import tileiras
from tests.kernels.tiles import Tile, assert_same, check
from tests.kernels.views import DTYPES, tile_type
from tileiras.sim import emulate, interpret


def numbers(shape, element, seed=0):
    values = np.random.default_rng(seed).integers(-50, 50, shape)
    return values.astype(DTYPES[element])


# ---- shapes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(64,), (1,), (4, 64), (64, 4), (16, 16), (2, 8, 16), (1, 1), (256, 1), (1024,)])
@pytest.mark.parametrize("element", ["i8", "f16", "f32", "f64"])
def test_copy(shape, element):
    t = tile_type(shape, element)
    add = "addi" if element[0] == "i" else "addf"
    check(f"%r = {add} %a, %a : {t}", [Tile("a", element, numbers(shape, element))], (shape, element))


@pytest.mark.parametrize(
    ("shape", "order"), [((32, 32), (1, 0)), ((4, 64), (1, 0)), ((8, 4, 16), (2, 0, 1)), ((2, 4, 8, 2), (3, 1, 0, 2))]
)
@pytest.mark.parametrize("element", ["i8", "f16", "f32", "i64"])
def test_permute(shape, order, element):
    result = tuple(shape[dim] for dim in order)
    body = f"%r = permute %a {list(order)} : {tile_type(shape, element)} -> {tile_type(result, element)}"
    check(body, [Tile("a", element, numbers(shape, element))], (result, element))


@pytest.mark.parametrize(
    ("shape", "result"),
    [((64,), (8, 8)), ((8, 8), (64,)), ((4, 32), (32, 4)), ((2, 4, 16), (8, 16)), ((16, 1), (1, 16))],
)
def test_reshape(shape, result):
    body = f"%r = reshape %a : {tile_type(shape, 'f32')} -> {tile_type(result, 'f32')}"
    check(body, [Tile("a", "f32", numbers(shape, "f32"))], (result, "f32"))


@pytest.mark.parametrize(
    ("shape", "result"), [((1,), (128,)), ((16, 1), (16, 32)), ((1, 32), (16, 32)), ((1, 4, 1), (8, 4, 16))]
)
@pytest.mark.parametrize("element", ["i16", "f32"])
def test_broadcast(shape, result, element):
    body = f"%r = broadcast %a : {tile_type(shape, element)} -> {tile_type(result, element)}"
    check(body, [Tile("a", element, numbers(shape, element))], (result, element))


@pytest.mark.parametrize("element", ["i8", "i32", "i64"])
def test_iota(element):
    check(f"%r = iota : tile<64x{element}>", [], ((64,), element))


def test_constants():
    values = ", ".join(str(v) for v in range(32))
    check(f"%c = constant <i32: [{values}]> : tile<32xi32>\n%r = addi %c, %c : tile<32xi32>", [], ((32,), "i32"))


# ---- reductions ------------------------------------------------------------------------------------------------------

COMBINERS = {
    "sum": ("0 : i32", "addi %x, %y", "i32"),
    "maximum": ("-2147483648 : i32", "maxi %x, %y signed", "i32"),
    "xor": ("0 : i16", "xori %x, %y", "i16"),
    "float_sum": ("0.0 : f32", "addf %x, %y", "f32"),
    "float_minimum": ("0x7C00 : f16", "minf %x, %y", "f16"),
    "product": ("1.0 : f64", "mulf %x, %y", "f64"),
}


@pytest.mark.parametrize(
    ("shape", "axis"), [((128,), 0), ((2, 1024), 1), ((64, 8), 0), ((64, 8), 1), ((4, 8, 16), 1), ((1, 32), 0)]
)
@pytest.mark.parametrize("combiner", COMBINERS)
def test_reduce(combiner, shape, axis):
    identity, operation, element = COMBINERS[combiner]
    result = shape[:axis] + shape[axis + 1 :]
    values = numbers(shape, element)
    if combiner == "product":
        values = (1 + values * 2.0**-10).astype(values.dtype)
    scalar = tile_type((), element)
    stored = result or (1,)
    name = "r" if result else "s"
    body = f"""%{name} = reduce %a dim={axis} identities=[{identity}]
        : {tile_type(shape, element)} -> {tile_type(result, element)}
      (%x: {scalar}, %y: {scalar}) {{
        %z = {operation} : {scalar}
        yield %z : {scalar}
      }}"""
    if not result:
        body += f"\n%r = reshape %s : {scalar} -> {tile_type((1,), element)}"
    # Sums of small integers are exact in any order; products are not.
    check(body, [Tile("a", element, values)], (stored, element), ulps=64 if combiner == "product" else 0)


@pytest.mark.parametrize("shape", [(64,), (4, 32)])
def test_reduce_of_two_operands(shape):
    """The largest element and its index; equal elements keep the smaller index, in any order of combination."""
    axis = len(shape) - 1
    result = shape[:-1] or (1,)
    index = np.broadcast_to(np.arange(shape[-1], dtype=np.int32), shape).copy()
    inner, outer = tile_type((), "f32"), tile_type((), "i32")
    body = f"""%v, %i = reduce %a, %b dim={axis} identities=[0xFF800000 : f32, 2147483647 : i32]
        : {tile_type(shape, "f32")}, {tile_type(shape, "i32")}
        -> {tile_type(shape[:-1], "f32")}, {tile_type(shape[:-1], "i32")}
      (%x: {inner}, %y: {inner}, %xi: {outer}, %yi: {outer}) {{
        %more = cmpf greater_than ordered %x, %y : {inner} -> tile<i1>
        %same = cmpf equal ordered %x, %y : {inner} -> tile<i1>
        %less = cmpi less_than %xi, %yi, signed : {outer} -> tile<i1>
        %first = andi %same, %less : tile<i1>
        %take = ori %more, %first : tile<i1>
        %value = select %take, %x, %y : tile<i1>, {inner}
        %place = select %take, %xi, %yi : tile<i1>, {outer}
        yield %value, %place : {inner}, {outer}
      }}
      %r = reshape %i : {tile_type(shape[:-1], "i32")} -> {tile_type(result, "i32")}"""
    check(body, [Tile("a", "f32", numbers(shape, "f32")), Tile("b", "i32", index)], (result, "i32"))


# ---- products --------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(18)
@pytest.mark.parametrize(
    ("m", "n", "k"),
    [(16, 8, 16), (32, 32, 32), (64, 16, 8), (16, 64, 64), (8, 8, 8), (4, 2, 8), (1, 16, 16)],
)
@pytest.mark.parametrize(
    ("element", "acc"), [("f16", "f32"), ("bf16", "f32"), ("f32", "f32"), ("f64", "f64"), ("f16", "f16")]
)
def test_matrix_product(element, acc, m, n, k):
    generator = np.random.default_rng(m * n * k)
    # Small integers: every partial sum is exact in every format, so that order does not matter.
    a, b = (generator.integers(-3, 4, shape).astype(DTYPES[element]) for shape in ((m, k), (k, n)))
    c = generator.integers(-3, 4, (m, n)).astype(DTYPES[acc])
    types = ", ".join([tile_type((m, k), element), tile_type((k, n), element), tile_type((m, n), acc)])
    inputs = [Tile("a", element, a), Tile("b", element, b), Tile("c", acc, c)]
    check(f"%r = mmaf %a, %b, %c : {types}", inputs, ((m, n), acc))


# ---- control flow ----------------------------------------------------------------------------------------------------


def test_for_carries_tiles_and_scalars():
    body = """%n = constant <i32: 5> : tile<i32>
      %one = constant <i32: 1> : tile<i32>
      %r, %last = for %i in (%zero to %n, step %one) : tile<i32>
          iter_values(%sum = %a, %seen = %zero) -> (tile<64xf32>, tile<i32>) {
        %f = itof %i signed : tile<i32> -> tile<f32>
        %f1 = reshape %f : tile<f32> -> tile<1xf32>
        %f64 = broadcast %f1 : tile<1xf32> -> tile<64xf32>
        %next = fma %sum, %f64, %a : tile<64xf32>
        continue %next, %i : tile<64xf32>, tile<i32>
      }"""
    check(body, [Tile("a", "f32", numbers((64,), "f32"))], ((64,), "f32"))


@pytest.mark.parametrize("start", [-3, 0, 9])
def test_if_inside_for(start):
    body = f"""%lower = constant <i32: {start}> : tile<i32>
      %upper = constant <i32: 9> : tile<i32>
      %step = constant <i32: 2> : tile<i32>
      %three = constant <i32: 3> : tile<i32>
      %s = for %i in (%lower to %upper, step %step) : tile<i32> iter_values(%sum = %zero) -> (tile<i32>) {{
        %small = cmpi less_than %i, %three, signed : tile<i32> -> tile<i1>
        %more = if %small -> (tile<i32>) {{
          %x = muli %i, %i : tile<i32>
          yield %x : tile<i32>
        }} else {{
          %y = negi %i : tile<i32>
          yield %y : tile<i32>
        }}
        %next = addi %sum, %more : tile<i32>
        continue %next : tile<i32>
      }}
      %r = reshape %s : tile<i32> -> tile<1xi32>"""
    check(body, [], ((1,), "i32"))


# ---- memory ----------------------------------------------------------------------------------------------------------


def run(text, grid, arguments, **options):
    """Run on copies of the arguments both ways; the two sets of arguments."""
    expected, actual = ([a.copy() if isinstance(a, np.ndarray) else a for a in arguments] for _ in range(2))
    interpret(text, "k", grid, expected)
    artifact = tileiras.compile(text, gpu_name="sm_80", source_name="kernel.mlir", **options)
    emulate(artifact.text, "k", grid, actual, metadata=json.loads(artifact.kernels[0].artifacts[".json"]))
    return expected, actual


PADDED_COPY = """cuda_tile.module @m {{
  entry @k(%p: tile<ptr<{t}>>, %q: tile<ptr<{t}>>, %rows: tile<i32>, %columns: tile<i32>, %pitch: tile<i64>) {{
    %rows64 = exti %rows signed : tile<i32> -> tile<i64>
    %columns64 = exti %columns signed : tile<i32> -> tile<i64>
    %from = make_tensor_view %p, shape = [%rows64, %columns64], strides = [%pitch, 1]
        : tile<i64> -> tensor_view<?x?x{t}, strides=[?,1]>
    %to = make_tensor_view %q, shape = [64, 64], strides = [64, 1] : tensor_view<64x64x{t}, strides=[64,1]>
    %v = make_partition_view %from
        : partition_view<tile=({a}x{b}), padding_value = {pad}, tensor_view<?x?x{t}, strides=[?,1]>{map}>
    %w = make_partition_view %to : partition_view<tile=({a}x{b}), tensor_view<64x64x{t}, strides=[64,1]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %tile, %token = load_view_tko weak %v[%x, %y]
        : partition_view<tile=({a}x{b}), padding_value = {pad}, tensor_view<?x?x{t}, strides=[?,1]>{map}>, tile<i32>
        -> tile<{a}x{b}x{t}>, token
    %done = store_view_tko weak %tile, %w[%x, %y] token = %token
        : tile<{a}x{b}x{t}>, partition_view<tile=({a}x{b}), tensor_view<64x64x{t}, strides=[64,1]>>, tile<i32> -> token
    return
  }}
}}
"""


@pytest.mark.parametrize("padding", ["zero", "neg_zero", "nan", "pos_inf", "neg_inf"])
@pytest.mark.parametrize("element", ["f16", "f32", "f64"])
def test_padding_of_ragged_tiles(element, padding):
    source, target = numbers((37, 48), element), np.zeros((64, 64), DTYPES[element])
    text = PADDED_COPY.format(t=element, a=16, b=32, pad=padding, map="")
    expected, actual = run(text, (3, 2), [source, target, 37, 45, 48])
    assert_same(padding, actual[1], expected[1], [])
    if padding != "nan":
        assert (np.signbit(actual[1]) == np.signbit(expected[1])).all()


@pytest.mark.parametrize("element", ["i8", "i16", "i32", "i64", "f32"])
def test_transposed_view(element):
    source, target = numbers((37, 45), element), np.zeros((64, 64), DTYPES[element])
    text = PADDED_COPY.format(t=element, a=16, b=32, pad="zero", map=", dim_map=[1, 0]")
    expected, actual = run(text, (3, 2), [source, target, 37, 45, 45])
    assert_same("transposed", actual[1], expected[1], [])


GATHER = """cuda_tile.module @m {{
  entry @k(%p: tile<ptr<{t}>>, %q: tile<ptr<{t}>>, %i: tile<ptr<i32>>, %n: tile<i32>) {{
    %lane = iota : tile<128xi32>
    %i1 = reshape %i : tile<ptr<i32>> -> tile<1xptr<i32>>
    %ib = broadcast %i1 : tile<1xptr<i32>> -> tile<128xptr<i32>>
    %ip = offset %ib, %lane : tile<128xptr<i32>>, tile<128xi32> -> tile<128xptr<i32>>
    %n1 = reshape %n : tile<i32> -> tile<1xi32>
    %nb = broadcast %n1 : tile<1xi32> -> tile<128xi32>
    %mask = cmpi less_than %lane, %nb, signed : tile<128xi32> -> tile<128xi1>
    %none = constant <i32: 0> : tile<128xi32>
    %places, %t0 = load_ptr_tko weak %ip, %mask, %none
        : tile<128xptr<i32>>, tile<128xi1>, tile<128xi32> -> tile<128xi32>, token
    %p1 = reshape %p : tile<ptr<{t}>> -> tile<1xptr<{t}>>
    %pb = broadcast %p1 : tile<1xptr<{t}>> -> tile<128xptr<{t}>>
    %pp = offset %pb, %places : tile<128xptr<{t}>>, tile<128xi32> -> tile<128xptr<{t}>>
    %x, %t1 = load_ptr_tko weak %pp : tile<128xptr<{t}>> -> tile<128x{t}>, token
    %q1 = reshape %q : tile<ptr<{t}>> -> tile<1xptr<{t}>>
    %qb = broadcast %q1 : tile<1xptr<{t}>> -> tile<128xptr<{t}>>
    %qp = offset %qb, %lane : tile<128xptr<{t}>>, tile<128xi32> -> tile<128xptr<{t}>>
    %t2 = store_ptr_tko weak %qp, %x, %mask : tile<128xptr<{t}>>, tile<128x{t}>, tile<128xi1> -> token
    return
  }}
}}
"""


@pytest.mark.parametrize("element", ["i8", "f16", "i32", "f64"])
def test_gather_through_pointers(element):
    source, target = numbers((300,), element), np.full(100, 9).astype(DTYPES[element])
    places = np.random.default_rng(1).integers(0, 300, 100).astype(np.int32)
    expected, actual = run(GATHER.format(t=element), 1, [source, target, places, 100])
    assert (expected[1] == source[places]).all()
    assert_same("gather", actual[1], expected[1], [])


def test_scalar_loads_and_stores():
    text = """cuda_tile.module @m {
      entry @k(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>, %a: tile<f32>, %flag: tile<i1>) {
        %x, %t = load_ptr_tko weak %p : tile<ptr<f32>> -> tile<f32>, token
        %y = mulf %x, %a : tile<f32>
        %z = select %flag, %y, %x : tile<i1>, tile<f32>
        %s = store_ptr_tko weak %q, %z token = %t : tile<ptr<f32>>, tile<f32> -> token
        return
      }
    }
    """
    for flag in (0, 1):
        expected, actual = run(text, 1, [np.full(1, 3, np.float32), np.zeros(1, np.float32), np.float32(2.5), flag])
        assert actual[1] == expected[1] == (7.5 if flag else 3)


def test_every_tile_block_knows_its_place():
    text = """cuda_tile.module @m {
      entry @k(%p: tile<ptr<i32>>) {
        %x, %y, %z = get_tile_block_id : tile<i32>
        %nx, %ny, %nz = get_num_tile_blocks : tile<i32>
        %zy = muli %z, %ny : tile<i32>
        %row = addi %zy, %y : tile<i32>
        %rx = muli %row, %nx : tile<i32>
        %place = addi %rx, %x : tile<i32>
        %q = offset %p, %place : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
        %s = store_ptr_tko weak %q, %place : tile<ptr<i32>>, tile<i32> -> token
        return
      }
    }
    """
    _, actual = run(text, (3, 2, 2), [np.full(12, -1, np.int32)])
    assert actual[0].tolist() == list(range(12))
