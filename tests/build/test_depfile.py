"""`tileiras --depfile`, and the examples of other build systems that use it."""

import os
import shutil
import subprocess
import sys

import pytest
from project import CHECKOUT, axpy, module

from tileiras.build import discover
from tileiras.cli.tileiras import main


def test_a_rule_names_product_and_source(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a kernel#1.mlir").write_text(module(axpy("first")))
    words = ["a kernel#1.mlir", "--gpu-name=sm_90", "--emit=tileaa", "-o", "out$.mlir", "--depfile", "d"]
    assert main(words) == 0
    assert (tmp_path / "d").read_text() == "out$$.mlir: a\\ kernel\\#1.mlir\n"


def test_a_product_without_a_name_has_no_rule(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.mlir").write_text(module(axpy("first")))
    assert main(["k.mlir", "--gpu-name=sm_90", "--emit=tileaa", "-o", "-", "--depfile=d"]) == 1
    assert capsys.readouterr().err == "tileiras: --depfile needs an output file\n"


@pytest.mark.skipif(not discover.has_front_end(), reason="needs cuTile Python")
@pytest.mark.parametrize("store", ["off", "store"])
def test_modules_that_cutile_python_imports_are_in_the_rule(tmp_path, store):
    (tmp_path / "sizes.py").write_text("TILE = 128\n")
    (tmp_path / "k.py").write_text("""\
import cuda.tile as ct
from sizes import TILE

@ct.kernel
def twice(x, y):
    ct.store(y, (ct.bid(0),), ct.load(x, (ct.bid(0),), (TILE,)) * 2.0)

TILEIRAS_EXPORT = {"twice": (twice, "f32[?]", "f32[?]")}
""")
    for _ in range(2):
        subprocess.run(
            [sys.executable, "-m", "tileiras.cli.tileiras", "k.py", "--gpu-name=sm_90", "--emit=cuda_tile", "-o", "o",
             "--depfile=d"],
            cwd=tmp_path, env={**os.environ, "PYTHONPATH": CHECKOUT, "TILEIRAS_CACHE_DIR": store}, check=True,
        )  # fmt: skip
        assert (tmp_path / "d").read_text() == "o: k.py sizes.py\n"


@pytest.mark.skipif(not discover.has_front_end(), reason="needs cuTile Python")
def test_inputs_of_modules_are_in_the_rule_if_make_can_name_them(tmp_path):
    (tmp_path / "shapes").mkdir()
    (tmp_path / "tiles.json").write_text("128")
    (tmp_path / "k.py").write_text("""\
import json, os, pathlib
import numpy
import cuda.tile as ct

HERE = pathlib.Path(__file__).parent
TILE = json.loads((HERE / "tiles.json").read_text()) + len(os.listdir(HERE / "shapes"))
MORE = os.environ.get("MORE_TILES"), (HERE / "absent.json").exists()

@ct.kernel
def twice(x, y):
    ct.store(y, (ct.bid(0),), ct.load(x, (ct.bid(0),), (TILE,)) * 2.0)

TILEIRAS_EXPORT = {"twice": (twice, "f32[?]", "f32[?]")}
""")
    assert main([str(tmp_path / "k.py"), "--gpu-name=sm_90", "--emit=bytecode", "-o", str(tmp_path / "o"),
                 "--depfile", str(tmp_path / "d")]) == 0  # fmt: skip
    names = [os.path.relpath(path, tmp_path) for path in (tmp_path / "d").read_text().split()[1:]]
    record = next(name for name in names if name.endswith("RECORD"))
    assert "numpy" in record and sorted(set(names) - {record}) == ["k.py", "shapes", "tiles.json"]


@pytest.fixture
def examples(tmp_path):
    """The example with its kernels, and a program `tileiras` to be found."""
    shutil.copytree(os.path.join(CHECKOUT, "examples", "depfile"), tmp_path / "examples" / "depfile",
                    ignore=shutil.ignore_patterns("build", ".ninja*"))  # fmt: skip
    for name in ("saxpy.mlir", "relu_add_2d.mlir"):
        shutil.copy(os.path.join(CHECKOUT, "examples", name), tmp_path / "examples" / name)
    program = tmp_path / "bin" / "tileiras"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{CHECKOUT}" exec "{sys.executable}" -m tileiras.cli.tileiras "$@"\n')
    program.chmod(0o755)

    def run(*command: str) -> str:
        environment = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}",
                       "TILEIRAS_CACHE_DIR": str(tmp_path / "store")}  # fmt: skip
        done = subprocess.run(command, cwd=tmp_path / "examples" / "depfile", env=environment, capture_output=True,
                              text=True, check=False)  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run.kernel = tmp_path / "examples" / "saxpy.mlir"
    return run


def edit(path) -> None:
    path.write_text(path.read_text().replace("fma %a_tile, %xs", "fma %xs, %xs"))


@pytest.mark.skipif(shutil.which("ninja") is None, reason="no ninja")
def test_the_ninja_example_rebuilds_changed_kernels(examples):
    assert "[2/2] PTX" in examples("ninja")
    assert "no work to do" in examples("ninja")
    edit(examples.kernel)
    assert examples("ninja").splitlines() == ["[1/1] PTX build/saxpy.ptx"]
    # A comment does not change the product, now or in the next build.
    product = examples.kernel.parent / "depfile" / "build" / "saxpy.ptx"
    before = os.stat(product).st_mtime_ns
    examples.kernel.write_text("// A comment\n" + examples.kernel.read_text())
    assert examples("ninja").splitlines() == ["[1/1] PTX build/saxpy.ptx"]
    assert "no work to do" in examples("ninja") and os.stat(product).st_mtime_ns == before


@pytest.mark.skipif(None in (shutil.which("cmake"), shutil.which("ninja")), reason="no cmake or no ninja")
def test_the_cmake_example_rebuilds_changed_kernels(examples):
    examples("cmake", "-G", "Ninja", "-B", "build")
    assert "PTX saxpy" in examples("cmake", "--build", "build")
    assert "no work to do" in examples("cmake", "--build", "build")
    edit(examples.kernel)
    assert "PTX saxpy" in examples("cmake", "--build", "build")
