"""Each mistake in a source, an option or the machine is one located diagnostic; other kernels still build."""

import os

import pytest
from project import CHECKOUT, Project, axpy, module

BROKEN = module(axpy("broken")).replace("addi %first_n, %lane", "addi %first_m, %lane")


@pytest.fixture
def project(tmp_path):
    result = Project(tmp_path)
    result.write("kernels/good.mlir", module(axpy("good")))
    return result


def test_a_broken_source_is_located_and_the_others_still_build(project):
    project.write("kernels/a_broken.mlir", BROKEN)
    build = project.scons("-k", expect=2)
    line = 1 + next(n for n, text in enumerate(BROKEN.split("\n")) if "%first_m" in text)
    column = 1 + BROKEN.split("\n")[line - 1].index("%first_m")
    assert f"kernels/a_broken.mlir:{line}:{column}: error: " in build.errors
    assert BROKEN.split("\n")[line - 1] + "\n" + " " * (column - 1) + "^" in build.errors
    assert "Error 3" in build.errors
    assert build.errors.count("error: ") == 1
    assert [name for name in project.artifacts() if "a_broken" in name] == []
    assert project.read("build/sm_90/O3/kernels/good/good.ptx")


def test_a_source_that_breaks_leaves_no_artifact_of_its_stage(project):
    project.scons()
    project.write("kernels/good.mlir", BROKEN)
    project.scons(expect=2)
    assert "sm_90/O3/kernels/good.cuda_tile.mlir" not in project.artifacts()
    project.write("kernels/good.mlir", module(axpy("good")))
    assert project.scons().stages == []


@pytest.mark.parametrize(
    "argument, listed",
    [("smm=sm_90", "sm, opt, emit"), ("sm=sm_91", "sm_75, sm_80"), ("emit=elf", "bytecode, cuda_tile")],
)
def test_a_mistyped_variable_is_refused_with_the_accepted_ones(project, argument, listed):
    build = project.scons(argument, expect=2)
    assert listed in build.errors + build.output


def test_a_missing_ptxas_names_the_package(project):
    build = project.scons("emit=cubin", "ptxas=nowhere/ptxas", expect=2)
    assert "kernels/good.mlir:" in build.errors and "ptxas is not an executable file: nowhere/ptxas" in build.errors
    assert not os.path.exists(project.path("build/sm_90/O3/kernels/good/good.cubin"))
    assert project.read("build/sm_90/O3/kernels/good/good.ptx")


def test_a_build_can_require_equal_results_of_all_runs(project):
    with open(os.path.join(CHECKOUT, "examples", "kernels", "spin_lock.mlir"), encoding="utf-8") as file:
        project.write("kernels/spin_lock.mlir", file.read())
    build = project.scons("-k", "deterministic=require", expect=2)
    assert "kernels/spin_lock.mlir:23:22: error: deterministic=require: argument 1" in build.errors
    assert build.errors.count("error: ") == 1 and "Error 5" in build.errors
    assert project.read("build/sm_90/O3/kernels/good/good.ptx")


def test_damaged_bytecode_is_located_by_section_and_offset(project):
    with open(project.path("kernels/bad.tileirbc"), "wb") as file:
        file.write(b"\x7fTileIR\x00\x0d\x01\x00\x00\x02\xff\xff\xff")
    build = project.scons("-k", expect=2)
    assert "kernels/bad.tileirbc: " in build.errors and "offset" in build.errors
    assert "Error 3" in build.errors
    assert project.read("build/sm_90/O3/kernels/good/good.ptx")


def test_a_file_that_is_no_tile_ir_is_an_error_of_its_own_node(project):
    with open(project.path("kernels/bad.tileirbc"), "wb") as file:
        file.write(b"\x00\x01\x02 not this")
    build = project.scons("-k", expect=2)
    assert "Error 3" in build.errors and "kernels/bad.tileirbc" in build.errors
    assert project.read("build/sm_90/O3/kernels/good/good.ptx")


def test_a_damaged_store_costs_time_and_one_warning(project):
    project.scons()
    before = project.artifacts()
    for base, _, files in os.walk(project.store):
        for name in files:
            with open(os.path.join(base, name), "wb") as file:
                file.write(b"nothing of use")
    project.delete_build()
    build = project.scons()
    assert build.stages == ["read", "tileaa", "tileas", "llvm", "ptx"]
    assert build.errors.count("warning: ") == 1
    assert project.artifacts() == before
