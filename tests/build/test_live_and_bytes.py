"""Stages that pass modules in memory and stages that write and read them produce the same bytes."""

import pytest
from project import Project, axpy, module

import tileiras
from tileiras.diagnostics import CompileError

TEXT = module(axpy("first", operation="mulf"))


@pytest.mark.parametrize("emit, suffix", [
    ("tileaa", ".tileaa.mlir"), ("tileas", ".tileas.mlir"), ("llvm", ".ll"), ("ptx", ".ptx"),
])  # fmt: skip
def test_library_and_build_agree(tmp_path_factory, emit, suffix):
    project = Project(tmp_path_factory.getbasetemp() / "agree")
    project.write("kernels/k.mlir", TEXT)
    project.scons()
    artifact = tileiras.compile(TEXT, gpu_name="sm_90", emit=emit)
    assert artifact.data == project.read("build/sm_90/O3/kernels/k/first" + suffix)
    if emit == "ptx":
        assert artifact.kernels[0].artifacts[".json"] == project.read("build/sm_90/O3/kernels/k/first.json")


def test_several_entries_become_one_ptx_module():
    text = module(axpy("first"), axpy("second", operation="mulf"))
    artifact = tileiras.compile(text, gpu_name="sm_90")
    assert [kernel.name for kernel in artifact.kernels] == ["first", "second"]
    assert artifact.text.count(".visible .entry ") == 2 and artifact.text.count(".version ") == 1
    assert artifact.kernels[1].metadata["name"] == "second"
    alone = tileiras.compile(text, gpu_name="sm_90", entry="second")
    assert alone.data == artifact.kernels[1].artifacts[".ptx"]


def test_the_module_given_is_left_as_it_is():
    from tileiras.api import parse
    from tileiras.ir import print_op

    kernel = parse(TEXT)
    before = print_op(kernel)
    tileiras.compile(kernel, gpu_name="sm_90")
    assert print_op(kernel) == before


def test_an_error_has_a_place_and_a_code():
    with pytest.raises(CompileError) as caught:
        tileiras.compile(TEXT.replace("%lane = iota", "%lane = iotta"), gpu_name="sm_90", source_name="k.mlir")
    assert caught.value.code == 3
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.position.filename == "k.mlir" and diagnostic.position.line == 8


def test_a_misspelt_option_is_refused_with_the_nearest():
    with pytest.raises(CompileError, match="unknown option 'num_wraps' .did you mean 'num_warps'") as caught:
        tileiras.compile(TEXT, gpu_name="sm_90", num_wraps=4)
    assert caught.value.code == 2
    with pytest.raises(TypeError):  # as of any function of Python
        tileiras.compile(TEXT, gpu_name="sm_90", num_wraps=4)


def test_a_notebook_shows_diagnostics_without_our_frames():
    with pytest.raises(CompileError) as caught:
        tileiras.compile(TEXT.replace("%lane = iota", "%lane = iotta"), gpu_name="sm_90", source_name="k.mlir")
    shown = caught.value._render_traceback_()
    assert shown[0].startswith("k.mlir:8:") and shown[-1].strip() == "^"
