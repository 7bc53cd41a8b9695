"""tileiras-check: exit codes, messages, launches and images that are given."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import tileiras
from tileiras.cli.tileiras_check import main
from tileiras.passes import lookup_pass

SAXPY = str(Path(__file__).resolve().parents[2] / "examples" / "saxpy.mlir")
GPU = ["--gpu-name", "sm_90"]


def test_right_code_is_success(capsys):
    assert main([SAXPY, *GPU]) == 0
    assert "saxpy on sm_90: right" in capsys.readouterr().out


@pytest.fixture
def wrong(tmp_path) -> Path:
    path = tmp_path / "theirs.ptx"
    path.write_text(tileiras.compile(SAXPY, gpu_name="sm_90").text.replace("fma.rn", "fma.rz"))
    return path


def test_a_wrong_image_is_told_with_its_line(capsys, wrong):
    assert main([SAXPY, *GPU, "--image", str(wrong)]) == 7
    printed = capsys.readouterr().out
    assert "saxpy.mlir:46:13: error: argument 1 differs" in printed and "    %done = store_ptr_tko" in printed


def test_a_cubin_is_judged_by_the_ptx_beside_it(wrong, capsys):
    cubin = wrong.with_suffix(".cubin")
    cubin.write_bytes(b"\x7fELF")
    assert main([SAXPY, *GPU, "--image", str(cubin)]) == 7
    wrong.unlink()
    capsys.readouterr()
    assert main([SAXPY, *GPU, "--image", str(cubin)]) == 2
    assert "no PTX beside it" in capsys.readouterr().err


def test_verdicts_are_printed_as_data(capsys):
    assert main([SAXPY, *GPU, "--json", "--num-warps", "8"]) == 0
    (verdict,) = json.loads(capsys.readouterr().out)
    assert verdict["status"] == "right" and verdict["coverage"]["operations"] == [25, 25]


def test_a_launch_is_added_from_an_archive(tmp_path, capsys):
    path = tmp_path / "launch.npz"
    arrays = [np.zeros(700, np.float32), np.ones(700, np.float32)]
    np.savez(path, *arrays, np.float32(2), np.int32(700), grid=(1,))
    assert main([SAXPY, *GPU, "--launch", str(path), "--json"]) == 0
    (verdict,) = json.loads(capsys.readouterr().out)
    assert verdict["launches"][0]["values"] == "given" and verdict["launches"][0]["status"] == "right"


def test_a_launch_out_of_bounds_is_the_programs_fault(tmp_path, capsys):
    path = tmp_path / "launch.npz"
    arrays = [np.zeros(600, np.float32), np.ones(700, np.float32)]
    np.savez(path, *arrays, np.float32(2), np.int32(700), grid=(1,))
    assert main([SAXPY, *GPU, "--launch", str(path)]) == 6
    assert "saxpy.mlir:36:21: warning: 'cuda_tile.load_ptr_tko'" in capsys.readouterr().out


@pytest.mark.parametrize(("words", "code"), [
    (["missing.mlir", *GPU], 1), ([SAXPY], 1), ([SAXPY, *GPU, "--entry", "other"], 1),
    ([SAXPY, "--gpu-name", "sm_1"], 2), ([SAXPY, *GPU, "--launch", SAXPY], 1),
    ([SAXPY, *GPU, "--image", "missing.ptx"], 1),
])  # fmt: skip
def test_mistakes_end_with_the_documented_code(words, code, capsys):
    assert main(words) == code
    assert "Traceback" not in capsys.readouterr().err


def test_a_source_that_does_not_parse_is_located(tmp_path, capsys):
    path = tmp_path / "k.mlir"
    path.write_text("cuda_tile.module @m { entry @k() { %a = nothing return } }")
    assert main([str(path), *GPU]) == 3
    assert "k.mlir:1:" in capsys.readouterr().err


def test_an_image_has_no_pass_to_blame(wrong, capsys):
    assert main([SAXPY, *GPU, "--image", str(wrong), "--blame"]) == 1
    assert "did not make the image" in capsys.readouterr().err


def test_the_pass_at_fault_is_printed_with_its_line(monkeypatch, capsys):
    made = lookup_pass("tileas-slicing")
    original = made.run

    def run(self, op, context):
        original(self, op, context)
        for each in op.walk():
            if each.name == "nv_tileaa.fma":
                each.operands = [each.operands[0], each.operands[0], each.operands[2]]

    monkeypatch.setattr(made, "run", run)
    assert main([SAXPY, *GPU, "--blame"]) == 7
    printed = capsys.readouterr().out
    assert "note: pass 'tileas-slicing'" in printed and "'nv_tileaa.fma' gives another value" in printed
    assert main([SAXPY, *GPU, "--blame", "--json"]) == 7
    (verdict,) = json.loads(capsys.readouterr().out)
    assert verdict["blame"]["pass_name"] == "tileas-slicing" and verdict["blame"]["location"].endswith("43:12")
