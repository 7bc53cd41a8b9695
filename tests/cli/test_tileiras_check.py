"""tileiras-check: exit codes, messages, launches and images that are given."""

from __future__ import annotations

import io
import json
import shutil
import sys
from pathlib import Path
from xml.etree import ElementTree

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


def test_a_wrong_image_is_reported_with_its_line(capsys, wrong):
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
    assert "has no PTX in it, nor beside it" in capsys.readouterr().err


@pytest.mark.parametrize(("emit", "suffix", "before", "after"), [
    ("tileaa", "tileaa.mlir", "cmpi slt", "cmpi sle"), ("tileas", "tileas.mlir", "cmpi slt", "cmpi sle"),
    ("llvm", "ll", "icmp slt", "icmp sle"), ("ptx", "ptx", "fma.rn", "fma.rz"),
])  # fmt: skip
def test_an_override_of_any_stage_is_an_image(tmp_path, emit, suffix, before, after, capsys):
    """An override is an artifact of an earlier compilation, unchanged or edited."""
    text = tileiras.compile(SAXPY, gpu_name="sm_90", emit=emit).text
    path = tmp_path / f"saxpy.sm_90.{suffix}"
    path.write_text(text)
    assert before in text and main([SAXPY, *GPU, "--image", str(path), "--budget", "0.3"]) == 0
    path.write_text(text.replace(before, after))
    assert main([SAXPY, *GPU, "--image", str(path)]) == 7
    assert main([str(Path(SAXPY).parent / "transpose.mlir"), *GPU, "--image", str(path)]) == 2
    assert "has no entry 'transpose'" in capsys.readouterr().err


def test_verdicts_are_printed_as_data(capsys):
    assert main([SAXPY, *GPU, "--json", "--num-warps", "8"]) == 0
    (verdict,) = json.loads(capsys.readouterr().out)
    assert verdict["status"] == "right" and verdict["coverage"]["operations"] == [25, 25]


def test_files_for_ci_name_files_from_here(wrong, tmp_path, monkeypatch, capsys):
    """The paths are relative, without those of the machine; the written files are read again."""
    (tmp_path / "kernels").mkdir()
    shutil.copy(SAXPY, tmp_path / "kernels" / "saxpy.mlir")
    monkeypatch.chdir(tmp_path)
    files = ["--junit", "check.xml", "--sarif", "check.sarif", "-o", "check.json"]
    assert main([str(tmp_path / "kernels" / "saxpy.mlir"), *GPU, "--image", str(wrong), *files]) == 7
    (run,) = json.loads(Path("check.sarif").read_text())["runs"]
    (result,) = [each for each in run["results"] if each["level"] == "error"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "kernels/saxpy.mlir"
    assert place["region"] == {"startLine": 46, "startColumn": 13}
    assert ElementTree.parse("check.xml").find(".//failure") is not None
    for name in ("check.xml", "check.sarif"):
        assert str(tmp_path) not in Path(name).read_text()
    before = Path("check.xml").read_bytes()
    capsys.readouterr()
    assert main(["--from", "check.json", "--junit", "again.xml", "--json"]) == 7
    assert json.loads(capsys.readouterr().out) == json.loads(Path("check.json").read_text())
    assert Path("again.xml").read_bytes().count(b"<testcase") == before.count(b"<testcase")


def test_an_image_with_undescribed_hidden_parameters_is_unjudged(tmp_path, capsys):
    """The kernel is unjudged and not reported as wrong."""
    source = str(Path(SAXPY).parent / "bytecode" / "softmax.tileirbc")
    text = tileiras.compile(source, gpu_name="sm_90").text
    head, body = text.split(".entry", 1)
    parameters, body = body.split(")", 1)
    hidden = ",\n\t.hidden .param .align 64 .b8 more[128]\n)"
    (tmp_path / "theirs.ptx").write_text(f"{head}.entry{parameters.rstrip()}{hidden}{body}")
    assert main([source, *GPU, "--image", str(tmp_path / "theirs.ptx"), "--budget", "1"]) == 8
    assert "hidden parameters" in capsys.readouterr().out


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("stream", "told"), [(Terminal, True), (io.StringIO, False)])
def test_a_terminal_tells_of_launches_while_they_run(stream, told, monkeypatch):
    monkeypatch.setattr(sys, "stderr", stream())
    monkeypatch.setenv("TERM", "xterm")
    assert main([SAXPY, *GPU, "--budget", "0"]) == 8
    assert ("checking saxpy: launch 1 of" in sys.stderr.getvalue()) == told
    assert told or not sys.stderr.getvalue()


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
    ([SAXPY, *GPU, "--image", "missing.ptx"], 1), ([SAXPY, *GPU, "--waive", "async-proxy"], 1),
    ([SAXPY, *GPU, "--image", SAXPY, "--waive", "manners"], 1), ([], 1), ([SAXPY, *GPU, "--from", SAXPY], 1),
    (["--from", SAXPY], 1), (["--from", str(Path(SAXPY).parent / "bytecode")], 1), (["--from", "missing.json"], 1),
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
    result = lookup_pass("tileas-slicing")
    original = result.run

    def run(self, op, context):
        original(self, op, context)
        for each in op.walk():
            if each.name == "nv_tileaa.fma":
                each.operands = [each.operands[0], each.operands[0], each.operands[2]]

    monkeypatch.setattr(result, "run", run)
    assert main([SAXPY, *GPU, "--blame"]) == 7
    printed = capsys.readouterr().out
    assert "note: pass 'tileas-slicing'" in printed and "'nv_tileaa.fma' gives another value" in printed
    assert main([SAXPY, *GPU, "--blame", "--json"]) == 7
    (verdict,) = json.loads(capsys.readouterr().out)
    assert verdict["blame"]["pass_name"] == "tileas-slicing" and verdict["blame"]["location"].endswith("43:12")
