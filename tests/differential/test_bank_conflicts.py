"""Kernels whose accesses of shared memory are all free of bank conflicts, counted by the emulator."""

from __future__ import annotations

import numpy as np
import pytest
from tile_kernels import Tile, kernel_text, tile_type

import tileiras
from tileiras.sim import emulate

DTYPES = {"f16": np.float16, "tf32": np.float32, "f32": np.float32, "f64": np.float64, "i8": np.int8, "i32": np.int32}


def zeros(name, element, shape):
    return Tile(name, element, np.zeros(shape, DTYPES[element]))


def product(m, n, k, element, sum_element):
    a, b, o = zeros("a", element, (m, k)), zeros("b", element, (k, n)), zeros("o", sum_element, (m, n))
    integers = sum_element == "i32"
    lines = [
        f"%z = constant <{sum_element}: {'0' if integers else '0.0'}> : {o.type}",
        f"%o = {'mmai' if integers else 'mmaf'} %a, %b, %z {'signed signed' if integers else ''}"
        f" : {a.type}, {b.type}, {o.type}",
    ]
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
    "product of f16": product(64, 64, 64, "f16", "f32"),
    "product of tf32": product(64, 64, 32, "tf32", "f32"),
    "product of f64": product(64, 64, 64, "f64", "f64"),
    "product of i8": product(64, 64, 64, "i8", "i32"),
    "product of f32": product(32, 64, 32, "f32", "f32"),
    "transpose of f32": permuted((64, 64), "f32", (1, 0)),
    "transpose of i8": permuted((128, 64), "i8", (1, 0)),
    "permutation of f16": permuted((8, 16, 32), "f16", (2, 1, 0)),
    "columns of f32": reduced((64, 64), "f32", 0),
    "few columns of f32": reduced((512, 16), "f32", 0),
    "columns of f64": reduced((64, 32), "f64", 0),
    "columns of f16, two together": reduced((64, 64), "f16", 0, 2),
    "long rows": reduced((2, 2048), "f32", 1),
}


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
    assert [lines[line - 1] for line, (total, least) in counted.items() if total != least] == []
