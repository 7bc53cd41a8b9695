"""Verdicts as nodes of a build: what they follow from, and that code which is not right fails it."""

from __future__ import annotations

import json
import os

import pytest
from project import CHECKOUT, Project

SCONSTRUCT = """
import os
from tileiras.build import tool
from tileiras.build.variables import construction_variables
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
    found = Project(tmp_path)
    found.write("SConstruct", SCONSTRUCT)
    with open(os.path.join(CHECKOUT, "examples", "saxpy.mlir"), encoding="utf-8") as file:
        found.write("kernels/saxpy.mlir", file.read())
    return found


def verdict(project):
    (found,) = json.loads(project.read(f"{NAME}.check.json"))
    return found


def test_a_verdict_is_made_where_it_is_asked_for(project):
    assert "CHECK" not in project.scons().output
    assert "CHECK" in project.scons("check=1").output
    found = verdict(project)
    assert (found["status"], found["entry"], found["gpu_name"]) == ("right", "saxpy", "sm_90")


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
    assert "CHECK" in failed.output and "error: argument 1 differs" in failed.output
    assert verdict(project)["status"] == "wrong"
    again = project.scons("check=1", "overrides=fixed", expect=2)
    assert "CHECK" not in again.output and "error: argument 1 differs" in again.output
    assert project.scons("check=1").code == 0 and verdict(project)["status"] == "right"


def test_products_without_ptx_are_refused(project):
    failed = project.scons("check=1", "emit=tileas", expect=2)
    assert "the build makes neither" in failed.output + failed.errors
