"""Reductions and dots on the emulator, over layouts and element types."""

import re

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.tileaa import SPEC, kernel, tensor
from tests.tileas_stage import ptx
from tileiras.codegen import ptxas, toolkit
from tileiras.layout import blocked
from tileiras.layout.reduce import plan_reduction
from tileiras.lowering.tileas_to_llvm.tensor_core.dot import in_order
from tileiras.sim import emulate
from tileiras.targets import mma_atom

COMBINERS = {
    "f32": ("nv_tileaa.addf", "f32", "0.0", np.float32, np.add),
    "i32": ("arith.addi", "i32", "0", np.int32, np.add),
    "max": ("arith.maxsi", "i32", "-2147483648", np.int32, np.maximum),
    "i8": ("arith.maxsi", "i8", "-128", np.int8, np.maximum),
    "umin": ("arith.minui", "i32", "-1", np.uint32, np.minimum),
    "f16": ("arith.maximumf", "f16", "0.0", np.float16, np.maximum),
}


def reduction(layout, axis, combiner):
    name, element, identity, _, _ = COMBINERS[combiner]
    name = name.replace("nv_tileaa", "nv_tileas")
    result = plan_reduction(layout, axis).result
    shapes = (layout.shape, result.shape)

    def view(shape):
        strides, step = [], 1
        for n in reversed(shape):
            strides.insert(0, str(step))
            step *= n
        memref = f"!nv_tileaa.memref<{'x'.join(map(str, shape))}x{element}, strides = [{', '.join(strides)}]>"
        return memref, f"!nv_tileaa.tiled_view<[{', '.join(map(str, shape))}], {memref}>"

    (ma, va), (mb, vb) = map(view, shapes)
    a, b = tensor(shapes[0], element, layout), tensor(shapes[1], element, result)
    ptr = f"!nv_tileaa.ptr<{element}>"

    def coordinates(rank):
        return ", ".join(["%z"] * rank), ", ".join(["i32"] * rank)

    (ca, ta), (cb, tb) = map(coordinates, map(len, shapes))
    return f"""
builtin.module {{
  nv_tileaa.func @reduce(%a: {ptr}, %b: {ptr}) attributes {SPEC % layout.warps} {{
    %z = arith.constant 0 : i32
    %ma = nv_tileas.make_memref %a, sizes = [], strides = [] : {ptr}, (), () -> {ma}
    %mb = nv_tileas.make_memref %b, sizes = [], strides = [] : {ptr}, (), () -> {mb}
    %va = nv_tileas.block_tile %ma : {va}
    %vb = nv_tileas.block_tile %mb : {vb}
    %x, %t = nv_tileas.tiled_load %va[{ca}] {{atom = #nv_tileas.copy_atom<ld_global, 1>}}
      : {va}, ({ta}) -> {a}, !nv_tileaa.mem_token
    %y = nv_tileas.reduce %x {{dim = {axis} : i64, identities = [{identity} : {element}]}} : ({a}) -> ({b}) {{
    ^bb0(%l: {element}, %r: {element}):
      %s = {name} %l, %r : {element}
      nv_tileas.yield %s : {element}
    }}
    %u = nv_tileas.tiled_store %y, %vb[{cb}] {{atom = #nv_tileas.copy_atom<st_global, 1>}}
      : {b}, {vb}, ({tb}) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }}
}}
"""


def check_reduction(layout, axis, combiner):
    _, _, _, dtype, function = COMBINERS[combiner]
    values = np.random.default_rng(1).integers(-50, 50, layout.shape).astype(dtype)
    expected = function.reduce(values, axis=axis).astype(dtype)
    out = np.zeros_like(expected)
    text = ptx(reduction(layout, axis, combiner))
    emulate(text, "reduce", 1, [values, out], shared_memory=1 << 16)
    assert np.array_equal(out, expected)
    return text


@pytest.mark.parametrize("combiner", COMBINERS)
def test_rows_stay_in_a_warp(combiner):
    text = check_reduction(blocked((8, 128), (1, 4), (1, 32), (4, 1), (1, 0)), 1, combiner)
    assert "bar.sync" not in text and ("shfl.sync.bfly" in text or "redux.sync" in text)


