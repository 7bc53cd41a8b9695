"""Options that show passes at work: IR between them, their times, artifacts of stages, and reproducers."""

import json
import os
import re
import subprocess

import pytest
from one_kernel import F32, compile

from tileiras.cli.tileiras import main


def dumps(text: str) -> list[str]:
    return [line.split()[-2] for line in text.splitlines() if line.startswith("// *** IR Dump After")]


PASSES = [
    "convert-cudatile-to-tileaa", "canonicalize", "cse", "tileas-plan-cta", "tileas-legalize-scaled-dot",
    "tileas-assign-num-warps", "tileas-slice-dots", "tileas-slicing", "convert-tileaa-to-tileas",
    "tileas-assign-dot-layouts", "tileas-promote-accumulators", "tileas-assign-load-store-layouts",
    "tileas-remove-layout-conversions", "cse", "dce", "tileas-reuse-loads", "tileas-lower-occupancy",
    "tileas-sink-loads", "tileas-lower-occupancy",
    "tileas-mark-short-loops", "tileas-smem-operands", "tileas-generate-schedule", "tileas-unspecialized-pipeline",
    "tileas-smem-operands", "tileas-spill-loop-carried", "tileas-smem-operands", "cse", "tileas-interleave-copies",
    "tileas-roll-mma-dot", "tileas-legalize-fma-dot", "lower-tma-load-store-to-async", "tileas-attach-tma-desc-args",
    "tileas-materialize-convert-layout", "tileas-optimize-alloc-tensor", "tileas-rematerialize",
    "tileas-insert-barriers", "tileas-assign-launch-bounds", "tileir-verify-ops-analysis", "convert-tileas-to-llvm",
    "cse", "convert-tileas-to-nvgpu", "host-device-assert-enable", "tileir-gpu-module-prepare", "test-convert-to-llvm",
    "tileir-legalize-llvm-kernel", "tileir-finalize-llvm-kernel", "convert-to-llvm", "convert-nvgpu-to-nvvm",
    "convert-vector-to-llvm", "convert-math-to-funcs", "arith-expand", "convert-memref-to-llvm",
    "convert-target-to-nvvm", "tileir-post-nvvm-finalize", "nvvm-ir-verifier",
]  # fmt: skip


def test_the_module_is_printed_after_every_pass(kernel, capsys):
    assert compile(kernel, "--mlir-print-ir-after-all") == 0
    printed = capsys.readouterr().err
    assert [name for name in dumps(printed) if name in PASSES] == PASSES
    assert "nv_tileaa.func @k" in printed and "llvm.func @k" in printed


def test_passes_of_debug_information_are_seen(kernel, capsys):
    assert compile(kernel, "--mlir-print-ir-after-all", "--lineinfo") == 0
    result = dumps(capsys.readouterr().err)
    assert result[:3] == ["synthesize-debug-info-scopes", "convert-cudatile-to-tileaa", "tileir-insert-debug-scope"]
    assert compile(kernel, "--mlir-timing", "-g", "-O0", "--sanitize=memcheck") == 0
    names = [line.split()[-1] for line in capsys.readouterr().err.splitlines()]
    passes = ["synthesize-debug-info-scopes", "instrument-memcheck", "convert-cudatile-to-tileaa"]
    assert [name for name in names if name in passes] == passes
    assert "debuginfo-describe-parameters" in names and "convert-debuginfo-to-llvm" in names


def test_only_changes_are_printed(kernel, capsys):
    assert compile(kernel, "--mlir-print-ir-after-change") == 0
    result = dumps(capsys.readouterr().err)
    assert result[0] == PASSES[0] and "dce" not in result


def test_the_module_is_printed_after_the_pass_named(kernel, capsys):
    assert compile(kernel, "--mlir-print-ir-after=dce,convert-tileaa-to-tileas") == 0
    assert dumps(capsys.readouterr().err) == ["convert-tileaa-to-tileas", "dce"]


@pytest.mark.in_process
def test_the_module_after_a_failed_pass_is_printed(kernel, capsys, monkeypatch):
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


def test_artifacts_of_stages_are_kept_beside_the_output(kernel, tmp_path):
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


