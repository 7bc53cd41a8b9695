"""Our own options of the command: what it prints, keeps and hands on."""

import json
import os
import re
import subprocess
import sys

import pytest
from invocations import KERNEL

import tileiras
from tileiras.cli.tileiras import main

F32 = KERNEL.replace("TYPE", "f32")


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.mlir").write_text(F32)
    return "k.mlir"


def compile(kernel: str, *options: str, emit: str = "ptx") -> int:
    return main([kernel, "--gpu-name=sm_90", f"--emit={emit}", "-o", "out", *options])


def test_a_link_is_written_through(kernel, tmp_path):
    (tmp_path / "out").symlink_to("target")
    assert compile(kernel) == 0
    assert (tmp_path / "out").is_symlink() and b".visible .entry k" in (tmp_path / "target").read_bytes()


def test_standard_output_is_no_file_to_replace(kernel, tmp_path):
    with open(tmp_path / "shown", "wb") as file:
        run = [sys.executable, "-m", "tileiras.cli.tileiras", kernel, "--gpu-name=sm_90", "--emit=ptx"]
        path = os.path.dirname(os.path.dirname(tileiras.__file__))
        subprocess.run([*run, "-o", "/dev/stdout"], stdout=file, check=True, env={**os.environ, "PYTHONPATH": path})
    assert os.path.islink("/dev/stdout") and b".visible .entry k" in (tmp_path / "shown").read_bytes()


def dumps(text: str) -> list[str]:
    return [line.split()[-2] for line in text.splitlines() if line.startswith("// *** IR Dump After")]


PASSES = [
    "convert-cudatile-to-tileaa", "canonicalize", "cse", "convert-tileaa-to-tileas", "cse", "dce",
    "tileas-unspecialized-pipeline", "cse", "tileir-verify-ops-analysis", "convert-tileas-to-llvm",
]  # fmt: skip


def test_the_module_is_printed_after_every_pass(kernel, capsys):
    assert compile(kernel, "--mlir-print-ir-after-all") == 0
    printed = capsys.readouterr().err
    assert [name for name in dumps(printed) if name in PASSES] == PASSES
    assert "nv_tileaa.func @k" in printed and "llvm.func @k" in printed


def test_only_changes_are_printed(kernel, capsys):
    assert compile(kernel, "--mlir-print-ir-after-change") == 0
    found = dumps(capsys.readouterr().err)
    assert found[0] == PASSES[0] and "dce" not in found


def test_the_module_is_printed_after_the_pass_named(kernel, capsys):
    assert compile(kernel, "--mlir-print-ir-after=dce,convert-tileaa-to-tileas") == 0
    assert dumps(capsys.readouterr().err) == ["convert-tileaa-to-tileas", "dce"]


def test_what_a_failed_pass_leaves_is_printed(kernel, capsys, monkeypatch):
    from tileiras.diagnostics import CompileError
    from tileiras.passes.dce import DeadCodeElimination

    def fail(self, op, context):
        raise CompileError.at(op.location, "no more")

    monkeypatch.setattr(DeadCodeElimination, "run", fail)
    assert compile(kernel, "--mlir-print-ir-after-failure", "--mlir-print-stacktrace-on-diagnostic") == 5
    printed = capsys.readouterr().err
    assert "IR Dump After dce Failed" in printed and '"nv_tileaa.func"' in printed
    assert "error: no more" in printed and "note: diagnostic emitted with trace:" in printed
    assert printed.endswith("error: failed to compile Tile IR program\n")


def test_times_have_passes_and_tools(kernel, capsys):
    assert compile(kernel, "--mlir-timing") == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("   ---Wall Time---")
    names = [line.split(")", 1)[1].strip() for line in lines[1:]]
    assert names[0].startswith("read: ") and names[-2].startswith("ptx: ") and names[-1] == "Total"
    assert [name for name in names if name in PASSES] == PASSES


def test_what_stages_make_is_kept_beside_the_output(kernel, tmp_path):
    (tmp_path / "made").mkdir()
    assert main([kernel, "--gpu-name=sm_90", "--emit=ptx", "--save-temps", "-o", "made/out.ptx"]) == 0
    assert sorted(os.listdir("made")) == [
        "k.cuda_tile.mlir", "k.json", "k.ll", "k.llvm.mlir", "k.ptx", "k.tileaa.mlir", "k.tileas.mlir", "out.ptx",
    ]  # fmt: skip
    assert (tmp_path / "made" / "k.ptx").read_bytes() == (tmp_path / "made" / "out.ptx").read_bytes()