@pytest.mark.parametrize("combiner", COMBINERS)
def test_columns_cross_warps_through_shared_memory(combiner):
    text = check_reduction(blocked((16, 64), (1, 2), (1, 32), (4, 1), (1, 0)), 0, combiner)
    assert text.count("bar.sync") == 1


@pytest.mark.parametrize("combiner", ["i32", "max", "i8", "umin"])
def test_integers_are_reduced_over_a_warp_by_one_instruction(combiner):
    text = check_reduction(blocked((8, 128), (1, 4), (1, 32), (4, 1), (1, 0)), 1, combiner)
    assert text.count("redux.sync") == 2 and "shfl" not in text


def test_part_of_a_warp_is_reduced_by_butterflies():
    text = check_reduction(blocked((16, 64), (1, 4), (2, 16), (4, 1), (1, 0)), 1, "i32")
    assert "redux.sync" not in text


@settings(max_examples=10, deadline=None)
@given(st.data(), st.sampled_from(list(COMBINERS)))
def test_blocked_layouts(data, combiner):
    rank = data.draw(st.integers(2, 3))
    shape = [1 << data.draw(st.integers(0, 4)) for _ in range(rank)]

    def split(total):
        parts = [0] * rank
        for _ in range(total):
            parts[data.draw(st.integers(0, rank - 1))] += 1
        return [1 << p for p in parts]

    order = data.draw(st.permutations(range(rank)))
    layout = blocked(shape, split(data.draw(st.integers(0, 2))), split(5), split(data.draw(st.integers(0, 2))), order)
    check_reduction(layout, data.draw(st.integers(0, rank - 1)), combiner)


DOT = """
builtin.module {{
  nv_tileaa.func @dot(%a: !nv_tileaa.ptr<{ab}>, %b: !nv_tileaa.ptr<{ab}>, %c: !nv_tileaa.ptr<{c}>)
      attributes {{kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "{gpu}"}} {{
    %z = arith.constant 0 : i32
    %ma = nv_tileaa.make_memref %a, sizes = [], strides = [] : !nv_tileaa.ptr<{ab}>, (), () -> {ma}
    %mb = nv_tileaa.make_memref %b, sizes = [], strides = [] : !nv_tileaa.ptr<{ab}>, (), () -> {mb}
    %mc = nv_tileaa.make_memref %c, sizes = [], strides = [] : !nv_tileaa.ptr<{c}>, (), () -> {mc}
    %va = nv_tileaa.block_tile %ma : !nv_tileaa.tiled_view<[{m}, {k}], {ma}>
    %vb = nv_tileaa.block_tile %mb : !nv_tileaa.tiled_view<[{k}, {n}], {mb}>
    %vc = nv_tileaa.block_tile %mc : !nv_tileaa.tiled_view<[{m}, {n}], {mc}>
    %x, %t0 = nv_tileaa.tiled_load %va[%z, %z]
      : !nv_tileaa.tiled_view<[{m}, {k}], {ma}>, (i32, i32) -> tensor<{m}x{k}x{ab}>, !nv_tileaa.mem_token
    %y, %t1 = nv_tileaa.tiled_load %vb[%z, %z]
      : !nv_tileaa.tiled_view<[{k}, {n}], {mb}>, (i32, i32) -> tensor<{k}x{n}x{ab}>, !nv_tileaa.mem_token
    %w, %t2 = nv_tileaa.tiled_load %vc[%z, %z]
      : !nv_tileaa.tiled_view<[{m}, {n}], {mc}>, (i32, i32) -> tensor<{m}x{n}x{c}>, !nv_tileaa.mem_token
    %d = nv_tileaa.dot %x, %y, %w{sign} : tensor<{m}x{k}x{ab}>, tensor<{k}x{n}x{ab}> -> tensor<{m}x{n}x{c}>
    %s = nv_tileaa.tiled_store %d, %vc[%z, %z] token = %t2
      : tensor<{m}x{n}x{c}>, !nv_tileaa.tiled_view<[{m}, {n}], {mc}>, (i32, i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }}
}}
"""


