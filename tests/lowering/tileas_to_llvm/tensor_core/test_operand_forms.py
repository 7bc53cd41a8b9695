"""Dots of wgmma and tcgen05.mma whose operands lie, or are made, otherwise than by rows of one type; and tiles that are
cut along their longer side."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.kernels.dots import Matmul, by_columns, matmul
from tests.kernels.reasons import stated
from tests.kernels.tensor_memory import FENCES, SEEDS, survivors
from tests.kernels.views import DTYPES, Kernel, View, in_pairs, tile_type, whole_numbers
from tests.machine_code import assemble
from tests.tileas_stage import compiled_and_described, through
from tileiras.codegen import toolkit
from tileiras.ir import parse_module
from tileiras.sim import emulate

INSTRUCTIONS = {"sm_90": "wgmma.mma_async", "sm_100": "tcgen05.mma"}


def checked(kernel: Kernel, gpu: str, **options) -> str:
    """The kernel is right, ptxas takes it, and no warp multiplies by itself; its PTX."""
    kernel.interpreted()
    artifact = kernel.compiled(gpu, **options)
    assert INSTRUCTIONS[gpu] in artifact.text and not re.search(r"\bmma\.sync", artifact.text)
    for seed in SEEDS:
        kernel.emulated(artifact, seed)
    if toolkit.find_program("ptxas") is not None:
        assemble(artifact.text, gpu)
    return artifact.text


@pytest.mark.pairwise(
    gpu=list(INSTRUCTIONS), operand=["f8E4M3FN", "f8E5M2", "i8"], b_by_columns=[False, True],
    tensor_maps=["none", "host"],
)  # fmt: skip
def test_bytes_of_a_by_columns(gpu, operand, b_by_columns, tensor_maps):
    kernel = by_columns((128, 64, 64), operand=operand, steps=3, b_by_columns=b_by_columns)
    checked(kernel, gpu, tensor_maps=tensor_maps)


def dequantised(stored: str, tiles: tuple[int, int, int] = (128, 64, 64), steps: int = 3) -> Kernel:
    """C = (S A) B in f16, with A stored in 8 bits or fewer and a scale for each of its rows, a power of two."""
    m, n, k = tiles
    parts = Matmul(tiles, "f16", steps=steps)
    raw = View("a", (m, k), stored, (m, k * steps), aligned=16)
    parts.a = raw
    scales = View("s", (m, 1), "f16", aligned=16)
    convert = "itof" if stored == "i8" else "ftof"
    signed = " signed" if stored == "i8" else ""
    half, column = tile_type((m, k), "f16"), tile_type((m, 1), "f16")
    text = "\n".join([
        raw.load("raw", "%zero, %i"),
        f"%wide = {convert} %raw{signed} : {raw.tile} -> {half}",
        scales.load("s"),
        f"%spread = broadcast %s : {column} -> {half}",
        f"%a = mulf %wide, %spread rounding<nearest_even> : {half}",
    ])  # fmt: skip
    kernel = parts.kernel(parts.text([text, parts.load_b], more=[scales]))
    (_, b), (out,) = kernel.inputs, kernel.outputs
    a = whole_numbers((m, k * steps), stored, 1)
    rows = (2.0 ** np.random.default_rng(5).integers(-2, 3, (m, 1))).astype(DTYPES["f16"])
    wanted = (a.astype(np.float64) * rows.astype(np.float64)) @ b.astype(np.float64)
    memory = in_pairs(a) if stored == "f4E2M1FN" else a
    # The scales are the parameter behind C.
    return kernel._replace(inputs=(memory, b), outputs=(out, rows), expected=(wanted.astype(np.float32), rows))


STORED = [(gpu, stored) for gpu in INSTRUCTIONS for stored in ("i8", "f8E4M3FN")] + [("sm_100", "f4E2M1FN")]


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("gpu", "stored"), STORED)
@pytest.mark.parametrize("options", [{}, {"tensor_maps": "host"}, {"pipeline_strategy": "none"}], ids=str)
def test_a_that_is_dequantised(gpu, stored, options):
    checked(dequantised(stored), gpu, **options)


@pytest.mark.parametrize("gpu", ["sm_103", "sm_107", "sm_110"])
def test_a_that_is_dequantised_on_the_rest_of_the_family(gpu):
    kernel = dequantised("i8")
    artifact = kernel.compiled(gpu)
    kernel.emulated(artifact)
    assert INSTRUCTIONS["sm_100"] in artifact.text
    if toolkit.find_program("ptxas") is not None:
        assemble(artifact.text, gpu)


@pytest.mark.slow
def test_synchronization_of_a_dequantised_a_is_minimal():
    kernel = dequantised("i8", (64, 64, 64), 4)
    artifact = kernel.compiled("sm_100", pipeline_strategy="unspecialize")
    assert not survivors(kernel, artifact, FENCES)


CUTS = [
    ("sm_90", (128, 1024, 32), "n256"), ("sm_90", (1024, 64, 32), "n64"), ("sm_90", (64, 1024, 32), "n256"),
    ("sm_100", (128, 1024, 32), "m128n256"), ("sm_100", (64, 1024, 32), "m64n256"),
    ("sm_100", (1024, 128, 32), "m128n128"),
]  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("maps", ["none", "host"])
@pytest.mark.parametrize(("gpu", "tiles", "shape"), CUTS)
def test_the_longer_side_of_a_tile_is_cut(gpu, tiles, shape, maps):
    """Slices of it load the shorter one again."""
    kernel = matmul(tiles, steps=2)
    checked(kernel, gpu, tensor_maps=maps)
    diagnostics = kernel.compiled(gpu, tensor_maps=maps, emit_remarks=True).diagnostics
    (atom,) = [d.arguments["Atom"] for d in diagnostics if getattr(d, "name", "") == "RemarkTensorCoreMMA"]
    assert shape in atom
    assert bool(stated(diagnostics, "slices.tile"))


def mixed(a_type: str, b_type: str) -> tuple[str, Kernel]:
    """A product of two types of 8 bits in nv_tileaa: `mmaf` of cuda_tile takes one only."""
    kernel = matmul((128, 32, 64), a_type, steps=3)
    text = kernel.compiled("sm_100", emit="tileaa").text
    pointer = f"!nv_tileaa.ptr<{a_type}>"
    lines = []
    for line in text.splitlines():
        at = line.find("%arg1")
        if at >= 0 or re.match(r" *%4 =", line):
            start = max(at, 0)
            line = line[:start] + line[start:].replace(pointer, pointer.replace(a_type, b_type), 1)
        lines.append(re.sub(rf"\b(192|64)x32x{a_type}\b", rf"\1x32x{b_type}", line))
    b = whole_numbers(kernel.inputs[1].shape, b_type, 2)
    a = kernel.inputs[0]
    wanted = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32)
    return "\n".join(lines), kernel._replace(inputs=(a, b), expected=(wanted,))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("gpu", INSTRUCTIONS)
@pytest.mark.parametrize("types", [("f8E4M3FN", "f8E5M2"), ("f8E5M2", "f8E4M3FN")], ids=" x ".join)
@pytest.mark.parametrize("tensor_maps", ["none", "host"])
def test_two_types_of_eight_bits(gpu, types, tensor_maps):
    text, kernel = mixed(*types)
    text = text.replace("sm_100", gpu).replace("compute_capability = 100", f"compute_capability = {gpu[3:]}")
    module = through(parse_module(text, "k.tileaa.mlir"), gpu=gpu, tensor_maps=tensor_maps)
    ptx, metadata = compiled_and_described(module, gpu)
    assert INSTRUCTIONS[gpu] in ptx and "mma.sync" not in ptx
    if gpu == "sm_90":
        names = {"f8E4M3FN": "e4m3", "f8E5M2": "e5m2"}
        assert f"{names[types[0]]}.{names[types[1]]}" in ptx
    for seed in SEEDS:
        out = np.zeros_like(kernel.outputs[0])
        emulate(ptx, "k", 1, [*(each.view(np.uint8) for each in kernel.inputs), out], metadata=metadata, seed=seed)
        np.testing.assert_array_equal(out, kernel.expected[0])
    if toolkit.find_program("ptxas") is not None:
        assemble(ptx, gpu)