def test_the_ptx_that_ptxas_refuses_is_kept(ptxas, kernel, capsys):
    assert compile(kernel, "--save-temps", "--ptxas-options=--no-such-option", emit="cubin") == 5
    assert "no-such-option" in capsys.readouterr().err
    assert os.path.exists("k.ptx") and not os.path.exists("out")


@pytest.mark.parametrize("pipeline", ["tileir{num-warps=8}", "builtin.module(tileir{num-warps=8})"])
def test_the_documented_pipeline_sets_options(kernel, tmp_path, pipeline):
    assert compile(kernel, f"--pass-pipeline={pipeline}", emit="tileas") == 0
    assert "numWarps = 8" in (tmp_path / "out").read_text()


def test_the_command_line_overrides_the_braces(kernel, tmp_path):
    braces = "--pass-pipeline=tileir{num-warps=8 compute-capability=sm_80 opt-level=1}"
    assert compile(kernel, braces, "--num-warps=2") == 0
    text = (tmp_path / "out").read_text()
    assert ".target sm_90" in text and ".reqntid 64" in text
    assert main([kernel, braces, "--emit=ptx", "-o", "out"]) == 0
    text = (tmp_path / "out").read_text()
    assert ".target sm_80" in text and ".reqntid 256" in text


@pytest.mark.parametrize("pipeline, message", [
    ("canonicalize", "expected 'tileir{key=value ...}', got 'canonicalize'"),
    ("tileir{num-warp=8}", "'tileir' has no option 'num-warp' (did you mean 'num-warps'?)"),
    ("tileir{num-warps=many}", "'many' value invalid for option 'num-warps' of 'tileir'; accepted: an integer"),
])  # fmt: skip
def test_other_pipelines_are_refused(kernel, capsys, pipeline, message):
    assert compile(kernel, f"--pass-pipeline={pipeline}") == 2
    assert capsys.readouterr().err == f"error: {message}\n"


def test_the_default_capability_of_the_pipeline_is_no_choice(kernel, capsys):
    assert main([kernel, "--pass-pipeline=tileir{num-warps=8}"]) == 2
    assert "GPU architecture sm_0 is not supported" in capsys.readouterr().err


def test_messages_are_objects_with_json(kernel, capsys):
    with open(kernel, "w") as file:
        file.write(KERNEL.replace("TYPE", "f8E4M3FN"))
    assert main([kernel, "--gpu-name=sm_80", "--diagnostics=json"]) == 5
    said = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(d["severity"], d["message"]) for d in said] == [
        ("error", "Incompatibility with architecture 'sm_80': unsupported type 'f8E4M3FN'"),
        ("error", "failed to compile Tile IR program"),
    ]
    assert (said[0]["file"], said[0]["line"]) == ("k.mlir", 4)


def test_remarks_are_printed_when_asked_for(kernel, capsys):
    assert compile(kernel, "--num-ctas=2") == 0
    assert capsys.readouterr().err == ""
    assert compile(kernel, "--num-ctas=2", "--remarks=memory") == 0
    assert "k.mlir:8:11: remark: the cluster's 2 CTAs share the 16 tile" in capsys.readouterr().err


def test_remarks_of_a_category_and_kind_are_printed(kernel, capsys):
    assert compile(kernel, "--remarks-passed=memory", "--remark-format=command-line") == 0
    printed = capsys.readouterr().err
    assert printed.startswith("in function: k:\n\n  category: Memory\n    remark[passed]: Load instruction selected\n")
    assert "remark[missed]" not in printed and "category: Kernel" not in printed


def test_remarks_are_written_as_yaml(kernel, capsys):
    assert compile(kernel, "--remarks=all", "--remark-format=yaml", "--remarks-output-file=r.yaml") == 0
    assert capsys.readouterr().err == ""
    with open("r.yaml") as file:
        assert "--- !Passed\nPass:            Memory\nName:            RemarkMemoryLoad" in file.read()


def test_the_store_of_one_run_can_be_named(kernel, monkeypatch):
    monkeypatch.setenv("TILEIRAS_CACHE_DIR", "off")
    assert compile(kernel, "--cache=store") == 0
    assert os.path.isdir("store")


def test_the_version_names_the_build(capsys):
    assert main(["--version"]) == 0
    first, versions, build = capsys.readouterr().out.splitlines()
    assert first == f"tileiras {tileiras.__version__}" and versions == "Tile IR bytecode 13.1 to 13.5"
    assert re.fullmatch("Build [0-9a-f]{16}", build)
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.splitlines()[2] == build
