"""Tables that accumulators are computed with in the end are loaded for each slice of them, where registers lack."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.kernels.dots import Matmul
from tests.kernels.reasons import stated
from tests.kernels.views import Kernel, View, tile_type, whole_numbers
from tileiras import compile
from tileiras.codegen import ptxas as assembler

SLICED, WHOLE = (256, 256, 16), (128, 128, 16)


def scaled_and_biased(tiles: tuple[int, int, int]) -> Kernel:
    """A B s + t in a loop of three steps, with a factor and a summand of each column, loaded before."""
    m, n, _ = tiles
    parts = Matmul(tiles, steps=3)
    s, t = View("s", (n,), "f32"), View("t", (n,), "f32")
    row, whole = tile_type((1, n), "f32"), tile_type((m, n), "f32")
    lines = [s.load("s_0"), t.load("t_0")]
    for name in "st":
        lines += [
            f"%{name}_1 = reshape %{name}_0 : {tile_type((n,), 'f32')} -> {row}",
            f"%{name}_2 = broadcast %{name}_1 : {row} -> {whole}",
        ]
    tail = [*lines, f"%scaled = mulf %sum, %s_2 : {whole}", f"%r = addf %scaled, %t_2 : {whole}"]
    plain = parts.kernel()
    scales, sums = (whole_numbers((n,), "f32", seed, 3) for seed in (4, 5))
    (product,) = plain.expected
    text = parts.text(tail="\n".join(tail), more=[s, t])
    # The views that are read come in front of those that are written.
    text = re.sub(r"(@k\()(.*), (%p_c: .*?), (%p_s: .*?), (%p_t: .*?)\)", r"\1\2, \4, \5, \3)", text)
    return plain._replace(text=text, inputs=(*plain.inputs, scales, sums),
                          expected=((product * scales + sums).astype(np.float32),))  # fmt: skip


@pytest.mark.parametrize(("gpu_name", "late"), [("sm_90", True), ("sm_80", False)])
def test_only_where_registers_lack(gpu_name, late):
    text = scaled_and_biased(SLICED).compiled(gpu_name, emit="tileas").text
    matches = re.findall(r"(?:async)?\.dot |tiled_load(?=.*tiled_view<\[256\])", text)
    loads, (dot, *_) = ["tiled_load"] * 2, [each for each in matches if each.endswith("dot ")]
    assert matches == ([dot, *loads] if late else [*loads, dot])


def test_not_after_operations_ordered_after_them():
    """The store of a slice comes behind one of the tables."""
    text = scaled_and_biased(SLICED).text.replace("%v_c[%zero, %zero]", "%v_c[%zero, %zero] token = %k_s_0")
    assert "token = %k_s_0" in text
    result = compile(text, gpu_name="sm_90", emit="tileas", emit_remarks=True)
    assert "memory.loads-per-slice tiles=1" in stated(result.diagnostics)


@pytest.mark.parametrize("gpu_name", ["sm_90", "sm_120"])
def test_the_result_is_the_same_without_local_memory(gpu_name, ptxas):
    kernel = scaled_and_biased(SLICED)
    artifact = kernel.compiled(gpu_name, emit="ptx")
    assert assembler.assemble(artifact.text, gpu_name, ptxas=ptxas).resources["k"].stack == 0
    kernel.emulated(artifact, 0)


def test_unsliced_dots_load_their_tables_in_the_program():
    kernel = scaled_and_biased(WHOLE)
    diagnostics = kernel.compiled("sm_90", emit="ptx", emit_remarks=True).diagnostics
    assert not stated(diagnostics, "memory.loads-per-slice")
    kernel.check("sm_90", emit="ptx")
