"""Slices of tiles that nothing holds (ranges, constants), and of atomic updates."""

from __future__ import annotations

import numpy as np
import pytest

import tileiras
from tests.kernels.slices import ONE_WARP, N, check, loops_added, result
from tests.kernels.tiles import run
from tests.kernels.views import reduced, whole_numbers

GPU = "sm_80"


def pointers(name: str, base: str, count: int, element: str = "i32", of: str = "i") -> str:
    """%name: a tile of pointers, `base` plus the offsets of tile `of`."""
    t, p = f"tile<{count}xi32>", f"tile<{count}xptr<{element}>>"
    return f"""%{name}.0 = reshape %{base} : tile<ptr<{element}>> -> tile<1xptr<{element}>>
    %{name}.1 = broadcast %{name}.0 : tile<1xptr<{element}>> -> {p}
    %{name} = offset %{name}.1, %{of} : {p}, {t} -> {p}"""


def kernel(body: str, *parameters: str) -> str:
    declared = ", ".join(f"%{name}: tile<ptr<i32>>" for name in parameters)
    return f"cuda_tile.module @m {{\n  entry @k({declared}) {{\n    {body}\n    return\n  }}\n}}\n"


def stored_range(count: int) -> str:
    """Stores 3 * i to every p[i] with i < count - 5."""
    t, p = f"tile<{count}xi32>", f"tile<{count}xptr<i32>>"
    return kernel(
        f"""%i = iota : {t}
    %k = constant <i32: 3> : {t}
    %end = constant <i32: {count - 5}> : {t}
    %v = muli %i, %k : {t}
    %m = cmpi less_than %i, %end, signed : {t} -> tile<{count}xi1>
    {pointers("to", "p", count)}
    %t = store_ptr_tko weak %to, %v, %m : {p}, {t}, tile<{count}xi1> -> token""",
        "p",
    )


def updated(count: int, tail: str = "") -> str:
    """Add i to p[i mod 64], for i < count, and store the old values to q[i]; then `tail`."""
    t, p = f"tile<{count}xi32>", f"tile<{count}xptr<i32>>"
    return kernel(
        f"""%i = iota : {t}
    %k = constant <i32: 63> : {t}
    %place = andi %i, %k : {t}
    {pointers("from", "p", count, of="place")}
    {pointers("to", "q", count)}
    %old, %t = atomic_rmw_tko relaxed device %from, add, %i : {p}, {t} -> {t}, token
    {tail or f"%u = store_ptr_tko weak %to, %old : {p}, {t} -> token"}""",
        "p",
        "q",
    )


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90"])
def test_a_range_is_stored_slice_by_slice(gpu_name):
    text = stored_range(N)
    assert loops_added(text, gpu_name) == 1
    (stored,) = run(text, 1, [np.full(N, -1, np.int32)], gpu_name, **ONE_WARP)
    np.testing.assert_array_equal(stored[: N - 5], 3 * np.arange(N - 5))
    assert (stored[N - 5 :] == -1).all()


@pytest.mark.parametrize("shape", [(N,), (64, 128), (1, N)])
def test_a_constant_is_stored_slice_by_slice(shape):
    check(f"%r = constant <f32: 2.5> : tile<{'x'.join(map(str, shape))}xf32>", [], [result(shape)])


def test_a_range_is_reduced_slice_by_slice():
    body = f"""%i = iota : tile<{N}xi32>
               %f = itof %i signed : tile<{N}xi32> -> tile<{N}xf32>
               {reduced("m", "f", (N,), 0, "maxf")}
               %r = reshape %m : tile<f32> -> tile<1xf32>"""
    check(body, [], [result((1,))])


def test_updates_are_made_slice_by_slice_and_once():
    text = updated(N)
    assert loops_added(text, GPU) == 1
    artifact = tileiras.compile(text, gpu_name=GPU, **ONE_WARP)
    p, q = np.zeros(64, np.int32), np.zeros(N, np.int32)
    tileiras.sim.emulate(artifact.text, "k", 1, [p, q], metadata=artifact.kernels[0].metadata)
    added = np.arange(N).reshape(-1, 64)
    np.testing.assert_array_equal(p, added.sum(0))
    # The old value is a sum of some of the other addends: the last update of a place saw all but its own.
    seen = q.reshape(-1, 64)
    assert (seen + added).max(0).tolist() == added.sum(0).tolist()


def test_an_update_whose_result_is_wanted_as_a_whole_stays_whole():
    """A second loop, behind the reduction, would update memory again."""
    t, p = f"tile<{N}xi32>", f"tile<{N}xptr<i32>>"
    tail = f"""%m = reduce %old dim=0 identities=[0 : i32] : {t} -> tile<i32> (%x: tile<i32>, %y: tile<i32>) {{
      %z = addi %x, %y : tile<i32>
      yield %z : tile<i32>
    }}
    %m1 = reshape %m : tile<i32> -> tile<1xi32>
    %m2 = broadcast %m1 : tile<1xi32> -> {t}
    %d = subi %old, %m2 : {t}
    %u = store_ptr_tko weak %to, %d : {p}, {t} -> token"""
    text = updated(N, tail)
    assert loops_added(text, GPU) == 0
    p0 = whole_numbers(64, "i32").astype(np.int32)
    artifact = tileiras.compile(text, gpu_name=GPU, **ONE_WARP)
    actual = p0.copy()
    tileiras.sim.emulate(
        artifact.text, "k", 1, [actual, np.zeros(N, np.int32)], metadata=artifact.kernels[0].metadata
    )
    np.testing.assert_array_equal(actual, p0 + np.arange(N).reshape(-1, 64).sum(0))


@pytest.mark.parametrize("make", [stored_range, updated])
def test_code_does_not_depend_on_the_size_of_a_tile(make):
    lines = [len(tileiras.compile(make(count), gpu_name=GPU).text.splitlines()) for count in (1 << 18, 1 << 24)]
    assert lines[0] == lines[1]
