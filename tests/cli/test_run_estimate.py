"""tileiras-run --backend estimate: its output and files, and its diagnostics for unsupported inputs."""

import json
import re
from pathlib import Path

import pytest

import tileiras
from tests.kernels.dots import matmul
from tests.machine_code import needs_tools
from tileiras.cli import tileiras_report, tileiras_sweep
from tileiras.cli.tileiras_run import main

SAXPY = str(Path(__file__).resolve().parents[2] / "examples" / "saxpy.mlir")
ARGUMENTS = ["--grid", "3", "f32[3000]=arange", "f32[3000]=ones", "f32=2", "i32=3000"]
ESTIMATE = ["--backend", "estimate"]

pytestmark = needs_tools


def printed(capsys, *arguments: str) -> str:
    assert main([*arguments, *ESTIMATE, *ARGUMENTS]) == 0
    return capsys.readouterr().out


def test_a_kernel_that_may_take_tensor_maps(capsys, tmp_path):
    """The clock and the emulator fill them."""
    path = tmp_path / "product.mlir"
    path.write_text(matmul((64, 64, 64), "f16", steps=4).text)
    arguments = [str(path), "f16[64,256]=ones", "f16[256,64]=ones", "f32[64,64]=zeros"]
    times = []
    for maps in ([], ["--tensor-maps", "none"], ["--tensor-maps", "host"]):
        assert main([*arguments, *ESTIMATE, *maps]) == 0
        times.append(re.match(r"k on H200: ([\d.]+) us", capsys.readouterr().out).group(1))
    assert times[0] == times[1] != times[2]
    emulated = ["--backend", "emulate", "--gpu-name", "sm_90", "--tensor-maps", "host", "--print", "2"]
    assert main([*arguments, *emulated]) == 0
    assert "256." in capsys.readouterr().out


@pytest.mark.parametrize("maps", [[], ["--tensor-maps", "host"]])
def test_every_command_estimates_one_time(capsys, tmp_path, maps):
    """A launch that is bound by DRAM: arrays have the same addresses in the memory of each command."""
    path, data = tmp_path / "product.mlir", tmp_path / "data.json"
    path.write_text(matmul((64, 64, 64), "f16", steps=4).text)
    arguments = [str(path), "f16[64,256]=ones", "f16[256,64]=ones", "f32[64,64]=zeros", "--gpu", "H200", *maps]
    assert main([*arguments, *ESTIMATE, "--json", str(data)]) == 0
    time = json.loads(data.read_text())["microseconds"]
    assert main([*arguments, "--profile", "--json", str(data)]) == 0
    assert json.loads(data.read_text())["estimate"]["microseconds"] == time
    assert tileiras_sweep.main([*arguments, "-j", "1", "--json", str(data)]) == 0
    assert json.loads(data.read_text())["candidates"][0]["microseconds"] == pytest.approx(time, abs=1e-3)
    assert tileiras_report.main([*arguments, "--grid", "1", "-o", str(data)]) == 0
    (kernel,) = json.loads(data.read_text())["kernels"]
    assert kernel["timing"]["estimate"]["microseconds"] == time
    capsys.readouterr()


def microseconds(text: str, gpu: str) -> float:
    match = re.match(rf"saxpy on {gpu}: ([\d.]+) us \([\d.e+]+ to [\d.e+]+\), bound by ", text)
    assert match is not None, text
    return float(match.group(1))


def test_the_time_and_the_lines_at_which_warps_wait_are_printed(capsys):
    text = printed(capsys, SAXPY, "--gpu", "rtx 4090")
    assert microseconds(text, "RTX 4090") > 0
    assert re.search(r"^  \S*saxpy\.mlir:\d+: [\d.]+% of the warps' time: \w", text, re.MULTILINE)
    assert microseconds(printed(capsys, SAXPY), "H200") > 0  # the default


def test_source_ptx_and_cubin_are_one_kernel(capsys, tmp_path):
    from_source = printed(capsys, SAXPY, "--gpu", "A100")
    artifact = tileiras.compile(SAXPY, gpu_name="sm_80", emit="cubin", lineinfo=True)
    (kernel,) = artifact.kernels
    for suffix, data in ((".ptx", kernel.artifacts[".ptx"]), (".cubin", artifact.data)):
        path = tmp_path / f"saxpy{suffix}"
        path.write_bytes(data)
        assert microseconds(printed(capsys, str(path), "--gpu", "A100"), "A100") == microseconds(from_source, "A100")


def test_trace_and_data_are_written(capsys, tmp_path):
    trace, data = tmp_path / "trace.json", tmp_path / "data.json"
    text = printed(capsys, SAXPY, "--gpu", "L4", "--trace", str(trace), "--json", str(data))
    assert json.loads(trace.read_text())["traceEvents"]
    result = json.loads(data.read_text())
    assert result["gpu"] == "L4" and result["microseconds"] == pytest.approx(microseconds(text, "L4"), rel=1e-3)


@pytest.mark.parametrize(
    "options, status, message",
    [
        (["--gpu", "H300"], 2, "unknown GPU 'H300'"),
        (["--gpu", "A100", "--gpu-name", "sm_90"], 2, "PTX for sm_90 does not run on A100, which is sm_80"),
        (["--print", "0"], 1, "leaves arrays as they are"),
        (["--save", "0=x.npy"], 1, "leaves arrays as they are"),
        (["--trace", SAXPY], 1, "are one file"),
        (["--trace", "absent/trace.json"], 2, "absent/trace.json"),
    ],
)
def test_mistakes(capsys, options, status, message):
    assert main([SAXPY, *ESTIMATE, *ARGUMENTS, *options]) == status
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--gpu", "--trace", "--json"])
def test_options_of_the_estimate_are_for_it_alone(capsys, option):
    assert main([SAXPY, *ARGUMENTS, option, "H200"]) == 1
    assert f"{option} is for --backend estimate" in capsys.readouterr().err


def test_invalid_cubins_and_uses_of_cubins(capsys, tmp_path):
    path = tmp_path / "kernel.cubin"
    path.write_text("text")
    assert main([str(path), *ESTIMATE, *ARGUMENTS]) == 3
    assert "is not a cubin" in capsys.readouterr().err
    path.write_bytes(tileiras.compile(SAXPY, gpu_name="sm_90", emit="cubin").data)
    assert main([str(path), "--backend", "emulate", *ARGUMENTS]) == 1
    assert "a cubin is estimated only" in capsys.readouterr().err
    assert main([str(path), *ESTIMATE, *ARGUMENTS]) == 2
    assert "does not have its PTX" in capsys.readouterr().err
    assert main([str(tmp_path / "absent.cubin"), *ESTIMATE, *ARGUMENTS]) == 1
    capsys.readouterr()


def test_arguments_that_do_not_fit(capsys):
    assert main([SAXPY, *ESTIMATE, "f32=1"]) == 1
    assert "the entry has 4 parameters, got 1" in capsys.readouterr().err
