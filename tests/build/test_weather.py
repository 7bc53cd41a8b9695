"""Builds under adverse conditions: jumping clocks, sources saved while they are compiled, unusual paths."""

import os
import time

import pytest
from project import CHECKOUT, Project, axpy, module


@pytest.fixture
def project(tmp_path):
    result = Project(tmp_path)
    result.write("kernels/k.mlir", module(axpy("first")))
    return result


HOUR = 3600 * 10**9


@pytest.mark.parametrize("jump", [-1000 * HOUR, 1000 * HOUR])
def test_edits_are_noticed_wherever_the_clock_jumps(project, jump):
    kernel = project.path("kernels/k.mlir")
    os.utime(kernel, ns=(time.time_ns() + jump,) * 2)
    project.scons()
    assert project.scons().stages == []
    # The same size, a second later by a clock that is wrong by weeks.
    times = os.stat(kernel).st_mtime_ns + 10**9
    with open(kernel, "r+") as file:
        text = file.read().replace("addf", "mulf")
        file.seek(0)
        file.write(text)
    os.utime(kernel, ns=(times, times))
    assert project.scons().stages == ["read", "tileaa", "tileas", "llvm", "ptx"]
    assert b"mul.rn.f32" in project.read("build/sm_90/O3/kernels/k/first.ptx")
    assert project.scons().stages == []


SAVE = """\
import os
import tileiras.stages.read as stage
whole = stage.run
def run(source, options, context):
    made = whole(source, options, context)
    if not os.path.exists("saved"):
        open("saved", "w").close()
        path = "kernels/k.mlir"
        text = open(path).read().replace("addf", "mulf")
        open(path, "w").write(text)
    return made
stage.run = run
"""


@pytest.mark.parametrize("jobs", ["-j1", "-j2"])
def test_a_source_saved_while_it_is_compiled_is_compiled_again(project, jobs):
    old = project.read("kernels/k.mlir").decode()
    project.write("sitecustomize.py", SAVE)
    project.scons(jobs, PYTHONPATH=os.pathsep.join([project.folder, CHECKOUT]))
    assert b"mul.rn.f32" in project.read("build/sm_90/O3/kernels/k/first.ptx")
    assert project.scons("tile_full=1").stages == []
    # The earlier source has other artifacts.
    project.write("kernels/k.mlir", old)
    build = project.scons("tile_full=1")
    assert sorted(build.stages + build.cached) == ["llvm", "ptx", "read", "tileaa", "tileas"]
    assert b"mul.rn.f32" not in project.read("build/sm_90/O3/kernels/k/first.ptx")


def test_an_edit_that_keeps_the_time_is_noticed_by_the_manifest(project):
    project.scons()
    kernel = project.path("kernels/k.mlir")
    status = os.stat(kernel)
    time.sleep(2.1)  # until the file is so old that its age gives no reason to read it
    project.scons()
    with open(kernel, "r+") as file:
        text = file.read().replace("addf", "mulf")
        file.seek(0)
        file.write(text)
    os.utime(kernel, ns=(status.st_mtime_ns, status.st_mtime_ns))
    assert project.scons().stages == ["read", "tileaa", "tileas", "llvm", "ptx"]


def test_paths_may_have_spaces_and_any_letters(tmp_path):
    tree = Project(tmp_path / "a space" / "größe-大")
    tree.write("kernels/mein kern/ü & ö.mlir", module(axpy("first")))
    tree.scons("-j2")
    assert "sm_90/O3/kernels/mein kern/ü & ö/first.ptx" in tree.artifacts()
    assert tree.scons("-j2").stages == []
    tree.write("kernels/mein kern/ü & ö.mlir", module(axpy("first")).replace("iota", "iotta", 1))
    assert "kernels/mein kern/ü & ö.mlir:" in tree.scons(expect=2).errors
