"""The library and the command `tileiras` on the artifact store."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from project import axpy, begin_with_imports, keep_imports, module

import tileiras
from tileiras.build import library
from tileiras.build.store.maintenance import statistics
from tileiras.cli.tileiras import main
from tileiras.diagnostics import CompileError, Diagnostic, Severity
from tileiras.ir import FileLineColLoc, print_op
from tileiras.sim import interpret
from tileiras.stages.units import Source

TEXT = module(axpy("first"), axpy("second", operation="mulf"))


@pytest.fixture
def store(tmp_path, monkeypatch):
    folder = str(tmp_path / "store")
    begin_with_imports(folder)
    monkeypatch.setenv("TILEIRAS_CACHE_DIR", folder)
    monkeypatch.setattr(library, "_sessions", {})
    yield folder
    keep_imports(folder)


@pytest.fixture
def never_compiled(monkeypatch):
    """From now on every compilation fails the test."""

    def forbid() -> None:
        monkeypatch.setattr(library.api, "compile_with", lambda *_, **__: pytest.fail("it was compiled"))

    return forbid


@pytest.mark.parametrize("emit", ["bytecode", "cuda_tile", "llvm", "ptx"])
def test_the_second_compilation_is_served_and_equal(store, never_compiled, emit):
    result = tileiras.compile(TEXT, gpu_name="sm_90", emit=emit)
    never_compiled()
    served = tileiras.compile(TEXT, gpu_name="sm_90", emit=emit)
    assert (served.data, served.suffix) == (result.data, result.suffix)
    assert [(k.name, k.artifacts) for k in served.kernels] == [(k.name, k.artifacts) for k in result.kernels]
    assert statistics(store)["stages"]["compile"]["entries"] == 1


@pytest.mark.sampled(2)
@pytest.mark.parametrize("changed", [{"gpu_name": "sm_80"}, {"emit": "llvm"}, {"entry": "first"}, {"opt_level": 2},
                                     {"ptx_version": "8.8"}])  # fmt: skip
def test_every_input_of_the_product_is_part_of_the_key(store, changed):
    tileiras.compile(TEXT, gpu_name="sm_90")
    tileiras.compile(TEXT, **{"gpu_name": "sm_90", **changed})
    assert statistics(store)["stages"]["compile"]["entries"] == 2


def test_the_name_of_a_source_is_no_part_of_the_key(store, never_compiled):
    tileiras.compile(TEXT, gpu_name="sm_90", source_name="a.mlir")
    never_compiled()
    tileiras.compile(TEXT, gpu_name="sm_90", source_name="b.mlir")


def test_the_command_and_the_library_serve_each_other(store, never_compiled, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.mlir").write_text(TEXT)
    assert main(["k.mlir", "--gpu-name=sm_90", "--emit=ptx"]) == 0
    never_compiled()
    artifact = tileiras.compile("k.mlir", gpu_name="sm_90")
    assert artifact.data == (tmp_path / "k.ptx").read_bytes()


def test_a_module_is_compiled_as_it_is_now(store):
    source = tileiras.parse(TEXT)
    first = tileiras.compile(source, gpu_name="sm_90").text
    next(op for op in source.walk() if op.name == "cuda_tile.entry").erase()
    assert tileiras.compile(source, gpu_name="sm_90").text != first


def test_errors_are_not_kept(store):
    for _ in range(2):
        with pytest.raises(CompileError, match="expected|unknown|unexpected"):
            tileiras.compile(TEXT.replace("%lane = iota", "%lane = iotta"), gpu_name="sm_90")
    assert not os.path.isdir(store) or "compile" not in statistics(store)["stages"]


def test_repeated_diagnostics_have_their_line(store, monkeypatch):
    warning = Diagnostic(Severity.WARNING, FileLineColLoc("<input>", 2, 3), "slow")
    whole = library.api.compile_with

    def warn(*arguments, **keywords):
        result = whole(*arguments, **keywords)
        result.diagnostics.append(warning)
        return result

    monkeypatch.setattr(library.api, "compile_with", warn)
    tileiras.compile(TEXT, gpu_name="sm_90")
    monkeypatch.setattr(library.api, "compile_with", lambda *_, **__: pytest.fail("it was compiled"))
    (result,) = tileiras.compile(TEXT, gpu_name="sm_90").diagnostics
    assert result.render() == "<input>:2:3: warning: slow\n" + TEXT.split("\n")[1] + "\n  ^"


def test_verify_compiles_and_compares(store, monkeypatch):
    tileiras.compile(TEXT, gpu_name="sm_90")
    monkeypatch.setenv("TILEIRAS_CACHE_MODE", "verify")
    tileiras.compile(TEXT, gpu_name="sm_90")
    other = library.Record({"": b"other"}, {"files": [], "diagnostics": []})
    monkeypatch.setattr(library, "_record", lambda made, name: other)
    monkeypatch.setenv("TILEIRAS_CACHE_MODE", "refresh")
    tileiras.compile(TEXT, gpu_name="sm_90")
    monkeypatch.setenv("TILEIRAS_CACHE_MODE", "verify")
    with pytest.raises(CompileError, match="made another .ptx than the store has for its key"):
        tileiras.compile(TEXT, gpu_name="sm_90")


def test_a_mode_that_does_not_exist_is_refused(store, monkeypatch):
    monkeypatch.setenv("TILEIRAS_CACHE_MODE", "fast")
    with pytest.raises(CompileError, match="accepted are read-write"):
        tileiras.compile(TEXT, gpu_name="sm_90")


def test_lines_are_quoted_of_text_only():
    placed = Diagnostic(Severity.WARNING, FileLineColLoc("k", 1, 1), "w", [Diagnostic.note(None, "n")])
    (text,) = library.quoted([placed], Source(b"line\n", "k", None, "text"))
    assert text.position.source_line == "line" and text.notes[0].message == "n"
    assert library.quoted([placed], Source(b"\x7f", "k", None, "bytecode")) == [placed]


@pytest.mark.parametrize("source", [5, None, ["k.mlir"]])
def test_an_invalid_source_is_named(source):
    with pytest.raises(TypeError, match=f"not {type(source).__name__}"):
        tileiras.compile(source, gpu_name="sm_90")
    with pytest.raises(TypeError, match=f"not {type(source).__name__}"):
        tileiras.parse(source)


def test_a_string_of_one_line_is_text_when_it_has_a_brace():
    result = tileiras.compile("cuda_tile.module @m { entry @k() { return } }", gpu_name="sm_90")
    assert ".entry k(" in result.text


def test_a_path_may_have_a_brace(tmp_path, monkeypatch):
    text = "cuda_tile.module @m { entry @k() { return } }"
    monkeypatch.chdir(tmp_path)
    Path("a{b}.mlir").write_text(text)
    result = tileiras.compile("a{b}.mlir", gpu_name="sm_90", emit="tileaa")
    assert result.data == tileiras.compile(Path("a{b}.mlir"), gpu_name="sm_90", emit="tileaa").data
    assert print_op(tileiras.parse("a{b}.mlir")) == print_op(tileiras.parse(text))
    interpret("a{b}.mlir", "k", 1, [])
    with pytest.raises(CompileError, match="unable to read input file 'c{d}.tileirbc': No such file"):
        tileiras.parse("c{d}.tileirbc")


def test_a_cubin_is_no_text(ptxas):
    result = tileiras.compile("cuda_tile.module @m { entry @k() { return } }", gpu_name="sm_90", emit="cubin")
    with pytest.raises(ValueError, match="<.cubin of k: [0-9]+ bytes> is no text"):
        result.text  # noqa: B018


def test_documented_modules_are_there_without_being_imported():
    code = "import tileiras; print(tileiras.api.compile.__module__, tileiras.sim.emulate, tileiras.runtime.launch)"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert process.stdout.startswith("tileiras.api ") and not process.stderr
