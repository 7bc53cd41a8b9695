"""A full disk is reported as such, and not as an error of a kernel."""

import errno
import os
import subprocess
import sys

import pytest
from mounts import mounted, needs_mounts
from project import Project, axpy, module

from tileiras import pipeline
from tileiras.codegen import toolkit
from tileiras.diagnostics import CompileError
from tileiras.ir import FileLineColLoc
from tileiras.stages import StageContext


@pytest.fixture
def project(tmp_path):
    result = Project(tmp_path, store="off")
    result.write("kernels/k.mlir", module(axpy("first")))
    return result


def check(errors: str, folder: str) -> None:
    """Check that the errors are about a file in `folder` only."""
    lines = [line for line in errors.splitlines() if "error: " in line]
    assert lines and all(line.startswith(f"error: unable to write '{folder}") for line in lines), errors
    assert all(line.endswith(": No space left on device") for line in lines), errors
    assert "Error 1" in errors and "Traceback" not in errors and "k.mlir:" not in errors


@pytest.mark.sampled(1)
@needs_mounts
@pytest.mark.parametrize("jobs", [pytest.param("-j1", marks=pytest.mark.slow), "-j2"])
@pytest.mark.parametrize("size", ["8k", "40k"])
def test_a_full_build_directory(project, size, jobs):
    os.mkdir(project.path("build"))
    code, errors = mounted(project, f'mount -t tmpfs -o size={size} none "{project.path("build")}"', jobs)
    assert code == 2
    check(errors, "build/")
    assert project.scons(jobs).stages


@pytest.mark.sampled(2)
@needs_mounts
@pytest.mark.skipif(toolkit.find_program("ptxas") is None, reason="needs ptxas")
@pytest.mark.parametrize("size, jobs", [("size=4k", "-j1"), ("size=4k", "-j2"), ("nr_inodes=3", "-j1")])
def test_no_room_for_temporary_files(project, size, jobs):
    """Neither for the program's input nor for its own temporary files."""
    folder = project.path("tmp")
    os.mkdir(folder)
    project.scons("emit=ptx")
    mount = f'mount -t tmpfs -o {size} none "{folder}" && export TMPDIR="{folder}"'
    code, errors = mounted(project, mount, jobs, "emit=cubin")
    assert code == 2
    check(errors, folder)
    assert project.scons("emit=cubin").stages == ["cubin"]


@needs_mounts
@pytest.mark.skipif(toolkit.find_program("ptxas") is None, reason="needs ptxas")
def test_the_summary_counts_no_failed_kernel(project):
    folder = project.path("tmp")
    os.mkdir(folder)
    project.write("kernels/broken.mlir", module(axpy("broken")).replace("%lane = iota", "%lane = iotta"))
    mount = f'mount -t tmpfs -o size=4k none "{folder}" && export TMPDIR="{folder}"'
    _, errors = mounted(project, f"exec 1>&2 && {mount}", "-k", "emit=cubin")
    (line,) = [line for line in errors.splitlines() if line.startswith("tileiras: ") and "run in" in line]
    assert "1 kernel failed, 1 kernel not built: a file could not be read or written" in line


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_stage_without_room_blames_no_kernel(number):
    context = StageContext(location=FileLineColLoc("k.mlir", 7, 3))
    with pytest.raises(CompileError) as caught, pipeline.reported(pipeline.stage("ptx"), context):
        raise OSError(number, os.strerror(number), "/tmp/x")
    (diagnostic,) = caught.value.diagnostics
    assert (caught.value.code, diagnostic.location) == (1, None)
    assert diagnostic.message == f"unable to write '/tmp/x': {os.strerror(number)}"


def test_other_errors_of_the_system_are_mistakes_of_the_compiler():
    context = StageContext(location=FileLineColLoc("k.mlir", 7, 3))
    with pytest.raises(CompileError, match="k.mlir:7:3: error: internal error in stage 'ptx': FileNotFoundError"):
        with pipeline.reported(pipeline.stage("ptx"), context):
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", "x")


@pytest.mark.sampled(1)
@pytest.mark.skipif(os.name != "posix", reason="limits of a process are POSIX")
@pytest.mark.parametrize("jobs, limit", [("-j2", 1), ("-j1", 3), ("-j2", 8)])
def test_a_limit_on_the_size_of_files_is_reported(project, jobs, limit):
    """First for artifacts, then for the signatures that SCons stores of them (KiB)."""
    for number in range(8):
        project.write(f"kernels/k{number}.mlir", module(axpy(f"k{number}")))
    done = subprocess.run(
        ["sh", "-c", f'ulimit -f {2 * limit} && exec "{sys.executable}" -m SCons -k {jobs}'], cwd=project.folder,
        env={**os.environ, "PYTHONPATH": project.compiler, "TILEIRAS_CACHE_DIR": "off"}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 2 and "Traceback" not in done.stderr and "scons/" not in done.stderr.lower(), done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert lines and all(line.startswith("error: unable to write ") for line in lines)
    assert not any(name.endswith(".tmp") for name in os.listdir(project.folder))
    project.scons(jobs)
    assert project.scons(jobs).stages == []
