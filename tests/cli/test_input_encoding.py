"""Inputs that are not UTF-8: a located diagnostic and exit code 3, for every command and every kind of file."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tileiras
from tileiras.cli import tileiras as compiler
from tileiras.cli import tileiras_run, tileiras_sweep, tileiras_translate
from tileiras.diagnostics import CompileError
from tileiras.sim import emulate, estimate, interpret

TEXTS = {
    "k.mlir": b"cuda_tile.module @m { // %s\n}\n", "k.tileaa.mlir": b"module { // %s\n}\n",
    "k.tileas.mlir": b"module { // %s\n}\n", "k.llvm.mlir": b"module { // %s\n}\n", "k.ll": b"; %s\n",
    "k.ptx": b"// %s\n", "k.py": b"import cuda.tile as ct # %s\n",
}  # fmt: skip
BYTES = [b"\xed\xa0\x80", b"\xff", b"\xc3"]  # half of a surrogate pair, no byte of UTF-8, a character that is cut off


@pytest.fixture(params=TEXTS)
def damaged(request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(bad: bytes) -> str:
        (tmp_path / request.param).write_bytes(b"\n" + TEXTS[request.param].replace(b"%s", b"a " + bad))
        return request.param

    return write


@pytest.mark.parametrize("bad", BYTES)
def test_the_compiler_names_the_place(damaged, capsys, bad):
    name = damaged(bad)
    emit = "cubin" if name.endswith(".ptx") else "ptx"
    assert compiler.main([name, "--gpu-name=sm_90", f"--emit={emit}", "-o", "out"]) == 3
    assert re.match(rf"{name}:2:\d+: error: ", capsys.readouterr().err)


@pytest.mark.parametrize("words", [
    (tileiras_run, "--backend=emulate"), (tileiras_run, "--profile"), (tileiras_sweep, "--grid=1"),
    (tileiras_translate, "--mlir-to-cudatilebc"),
])  # fmt: skip
def test_other_commands_do_so(damaged, capsys, words):
    command, option = words
    name = damaged(BYTES[0])
    assert command.main([option, name]) == 3
    assert re.match(rf"{name}:2:\d+: error: ", capsys.readouterr().err)


USES = {
    "compile": lambda text: tileiras.compile(text, gpu_name="sm_90", emit="ptx"),
    "parse": tileiras.parse,
    "interpret": lambda text: interpret(text, "k", 1, []),
    "estimate": lambda text: estimate(text, "k", 1, [], gpu="H200"),
    "tune": lambda text: tileiras.tune(text, 1, [], [{}]),
    "program": lambda text: tileiras.Program.create(text, gpu_name="sm_90"),
}


@pytest.mark.parametrize("use", USES)
def test_a_str_with_half_of_a_pair_is_refused_at_its_place(use):
    with pytest.raises(CompileError) as caught:
        USES[use]("cuda_tile.module @m {\n  // \ud800\n}\n")
    assert caught.value.code == 3
    position = caught.value.diagnostics[0].position
    assert (position.line, position.column) == (2, 6)


def test_a_name_that_no_file_can_have_is_not_read():
    for name in ("a\ud800.mlir", "a\0.mlir"):
        with pytest.raises(CompileError) as caught:
            tileiras.compile(name, gpu_name="sm_90", emit="ptx")
        assert caught.value.code == 1


def test_escapes_for_such_bytes_are_kept_in_bytecode():
    text = 'cuda_tile.module @m {\n  entry @k() {\n    %t = print_tko "\\ED\\A0\\80" -> token\n    return\n  }\n}\n'
    data = tileiras.compile(text, gpu_name="sm_90", emit="bytecode").data
    assert b"\xed\xa0\x80" in data
    assert "\\ED\\A0\\80" in tileiras.compile(data, gpu_name="sm_90", emit="cuda_tile").text


def test_unparsable_llvm_ir_and_ptx_are_input_errors(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in (
        ("parse.ll", "define ptx_kernel void @k() {\n  %x = fooo i32 1\n  ret void\n}\n"),
        ("verify.ll", "define ptx_kernel void @k() {\n  %x = add i32 1, %y\n  %y = add i32 1, 2\n  ret void\n}\n"),
        ("no.ptx", "nonsense"),
    ):
        (tmp_path / name).write_text(text)
        assert compiler.main([name, "--gpu-name=sm_90", "--emit=cubin", "-o", "out"]) == 3, name
        assert "failed to compile" not in capsys.readouterr().err


def test_the_emulator_takes_the_bytes_of_an_artifact():
    source = (
        "cuda_tile.module @m {\n  entry @k(%p: tile<ptr<i32>>) {\n    %c = constant <i32: 7> : tile<i32>\n"
        "    %t = store_ptr_tko weak %p, %c : tile<ptr<i32>>, tile<i32> -> token\n    return\n  }\n}\n"
    )
    kernel = tileiras.compile(source, gpu_name="sm_90", emit="ptx").kernels[0]
    for ptx in (kernel.artifacts[".ptx"], memoryview(kernel.artifacts[".ptx"])):
        array = np.zeros(1, np.int32)
        emulate(ptx, "k", 1, [array], kernel.metadata)
        assert array[0] == 7