# Option that watches -> the start of its lines on standard error.
WATCHING = {
    "--mlir-print-ir-before=cse": "// *** IR Dump Before cse ***",
    "--mlir-print-ir-after-change": "// *** IR Dump After convert-tileas-to-llvm ***",
    "--mlir-timing": "   ---Wall Time---",
    "--diagnostics=json": None,
    "--remarks=all": '{"severity": "remark"',
    "--verify-each": None,
    "--save-temps": None,
    "--mlir-print-ir-after-failure": None,
    "--mlir-pass-pipeline-crash-reproducer=reproducer.mlir": None,
}


def test_instrumentations_combine_and_change_nothing(kernel, capsys, tmp_path):
    assert compile(kernel) == 0
    alone, result = (tmp_path / "out").read_bytes(), capsys.readouterr().err
    assert result == ""
    assert compile(kernel, *WATCHING) == 0
    assert (tmp_path / "out").read_bytes() == alone
    lines = capsys.readouterr().err.splitlines()
    for option, start in WATCHING.items():
        assert start is None or any(line.startswith(start) for line in lines), option
    remarks = [json.loads(line) for line in lines if line.startswith('{"severity"')]
    assert {remark["category"] for remark in remarks} == {"memory", "kernel"}
    assert all(remark["file"] == "k.mlir" and remark["line"] for remark in remarks)
    assert "dce" not in dumps("\n".join(lines)), "which changes nothing here"
    assert os.path.exists("k.tileas.mlir") and not os.path.exists("reproducer.mlir")


@pytest.mark.in_process
def test_instrumentation_of_a_failure_reports_place_and_state(kernel, capsys, monkeypatch):
    """A pass that leaves invalid IR: its snapshot, the verifier's message, the reproducer, and the times."""
    from tileiras.passes.dce import DeadCodeElimination

    def leave_half_an_operation(self, op, context):
        store = next(inner for inner in op.walk() if inner.name == "nv_tileas.store")
        store.operands = store.operands[1:]

    monkeypatch.setattr(DeadCodeElimination, "run", leave_half_an_operation)
    assert compile(kernel, *WATCHING) == 5
    lines = capsys.readouterr().err.splitlines()
    places = {
        what: next(number for number, line in enumerate(lines) if what in line)
        for what in ("IR Dump After dce ***", "IR Dump After dce Failed", "between-pass verifier", "Wall Time")
    }
    assert places["IR Dump After dce ***"] < places["IR Dump After dce Failed"] < places["between-pass verifier"]
    errors = [json.loads(line) for line in lines if line.startswith('{"severity": "error"')]
    assert [error["message"] for error in errors][1:] == [
        "between-pass verifier rejected IR after 'dce'", "failed to compile Tile IR program",
    ]  # fmt: skip
    assert errors[0]["line"] and "'nv_tileas.store' op" in errors[0]["message"]
    assert errors[1]["notes"][-1]["message"] == "reproducer generated at `reproducer.mlir`"
    with open("reproducer.mlir") as file:
        assert file.readline().startswith("// tileiras-opt reproducer.mlir --pass-pipeline='builtin.module(dce)'")


TWO = "cuda_tile.module @m {\n  entry @first() {\n    return\n  }\n  entry @second() {\n    return\n  }\n}\n"


@pytest.mark.parametrize("text, ptx", [(F32, "kept/k.ptx"), (TWO, "kept/two.linked.ptx")])
def test_the_reproducer_command_runs_on_the_kept_files(tmp_path, monkeypatch, capsys, text, ptx):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "two.mlir").write_text(text)
    (tmp_path / "kept").mkdir()
    script = tmp_path / "ptxas"
    body = "test $1 = --version && exit\neval last=\\${$(($# - 2))}\ngrep .version $last\nexit 3\n"
    script.write_text(f"#!/bin/sh\n{body}")
    script.chmod(0o755)
    words = ["two.mlir", "--gpu-name=sm_80", "--ptxas=./ptxas", "--save-temps", "--cache=off", "-o", "kept/out"]
    assert main(words) == 5
    err = capsys.readouterr().err
    (command,) = re.findall(r"^note: reproduce: (ptxas .*)$", err, re.MULTILINE)
    assert f" {ptx} -o kernel.cubin" in command and "ptxas failed with exit status 3\n.version 9.2\n" in err
    done = subprocess.run(f"./{command}", shell=True, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (3, ".version 9.2\n")
