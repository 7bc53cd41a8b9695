"""The wheel of the tree works from site-packages of an environment without other packages of ours."""

import os
import shutil

import pytest
from installing import installed, run, wheel
from project import SCONSTRUCT, axpy, module


@pytest.fixture(scope="module")
def environment(tmp_path_factory) -> str:
    """The folder of programs of an environment in which the wheel is installed."""
    folder = str(tmp_path_factory.mktemp("wheel"))
    return installed(folder, "--no-index", wheel(folder))


def test_the_installed_program_compiles_a_kernel(environment, tmp_path):
    (tmp_path / "k.mlir").write_text(module(axpy("first")))
    where = run(
        os.path.join(environment, "python"), "-c", "import tileiras; print(tileiras.__file__)", cwd=str(tmp_path)
    )
    assert os.path.dirname(environment) in where
    program = os.path.join(environment, "tileiras")
    run(program, "k.mlir", "--gpu-name", "sm_90", "--emit", "ptx", "-o", "k.ptx", cwd=str(tmp_path))
    assert ".visible .entry first" in (tmp_path / "k.ptx").read_text()


def test_the_installed_tool_builds_a_tree(environment, tmp_path):
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "k.mlir").write_text(module(axpy("first")))
    (tmp_path / "SConstruct").write_text(SCONSTRUCT)
    python = os.path.join(environment, "python")
    run(python, "-m", "SCons", cwd=str(tmp_path), TILEIRAS_CACHE_DIR="off")
    assert ".visible .entry first" in (tmp_path / "build/sm_90/O3/kernels/k/first.ptx").read_text()


@pytest.mark.skipif(None in (shutil.which("cmake"), shutil.which("make")), reason="no cmake or no make")
def test_the_cmake_package_finds_its_program_and_header(environment, tmp_path):
    (tmp_path / "CMakeLists.txt").write_text("""\
cmake_minimum_required(VERSION 3.20)
project(p LANGUAGES NONE)
find_package(tileiras REQUIRED)
get_target_property(include tileiras::tileiras INTERFACE_INCLUDE_DIRECTORIES)
message(STATUS "found ${TILEIRAS_EMBED} and ${include}")
""")
    folder = run(os.path.join(environment, "tileiras"), "--cmakedir", cwd=str(tmp_path)).strip()
    value = run("cmake", "-B", "build", f"-Dtileiras_DIR={folder}", cwd=str(tmp_path), PATH="/usr/bin:/bin")
    include = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(folder))), "cpp")
    assert os.path.dirname(environment) in folder and os.path.exists(os.path.join(include, "tileiras.hpp"))
    program = os.path.realpath(os.path.join(environment, "tileiras-embed"))
    (result,) = [line for line in value.splitlines() if "found " in line]
    words = result.split()
    assert os.path.realpath(words[2]) == program and words[4] == include
