"""`tileirdisasm`: beside the vendor's program, and under the front end, which starts it to dump its kernels."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("cuda.tile")
sys.path.insert(0, str(Path(__file__).parents[1] / "bytecode"))

import kernels  # noqa: E402
from disassembled import disassembler  # noqa: E402

from tileiras.bytecode import Version, write_module  # noqa: E402
from tileiras.cli import tileirdisasm  # noqa: E402
from tileiras.ir import parse_module  # noqa: E402
from tileiras.ir.attributes import StringAttr  # noqa: E402

COMMAND = [sys.executable, "-m", "tileiras.cli.tileirdisasm"]
needs_vendor = pytest.mark.skipif(disassembler() is None, reason="needs tileirdisasm (nvidia-cuda-tileiras)")

DAMAGED = {"junk": b"hello", "empty": b"", "magic": b"\x7fTileIR\0", "surrogate": b"\xed\xa0\x80"}


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = kernels.export("softmax_f16", "13.3")
    for name, content in {**DAMAGED, "k.tileirbc": data, "cut": data[:200]}.items():
        (tmp_path / name).write_bytes(content)
    return tmp_path


def ours(words, capfd):
    code = tileirdisasm.main(words)
    return code, *capfd.readouterr()


def theirs(words):
    done = subprocess.run([disassembler(), *words], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def produced(path: Path, producer: str) -> None:
    """Bytecode of a module with that producer, as nvcc's has one."""
    module = parse_module("cuda_tile.module @m { entry @k() { return } }", "k.mlir")
    module.attributes["producer"] = StringAttr(producer)
    path.write_bytes(write_module(module, Version.parse("13.3")))


def test_the_producer_is_the_first_line(tmp_path, capfd):
    produced(tmp_path / "k.bc", "a compiler, V1.2")
    expected = "// Producer: a compiler, V1.2\nentry @k() {\n  return\n}\n"
    assert ours([str(tmp_path / "k.bc")], capfd) == (0, expected, "")


@needs_vendor
@pytest.mark.parametrize("producer", ["", "plain", "two\nlines", 'quo"te\\ \t é', "trail\n"])
def test_the_producer_is_printed_as_by_the_vendors_program(tmp_path, capfd, producer):
    produced(tmp_path / "k.bc", producer)
    assert ours([str(tmp_path / "k.bc")], capfd) == theirs([str(tmp_path / "k.bc")])


@needs_vendor
@pytest.mark.parametrize("words", [
    [], [""], ["nope"], ["."], ["-"], ["junk"], ["empty"], ["magic"], ["surrogate"], ["cut"], ["--foo", "k.tileirbc"],
    ["k.tileirbc", "k.tileirbc"], ["--preview=x", "k.tileirbc"], ["--preview=simt", "k.tileirbc"], ["--preview"],
    ["k.tileirbc", "--help"], ["-h"], ["--help-list"], ["--version"], ["--", "k.tileirbc"], ["-g=false", "k.tileirbc"],
    ["--print-debug-inf", "k.tileirbc"], ["-g=maybe", "k.tileirbc"],
])  # fmt: skip
def test_words_end_as_those_of_the_vendors_program(files, capfd, words):
    code, out, err = ours(words, capfd)
    expected = theirs(words)
    assert (code, bool(out), bool(err)) == (expected[0], bool(expected[1]), bool(expected[2]))
    assert "Traceback" not in err


@needs_vendor
@pytest.mark.parametrize("flags", [[], ["-g"], ["--print-debug-info"]])
@pytest.mark.parametrize("name", ["softmax_f16", "control_flow", "calls"])
def test_text_is_that_of_the_vendors_program(tmp_path, capfd, name, flags):
    path = tmp_path / f"{name}.tileirbc"
    path.write_bytes(kernels.export(name, "13.3"))
    code, out, err = ours([*flags, str(path)], capfd)
    assert (code, err) == (0, "")
    assert out == theirs([*flags, str(path)])[1]


@needs_vendor
@pytest.mark.parametrize("word", ["--help", "--help-hidden"])
def test_options_are_those_of_the_vendors_program(capfd, word):
    def options(text):
        rows = re.findall(r"^  (-[^<=]*?)(?:[=<]| +- |$)", text, re.MULTILINE)
        return {name for row in rows for name in re.findall(r"--?[\w-]+", row)}

    missing = options(theirs([word])[1]) - options(ours([word], capfd)[1])
    assert missing <= {"-h", "--print-all-options", "--print-options"}


def test_the_front_end_dumps_by_it(tmp_path, monkeypatch):
    from cuda.tile import _compile

    program = tmp_path / "tileirdisasm"
    program.write_text(f"#!{sys.executable}\nimport sys\nfrom tileiras.cli.tileirdisasm import program\n"
                       "sys.exit(program())\n")  # fmt: skip
    program.chmod(0o755)
    _compile._find_tileirdisasm_bin.cache_clear()
    monkeypatch.setattr(_compile, "_find_compiler_bin", lambda: SimpleNamespace(path=str(tmp_path / "tileiras")))
    try:
        text = _compile._bytecode_to_mlir_text(kernels.export("softmax_f16", "13.3"), preview_features=["simt"])
    finally:
        _compile._find_tileirdisasm_bin.cache_clear()
    assert text.startswith("entry @") and "softmax" in text.split("(")[0]


def test_the_command_is_installed_beside_the_compiler():
    from importlib.metadata import distribution

    scripts = {each.name for each in distribution("tileiras").entry_points if each.group == "console_scripts"}
    assert "tileirdisasm" in scripts
