"""Kernels whose accesses of shared memory are all free of bank conflicts, counted by the emulator."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tileiras
from tests.kernels import views
from tests.kernels.dots import dot
from tests.kernels.tiles import Tile, kernel_text
from tests.kernels.views import DTYPES, tile_type
from tileiras.sim import emulate


def zeros(name, element, shape):
    return Tile(name, element, np.zeros(shape, DTYPES[element]))


def dot_of(m, n, k, element, accumulator):
    a, b, o = zeros("a", element, (m, k)), zeros("b", element, (k, n)), zeros("o", accumulator, (m, n))
    lines = [views.zeros("z", o.type), dot("o", "a", "b", "z", (a.type, b.type, o.type))]
    return [a, b], "\n".join(lines), [o]


def permuted(shape, element, order):
    a, o = zeros("a", element, shape), zeros("o", element, tuple(shape[d] for d in order))
    return [a], f"%o = permute %a {list(order)} : {a.type} -> {o.type}", [o]


def reduced(shape, element, dim, count=1):
    """`count` tiles reduced together."""
    sources = [zeros(f"a{i}", element, shape) for i in range(count)]
    results = [zeros(f"o{i}", element, shape[:dim] + shape[dim + 1 :]) for i in range(count)]
    scalar = tile_type((), element)
    arguments = ", ".join(f"%x{i}: {scalar}, %y{i}: {scalar}" for i in range(count))
    sums = "\n".join(f"%s{i} = addf %x{i}, %y{i} : {scalar}" for i in range(count))
    body = (
        f"{', '.join(f'%o{i}' for i in range(count))} = reduce {', '.join(f'%a{i}' for i in range(count))} dim={dim}"
        f" identities=[{', '.join([f'0.0 : {element}'] * count)}] : {', '.join(t.type for t in sources)}"
        f" -> {', '.join(t.type for t in results)} ({arguments}) {{\n{sums}\n"
        f"yield {', '.join(f'%s{i}' for i in range(count))} : {', '.join([scalar] * count)}\n}}"
    )
    return sources, body, results


KERNELS = {
    "dot of f16": dot_of(64, 64, 64, "f16", "f32"),
    "dot of tf32": dot_of(64, 64, 32, "tf32", "f32"),
    "dot of f64": dot_of(64, 64, 64, "f64", "f64"),
    "dot of i8": dot_of(64, 64, 64, "i8", "i32"),
    "dot of f32": dot_of(32, 64, 32, "f32", "f32"),
    "transpose of f32": permuted((64, 64), "f32", (1, 0)),
    "transpose of i8": permuted((128, 64), "i8", (1, 0)),
    "permutation of f16": permuted((8, 16, 32), "f16", (2, 1, 0)),
    "columns of f32": reduced((64, 64), "f32", 0),
    "few columns of f32": reduced((512, 16), "f32", 0),
    "columns of f64": reduced((64, 32), "f64", 0),
    "columns of f16, two together": reduced((64, 64), "f16", 0, 2),
    "long rows": reduced((2, 2048), "f32", 1),
}


TWICE = {("dot of i8", "sm_90"): r"(ld|st)\.shared\.\S*b32\s"}
"""Accesses whose words lie in half of the banks, and the reason why this is the minimum.  For `wgmma` B of 8 bits is
read along N and stored along K, in rows of 64 bytes both times; two rows share the 128 bytes of all banks.  The lowest
bit of K selects the half where B is read, and the lowest bit of N where it is stored.  A word of one order has four
elements of the other, so all lanes of an instruction have the same bit."""


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", KERNELS)
def test_no_access_of_shared_memory_waits_for_a_bank(name, gpu_name):
    inputs, body, outputs = KERNELS[name]
    artifact = tileiras.compile(kernel_text(inputs, body, outputs), gpu_name=gpu_name)
    arrays = [tile.array.copy() for tile in (*inputs, *outputs)]
    counted = emulate(
        artifact.text, "k", 1, arrays, metadata=artifact.kernels[0].metadata, count_bank_conflicts=True
    ).bank_wavefronts
    assert counted, "something goes through shared memory"
    lines = artifact.text.splitlines()
    waiting = {lines[line - 1]: total / least for line, (total, least) in counted.items() if total != least}
    known = TWICE.get((name, gpu_name))
    if known is None:
        assert waiting == {}
    else:
        assert waiting and set(waiting.values()) == {2} and all(re.search(known, line) for line in waiting)
