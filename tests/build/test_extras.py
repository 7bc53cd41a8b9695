"""A first installation: the examples are built as far as the installed parts allow, and a missing part is reported with
the command that installs it."""

import os
import re
import shutil
import tomllib

import pytest
from project import CHECKOUT, SCONSTRUCT, Project

from tileiras.build import discover
from tileiras.build.run import cluster
from tileiras.codegen import libdevice, nvdisasm, ptxas, toolkit
from tileiras.diagnostics import CompileError
from tileiras.stages import export
from tileiras.support import extras


def test_the_extras_are_those_of_the_package():
    with open(os.path.join(CHECKOUT, "pyproject.toml"), "rb") as file:
        declared = tomllib.load(file)["project"]["optional-dependencies"]
    for extra, packages in extras.EXTRAS.items():
        assert tuple(re.split(r"[;\[<>=]", line)[0].strip() for line in declared[extra]) == packages


@pytest.fixture
def no_toolkit(monkeypatch):
    monkeypatch.setattr(toolkit, "wheel_roots", list)
    monkeypatch.setenv("PATH", "")
    for variable in toolkit.ROOT_VARIABLES:
        monkeypatch.delenv(variable, raising=False)


@pytest.mark.parametrize(
    "missing, package, extra",
    [
        (lambda: ptxas.find(), "nvidia-cuda-nvcc", "cuda"),
        (lambda: nvdisasm.find(), "nvidia-cuda-nvdisasm", "cuda"),
        (lambda: libdevice.missing(["__nv_sinf"]), "nvidia-nvvm", "cuda"),
        (lambda: export.MISSING_FRONT_END, "cuda-tile", "cutile"),
        (lambda: cluster.MISSING_PACKAGE, "distributed", "dask"),
    ],
)
def test_a_missing_package_is_named_as_installed(no_toolkit, missing, package, extra):
    try:
        result = missing()
    except CompileError as error:
        result = error
    text = result.render() if isinstance(result, CompileError) else result
    assert f"install the package '{package}' (the '{extra}' extra brings it)" in text
    assert "pip install tileiras" not in text and "tileiras[" not in text


def test_the_examples_build_with_the_extras_of_readme(tmp_path):
    """Without cuTile Python: every example in text and bytecode, and one line for the others."""
    project = Project(tmp_path)
    shutil.copytree(os.path.join(CHECKOUT, "examples"), project.path("examples"))
    project.write("SConstruct", SCONSTRUCT.replace('"kernels"', '"examples"'))
    # A package of that name hides the name space that the front end is in.
    project.write("hidden/cuda/__init__.py", "")
    hidden = os.pathsep.join([project.path("hidden"), project.compiler])
    build = project.scons("sm=sm_90", "opt=3", PYTHONPATH=hidden)
    sources = discover.kernel_files(project.path("examples"))
    built = [name for name in sources if not name.endswith(".py")]
    artifacts = project.artifacts("build/sm_90/O3/examples")
    for name in built:
        folder = os.path.join(os.path.dirname(name), discover.artifact_stem(project.path(f"examples/{name}"))) + os.sep
        assert any(path.startswith(folder) and path.endswith(".ptx") for path in artifacts), name
    lines = [line for line in build.output.split("\n") if line.startswith("tileiras: ") and "left out" in line]
    python = f"{len(sources) - len(built)} of {len(sources)} kernel sources in examples are cuTile Python"
    hint = "install the package 'cuda-tile' (the 'cutile' extra brings it)"
    assert lines == [f"tileiras: {python}, which is not installed, and are left out; to build them, {hint}"]
