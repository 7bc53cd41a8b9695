"""The installed library: symbols, pkg-config's file and manual, and its examples in C, C++ and Rust, which compile."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tileiras
from tileiras.build import compiler_library
from tileiras.cli import verbs
from tileiras.diagnostics import CompileError

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FUNCTIONS = set(re.findall(r"TILEIRAS_API \w+ (\w+)\(", (Path(tileiras.c_folder()) / "tileiras.h").read_text()))

pytestmark = pytest.mark.skipif(shutil.which("cc") is None or os.name == "nt", reason="no C compiler")


@pytest.fixture(scope="module")
def prefix(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("libtileiras") / "a folder"
    try:
        compiler_library.install(str(folder))
    except CompileError as error:
        if "no shared library" in error.diagnostics[0].message:
            pytest.skip("Python has no shared library")
        raise
    return folder


def flags(prefix: Path, *wanted: str) -> list[str]:
    program = shutil.which("pkg-config")
    if program is None:
        pytest.skip("no pkg-config")
    environment = {**os.environ, "PKG_CONFIG_PATH": str(prefix / "lib" / "pkgconfig")}
    stdout = subprocess.run(
        [program, *wanted, "libtileiras"], env=environment, capture_output=True, text=True, check=True
    ).stdout
    return shlex.split(stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="versions of GNU's linker")
def test_exports_are_the_versioned_functions_of_the_header(prefix):
    nm = shutil.which("nm")
    if nm is None:
        pytest.skip("no nm")
    stdout = subprocess.run(
        [nm, "-D", "--defined-only", prefix / "lib" / "libtileiras.so"], capture_output=True, text=True, check=True
    ).stdout
    exported = {line.split()[2] for line in stdout.splitlines() if line.split()[1] == "T"}
    assert exported == {f"{name}@@TILEIRAS_1.0" for name in FUNCTIONS} and len(FUNCTIONS) == 6


def test_the_manual_names_every_function_and_code(prefix):
    page = (prefix / "share" / "man" / "man3" / "libtileiras.3").read_text()
    header = (prefix / "include" / "tileiras.h").read_text()
    assert all(name in page for name in FUNCTIONS)
    assert all(code in page for code in re.findall(r"TILEIRAS_(?:SUCCESS|ERROR_\w+)", header))


def test_pkg_config_names_the_release(prefix):
    assert flags(prefix, "--modversion") == [tileiras.__version__]


def commands(prefix: Path, language: str) -> list[str]:
    """The command that builds an example."""
    if language == "rust":
        search, library = str(prefix / "lib"), flags(prefix, "--libs-only-l")
        assert library == ["-ltileiras"]
        return ["rustc", "-O", str(EXAMPLES / "libtileiras" / "compile.rs"), "-L", search,
                "-C", f"link-arg=-Wl,-rpath,{search}"]  # fmt: skip
    source = EXAMPLES / ("c_app/src/main.c" if language == "c" else "libtileiras/compile.cpp")
    compiler = ["cc", "-std=c11"] if language == "c" else ["c++", "-std=c++17"]
    return [*compiler, "-Wall", "-Wextra", "-Werror", str(source), *flags(prefix, "--cflags", "--libs"),
            f"-Wl,-rpath,{prefix / 'lib'}"]  # fmt: skip


@pytest.mark.parametrize("language", ["c", "c++", "rust"])
def test_an_example_compiles_in_its_process(prefix, tmp_path, ptxas, language):
    command = commands(prefix, language)
    if shutil.which(command[0]) is None:
        pytest.skip(f"no {command[0]}")
    subprocess.run([*command, "-o", str(tmp_path / "compile")], check=True)
    environment = {**os.environ, "TILEIRAS_CACHE_DIR": "off"}
    words = [str(tmp_path / "compile"), str(EXAMPLES / "saxpy.mlir"), "90", str(tmp_path / "k.cubin")]
    subprocess.run(words, env=environment, check=True)
    assert (tmp_path / "k.cubin").read_bytes().startswith(b"\x7fELF")
    (tmp_path / "bad.mlir").write_text("cuda_tile.module @m { entry @k() { %0 = addi } }")
    done = subprocess.run(
        [words[0], str(tmp_path / "bad.mlir"), *words[2:]], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 3 and "error: " in done.stderr


def test_mistakes_are_named(tmp_path, monkeypatch, capsys):
    assert verbs.run(["libtileiras"]) == 1 and "a folder is expected" in capsys.readouterr().err
    monkeypatch.setenv("CC", "absent-cc")
    assert verbs.run(["libtileiras", str(tmp_path)]) == 2
    assert "no C compiler: 'absent-cc'" in capsys.readouterr().err
    monkeypatch.delenv("CC")
    (tmp_path / "file").write_text("")
    assert verbs.run(["libtileiras", str(tmp_path / "file")]) == 2
