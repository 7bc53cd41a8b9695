"""Edited artifacts that replace a stage: compilation, dependencies, messages and verification."""

from __future__ import annotations

import json
import os
import re

import numpy as np
import pytest
from project import CHECKOUT, Project

import tileiras

NAME = "build/sm_90/O3/kernels/saxpy/saxpy"


@pytest.fixture
def project(tmp_path):
    result = Project(tmp_path)
    with open(os.path.join(CHECKOUT, "examples", "saxpy.mlir"), encoding="utf-8") as file:
        result.write("kernels/saxpy.mlir", file.read())
    result.scons()
    return result


def launched(project):
    """The result of the built kernel for a = 2, x = 1, y = 3: a x + y, or, with x and y exchanged, a y + x."""
    y = np.full(4096, 3, np.float32)
    arguments = [np.ones(4096, np.float32), y, np.float32(2), 4096]
    metadata = json.loads(project.read(f"{NAME}.json"))
    tileiras.sim.emulate(project.read(f"{NAME}.ptx").decode(), "saxpy", 4, arguments, metadata=metadata)
    assert len(set(y.tolist())) == 1
    return y[0]


FMA = {
    ".tileaa.mlir": r"(nv_tileaa\.fma %\w+, )(%\w+)(, )(%\w+)",
    ".tileas.mlir": r"(nv_tileas\.fma %\w+, )(%\w+)(, )(%\w+)",
    ".ll": r"(@llvm\.fma\.\w+\(<\d+ x float> %\w+, <\d+ x float> )(%\w+)(, <\d+ x float> )(%\w+)",
    ".ptx": r"(fma\.rn\.f32\s+%\w+, %\w+, )(%\w+)(, )(%\w+)",
}
"""Suffix -> a pattern of the product; x and y are its second and fourth group."""


def edit(project, suffix):
    """Write an override in which x and y are exchanged."""
    text = project.read(NAME + suffix).decode()
    changed, count = re.subn(FMA[suffix], r"\1\4\3\2", text)
    assert count
    project.write(f"fixed/saxpy.sm_90{suffix}", changed)
    return os.path.join("fixed", f"saxpy.sm_90{suffix}")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("suffix, stage", [
    (".tileaa.mlir", "tileaa"), (".tileas.mlir", "tileas"), (".ll", "llvm"), (".ptx", "ptx"),
])  # fmt: skip
def test_an_edited_artifact_of_any_stage_is_compiled(project, suffix, stage):
    assert launched(project) == 5
    shown = edit(project, suffix)
    order = ["read", "tileaa", "tileas", "llvm", "ptx"]
    build = project.scons("overrides=fixed")
    assert f"(overridden by {shown})" in build.output
    assert build.output.rstrip().split("\n")[-1].endswith(f"1 overridden: {shown}")
    assert launched(project) == 7
    assert json.loads(project.read(f"{NAME}.json"))["overridden"] == [stage]
    # The override is tracked: no stage runs again, and it is reported again.
    again = project.scons("overrides=fixed")
    assert again.ran == [] and again.cached == []
    assert again.output.rstrip().split("\n")[-1].endswith(f"1 overridden: {shown}")
    # Without the override all artifacts are the former ones, from the store.
    plain = project.scons()
    assert plain.stages == [] and set(plain.cached) <= set(order[order.index(stage):])
    assert launched(project) == 5
    assert "overridden" not in json.loads(project.read(f"{NAME}.json"))


def test_an_edit_of_an_override_reruns_its_dependents(project):
    path = project.path(edit(project, ".tileas.mlir"))
    project.scons("overrides=fixed")
    text = open(path, encoding="utf-8").read()
    open(path, "w", encoding="utf-8").write("// a comment\n" + text)
    # The artifact is printed as by the stage: a comment has no effect on later stages.
    build = project.scons("overrides=fixed")
    assert "TILEAS" in build.output and build.ran == []
    os.unlink(path)
    project.scons("overrides=fixed")
    assert launched(project) == 5
    edit(project, ".ptx")
    build = project.scons("overrides=fixed")
    assert "PTX" in build.output and build.ran == []
    assert launched(project) == 7


def test_workers_take_overrides_as_well(project):
    edit(project, ".tileas.mlir")
    project.scons("overrides=fixed", "-j2", TILEIRAS_CACHE_DIR=project.path("other"))
    assert launched(project) == 7


def test_an_override_of_another_kernel_is_reported_as_unused(project):
    edit(project, ".tileas.mlir")
    os.rename(project.path("fixed/saxpy.sm_90.tileas.mlir"), project.path("fixed/saxpy.sm_80.tileas.mlir"))
    build = project.scons("overrides=fixed")
    assert launched(project) == 5
    result = build.output + build.errors
    assert os.path.join("fixed", "saxpy.sm_80.tileas.mlir") + " replaces no artifact of this build" in result


@pytest.mark.sampled(2)
@pytest.mark.parametrize("suffix, text, said", [
    (".tileas.mlir", "nonsense", "fixed/saxpy.sm_90.tileas.mlir:1:1"),
    (".tileas.mlir", "module {\n}\n", "has no function 'saxpy'"),
    (".ll", "define void @other() {\n  ret void\n}\n", "defines no function 'saxpy'"),
    (".ptx", ".version 8.0\n.target sm_90\n.address_size 64\n", "has no entry 'saxpy'"),
])  # fmt: skip
def test_an_override_is_verified(project, suffix, text, said):
    project.write(f"fixed/saxpy.sm_90{suffix}", text)
    failed = project.scons("overrides=fixed", expect=2)
    assert said in failed.output + failed.errors
    assert not os.path.exists(project.path(NAME + suffix))


def test_a_mistake_in_an_override_is_reported_at_its_line(project):
    path = project.path(edit(project, ".tileas.mlir"))
    text = open(path, encoding="utf-8").read()
    line = text.split("nv_tileas.fma")[0].count("\n") + 1
    open(path, "w", encoding="utf-8").write(text.replace("nv_tileas.fma", "nv_tileas.fmx", 1))
    failed = project.scons("overrides=fixed", expect=2)
    assert f"fixed/saxpy.sm_90.tileas.mlir:{line}:" in failed.output + failed.errors


def test_mistakes_and_watches(project):
    assert "there is no such folder" in project.scons("overrides=nowhere", expect=2).errors
    from tileiras.cli import tileiras_watch

    assert tileiras_watch.main([project.folder, f"overrides={project.folder}"]) == 2


def test_a_report_shows_overridden_artifacts(project):
    edit(project, ".tileas.mlir")
    project.scons("overrides=fixed")
    from tileiras.report import collect

    (kernel,) = collect.of_build(project.path("build")).kernels
    assert {stage.name: stage.outcome for stage in kernel.stages}["tileas"] == "overridden"


def test_an_edited_decision_has_no_certificate_of_order(project):
    path = edit(project, ".tileas.mlir")
    build = project.scons("overrides=fixed", "deterministic=require", expect=2)
    assert f"{path}:1:1: error: deterministic=require" in build.errors
    assert project.scons("deterministic=require").code == 0
