"""Verdicts as nodes of a build: their inputs, and a build with wrong code fails."""

from __future__ import annotations

import hashlib
import json
import os
import pkgutil

import pytest
from project import CHECKOUT, Project

from tileiras import pipeline
from tileiras.build.store.fingerprint import CodeBase, stage_roots
from tileiras.cli import check_files
from tileiras.cli.process import UsageError
from tileiras.report import collect
from tileiras.sim import emulator

SCONSTRUCT = """
import os
from tileiras.build import tool
from tileiras.build.scons.variables import construction_variables
settings = construction_variables(ARGUMENTS)
env = Environment(tools=[tool], ENV=os.environ, **settings)
kernels = env.TileTree("kernels")
env.Default(kernels)
if settings["TILE_CHECK"]:
    env.Default(env.TileCheck(kernels))
"""
NAME = "build/sm_90/O3/kernels/saxpy/saxpy"


@pytest.fixture
def project(tmp_path):
    result = Project(tmp_path)
    result.write("SConstruct", SCONSTRUCT)
    with open(os.path.join(CHECKOUT, "examples", "saxpy.mlir"), encoding="utf-8") as file:
        result.write("kernels/saxpy.mlir", file.read())
    return result


def verdict(project):
    (result,) = json.loads(project.read(f"{NAME}.check.json"))
    return result


def test_a_verdict_is_made_where_it_is_asked_for(project):
    assert "CHECK" not in project.scons().output
    assert "CHECK" in project.scons("check=1").output
    result = verdict(project)
    assert (result["status"], result["entry"], result["gpu_name"]) == ("right", "saxpy", "sm_90")


def test_a_comment_checks_nothing_again_and_a_change_does(project):
    project.scons("check=1")
    text = project.read("kernels/saxpy.mlir").decode()
    project.write("kernels/saxpy.mlir", "// A comment.\n" + text)
    assert "CHECK" not in project.scons("check=1").output
    project.write("kernels/saxpy.mlir", text.replace("f32: 0.0>", "f32: 1.0>"))
    assert "CHECK" in project.scons("check=1").output


def test_edited_ptx_that_is_wrong_fails_the_build(project):
    project.scons("check=1")
    project.write("fixed/saxpy.sm_90.ptx", project.read(f"{NAME}.ptx").decode().replace("fma.rn", "fma.rz"))
    failed = project.scons("check=1", "overrides=fixed", expect=2)
    assert "CHECK" in failed.output and failed.errors.count("error: argument 1 differs") == 1
    assert verdict(project)["status"] == "wrong"
    again = project.scons("check=1", "overrides=fixed", expect=2)
    assert "(cached)" in again.output and again.errors.count("error: argument 1 differs") == 1
    assert project.scons("check=1").code == 0 and verdict(project)["status"] == "right"


def test_mistakes_are_reported_at_their_present_line(project):
    """Also for a verdict from the store: an added comment moves the line without another check."""
    project.scons()
    project.write("fixed/saxpy.sm_90.ptx", project.read(f"{NAME}.ptx").decode().replace("fma.rn", "fma.rz"))
    failed = project.scons("check=1", "overrides=fixed", "-j2", expect=2)
    assert "kernels/saxpy.mlir:46:13: error: argument 1 differs" in failed.errors
    assert "    %done = store_ptr_tko" in failed.errors and "Error 7" in failed.errors
    project.write("kernels/saxpy.mlir", "// A comment.\n" + project.read("kernels/saxpy.mlir").decode())
    failed = project.scons("check=1", "overrides=fixed", expect=2)
    assert "kernels/saxpy.mlir:47:13: error: argument 1 differs" in failed.errors and "(cached)" in failed.output
    ((result, folder),) = check_files.of_builds([project.path("build")])
    assert [each.location for each in result.failures] == ["kernels/saxpy.mlir:47:13"]
    assert os.path.samefile(folder, project.path("."))
    project.write(f"{NAME}.ptx", "other")
    with pytest.raises(UsageError, match="other PTX"):
        list(check_files.of_builds([project.path(f"{NAME}.check.json")]))


def test_the_description_of_a_checked_kernel_has_the_verdict(project):
    project.scons("check=1")
    (kernel,) = json.loads(project.read(f"{NAME}.checked.json"))["kernels"]
    entry = kernel.pop("verdict")
    assert entry["status"] == "right" and entry["right"] == entry["launches"] > 1
    assert entry["ptx"] == hashlib.sha256(project.read(f"{NAME}.ptx")).hexdigest()
    assert [kernel] == json.loads(project.read(f"{NAME}.json"))["kernels"]
    (reported,) = collect.of_build(project.path("build")).kernels
    assert (reported.verdict.status, reported.verdict.right) == ("right", entry["right"])
    assert [stage.outcome for stage in reported.stages if stage.name == "check"] == ["ran"]


def test_kernels_as_they_were_are_checked_from_the_store(project):
    """No stage is declared for these kernels: source and options are those of the manifest."""
    project.scons("ftz=1")
    first = project.scons("check=1", "ftz=1")
    assert "CHECK" in first.output and "LLVM" not in first.output
    assert "CHECK" not in project.scons("check=1", "ftz=1").output
    before = project.read(f"{NAME}.check.json")
    os.unlink(project.path(f"{NAME}.check.json"))
    assert "(cached)" in project.scons("check=1", "ftz=1").output
    assert project.read(f"{NAME}.check.json") == before


def test_verdicts_are_shared_and_go_with_their_kernel(project):
    """Two files with one kernel have one verdict; that of a removed file is deleted."""
    project.write("kernels/other.mlir", project.read("kernels/saxpy.mlir").decode())
    assert project.scons("check=1").output.count("check.json (cached)") == 1
    other = project.path("build/sm_90/O3/kernels/other")
    assert os.path.isfile(os.path.join(other, "saxpy.check.json"))
    os.unlink(project.path("kernels/other.mlir"))
    project.scons("check=1")
    assert not os.path.exists(other)


def test_the_checkers_code_is_in_the_key_of_checks_alone():
    """The compiler's code is not in that key either: an edit there takes effect through the PTX."""
    code = CodeBase()
    checker = set(code.closure(stage_roots(pipeline.CHECK))[0])
    parts = {module.name for module in pkgutil.walk_packages(emulator.__path__, "tileiras.sim.emulator.")}
    assert {"tileiras.check.judging", "tileiras.sim.interpreter.machine", *parts} <= checker
    assert not [module for module in checker if module.startswith(("tileiras.lowering", "tileiras.passes"))]
    for row in pipeline.STAGES:
        assert not [module for module in code.closure(stage_roots(row))[0] if module.startswith("tileiras.check")]


def test_products_without_ptx_are_refused(project):
    failed = project.scons("check=1", "emit=tileas", expect=2)
    assert "the build makes neither" in failed.output + failed.errors