def dot_kernel(m, n, k, ab, c, gpu, sign=""):
    def memref(rows, columns, element):
        return f"!nv_tileaa.memref<{rows}x{columns}x{element}, strides = [{columns}, 1]>"

    return DOT.format(
        m=m, n=n, k=k, ab=ab, c=c, gpu=gpu, sign=sign, ma=memref(m, k, ab), mb=memref(k, n, ab), mc=memref(m, n, c)
    )


@pytest.mark.parametrize(
    ("ab", "c", "in_type", "out_type", "gpu", "instruction", "shape"),
    [
        ("f32", "f32", np.float32, np.float32, "sm_80", "fma.rn.f32", (32, 32, 8)),
        ("f64", "f64", np.float64, np.float64, "sm_75", "fma.rn.f64", (16, 16, 4)),
        ("f64", "f64", np.float64, np.float64, "sm_80", "mma.sync.aligned.m8n8k4", (16, 16, 8)),
        ("f16", "f32", np.float16, np.float32, "sm_80", "mma.sync.aligned.m16n8k16", (64, 32, 32)),
        ("f16", "f32", np.float16, np.float32, "sm_75", "mma.sync.aligned.m16n8k8", (32, 16, 16)),
        ("f16", "f16", np.float16, np.float16, "sm_80", "mma.sync.aligned.m16n8k16", (16, 8, 16)),
        ("i8", "i32", np.int8, np.int32, "sm_80", "mma.sync.aligned.m16n8k32", (32, 16, 64)),
        ("i8", "i32", np.int8, np.int32, "sm_75", "mma.sync.aligned.m8n8k16", (16, 16, 32)),
        ("bf16", "f32", ml_dtypes.bfloat16, np.float32, "sm_80", "mma.sync.aligned.m16n8k16", (32, 32, 32)),
        ("bf16", "f32", ml_dtypes.bfloat16, np.float32, "sm_75", "fma.rn.f32", (16, 16, 8)),
        ("tf32", "f32", np.float32, np.float32, "sm_80", "mma.sync.aligned.m16n8k8", (32, 16, 16)),
        ("f8E4M3FN", "f32", ml_dtypes.float8_e4m3fn, np.float32, "sm_89", "mma.sync.aligned.m16n8k32", (16, 16, 64)),
        ("f8E5M2", "f32", ml_dtypes.float8_e5m2, np.float32, "sm_80", "fma.rn.f32", (16, 16, 8)),
        ("f16", "f32", np.float16, np.float32, "sm_80", "mma.sync.aligned.m16n8k16", (128, 64, 64)),
        ("f64", "f64", np.float64, np.float64, "sm_90", "mma.sync.aligned.m16n8k16", (32, 16, 32)),
        ("f64", "f64", np.float64, np.float64, "sm_90", "mma.sync.aligned.m16n8k8", (16, 8, 8)),
        ("f64", "f64", np.float64, np.float64, "sm_90", "mma.sync.aligned.m16n8k4", (16, 16, 4)),
        ("f8E4M3FN", "f16", ml_dtypes.float8_e4m3fn, np.float16, "sm_90", "mma.sync.aligned.m16n8k32", (16, 16, 64)),
        ("f8E5M2", "f32", ml_dtypes.float8_e5m2, np.float32, "sm_120", "mma.sync.aligned.m16n8k16", (32, 16, 16)),
        ("f8E5M2", "f16", ml_dtypes.float8_e5m2, np.float16, "sm_100", "mma.sync.aligned.m16n8k16", (16, 8, 16)),
        # Where the machine multiplies no f8: the lower and the upper halves of words, as f16.
        ("f8E4M3FN", "f32", ml_dtypes.float8_e4m3fn, np.float32, "sm_90", "m16n8k16.row.col.f32.f16", (32, 16, 64)),
        ("f8E5M2", "f32", ml_dtypes.float8_e5m2, np.float32, "sm_100", "m16n8k8.row.col.f32.f16", (16, 16, 16)),
        ("bf16", "f32", ml_dtypes.bfloat16, np.float32, "sm_80", "mma.sync.aligned.m16n8k8", (32, 32, 8)),
        ("tf32", "f32", np.float32, np.float32, "sm_80", "mma.sync.aligned.m16n8k4", (16, 32, 4)),
        ("i8", "i32", np.int8, np.int32, "sm_80", "mma.sync.aligned.m16n8k16", (16, 64, 16)),
        # Fewer rows or columns than the instruction has: some are computed again.
        ("f16", "f32", np.float16, np.float32, "sm_80", "mma.sync.aligned.m16n8k16", (1, 64, 32)),
        ("f16", "f16", np.float16, np.float16, "sm_80", "mma.sync.aligned.m16n8k16", (8, 32, 64)),
        ("bf16", "f32", ml_dtypes.bfloat16, np.float32, "sm_90", "mma.sync.aligned.m16n8k16", (64, 2, 16)),
        ("i8", "i32", np.int8, np.int32, "sm_80", "mma.sync.aligned.m8n8k16", (4, 16, 64)),
        ("f64", "f64", np.float64, np.float64, "sm_90", "mma.sync.aligned.m8n8k4", (2, 4, 16)),
    ],
)
def test_dot(ab, c, in_type, out_type, gpu, instruction, shape):
    m, n, k = shape
    rng = np.random.default_rng(2)
    a = rng.integers(-8, 8, (m, k)).astype(in_type)
    b = rng.integers(-8, 8, (k, n)).astype(in_type)
    acc = rng.integers(-8, 8, (m, n)).astype(out_type)
    expected = (a.astype(np.float64) @ b.astype(np.float64) + acc).astype(out_type)
    sign = ""
    if ab == "i8":
        sign = " {signedness_a = #nv_tileaa.signedness<signed>, signedness_b = #nv_tileaa.signedness<signed>}"
    text = ptx(dot_kernel(m, n, k, ab, c, gpu, sign), gpu)
    assert instruction in text
    # Types that NumPy does not have travel as their bits.
    raw = {1: np.uint8, 2: np.uint16, 4: np.float32, 8: np.float64}[a.itemsize] if a.dtype.kind == "V" else a.dtype
    emulate(text, "dot", 1, [a.view(raw), b.view(raw), acc], shared_memory=1 << 16)
    assert np.array_equal(acc, expected)


