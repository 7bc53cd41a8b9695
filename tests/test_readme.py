"""The first screen of README.md: its commands print the output shown there."""

import collections
import re
import shlex
import subprocess
from pathlib import Path

import pytest

import tileiras
from tileiras.cli import tileiras as compiler
from tileiras.cli import tileiras_check, tileiras_run
from tileiras.codegen import toolkit
from tileiras.targets.cpu import host

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SCATTER = ROOT / "docs" / "readme" / "scatter.mlir"


def shown(command: str) -> list[str]:
    """The lines that the page shows below a command."""
    after = README.split(f"    $ {command}\n", 1)[1]
    return [line[4:] for line in after.split("\n\n", 1)[0].splitlines()]


@pytest.mark.skipif(host() is None, reason="no target for this machine")
def test_the_first_run(monkeypatch, capsys):
    """On the processor, which requires no extra of the package."""
    monkeypatch.chdir(ROOT)
    command = "tileiras-run examples/saxpy.mlir --backend cpu --print 1 'f32[5]=arange' 'f32[5]=ones' f32=2 i32=5"
    monkeypatch.setenv("PATH", "")
    assert tileiras_run.main(shlex.split(command)[1:]) == 0
    assert capsys.readouterr().out.splitlines() == shown(command)


def test_the_verdict(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    assert tileiras_check.main(["examples/saxpy.mlir", "--gpu-name", "sm_90"]) == 0
    assert capsys.readouterr().out.splitlines()[:2] == shown("tileiras-check examples/saxpy.mlir --gpu-name sm_90")


def test_the_error(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    lines = shown("tileiras broken.mlir --gpu-name sm_90")
    text = f"cuda_tile.module @m {{\n  entry @k() {{\n    %a = constant <f32: 1.0> : tile<4xf32>\n{lines[1]}\n}}}}\n"
    Path("broken.mlir").write_text(text)
    assert compiler.main(["broken.mlir", "--gpu-name", "sm_90"]) == 3
    assert capsys.readouterr().err.splitlines()[:3] == lines


def stores(cubin: bytes, folder: Path) -> dict[str, int]:
    """The stores to global memory in a cubin's machine code."""
    nvdisasm = toolkit.find_program("nvdisasm")
    if nvdisasm is None:
        pytest.skip("no nvdisasm")
    (folder / "k.cubin").write_bytes(cubin)
    stdout = subprocess.run([nvdisasm, "-c", folder / "k.cubin"], capture_output=True, text=True, check=True).stdout
    return collections.Counter(re.findall(r"STG[.A-Z0-9]*", stdout))


def test_the_stores_of_the_scatter(tmp_path, ptxas):
    cubin = tileiras.compile(SCATTER, gpu_name="sm_90", emit="cubin").data
    (line,) = shown("tileiras docs/readme/scatter.mlir --gpu-name sm_90 --emit sass -o - "
                    "| grep -o 'STG[.A-Z0-9]*' | sort | uniq -c")  # fmt: skip
    count, name = line.split()
    assert stores(cubin, tmp_path) == {name: int(count)}


def test_the_stores_of_the_vendors_code_for_the_scatter(tmp_path):
    vendor = toolkit.find_program("tileiras")
    stdout = subprocess.run([vendor, "--version"], capture_output=True, text=True).stdout if vendor else ""
    if "V13.5.37" not in stdout:
        pytest.skip("not the vendor's release 13.5.37")
    bytecode = tileiras.compile(SCATTER, gpu_name="sm_90", emit="bytecode", bytecode_version="13.3").data
    (tmp_path / "k.bc").write_bytes(bytecode)
    subprocess.run([vendor, tmp_path / "k.bc", "--gpu-name", "sm_90", "-o", tmp_path / "v.cubin"], check=True)
    assert stores((tmp_path / "v.cubin").read_bytes(), tmp_path) == {"STG.E.U16": 128}
