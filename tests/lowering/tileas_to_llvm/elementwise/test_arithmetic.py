"""Element-wise arithmetic on the emulator where a choice is made: flushing, approximation, signs."""

import re

import numpy as np
import pytest

from tests.kernels.tileaa import elementwise
from tests.tileas_stage import ptx
from tileiras.sim import emulate


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


@pytest.mark.parametrize("divisor", [1, 2, 64, 128])
@pytest.mark.parametrize("type", ["i8", "i32", "i64"])
def test_divisions_by_powers_of_two(type, divisor):
    """Every 8-bit number, and those at the ends of wider types; nothing is divided."""
    if type == "i8" and divisor == 128:
        divisor = 4
    held = np.dtype(type.replace("i", "int"))
    ends = np.iinfo(held)
    values = np.arange(-128, 128).astype(held)
    if type != "i8":
        values[:4], values[-4:] = range(ends.min, ends.min + 4), range(ends.max - 3, ends.max + 1)
    unsigned = values.view(held.str.replace("i", "u"))
    divided = [int(v) for v in values], [int(v) for v in unsigned]
    expected = {
        "floordivsi": [v // divisor for v in divided[0]],
        "ceildivsi": [-(-v // divisor) for v in divided[0]],
        "ceildivui": [-(-v // divisor) for v in divided[1]],
    }
    for name, wanted in expected.items():
        body = f"%c = arith.constant dense<{divisor}> : SOURCE\n%y = arith.{name} %x, %c : SOURCE"
        text, out = ptx(elementwise(type, type, body)), np.zeros(256, held)
        emulate(text, "kernel", 1, [values, out])
        assert [int(v) for v in out.view(unsigned.dtype)] == [v % 2 ** (8 * held.itemsize) for v in wanted], name
        assert not re.search(r"\b(div|rem)\.[su]", text)


@pytest.mark.parametrize("name", ["divsi", "remsi", "floordivsi", "ceildivsi"])
@pytest.mark.parametrize("low", [0, -5])
def test_numbers_without_a_sign_are_divided_as_such(name, low):
    body = f"""%known = nv_tileaa.assume #nv_tileaa.bounded<{low}, ?>, %x : SOURCE
    %three = arith.constant dense<3> : SOURCE
    %y = arith.{name} %known, %three : SOURCE"""
    values = np.arange(low, low + 256, dtype=np.int32)
    out = np.zeros(256, np.int32)
    text = ptx(elementwise("i32", "i32", body))
    emulate(text, "kernel", 1, [values, out])
    exact = {
        "divsi": np.trunc(values / 3), "remsi": np.fmod(values, 3), "floordivsi": values // 3,
        "ceildivsi": -(-values // 3),
    }  # fmt: skip
    assert np.array_equal(out, exact[name])
    assert ("mul.hi.u32" in text) == (low >= 0) and ("mul.hi.s32" in text) == (low < 0)


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