@pytest.mark.parametrize("gpu", ["sm_75", "sm_80"])
@pytest.mark.parametrize(("left", "right"), [("signed", "unsigned"), ("unsigned", "signed"), ("unsigned", "unsigned")])
def test_signedness_of_each_factor(left, right, gpu):
    types = {"signed": np.int8, "unsigned": np.uint8}
    rng = np.random.default_rng(4)
    a, b = rng.integers(0, 256, (16, 32), np.uint8), rng.integers(0, 256, (32, 16), np.uint8)
    acc = np.zeros((16, 16), np.int32)
    sign = ", ".join(
        f"signedness_{side} = #nv_tileaa.signedness<{value}>" for side, value in (("a", left), ("b", right))
    )
    text = ptx(dot_kernel(16, 16, 32, "i8", "i32", gpu, f" {{{sign}}}"), gpu)
    assert f".{types[left].__name__[0].replace('i', 's')}8.{types[right].__name__[0].replace('i', 's')}8.s32" in text
    emulate(text, "dot", 1, [a, b, acc], shared_memory=1 << 16)
    assert np.array_equal(acc, a.view(types[left]).astype(np.int32) @ b.view(types[right]).astype(np.int32))


@pytest.mark.parametrize(
    ("element", "dtype", "instruction"), [("f32", np.float32, "fma.rn.f32"), ("f64", np.float64, "mma.sync.aligned")]
)
def test_batches_are_independent(element, dtype, instruction):
    shapes = (2, 16, 8), (2, 8, 16), (2, 16, 16)
    a_type, b_type, c_type = ("tensor<" + "x".join(map(str, s)) + f"x{element}>" for s in shapes)
    text = ptx(
        kernel(shapes, shapes[2], f"%out = nv_tileaa.dot %x0, %x1, %x2 : {a_type}, {b_type} -> {c_type}", element)
    )
    assert instruction in text
    rng = np.random.default_rng(3)
    a, b, c = (rng.integers(-8, 8, s).astype(dtype) for s in shapes)
    out = np.zeros_like(c)
    emulate(text, "kernel", 1, [a, b, c, out], shared_memory=1 << 16)
    assert np.array_equal(out, a @ b + c)


