"""`scons -n` lists all stages that may run; those that certainly run have no mark."""

import pytest
from project import Project, axpy, module

MARK = " (may run)"


@pytest.fixture
def project(tmp_path):
    result = Project(tmp_path)
    result.write("kernels/a.mlir", module(axpy("a")))
    result.write("kernels/b.mlir", module(axpy("b")))
    return result


def listed(project: Project, *arguments: str) -> list[str]:
    """The stages in order, with their marks."""
    lines = project.scons("-n", "-Q", *arguments).output.splitlines()
    return [line.split()[0] + (MARK if line.endswith(MARK) else "") for line in lines if line.startswith("  ")]


def test_an_edit_may_run_every_stage(project):
    project.scons()
    assert listed(project) == []
    project.write("kernels/a.mlir", module(axpy("a", operation="mulf")))
    before = project.artifacts()
    expected = ["READ", *(f"{stage}{MARK}" for stage in ("TILEAA", "TILEAS", "LLVM", "PTX"))]
    assert listed(project) == listed(project, "tile_full=1") == listed(project, "-j2") == expected
    assert project.artifacts() == before
    assert project.scons().stages == ["read", "tileaa", "tileas", "llvm", "ptx"]


def test_effects_of_an_option_are_certain(project):
    project.scons()
    assert listed(project, "ptx_version=8.7") == ["PTX", "PTX"]
    assert listed(project, "num_warps=8")[:4] == ["TILEAA", "TILEAS", f"LLVM{MARK}", f"PTX{MARK}"]


def test_artifacts_never_built_are_certain(project):
    every = ["READ", "TILEAA", "TILEAS", "LLVM", "PTX"]
    assert listed(project) == every * 2


def test_after_damage_only_the_repair_is_certain(project):
    project.scons()
    with open(project.path("build/sm_90/O3/kernels/a/a.tileas.mlir"), "a") as file:
        file.write("by hand\n")
    assert listed(project) == ["TILEAS", f"LLVM{MARK}", f"PTX{MARK}"]


def test_targets_made_from_kernels_are_listed_as_well(project):
    with open(project.path("SConstruct"), "a", encoding="utf-8") as file:
        file.write('Default(env.Command("all.txt", env.TileTree("kernels"), "cat $SOURCES > $TARGET"))\n')
        file.write('Default(env.Command("copy.txt", "all.txt", "cp $SOURCE $TARGET"))\n')
        file.write('Default(env.Command("other.txt", "kernels/b.mlir", "cp $SOURCE $TARGET"))\n')
    project.scons()
    project.write("kernels/a.mlir", module(axpy("a", operation="mulf")))
    output = project.scons("-n", "-Q").output
    assert "(may run) all.txt:\ncat build/sm_90/O3/kernels/a/a.ptx" in output
    assert "(may run) copy.txt:\ncp all.txt copy.txt" in output
    assert "other.txt:" not in output and "cp kernels/b.mlir" not in output
    project.write("kernels/b.mlir", module(axpy("b", operation="mulf")))
    output = project.scons("-n", "-Q").output
    assert "cp kernels/b.mlir other.txt" in output and "(may run) other.txt" not in output
