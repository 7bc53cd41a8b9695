"""nvcc with our command as its toolkit's `tileiras`: CUDA Tile C++ down to cubins and host objects."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import both_ways
import numpy as np
import pytest

import tileiras
from tileiras.cli import tileiras as compiler
from tileiras.cli import tileirdisasm
from tileiras.codegen import toolkit
from tileiras.sim import emulate

CHECKOUT = Path(__file__).resolve().parents[2]

KERNEL = """\
#include <cstddef>
#include "cuda_tile.h"

__tile_global__ void twice(float* x, float* y, std::size_t n) {
  namespace ct = cuda::tiles;
  using namespace ct::literals;
  x = ct::assume_aligned(x, 16_ic);
  y = ct::assume_aligned(y, 16_ic);
  auto from = ct::partition_view{ct::tensor_span{x, ct::extents{n}}, ct::shape{256_ic}};
  auto to = ct::partition_view{ct::tensor_span{y, ct::extents{n}}, ct::shape{256_ic}};
  auto tile = from.load_masked(ct::bid().x);
  to.store_masked(tile + tile, ct::bid().x);
}
"""


@pytest.fixture(scope="module")
def nvcc(tmp_path_factory) -> Path:
    """nvcc in a view of its toolkit by links, where `tileiras` is ours and logs its command lines in `calls`."""
    original = toolkit.find_program("nvcc")
    if original is None or shutil.which("g++") is None:
        pytest.skip("no nvcc, or no compiler for the host")
    root = Path(original).resolve().parents[1]
    if not (root / "include" / "cuda_tile.h").exists():
        pytest.skip("the toolkit has no CUDA Tile C++")
    view = tmp_path_factory.mktemp("toolkit")
    for entry in root.iterdir():
        if entry.name != "bin":
            (view / entry.name).symlink_to(entry)
    (view / "bin").mkdir()
    for entry in (root / "bin").iterdir():
        if entry.name != "tileiras":
            (view / "bin" / entry.name).symlink_to(entry)
    command = " ".join(shlex.quote(word) for word in both_ways.command("tileiras"))
    program = view / "bin" / "tileiras"
    program.write_text(f'#!/bin/sh\necho "$@" >> "{view}/calls"\nPYTHONPATH="{CHECKOUT}" exec {command} "$@"\n')
    program.chmod(0o755)
    return view / "bin" / "nvcc"


def run(nvcc: Path, folder: Path, line: str) -> list[list[str]]:
    """Run nvcc on `twice.cu`; return the command lines of our command."""
    calls = nvcc.parents[1] / "calls"
    calls.unlink(missing_ok=True)
    (folder / "twice.cu").write_text(KERNEL)
    environment = {**os.environ, "TILEIRAS_SERVER": "off"}
    done = subprocess.run(
        [str(nvcc), *line.split()], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return [call.split() for call in calls.read_text().splitlines()]


def test_the_line_of_tornadovm_and_tilegym_makes_a_cubin(nvcc, tmp_path):
    [call] = run(nvcc, tmp_path, "-tilecubin --tile-only -std=c++20 -arch=sm_90 -o twice.cubin twice.cu --keep")
    assert call[1:3] == ["--host-os=linux", "-arch=sm_90"] and call[0].startswith("--host-arch=")
    cubin = (tmp_path / "twice.cubin").read_bytes()
    assert cubin.startswith(b"\x7fELF") and b".nv.info._Z5twicePfS_m" in cubin
    # The bytecode of CUDA Tile C++ is executed as well as compiled.
    [bytecode] = tmp_path.glob("*.tilebc")
    artifact = tileiras.compile(bytecode.read_bytes(), gpu_name="sm_90")
    x, y = np.arange(600, dtype=np.float32), np.zeros(600, np.float32)
    emulate(artifact.text, "_Z5twicePfS_m", 3, [x, y, 600], metadata=artifact.kernels[0].metadata)
    assert np.array_equal(y, x * 2)


CALL = """\
#include "cuda_tile.h"
namespace ct = cuda::tiles;
using namespace ct::literals;
using Tile = ct::tile<float, ct::shape<128>>;

__experimental_foreign_decl__ Tile smoothed(Tile x);

__tile_global__ void k(float* x) {
  auto view = ct::partition_view{ct::tensor_span{x, ct::extents{1024_ic}}, ct::shape{128_ic}};
  view.store(smoothed(view.load(ct::bid().x)), ct::bid().x);
}
"""


def test_a_call_of_a_foreign_function_is_read_and_refused(nvcc, tmp_path, capfd):
    (tmp_path / "call.cu").write_text(CALL)
    line = "--enable-tile --tile-preview simt --tilebc -arch=sm_90 -std=c++20 call.cu -o call.tilebc"
    subprocess.run([str(nvcc), *line.split()], cwd=tmp_path, capture_output=True, check=True)
    bytecode = str(tmp_path / "call.tilebc")
    assert tileirdisasm.main(["--preview=simt", bytecode]) == 0
    text = capfd.readouterr().out
    assert "preview$call @smoothed(" in text
    vendor = toolkit.find_program("tileirdisasm")
    if vendor is not None:
        done = subprocess.run([vendor, "--preview=simt", bytecode], capture_output=True, text=True, check=True)
        assert text == done.stdout
    words = [bytecode, "--preview=simt", "--gpu-name=sm_90", "-o", str(tmp_path / "call.cubin")]
    assert compiler.main(words) == 5
    error = capfd.readouterr().err
    assert f'loc("{tmp_path}/call.cu":10:33): error: ' in error and "@smoothed" in error


FUNCTION = """\
extern "C" __device__ float smoothed(float x) { return x * 0.5f + 1.0f; }
"""


@pytest.mark.parametrize("gpu", ["sm_90", "sm_100"])
def test_a_call_from_tile_code_reaches_a_device_function(nvcc, tmp_path, gpu):
    (tmp_path / "call.cu").write_text(CALL)
    (tmp_path / "function.cu").write_text(FUNCTION)
    lines = (
        f"--enable-tile --tile-preview simt --tilebc -arch={gpu} -std=c++20 call.cu -o call.tilebc",
        f"-rdc=true -ptx -arch={gpu} function.cu -o function.ptx",
    )
    for line in lines:
        subprocess.run([str(nvcc), *line.split()], cwd=tmp_path, capture_output=True, check=True)
    words = [str(tmp_path / "call.tilebc"), "--preview=simt", "-l", str(tmp_path / "function.ptx"), f"--gpu-name={gpu}"]
    assert compiler.main([*words, "-o", str(tmp_path / "call.cubin")]) == 0
    assert compiler.main([*words, "--emit=ptx", "-o", str(tmp_path / "call.ptx")]) == 0
    x = np.arange(1024, dtype=np.float32)
    expected = x * np.float32(0.5) + 1
    emulate((tmp_path / "call.ptx").read_text(), "_Z1kPf", 8, [x])
    assert np.array_equal(x, expected)


@pytest.mark.slow
def test_a_host_object_has_cubins_for_two_gpus_and_the_tile_ir(nvcc, tmp_path):
    gpus = "-gencode arch=compute_90,code=sm_90 -gencode arch=compute_100,code=sm_100"
    calls = run(nvcc, tmp_path, f"--enable-tile {gpus} -std=c++20 -c twice.cu -o twice.o")
    assert sorted(call[2] for call in calls) == ["-arch=sm_100", "-arch=sm_90"]
    command = [str(nvcc.with_name("cuobjdump")), "-lelf", "twice.o"]
    listing = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False).stdout
    assert "sm_90" in listing and "sm_100" in listing
