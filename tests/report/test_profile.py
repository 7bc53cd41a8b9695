"""Profiles by line: their counts are those of the emulator and of the estimate."""

from __future__ import annotations

import json

import numpy as np
import pytest
from reports import EXAMPLES

import tileiras
from tests.kernels.dots import matmul
from tileiras.cli import tileiras_run
from tileiras.report.profile import MOST_CTAS, profile, table

SAXPY = str(EXAMPLES / "saxpy.mlir")


@pytest.fixture(scope="module")
def saxpy():
    artifact = tileiras.compile(SAXPY, gpu_name="sm_90", lineinfo=True)
    return artifact.text, artifact.kernels[0].metadata


def arguments(count):
    x = np.zeros(count + 64, np.float32)
    return [x[:count], np.ones(count, np.float32), np.float32(2), count]


def test_instructions_are_those_that_the_emulator_executes(saxpy):
    ptx, metadata = saxpy
    value = profile(ptx, "saxpy", 3, arguments(3000), metadata)
    result = tileiras.sim.emulate(ptx, "saxpy", 3, arguments(3000), metadata=metadata, seed=None)
    assert (value.recorded, value.ctas) == (3, 3)
    assert sum(line.instructions for line in value.lines) == result.steps


def test_sectors_and_widths_of_a_stream_are_counted_by_line(saxpy):
    """4096 floats are 16 KiB, which each of two loads and a store moves in 512 sectors, 16 bytes a thread."""
    ptx, metadata = saxpy
    args = [np.zeros(4096, np.float32), np.ones(4096, np.float32), np.float32(2), 4096]
    result = profile(ptx, "saxpy", 4, args, metadata)
    touched = [line for line in result.lines if line.memory.count]
    source = (EXAMPLES / "saxpy.mlir").read_text().split("\n")
    names = [source[line.line - 1].split("_ptr_tko")[0].split()[-1] for line in touched]
    assert sorted(names) == ["load", "load", "store"]
    for line in touched:
        assert line.memory.widths == {16: 32}
        assert (line.memory.units, line.memory.least) == (512, 512)
    assert not any(line.shared.count for line in result.lines)
    assert (args[0] == 0).all()


STRIDED = """
.version 7.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p)
.reqntid 32, 1, 1
{
  .reg .b32 %r<8>;
  .reg .b64 %rd<4>;
  .shared .align 16 .b8 smem[4096];
  ld.param.u64 %rd1, [p];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 128;
  add.s64 %rd3, %rd1, %rd2;
  ld.global.b32 %r2, [%rd3];
  mov.u32 %r3, smem;
  shl.b32 %r4, %r1, 7;
  add.s32 %r5, %r3, %r4;
  st.shared.b32 [%r5], %r2;
  ret;
}
"""


def test_strides_cost_sectors_and_conflicts():
    """Lanes 128 bytes apart: a sector each of global memory, one bank of shared memory."""
    result = profile(STRIDED, "k", 1, [np.zeros(1024, np.int32)])
    lines = {line.line: line for line in result.lines}
    load = STRIDED.split("\n").index("  ld.global.b32 %r2, [%rd3];") + 1
    store = STRIDED.split("\n").index("  st.shared.b32 [%r5], %r2;") + 1
    assert (lines[load].file, lines[load].memory) == ("PTX", (1, {4: 1}, 32, 4))
    assert lines[store].shared == (1, {4: 1}, 32, 1)
    text = table(result, 100, {"PTX": STRIDED.split("\n")})
    assert "32/4" in text and "32/1" in text and "st.shared.b32" in text


@pytest.mark.parametrize("strategy", ["unspecialize", "warp-specialize"])
def test_boxes_are_accesses_of_the_load_that_they_serve(strategy):
    """Tiles of 64 x 64 come in boxes of 8 KiB: one for f16 in each of two loads and four steps, two for f32."""
    kernel = matmul((64, 64, 64), "f16", steps=4)
    artifact = tileiras.compile(
        kernel.text.encode(), gpu_name="sm_90", lineinfo=True, tensor_maps="host", pipeline_strategy=strategy,
        source_name="product.mlir",
    )  # fmt: skip
    arrays = [np.ones((64, 256), np.float16), np.ones((256, 64), np.float16), np.zeros((64, 64), np.float32)]
    result = profile(artifact.text, "k", 1, arrays, artifact.kernels[0].metadata)
    source = kernel.text.split("\n")
    boxes = {source[line.line - 1].split()[0]: line.memory for line in result.lines if 8192 in line.memory.widths}
    assert {name: (memory.widths, memory.units) for name, memory in boxes.items()} == {
        "%a,": ({8192: 4}, 1024), "%b,": ({8192: 4}, 1024), "%end_c": ({8192: 2}, 512),
    }  # fmt: skip


def test_of_a_large_grid_some_ctas_are_executed(saxpy):
    ptx, metadata = saxpy
    result = profile(ptx, "saxpy", 100, arguments(102400), metadata)
    assert (result.recorded, result.ctas) == (MOST_CTAS, 100)
    assert f"{MOST_CTAS} of 100 CTAs" in table(result, 100, {})


@pytest.mark.parametrize("columns", [20, 40, 80, 200])
def test_the_table_fits_the_terminal(saxpy, columns):
    ptx, metadata = saxpy
    result = profile(ptx, "saxpy", 3, arguments(3000), metadata)
    text = table(result, columns, {"saxpy.mlir": (EXAMPLES / "saxpy.mlir").read_text().split("\n")})
    assert max(map(len, text.split("\n"))) <= columns
    assert "saxpy" in text and ("instr" in text or columns < 40)


def test_the_command_prints_a_table_and_writes_json(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    launch = ["--grid", "3", "f32[3000]=ones", "f32[3000]=ones", "f32=2", "i32=3000"]
    path = tmp_path / "p.json"
    assert tileiras_run.main([SAXPY, "--profile", "--gpu", "H200", "--json", str(path), *launch]) == 0
    printed = capsys.readouterr().out
    assert "bound by" in printed and "waits" in printed
    data = json.loads(path.read_text())
    waits = {(line["file"], line["line"]): line["stalls"] for line in data["lines"]}
    assert sum(waits.values()) == pytest.approx(
        sum(stall["share"] for stall in data["estimate"]["stalls"] if stall["source"] is not None)
    )
    assert tileiras_run.main([SAXPY, "--profile", "--backend", "emulate", "--print", "1", *launch]) == 0
    printed = capsys.readouterr().out
    assert "waits" not in printed and "argument 1: [3., 3., 3." in printed


def test_a_profile_has_a_source_and_an_execution(tmp_path, capsys):
    assert tileiras_run.main([SAXPY, "--profile", "--backend", "interpret", "i32=1"]) == 1
    assert "--profile is for" in capsys.readouterr().err
