"""Loads that run ahead in boxes of a loop nested in other operations: its pipe is made and destroyed each time, and
maps of tensors that the loop around computes are made there."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tileiras
from tests.agents.running import sites, survives
from tests.kernels import tensor_maps as kernels
from tests.kernels.reasons import causes
from tests.kernels.tensor_maps import Arrays
from tileiras.codegen import ptxas as assembler
from tileiras.diagnostics import DiagnosticEngine
from tileiras.sim import emulate

SEEDS = (None, 0, 1)
BOX, RUN, INVAL = "cp.async.bulk.tensor", "cp.async.cg", "mbarrier.inval"

AROUND = ("for %again in (%zero to %steps, step %one) : tile<i32> {", "continue\n}")
TWICE = (AROUND[0] * 2).replace("%again", "%first", 1), AROUND[1] * 2


def compiled(text: str, gpu: str = "sm_90", maps: str = "host"):
    artifact = tileiras.compile(text, gpu_name=gpu, tensor_maps=maps, pipeline_strategy="unspecialize")
    assert BOX in artifact.text and RUN not in artifact.text and INVAL in artifact.text
    return artifact


def without_box(text: str, gpu: str) -> str:
    """The result is stored by threads."""
    hint = f" optimization_hints = <{gpu} = {{allow_tma = false}}>"
    return text.replace("weak %sum, %v_c[%x, %y]", f"weak %sum, %v_c[%x, %y]{hint}")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("maps", ["host", "device"])
@pytest.mark.parametrize("gpu", ["sm_90", "sm_120"])
def test_a_loop_around(gpu, maps, ptxas):
    artifact = compiled(kernels.matmul(around=AROUND), gpu, maps)
    engine = DiagnosticEngine()
    assembler.assemble(artifact.text, gpu, engine=engine)
    assert [d.message for d in engine.diagnostics] == []
    for seed in SEEDS[:2]:
        Arrays(64, 71, 160).launch(artifact.text, artifact.kernels[0].metadata, seed)


def test_stages_freed_by_commits_have_kernel_wide_pipes():
    """On sm_100 a commit may arrive behind the loop: its loads are copied by all threads."""
    options = {"tensor_maps": "host", "pipeline_strategy": "unspecialize", "emit_remarks": True}
    program = tileiras.compile(kernels.matmul(around=AROUND), gpu_name="sm_100", **options)
    result = causes(program.diagnostics, "maps.unused")
    assert "maps.commits-behind-loop" in result
    assert INVAL not in program.text and RUN in program.text
    Arrays(64, 71, 160).launch(program.text, program.kernels[0].metadata, 0)


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_loops_around_loops_around(steps):
    artifact = compiled(kernels.matmul(around=TWICE))
    for seed in SEEDS[:2]:
        Arrays(64, 64, 32 * steps).launch(artifact.text, artifact.kernels[0].metadata, seed)


def test_a_condition_around():
    around = ("%some = cmpi greater_than %steps, %one, signed : tile<i32> -> tile<i1>\n if %some {", "yield\n}")
    artifact = compiled(kernels.matmul(around=around))
    for seed in SEEDS[:2]:
        Arrays(64, 64, 96).launch(artifact.text, artifact.kernels[0].metadata, seed)


@pytest.mark.slow
@pytest.mark.parametrize("gpu", ["sm_90", "sm_120"])
def test_synchronization_of_the_rounds_is_minimal(gpu):
    artifact = compiled(without_box(kernels.matmul(around=AROUND), gpu), gpu)
    arrays = Arrays(64, 64, 160)

    def judge(code, seed):
        arrays.launch(code, artifact.kernels[0].metadata, seed)

    assert survives(artifact.text, judge, SEEDS)
    result = sites(artifact.text)
    inval = re.search(rf"{INVAL}[^;]*;", artifact.text)
    result.append((inval[0], artifact.text.replace(inval[0], "")))
    assert [line for line, broken in result if survives(broken, judge, SEEDS)] == []


def moving() -> str:
    """C = A' B, where A' is A from row %steps - 1 on: each round makes the view of its A, and stores after the one
    before."""
    view = kernels.view("a", "64x32").replace("%p_a :", "%p_g :").replace("%s_a_0 :", "%s_g :")
    computed = """%skip = muli %again, %d_a : tile<i32>
      %s_g = subi %s_a_0, %again : tile<i32>
      %p_g = offset %p_a, %skip : tile<ptr<f16>>, tile<i32> -> tile<ptr<f16>>"""
    begin = """%first = make_token : token
      %last = for %again in (%zero to %steps, step %one) : tile<i32> iter_values(%before = %first) -> (token) {"""
    text = kernels.matmul(" ", around=(f"{begin}\n{computed}\n{view}", "continue %end : token\n}"))
    return text.replace("weak %sum, %v_c[%x, %y]", "weak %sum, %v_c[%x, %y] token = %before")


def test_views_that_the_loop_around_makes():
    """No host can know them; the kernel makes their map in each round, in the place of the one before."""
    text = moving()
    assert RUN in tileiras.compile(text, gpu_name="sm_90", tensor_maps="host").text
    artifact = compiled(text, maps="device")
    arrays, steps = Arrays(70, 64, 96), 3
    (m, n, k), metadata = arrays.sizes, artifact.kernels[0].metadata

    def judge(code, seed):
        a, b, c = arrays.a.copy(), arrays.b.copy(), np.full((m, n), -7, np.float32)
        arguments = [a, m, k, a.shape[1], b, k, n, b.shape[1], c, m, n, n, steps]
        assert emulate(code, "k", (2, 1), arguments, metadata, seed=seed).searched_races
        wanted = np.zeros((m, n), np.float32)
        wanted[: m - steps + 1] = arrays.a[steps - 1 :, :k].astype(np.float32) @ arrays.b[:, :n].astype(np.float32)
        np.testing.assert_array_equal(c, wanted)

    assert survives(artifact.text, judge, SEEDS)
    result = [site for site in sites(artifact.text) if site[0].startswith(("bar.", "fence"))]
    for match in re.finditer(r"fence\.proxy\.tensormap[^;]*;", artifact.text):
        result.append((f"acquire at {match.start()}", artifact.text[: match.start()] + artifact.text[match.end() :]))
    assert [line for line, broken in result if survives(broken, judge, SEEDS)] == []