SCALED = """
builtin.module {{
  nv_tileaa.func @dot(%a: !nv_tileaa.ptr<{raw}>, %sa: !nv_tileaa.ptr<{scale}>, %b: !nv_tileaa.ptr<{raw}>,
                      %sb: !nv_tileaa.ptr<{scale}>, %c: !nv_tileaa.ptr<f32>) attributes {spec} {{
    %z = arith.constant 0 : i32
{loads}
    %d = nv_tileaa.block_scaled_mma %xa scale %xsa, %xb scale %xsb, %xc
      : tensor<{m}x{k}x{factor}>, tensor<{m}x{kb}x{scale}>, tensor<{k}x{n}x{factor}>, tensor<{kb}x{n}x{scale}>
        -> tensor<{m}x{n}xf32>
    %s = nv_tileaa.tiled_store %d, %vc[%z, %z]
      : tensor<{m}x{n}xf32>, {c_view}, (i32, i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }}
}}
"""


def scaled_kernel(m, n, k, factor, scale, block):
    """4-bit factors come one to a byte, in i8 tensors that are cut down to their low halves."""
    narrow = factor == "f4E2M1FN"
    raw = "i8" if narrow else factor
    lines = []
    kb = k // block
    shapes = {"a": (m, k, raw), "sa": (m, kb, scale), "b": (k, n, raw), "sb": (kb, n, scale), "c": (m, n, "f32")}
    for name, (rows, columns, element) in shapes.items():
        memref = f"!nv_tileaa.memref<{rows}x{columns}x{element}, strides = [{columns}, 1]>"
        view = f"!nv_tileaa.tiled_view<[{rows}, {columns}], {memref}>"
        lines += [
            f"%m{name} = nv_tileaa.make_memref %{name}, sizes = [], strides = []"
            f" : !nv_tileaa.ptr<{element}>, (), () -> {memref}",
            f"%v{name} = nv_tileaa.block_tile %m{name} : {view}",
        ]
        wide = narrow and name in "ab"
        loaded = f"%y{name}" if wide else f"%x{name}"
        tile = f"tensor<{rows}x{columns}x{element}>"
        lines.append(
            f"{loaded}, %t{name} = nv_tileaa.tiled_load %v{name}[%z, %z]"
            f" : {view}, (i32, i32) -> {tile}, !nv_tileaa.mem_token"
        )
        if wide:
            cut = tile.replace("xi8", "xi4")
            lines.append(f"%w{name} = arith.trunci %y{name} : {tile} to {cut}")
            lines.append(f"%x{name} = arith.bitcast %w{name} : {cut} to {tile.replace('xi8', 'xf4E2M1FN')}")
    return SCALED.format(
        raw=raw, scale=scale, factor=factor, m=m, n=n, k=k, kb=kb, spec=SPEC % 4, loads="\n".join(lines), c_view=view
    )


