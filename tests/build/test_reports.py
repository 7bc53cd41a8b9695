"""Reports and tuned options in builds."""

from __future__ import annotations

import json
import os

import pytest
from project import CHECKOUT, Project

SAXPY = os.path.join(CHECKOUT, "examples", "saxpy.mlir")

SCONSTRUCT = """
import os
from tileiras.build import command_line, tool
env = Environment(tools=[tool], ENV=os.environ, **command_line(ARGUMENTS))
kernels = env.TileTree("kernels")
env.Default(kernels)
env.Alias("report", env.TileReport("build/report.json", kernels))
"""


@pytest.fixture
def project(tmp_path):
    result = Project(tmp_path)
    result.write("SConstruct", SCONSTRUCT)
    result.write("kernels/saxpy.mlir", open(SAXPY, encoding="utf-8").read())
    return result


def test_a_report_is_a_node_of_the_build(project):
    first = project.scons("report", "lineinfo=1", "emit-remarks=1", "emit=cubin")
    assert "REPORT" in first.output
    (line,) = [line for line in first.output.splitlines() if line.startswith("tileiras: ")]
    assert ", 1 report in " in line
    (kernel,) = json.loads(project.read("build/report.json"))["kernels"]
    assert (kernel["name"], kernel["target"], kernel["source"]) == ("saxpy", "sm_90", "kernels/saxpy.mlir")
    assert {"source", "tileas", "sass"} <= kernel["levels"].keys() and kernel["choices"]
    assert {stage["name"]: stage["outcome"] for stage in kernel["stages"]}["cubin"] == "ran"
    again = project.scons("report", "lineinfo=1", "emit-remarks=1", "emit=cubin")
    assert again.ran == [] and "REPORT" not in again.output
    # A build without the option has no reports.
    assert "REPORT" not in project.scons("emit=cubin").output


def test_tuned_options_are_tracked(project):
    assert project.scons().stages == ["read", "tileaa", "tileas", "llvm", "ptx"]
    options = {"format": 1, "options": {"sm_90": {"unspecialized-pipeline-num-stages": 2}}}
    project.write("kernels/saxpy.tune.json", json.dumps(options))
    # Only tileas reads the option; its output for a kernel without loops is the same.
    assert project.scons().stages == ["tileas"]
    assert project.scons().ran == []
    project.write("kernels/saxpy.tune.json", json.dumps({"format": 1, "options": {"sm_90": {"num-warps": 1}}}))
    assert project.scons().stages[0] == "tileaa"
    metadata = json.loads(project.read("build/sm_90/O3/kernels/saxpy/saxpy.json"))
    assert metadata["kernels"][0]["block"][0] == 32
    project.write("kernels/saxpy.tune.json", "{")
    failed = project.scons(expect=2)
    assert "saxpy.tune.json:1:1: error: not a file of tuned options" in failed.output + failed.errors


@pytest.mark.parametrize("call, said", [
    ('env.TileReport("r.txt", kernels)', "ends in .html"), ('env.TileReport("r.html", "k.mlir")', "TileTree returned"),
])  # fmt: skip
def test_mistakes_are_reported_at_their_line(project, call, said):
    project.write("SConstruct", SCONSTRUCT + call + "\n")
    failed = project.scons(expect=2)
    assert said in failed.output + failed.errors and "SConstruct\", line 8" in failed.output + failed.errors
