"""Element-wise arithmetic on the emulator where a choice is made: 8-bit floats, flushing, approximation, signs."""

import ml_dtypes
import numpy as np
import pytest

from tests.lowering.tileas_to_llvm.harness import ptx
from tileiras.sim import emulate

SPEC = 'attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"}'


def elementwise(source: str, target: str, body: str, count: int = 256) -> str:
    """Applies `body`, from %x to %y, to a dense array."""

    def names(element, which):
        memref = f"!nv_tileaa.memref<{count}x{element}, strides = [1]>"
        return memref, f"!nv_tileaa.tiled_view<[{count}], {memref}>", f"!nv_tileaa.ptr<{element}>", which

    (ma, va, pa, _), (mb, vb, pb, _) = names(source, "a"), names(target, "b")
    body = body.replace("SOURCE", f"tensor<{count}x{source}>").replace("TARGET", f"tensor<{count}x{target}>")
    return f"""
builtin.module {{
  nv_tileaa.func @kernel(%a: {pa}, %b: {pb}) {SPEC} {{
    %z = arith.constant 0 : i32
    %ma = nv_tileaa.make_memref %a, sizes = [], strides = [] : {pa}, (), () -> {ma}
    %mb = nv_tileaa.make_memref %b, sizes = [], strides = [] : {pb}, (), () -> {mb}
    %va = nv_tileaa.block_tile %ma : {va}
    %vb = nv_tileaa.block_tile %mb : {vb}
    %x, %t = nv_tileaa.tiled_load %va[%z] : {va}, (i32) -> tensor<{count}x{source}>, !nv_tileaa.mem_token
    {body}
    %s = nv_tileaa.tiled_store %y, %vb[%z] : tensor<{count}x{target}>, {vb}, (i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }}
}}
"""


CAST = "%y = nv_tileaa.fp_to_fp %x : SOURCE to TARGET"
FP8 = {"f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2}


@pytest.mark.parametrize("gpu", ["sm_80", "sm_90"])
@pytest.mark.parametrize("element", FP8)
def test_8_bit_floats_widen_exactly(element, gpu):
    patterns = np.arange(256, dtype=np.uint8)
    out = np.zeros(256, np.float32)
    emulate(ptx(elementwise(element, "f32", CAST), gpu), "kernel", 1, [patterns, out])
    assert np.array_equal(out, patterns.view(FP8[element]).astype(np.float32), equal_nan=True)


@pytest.mark.parametrize("gpu", ["sm_80", "sm_90"])
@pytest.mark.parametrize("element", FP8)
def test_8_bit_floats_round_to_nearest_even_and_saturate(element, gpu):
    rng = np.random.default_rng(0)
    exact = np.arange(256, dtype=np.uint8).view(FP8[element]).astype(np.float32)
    exact = exact[np.isfinite(exact)]
    middles = (exact[:-1] + exact[1:]) / 2
    values = np.concatenate([exact, middles, middles * np.float32(1 + 2**-20), rng.standard_normal(300) * 1e-3])
    values = np.resize(np.concatenate([[1e9, -1e9, np.inf, -np.inf, np.nan], values]), 1024).astype(np.float32)
    out = np.zeros(1024, np.uint8)
    emulate(ptx(elementwise("f32", element, CAST, 1024), gpu), "kernel", 1, [values, out])
    largest = float(ml_dtypes.finfo(FP8[element]).max)
    expected = np.clip(values, -largest, largest).astype(FP8[element])
    assert np.array_equal(out.view(FP8[element]).astype(np.float32), expected.astype(np.float32), equal_nan=True)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("%c = arith.constant dense<3> : SOURCE\n%y = arith.floordivsi %x, %c : SOURCE", lambda x: x // 3),
        ("%c = arith.constant dense<3> : SOURCE\n%y = arith.ceildivsi %x, %c : SOURCE", lambda x: -(-x // 3)),
        ("%c = arith.constant dense<-3> : SOURCE\n%y = arith.floordivsi %x, %c : SOURCE", lambda x: x // -3),
        ("%c = arith.constant dense<-3> : SOURCE\n%y = arith.ceildivsi %x, %c : SOURCE", lambda x: -(x // 3)),
        ("%y = math.absi %x : SOURCE", np.abs),
    ],
)
def test_integers_round_towards_the_named_side(body, expected):
    values = np.arange(-128, 128, dtype=np.int32)
    out = np.zeros(256, np.int32)
    emulate(ptx(elementwise("i32", "i32", body)), "kernel", 1, [values, out])
    assert np.array_equal(out, expected(values))


def test_flushing_is_asked_for_by_the_operation():
    flush = "%y = nv_tileaa.addf %x, %x {flush_to_zero} : SOURCE"
    values = np.full(256, 1e-40, np.float32)
    out = np.ones(256, np.float32)
    text = ptx(elementwise("f32", "f32", flush))
    assert "add.rn.ftz.f32" in text
    emulate(text, "kernel", 1, [values, out])
    assert not out.any()
    emulate(ptx(elementwise("f32", "f32", flush.replace(" {flush_to_zero}", ""))), "kernel", 1, [values, out])
    assert np.array_equal(out, values * 2)


@pytest.mark.parametrize("mode", ["zero", "negative_inf", "positive_inf", "approx", "full"])
def test_rounding_modes_of_division(mode):
    body = f"""%c = arith.constant dense<3.0> : SOURCE
    %y = nv_tileaa.divf %x, %c {{rounding_mode = #nv_tileaa.rounding_mode<{mode}>}} : SOURCE"""
    text = ptx(elementwise("f32", "f32", body))
    assert {"zero": "div.rz", "negative_inf": "div.rm", "positive_inf": "div.rp"}.get(mode, f"div.{mode}") in text
    values = np.arange(1, 257, dtype=np.float32)
    out = np.zeros(256, np.float32)
    emulate(text, "kernel", 1, [values, out])
    exact = values.astype(np.float64) / 3
    error = (out - exact) / exact
    if mode == "positive_inf":
        assert (error >= 0).all()
    elif mode in ("zero", "negative_inf"):
        assert (error <= 0).all()
    assert np.abs(error).max() < 2**-21


def test_options_flush_and_approximate_the_whole_kernel():
    body = """%c = arith.constant dense<3.0> : SOURCE
    %sum = nv_tileaa.addf %x, %c : SOURCE
    %q = nv_tileaa.sqrt %sum : SOURCE
    %y = nv_tileaa.divf %q, %c : SOURCE"""
    text = elementwise("f32", "f32", body)
    exact = ptx(text)
    assert all(word in exact for word in ("add.rn.f32", "sqrt.rn.f32", "div.rn.f32"))
    loose = ptx(text, flush_to_zero=True, approximate=True)
    assert all(word in loose for word in ("add.rn.ftz.f32", "sqrt.approx.ftz.f32", "div.approx.ftz.f32"))