@pytest.mark.sampled(16)
@pytest.mark.parametrize("shape", [(32, 32, 128), (16, 8, 64), (64, 16, 256), (8, 64, 64)])
@pytest.mark.parametrize(
    ("factor", "scale", "block", "kind"),
    [
        ("f8E4M3FN", "f8E8M0FNU", 32, "mxf8f6f4"),
        ("f8E5M2", "f8E8M0FNU", 32, "mxf8f6f4"),
        ("f4E2M1FN", "f8E8M0FNU", 32, "mxf4."),
        ("f4E2M1FN", "f8E4M3FN", 16, "mxf4nvf4"),
    ],
)
@pytest.mark.parametrize("gpu", ["sm_120", "sm_100"])
def test_block_scaled_products(shape, factor, scale, block, kind, gpu):
    """By one instruction on sm_120, and on sm_100 from 64 rows on; by scaling the factors elsewhere."""
    m, n, k = shape
    rng = np.random.default_rng(5)
    types = {
        "f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2, "f4E2M1FN": ml_dtypes.float4_e2m1fn,
        "f8E8M0FNU": ml_dtypes.float8_e8m0fnu,
    }  # fmt: skip
    a, b = (rng.integers(-3, 4, s).astype(types[factor]) for s in ((m, k), (k, n)))
    powers = 2.0 ** np.arange(-1, 3)
    sa, sb = (rng.choice(powers, s).astype(types[scale]) for s in ((m, k // block), (k // block, n)))
    c = rng.integers(-8, 8, (m, n)).astype(np.float32)
    left = a.astype(np.float64) * np.repeat(sa.astype(np.float64), block, axis=1)
    right = b.astype(np.float64) * np.repeat(sb.astype(np.float64), block, axis=0)
    expected = (left @ right + c).astype(np.float32)
    text = ptx(scaled_kernel(m, n, k, factor, scale, block), gpu)
    by_instruction = gpu == "sm_120" or m >= 64
    assert (f"kind::{kind}" in text) == by_instruction and (by_instruction or "fma.rn.f32" in text)
    if gpu == "sm_120":
        assert ".target sm_120a" in text
        if shape[0] == 16 and toolkit.find_program("ptxas") is not None:
            assert ptxas.assemble(text, gpu).cubin
    emulate(text, "dot", 1, [v.view(np.uint8) for v in (a, sa, b, sb)] + [c], shared_memory=1 << 16)
    assert np.array_equal(c, expected)


NIBBLES = """
    %wa = arith.trunci %x0 : tensor<{m}x{k}xi32> to tensor<{m}x{k}xi4>
    %wb = arith.trunci %x1 : tensor<{k}x{n}xi32> to tensor<{k}x{n}xi4>
    %out = nv_tileaa.dot %wa, %wb, %x2 {{signedness_a = #nv_tileaa.signedness<{left}>,
      signedness_b = #nv_tileaa.signedness<{right}>}} : tensor<{m}x{k}xi4>, tensor<{k}x{n}xi4> -> tensor<{m}x{n}xi32>"""


@pytest.mark.parametrize(("left", "right"), [("signed", "signed"), ("unsigned", "signed"), ("unsigned", "unsigned")])
@pytest.mark.parametrize(
    ("gpu", "shape", "instruction"),
    [
        ("sm_75", (16, 16, 64), "m8n8k32"),
        ("sm_80", (32, 16, 128), "m16n8k64"),
        ("sm_80", (16, 8, 32), "m16n8k32"),
        ("sm_80", (16, 8, 16), r"mul\.wide|mad"),
    ],
)
def test_products_of_nibbles(left, right, gpu, shape, instruction):
    m, n, k = shape
    text = ptx(kernel([(m, k), (k, n), (m, n)], (m, n), NIBBLES.format(m=m, n=n, k=k, left=left, right=right)), gpu)
    assert re.search(instruction, text)
    rng = np.random.default_rng(6)
    a, b = (rng.integers(-8 if sign == "signed" else 0, 8 if sign == "signed" else 16, s).astype(np.int32)
            for sign, s in ((left, (m, k)), (right, (k, n))))  # fmt: skip
    c, out = rng.integers(-100, 100, (m, n)).astype(np.int32), np.zeros((m, n), np.int32)
    emulate(text, "kernel", 1, [a, b, c, out], shared_memory=1 << 16)
    assert np.array_equal(out, a @ b + c)


def test_the_factor_with_more_fragments_is_read_once_for_each():
    # Fragments of A are four registers, those of B two: of 4 x 2 pieces those of the two columns are held.
    atom = mma_atom("mma_m16n8k16_f32_f16_f16")
    places = [(row, column) for column in (0, 8) for row in (0, 16, 32, 48)]
    assert in_order(places, atom) == sorted(places)
    places = [(row, column) for row in (0, 16) for column in range(0, 64, 8)]
    assert in_order(places, atom) == sorted(places, key=lambda place: place[::-1])
