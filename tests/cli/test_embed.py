"""`tileiras-embed`: kernels as C++ source."""

import json
import os
import shutil
import subprocess
import sys
import time

import pytest
from invocations import KERNEL

import tileiras
from tileiras.build import discover
from tileiras.cli.tileiras_embed import main

F32 = KERNEL.replace("TYPE", "f32")
WORDS = ["k.mlir", "--gpu-name=sm_80,sm_90", "--header=k.h", "--source=k.cpp", "--depfile=k.d"]
PACKAGE = os.path.dirname(os.path.dirname(tileiras.__file__))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TILEIRAS_CACHE_DIR", str(tmp_path / "store"))
    (tmp_path / "k.mlir").write_text(F32)
    return tmp_path


SCONSTRUCT = """\
import os
from tileiras.build import tool
env = Environment(tools=["default", tool], ENV=os.environ)
env.TileHeader("scons.h", SOURCE, sm="sm_80,sm_90", emit="ptx,fatbin,cubin", namespace="ns")
env.TileObject("scons", SOURCE, sm="sm_80,sm_90", emit="ptx,fatbin,cubin", namespace="ns")
"""

CUTILE = """\
import cuda.tile as ct

@ct.kernel
def first(x, y):
    ct.store(y, (ct.bid(0),), ct.load(x, (ct.bid(0),), (128,)) * 2.0)

@ct.kernel
def second(x):
    ct.store(x, (ct.bid(0),), ct.full((128,), 0, ct.float32))

TILEIRAS_EXPORT = {"first": (first, "f32[?]", "f32[?]"), "second": (second, "f32[?]")}
"""


@pytest.mark.parametrize("source", ["k.mlir", "k.py"])
def test_command_and_build_write_the_same_files(folder, source):
    if source == "k.py":
        if not discover.has_front_end():
            pytest.skip("needs cuTile Python")
        (folder / "k.py").write_text(CUTILE)
    (folder / "SConstruct").write_text(SCONSTRUCT.replace("SOURCE", repr(source)))
    environment = {**os.environ, "PYTHONPATH": PACKAGE}
    subprocess.run([sys.executable, "-m", "SCons", "-Q"], env=environment, check=True)
    assert main([source, *WORDS[1:], "--emit=ptx,fatbin,cubin", "--namespace=ns"]) == 0
    assert (folder / "k.h").read_bytes() == (folder / "scons.h").read_bytes()
    assert (folder / "k.cpp").read_bytes() == (folder / "scons_images.cpp").read_bytes()


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")
def test_both_files_are_one_program_without_warnings(folder):
    assert main(WORDS) == 0
    (folder / "main.cpp").write_text(
        '#include "k.h"\nint main() { return k::k_kernel.image_count == 2 && k::k_kernel.images[1].ptx ? 0 : 1; }\n'
    )
    compiler = ["c++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-I", tileiras.cpp_folder()]
    subprocess.run([*compiler, "main.cpp", "k.cpp", "-o", "app", "-ldl"], check=True)
    subprocess.run([folder / "app"], check=True)


def test_files_that_are_as_they_should_be_keep_their_times(folder):
    words = [*WORDS, "--stamp=k.stamp"]
    assert main(words) == 0
    names = ("k.h", "k.cpp", "k.stamp")
    for name in names:
        os.utime(name, (1, 1))
    (folder / "k.mlir").write_text("// A comment\n" + F32)
    assert main(words) == 0
    assert [os.stat(name).st_mtime == 1 for name in names] == [True, True, False]
    assert main([*words, "--num-warps=8"]) == 0
    assert [os.stat(name).st_mtime == 1 for name in names] == [False, False, False]
    assert (folder / "k.d").read_text() == "k.stamp k.h k.cpp: k.mlir\n"


def test_the_command_tileiras_does_so_when_asked(folder):
    words = ["tileiras", "k.mlir", "--gpu-name=sm_90", "--emit=ptx", "-o", "k.ptx", "--depfile=k.d"]

    def run(*more: str) -> float:
        os.path.exists("k.ptx") and os.utime("k.ptx", (1, 1))
        subprocess.run([sys.executable, "-m", f"tileiras.cli.{words[0]}", *words[1:], *more],
                       env={**os.environ, "PYTHONPATH": PACKAGE}, check=True)  # fmt: skip
        return os.stat("k.ptx").st_mtime

    started = time.time() - 60
    assert run("--write-if-changed") > started
    os.unlink("k.d")
    (folder / "k.mlir").write_text("// A comment\n" + F32)
    assert run("--write-if-changed") == 1
    assert (folder / "k.d").read_text() == "k.ptx: k.mlir\n"
    assert run("--write-if-changed", "--num-warps=8") > started
    assert run("--num-warps=8") > started


@pytest.mark.parametrize(
    "words, code, said",
    [
        ([], 1, "tileiras-embed: no input file"),
        (["k.mlir", "--gpu-name=sm_90", "--source=k.cpp"], 1, "--header=FILE is needed"),
        (["k.mlir", "--header=k.h", "--source=k.cpp"], 2, "gpu-name"),
        ([*WORDS, "--gpu-name=sm_90,sm_91"], 2, "invalid value for gpu-name: sm_91"),
        ([*WORDS, "--gpu-name=sm_90,cpu"], 2, "the code of target cpu is linked, not embedded"),
        ([*WORDS, "--emit=sass"], 2, "invalid value for emit: sass; accepted: ptx, cubin"),
        ([*WORDS, "--namespace=a b"], 1, "--namespace=a b is no name in C++"),
        ([*WORDS, "--source=k.h"], 1, "are one file: k.h"),
        ([*WORDS, "--header=k.mlir"], 1, "are one file: k.mlir"),
        ([*WORDS, "--header=-"], 1, "--depfile needs output files"),
        ([*WORDS, "--num-warp=8"], 1, "Did you mean '--num-warps'?"),
        (["none.mlir", *WORDS[1:]], 1, "unable to read input file 'none.mlir'"),
        (["k.ptx", *WORDS[1:]], 3, "unable to embed 'k.ptx'"),
        ([*WORDS, "--header=none/k.h"], 2, "unable to open output file 'none/k.h'"),
    ],
)
def test_mistakes_are_reported_and_leave_no_file(folder, capsys, words, code, said):
    (folder / "k.ptx").write_text(".version 8.0\n.target sm_90\n.address_size 64\n")
    assert main(words) == code
    assert said in capsys.readouterr().err
    assert sorted(os.listdir(folder)) in (["k.mlir", "k.ptx"], ["k.mlir", "k.ptx", "store"])
    assert (folder / "k.mlir").read_text() == F32


def test_errors_of_a_kernel_are_located_as_text_and_as_json(folder, capsys):
    (folder / "k.mlir").write_text(F32.replace("return", "turn"))
    assert main(WORDS) == 3
    assert capsys.readouterr().err.startswith("k.mlir:")
    assert main([*WORDS, "--diagnostics=json"]) == 3
    first = json.loads(capsys.readouterr().err.splitlines()[0])
    assert first["severity"] == "error" and "k.mlir" in json.dumps(first)
    assert not (folder / "k.h").exists()


def test_an_option_file_is_an_input_of_both(folder):
    (folder / "words").write_text('"--gpu-name=sm_80,sm_90" --num-warps=8\n')
    assert main(["k.mlir", "@words", "--header=k.h", "--source=k.cpp", "--depfile=k.d"]) == 0
    assert (folder / "k.d").read_text() == "k.h k.cpp: k.mlir words\n"
