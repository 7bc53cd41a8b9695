"""`tileiras package`: kernels and their loader in an environment without packages, against a stand-in driver."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tileiras.cli import verbs
from tileiras.codegen import toolkit

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

pytestmark = pytest.mark.skipif(toolkit.find_program("ptxas") is None, reason="needs ptxas")

PROGRAM = """\
import ctypes, sys
import shop
from shop._runtime import driver
assert not [name for name in sys.modules if name.startswith(("tileiras", "numpy"))]
driver.LIBRARIES = (sys.argv[1],)
library = ctypes.CDLL(sys.argv[1])
library.stand_in_reset(b"", 1, 1, 1)  # with a current context
library.stand_in_log.restype = ctypes.c_char_p
try:
    shop.launch("saxpy", 3, [1, 2])
except shop.ArgumentError as error:
    print("refused:", error)
x, y = bytearray(4 * 3000), bytearray(4 * 3000)
shop.launch("saxpy", 3, [x, y, 2.0, 3000])
shop.launch("matmul_f32", (2, 2), [bytearray(1 << 12), bytearray(1 << 12), bytearray(1 << 12), 32, 32, 32])
memory = ctypes.create_string_buffer(16)
shop.bind("saxpy")((3, 1, 1), (ctypes.addressof(memory), 8192, 2.0, 3000), 0)
print(library.stand_in_log().decode())
"""


def package(*words: object) -> int:
    return verbs.run(["package", *map(str, words)])


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("wheel") / "shop-1.2-py3-none-any.whl"
    sources = (EXAMPLES / "saxpy.mlir", EXAMPLES / "matmul_f32.mlir")
    assert package(*sources, "--gpu-name", "sm_80,sm_90", "--tensor-maps=host", "-o", path) == 0
    return path


def test_a_clean_environment_launches_a_wheel(wheel, stand_in_library, tmp_path):
    venv.create(tmp_path / "clean", with_pip=False)
    python = tmp_path / "clean" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", "--python", str(python)]
    subprocess.run([*pip, "install", "--no-index", str(wheel)], check=True, cwd=tmp_path)
    (tmp_path / "program.py").write_text(PROGRAM)
    words = [str(python), "-I", "program.py", stand_in_library]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "refused: " in done.stdout and done.stdout.count("load fatbin") == 2
    assert done.stdout.count("launch grid 3 1 1") == 2 and "function matmul_f32" in done.stdout
    listing = subprocess.run([str(python), "-I", "-m", "shop"], capture_output=True, text=True, check=True).stdout
    assert "saxpy(ptr<f32>, ptr<f32>, f32, i32): sm_80 cubin, sm_90 cubin, sm_90 PTX 7.8" in listing


def test_a_folder_has_the_files_of_the_wheel(tmp_path):
    words = (EXAMPLES / "saxpy.mlir", "--gpu-name=sm_80", "-O1")
    assert package(*words, "-o", tmp_path / "one" / "shop", "--depfile", tmp_path / "d") == 0
    assert package(*words, "-o", tmp_path / "two" / "shop") == 0
    files = sorted(path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*") if path.is_file())
    assert all((tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes() for name in files)
    assert {"saxpy.fatbin", "kernels.json", "packaged.py"} <= {name.name for name in files}
    assert "saxpy.mlir" in (tmp_path / "d").read_text()


def test_no_import_of_the_compiler_is_executed_in_a_launch(tmp_path):
    """Imports that remain are for type checkers, for PTX without description, and for CPUs."""
    assert package(EXAMPLES / "saxpy.mlir", "--gpu-name=sm_80", "-O1", "-o", tmp_path / "shop") == 0
    code = "".join(path.read_text() for path in sorted((tmp_path / "shop" / "_runtime").glob("*.py")))
    remaining = {line.strip() for line in code.splitlines() if line.strip().startswith("from tileiras")}
    assert remaining == {
        "from tileiras.api import Artifact", "from tileiras.codegen.tensor_map import TensorMap",
        "from tileiras.codegen import kernel_metadata, ptx", "from tileiras.targets.cpu import refusal",
        "from tileiras.codegen.object_file import UNDEFINED, ObjectFile",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("-o", "1x"), 2, "'1x' is no name of a Python package"),
        (("-o", "x.whl"), 1, "a wheel is called NAME-VERSION-py3-none-any.whl"),
        (("-o", "x", str(EXAMPLES / "saxpy.mlir")), 2, "two sources are called 'saxpy'"),
        (("-o", "x", "absent.mlir"), 1, "absent.mlir"),
    ],
)
def test_mistakes_are_reported(words, code, message, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    assert package(EXAMPLES / "saxpy.mlir", "--gpu-name=sm_80", "-O1", *words) == code
    assert message in capfd.readouterr().err
