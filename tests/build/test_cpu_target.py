"""Kernels for the CPU in a build that also has kernels for a GPU."""

import shutil

import pytest
from project import Project, axpy, module

from tileiras.targets.cpu import host

pytestmark = pytest.mark.skipif(host() is None, reason="no target for this machine")

SCONSTRUCT = """\
import os
from tileiras.build import tool
env = Environment(tools=[tool], ENV=os.environ)
env.TileKernel("a.mlir", sm=["cpu", "sm_90"])
"""


def test_a_build_for_both(tmp_path):
    project = Project(tmp_path)
    project.write("SConstruct", SCONSTRUCT)
    project.write("a.mlir", module(axpy("a")))
    output = project.scons().output
    assert "OBJECT   build/cpu/O3/a/a.cpu.o" in output and "PTX      build/sm_90/O3/a/a.ptx" in output
    assert "a.cpu.so" not in output and (tmp_path / "build/cpu/O3/a/a.h").exists()
    data = (tmp_path / "build/cpu/O3/a/a.cpu.o").read_bytes()
    assert data[:4] == b"\x7fELF" and (tmp_path / "build/cpu/O3/a/a.json").exists()
    project.write("a.mlir", module(axpy("a", comment="  // edited\n")))
    assert "OBJECT" not in project.scons().output
    # Artifacts that are gone come from the store, with the same bytes.
    shutil.rmtree(tmp_path / "build/cpu")
    assert "OBJECT   build/cpu/O3/a/a.cpu.o (cached)" in project.scons().output
    assert (tmp_path / "build/cpu/O3/a/a.cpu.o").read_bytes() == data
    project.write("a.mlir", module(axpy("a", operation="mulf")))
    assert "CPU-LLVM build/cpu/O3/a/a.cpu.ll" in project.scons().output
    assert (tmp_path / "build/cpu/O3/a/a.cpu.o").read_bytes() != data
