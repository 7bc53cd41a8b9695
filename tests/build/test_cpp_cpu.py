"""Kernels for the processor in C and C++ programs: shared libraries, headers, and the place where kernels run."""

import os
import shutil
import subprocess

import pytest
from project import Project, axpy, module

import tileiras
from tileiras import cpp_folder
from tileiras.targets.cpu import host

pytestmark = pytest.mark.skipif(
    host() is None or shutil.which("cc") is None or shutil.which("c++") is None,
    reason="no target for this machine, or no compiler of C and C++",
)

CHECKED = """cuda_tile.module @m {
entry @checked(%p: tile<ptr<f16>>, %least: tile<i32>, %small: tile<i8>, %b: tile<i64>) {
  %x, %y, %z = get_tile_block_id : tile<i32>
  %good = cmpi greater_than_or_equal %x, %least, signed : tile<i32> -> tile<i1>
  assert %good, "x is \\"small\\" */" : tile<i1>
  %a = offset %p, %x : tile<ptr<f16>>, tile<i32> -> tile<ptr<f16>>
  %sum = exti %small signed : tile<i8> -> tile<i64>
  %all = addi %sum, %b : tile<i64>
  %v = itof %all signed rounding<nearest_even> : tile<i64> -> tile<f16>
  %t = store_ptr_tko weak %a, %v : tile<ptr<f16>>, tile<f16> -> token
  return
}
}"""

C_PROGRAM = """\
#include <stdlib.h>
#include "checked.h"
int main(void) {
    uint16_t out[4] = {0, 0, 0, 0};
    struct checked_parameters p = {out, 0, -2, 3};
    const int32_t grid[3] = {2, 2, 1};
    void *scratch = aligned_alloc(64, (checked_scratch + 63) / 64 * 64);
    if (checked(&p, grid, 0, 2, scratch) || checked(&p, grid, 2, 2, scratch)) return 1;
    if (out[0] != 0x3c00 || out[1] != 0x3c00 || out[2]) return 2;
    p.p1 = 1;
    return checked(&p, grid, 0, 4, scratch) == 1 ? 0 : 3;
}
"""


def test_a_shared_library_is_called_from_c(tmp_path):
    artifact = tileiras.compile(CHECKED, gpu_name="cpu", emit="so", source_name="checked.mlir")
    (tmp_path / "libchecked.so").write_bytes(artifact.data)
    (tmp_path / "checked.h").write_bytes(artifact.kernels[0].artifacts[".h"])
    (tmp_path / "main.c").write_text(C_PROGRAM)
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-L.", "-Wl,-rpath,$ORIGIN"]
    subprocess.run(["cc", *flags, "main.c", "-lchecked", "-o", "main"], cwd=tmp_path, check=True)
    subprocess.run([tmp_path / "main"], check=True)
    assert tileiras.compile(CHECKED, gpu_name="cpu", emit="so", source_name="checked.mlir").data == artifact.data


def test_several_kernels_are_one_library(tmp_path):
    import ctypes

    artifact = tileiras.compile(module(axpy("first"), axpy("second")), gpu_name="cpu", emit="so", source_name="k.mlir")
    (tmp_path / "both.so").write_bytes(artifact.data)
    library = ctypes.CDLL(str(tmp_path / "both.so"))
    assert library.first and library.second


def test_a_library_needs_a_linker(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(tileiras.CompileError, match="no linker for cpu-x86-64-v3 on this machine") as raised:
        tileiras.compile(CHECKED, gpu_name="cpu-x86-64-v3", emit="so", source_name="checked.mlir")
    assert raised.value.code == 2 and raised.value.diagnostics[0].location is not None


SCONSTRUCT = """\
import os
from tileiras.build import tool
env = Environment(tools=["default", tool], ENV=os.environ, CXXFLAGS=["-std=c++17", "-Wall", "-Wextra", "-Werror"])
env.TileKernel("checked.mlir", sm="cpu", emit="so")
env.Default(env.Program("app", ["main.cpp", env.TileLibrary("tiles", "checked.mlir", sm="sm_80,cpu")]))
"""

CPP_PROGRAM = """\
#include <cstdio>
#include <cstdlib>
#include "tiles.h"
int main(int count, char **words) {
    tileiras::run_on(count > 1 ? static_cast<tileiras::Place>(std::atoi(words[1])) : tileiras::Place::gpu);
    tileiras::Buffer<std::uint16_t> out(300);
    tileiras::Error error = tiles::checked(out.device(), count > 2, -2, 3, {100, 3});
    if (!error) error = tileiras::synchronize();
    std::uint16_t last[300] = {};
    if (!error) error = out.to_host(last);
    if (!error && (last[0] != 0x3c00 || last[99] != 0x3c00)) return 1;
    std::puts(error ? error.text.c_str() : "right");
    return 0;
}
"""


def test_the_place_is_chosen_at_run_time(tmp_path):
    project = Project(tmp_path)
    project.write("SConstruct", SCONSTRUCT)
    project.write("checked.mlir", CHECKED)
    project.write("main.cpp", CPP_PROGRAM)
    output = project.scons(".").output
    assert "SHARED   build/cpu/O3/checked/checked.cpu.so" in output and project.path("build/cpu/O3/checked/checked.h")

    def said(*words: str) -> str:
        environment = {**os.environ, "TILEIRAS_CPU_THREADS": "3", "LD_LIBRARY_PATH": ""}
        command = [project.path("app"), *words]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()

    assert said("1") == "right"
    # Without a GPU the default place is an error, and the third one is the processor.
    here = said()
    if here == "there is no CUDA driver here":
        assert said("2") == "right" and said("2", "fails") == 'checked: assertion failed: x is "small" */'
    assert said("1", "fails") == 'checked: assertion failed: x is "small" */'
    assert "is up to date" in project.scons(".").output


def test_one_cpu_is_linked(tmp_path):
    project = Project(tmp_path)
    project.write("SConstruct", SCONSTRUCT.replace("sm_80,cpu", "cpu-x86-64-v3,cpu-x86-64-v4"))
    project.write("checked.mlir", CHECKED)
    assert "a program is linked with the code of one CPU" in project.scons(expect=2).errors


def test_the_loaders_header_stands_alone(tmp_path):
    (tmp_path / "a.cpp").write_text("#include <tileiras_cpu.hpp>\nint main() { return 0; }\n")
    subprocess.run(["c++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-I", cpp_folder(), "-fsyntax-only", "a.cpp"],
                   cwd=tmp_path, check=True)  # fmt: skip
