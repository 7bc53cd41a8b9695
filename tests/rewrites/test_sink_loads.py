"""Tiles are loaded where they are used when a thread has no registers for them until then."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tileiras
from tileiras.sim import emulate, interpret

SIZE = 64
VIEW = f"tensor_view<{SIZE}x{SIZE}xf32, strides=[{SIZE},1]>"
PARTITION = f"partition_view<tile=({SIZE}x{SIZE}), {VIEW}>"
RESULT = f"partition_view<tile=({SIZE // 2}x{SIZE}), {VIEW}>"
WHOLE = f"tile<{SIZE}x{SIZE}xf32>"
TILE = f"tile<{SIZE // 2}x{SIZE}xf32>"
INPUTS = "abcdef"


def kernel(store=""):
    """The lower half of 2^a + b + c + d + e + f, all loaded first; a thread of two warps holds 64 elements of each.

    Tiles of which parts are taken are not cut into slices.
    """
    names = [*INPUTS, "z"]
    views = "".join(f"""
    %q{n} = assume div_by<16>, %p{n} : tile<ptr<f32>>
    %t{n} = make_tensor_view %q{n}, shape = [{SIZE}, {SIZE}], strides = [{SIZE}, 1] : {VIEW}
    %v{n} = make_partition_view %t{n} : {PARTITION if n in INPUTS else RESULT}""" for n in names)  # fmt: skip
    loads = "".join(f"""
    %{n}, %k{n} = load_view_tko weak %v{n}[%zero, %zero] : {PARTITION}, tile<i32> -> {WHOLE}, token
    %h{n} = extract %{n}[%one, %zero] : {WHOLE} -> {TILE}"""
    for n in INPUTS)  # fmt: skip
    sums = "".join(f"""
    %s{n} = addf %s{before}, %h{n} : {TILE}""" for before, n in zip(INPUTS, INPUTS[1:]))  # fmt: skip
    parameters = ", ".join(f"%p{n}: tile<ptr<f32>>" for n in names)
    return f"""cuda_tile.module @m {{
  entry @k({parameters}) {{{views}
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>{loads}
    %sa = exp2 %ha : {TILE}
    {store}{sums}
    %kz = store_view_tko weak %s{INPUTS[-1]}, %vz[%zero, %zero] : {TILE}, {RESULT}, tile<i32> -> token
    return
  }}
}}
"""


STORE = f"%ks = store_view_tko weak %sa, %vz[%zero, %zero] : {TILE}, {RESULT}, tile<i32> -> token"


def order(text, **options):
    """Loads, stores and arithmetic in the order of the program; and what a remark says of it."""
    artifact = tileiras.compile(text, gpu_name="sm_90", emit="tileas", **options)
    found = re.findall(r"tiled_load|tiled_store|exp2|addf", artifact.text)
    return found, [d.message for d in artifact.diagnostics if "loaded where they are used" in d.message]


@pytest.mark.parametrize(("warps", "late"), [(2, True), (8, False)])
def test_only_where_registers_lack(warps, late):
    found, said = order(kernel(), num_warps=warps)
    load, others = "tiled_load", len(INPUTS) - 1
    body = ["exp2", *[load, "addf"] * others] if late else [*[load] * others, "exp2", *["addf"] * others]
    assert found == [load, *body, "tiled_store"]
    assert bool(said) is late


def test_no_load_moves_behind_a_store():
    found, _ = order(kernel(STORE), num_warps=2)
    assert found.index("exp2") == 1
    assert "tiled_load" not in found[found.index("tiled_store") :]


@pytest.mark.parametrize("store", ["", STORE])
def test_the_result_is_the_same(store):
    random = np.random.default_rng(0)
    inputs = [random.integers(-3, 4, (SIZE, SIZE)).astype(np.float32) for _ in INPUTS]
    expected, actual = np.zeros((SIZE, SIZE), np.float32), np.zeros((SIZE, SIZE), np.float32)
    interpret(kernel(store), "k", 1, [*inputs, expected])
    artifact = tileiras.compile(kernel(store), gpu_name="sm_90", num_warps=2)
    emulate(artifact.text, "k", 1, [*inputs, actual], metadata=artifact.kernels[0].metadata)
    np.testing.assert_allclose(actual, expected, rtol=1e-6)
