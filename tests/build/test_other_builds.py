"""The CMake package and Meson's generator: the real tools rebuild the outputs of changed inputs only."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest
from project import CHECKOUT, axpy, module

import tileiras
from tileiras.build import discover

pytestmark = pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")

NINJA = pytest.param("Ninja", marks=pytest.mark.skipif(shutil.which("ninja") is None, reason="no ninja"))
MAKE = pytest.param("Unix Makefiles", marks=pytest.mark.skipif(shutil.which("make") is None, reason="no make"))
HAS_CMAKE = pytest.mark.skipif(shutil.which("cmake") is None, reason="no cmake")
HAS_MESON = pytest.mark.skipif(
    importlib.util.find_spec("mesonbuild") is None or None in (shutil.which("ninja"), shutil.which("pkg-config")),
    reason="no meson, ninja or pkg-config",
)
CMAKE = os.path.dirname(tileiras.cmake_folder())

LISTED = ["saxpy: sm_80 PTX", "saxpy: sm_90 PTX", "relu_add_2d: sm_80 PTX", "relu_add_2d: sm_90 PTX"]


class Folder:
    """A project's folder, and the programs with which it is built."""

    def __init__(self, path, store: str) -> None:
        self.path = path
        programs = path.parent / "bin"
        programs.mkdir(exist_ok=True)
        for name in ("tileiras", "tileiras-embed"):
            script = programs / name
            run = f"import sys; from tileiras.processes.service import client; sys.exit(client.run('{name}'))"
            script.write_text(f'#!/bin/sh\nPYTHONPATH="{CHECKOUT}" exec "{sys.executable}" -c "{run}" "$@"\n')
            script.chmod(0o755)
        # Meson is installed beside the interpreter.
        places = [str(programs), os.path.dirname(sys.executable), os.environ["PATH"]]
        self.environment = {**os.environ, "PATH": os.pathsep.join(places), "TILEIRAS_CACHE_DIR": store}

    def control(self, *words: str) -> str:
        """The output of `tileiras-server` for the service that commands of this folder use."""
        return self.run(
            "/bin/sh", "-c",
            f'PYTHONPATH="{CHECKOUT}" exec "{sys.executable}" -m tileiras.processes.service.command "$@"', "sh",
            *words,
        )  # fmt: skip

    def run(self, *command: str, expect: int = 0) -> str:
        done = subprocess.run(
            command, cwd=self.path, env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == expect, done.stdout + done.stderr
        return done.stdout + done.stderr

    def write(self, name: str, text: str) -> None:
        (self.path / name).write_text(text)

    def edit(self, name: str, old: str, new: str) -> None:
        text = (self.path / name).read_text()
        assert old in text
        self.write(name, text.replace(old, new))

    def configure(self, generator: str, *words: str) -> str:
        return self.run("cmake", "-G", generator, "-B", "build", f"-DCMAKE_PREFIX_PATH={CMAKE}/tileiras", *words)

    def build(self) -> list[str]:
        """The steps of a parallel build by CMake or Meson, in alphabetical order."""
        if (self.path / "build" / "meson-info").is_dir():
            return _said(self.run("meson", "compile", "-C", "build", "-j", "2"))
        return _said(self.run("cmake", "--build", "build", "-j", "2"))


def _said(output: str) -> list[str]:
    """The steps that a build names, without counts and folders."""
    words = {"Kernels of": "kernels", "Building CXX": "object", "Linking CXX": "link", "Generating from": "kernels",
             "Compiling C++": "object", "Linking target": "link"}  # fmt: skip
    result = []
    for line in output.splitlines():
        for spelled, meant in words.items():
            if line.startswith("[") and spelled in line:
                name = os.path.basename(line.split()[-1].strip("'")).removeprefix("meson-generated_")
                result.append(f"{meant} {name.partition('.')[0]}")
    return sorted(result)


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> str:
    return str(tmp_path_factory.mktemp("store"))


@pytest.fixture
def folder(tmp_path, store) -> Folder:
    (tmp_path / "project").mkdir()
    return Folder(tmp_path / "project", store)


@pytest.fixture
def example(tmp_path, store) -> Folder:
    shutil.copytree(os.path.join(CHECKOUT, "examples", "embed"), tmp_path / "examples" / "embed")
    for name in ("saxpy.mlir", "relu_add_2d.mlir"):
        shutil.copy(os.path.join(CHECKOUT, "examples", name), tmp_path / "examples" / name)
    return Folder(tmp_path / "examples" / "embed", store)


@pytest.fixture
def served(example, tmp_path_factory) -> Iterator[Folder]:
    """The example, with commands that use a compile service without earlier requests."""
    if sys.platform != "linux":
        pytest.skip("the service needs Linux")
    runtime = str(tmp_path_factory.mktemp("runtime"))
    example.environment |= {"XDG_RUNTIME_DIR": runtime, "TILEIRAS_SERVER": "auto"}
    example.control("start")
    yield example
    example.control("stop")


def follow_edits(example: Folder) -> None:
    """Build the example, and again after edits: a build runs the affected steps, the next one none."""
    cold = ["kernels relu_add_2d", "kernels saxpy", "link app", "object main", "object relu_add_2d_images",
            "object saxpy_images"]  # fmt: skip
    assert example.build() == cold
    listed = subprocess.run([example.path / "build" / "app"], capture_output=True, text=True, check=True).stdout
    assert listed.splitlines()[:4] == LISTED
    assert example.build() == []
    # A comment reaches no image, so no step compiles or links, then or later.
    example.edit("../saxpy.mlir", "// One pointer", "// A comment more.\n    // One pointer")
    assert example.build() == ["kernels saxpy"]
    assert example.build() == []
    # Another image: the header stays, and so do the objects that include it.
    example.edit("../saxpy.mlir", "fma %a_tile, %xs, %ys", "fma %xs, %xs, %ys")
    assert example.build() == ["kernels saxpy", "link app", "object saxpy_images"]
    assert example.build() == []
    # Another launch: the header changes.
    example.edit("../relu_add_2d.mlir", "entry @relu_add_2d", "entry @relu_add_2d_again")
    example.edit("main.cpp", "relu_add_2d_kernel", "relu_add_2d_again_kernel")
    assert example.build() == ["kernels relu_add_2d", "link app", "object main", "object relu_add_2d_images"]


@pytest.mark.slow
@HAS_CMAKE
@pytest.mark.parametrize("generator", [NINJA, pytest.param(MAKE, marks=pytest.mark.slow)])
def test_cmake_rebuilds_changed_kernels(example, generator):
    example.configure(generator)
    follow_edits(example)
    # Options are inputs of kernels, with Make as well.
    example.edit("CMakeLists.txt", "GPU sm_80", "GPU sm_86")
    assert example.build() == ["kernels relu_add_2d", "kernels saxpy", "link app", "object main",
                               "object relu_add_2d_images", "object saxpy_images"]  # fmt: skip


@pytest.mark.slow
@HAS_MESON
def test_meson_rebuilds_changed_kernels(example):
    example.run("meson", "setup", "build", "--pkg-config-path", tileiras.pkgconfig_folder())
    follow_edits(example)


EDITED = 5
"""Runs of `tileiras-embed` in `follow_edits`."""


@pytest.mark.slow
@HAS_CMAKE
@pytest.mark.skipif(shutil.which("make") is None, reason="no make")
def test_cmake_builds_the_same_through_the_service(served):
    served.configure("Unix Makefiles")
    follow_edits(served)
    assert json.loads(served.control("status", "--json"))["requests"] == EDITED


@HAS_MESON
def test_meson_builds_the_same_through_the_service(served):
    served.run("meson", "setup", "build", "--pkg-config-path", tileiras.pkgconfig_folder())
    follow_edits(served)
    assert json.loads(served.control("status", "--json"))["requests"] == EDITED


PYTHON_SOURCE = """\
import cuda.tile as ct
from sizes import TILE

@ct.kernel
def twice(x, y):
    ct.store(y, (ct.bid(0),), ct.load(x, (ct.bid(0),), (TILE,)) * 2.0)

TILEIRAS_EXPORT = {"twice": (twice, "f32[?]", "f32[?]")}
"""

MAIN_OF_TWICE = """\
#include "twice.h"
int main() {
  if (twice::twice_kernel.image_count != 2 || twice::twice_needs[0].block[0] != 256) return 1;
  return twice::twice(nullptr, 1, 1, nullptr, 1, 1, {1}) ? 0 : 2;
}
"""

LIBRARY = """\
cmake_minimum_required(VERSION 3.20)
project(app LANGUAGES CXX)
find_package(tileiras 0.1 REQUIRED)
add_library(kernels STATIC)
tileiras_target_kernels(kernels PUBLIC SOURCES twice.py EMIT ptx cubin OPTIONS -O2 --num-warps=8)
add_executable(app main.cpp)
target_link_libraries(app PRIVATE kernels)
"""


@HAS_CMAKE
@pytest.mark.skipif(not discover.has_front_end(), reason="needs cuTile Python")
@pytest.mark.parametrize("generator", [NINJA, pytest.param(MAKE, marks=pytest.mark.slow)])
def test_other_builds_track_imports_and_export_public_headers(folder, generator):
    folder.write("CMakeLists.txt", LIBRARY)
    folder.write("sizes.py", "TILE = 128\n")
    folder.write("twice.py", PYTHON_SOURCE)
    folder.write("main.cpp", MAIN_OF_TWICE)
    folder.configure(generator, "-DTILEIRAS_GPU=sm_90")
    assert folder.build() == ["kernels twice", "link app", "link libkernels", "object main", "object twice_images"]
    images = (folder.path / "build/tileiras/kernels/twice_images.cpp").read_text()
    assert '{"sm_90", "twice", true' in images and '{"sm_90", "twice", false' in images
    assert folder.build() == []
    folder.write("sizes.py", "TILE = 256\n")
    assert folder.build() == ["kernels twice", "link app", "link libkernels", "object twice_images"]
    assert folder.build() == []


MESON = """\
project('app', 'cpp', default_options: ['cpp_std=c++17'])
kernels = generator(
  find_program('tileiras-embed'), output: ['@BASENAME@.h', '@BASENAME@_images.cpp'], depfile: '@BASENAME@.d',
  arguments: [
    '--gpu-name=sm_90', '--emit=ptx,cubin', '--num-warps=8', '--header=@OUTPUT0@', '--source=@OUTPUT1@',
    '--depfile=@DEPFILE@', '@INPUT@',
  ],
)
executable('app', 'main.cpp', kernels.process('twice.py'), dependencies: dependency('tileiras'))
"""


@pytest.mark.slow
@HAS_MESON
@pytest.mark.skipif(not discover.has_front_end(), reason="needs cuTile Python")
def test_meson_follows_imports_of_cutile_python(folder):
    """The dependencies come from the generator's depfile."""
    folder.write("meson.build", MESON)
    folder.write("sizes.py", "TILE = 128\n")
    folder.write("twice.py", PYTHON_SOURCE)
    folder.write("main.cpp", MAIN_OF_TWICE)
    folder.run("meson", "setup", "build", "--pkg-config-path", tileiras.pkgconfig_folder())
    assert folder.build() == ["kernels twice", "link app", "object main", "object twice_images"]
    assert folder.build() == []
    folder.write("sizes.py", "# as it was\nTILE = 128\n")
    assert folder.build() == ["kernels twice"]
    folder.write("sizes.py", "TILE = 256\n")
    assert folder.build() == ["kernels twice", "link app", "object twice_images"]
    assert folder.build() == []


@HAS_CMAKE
def test_a_kernel_with_an_error_fails_the_other_build_too(folder):
    folder.write("CMakeLists.txt", LIBRARY.replace("twice.py", "k.mlir").replace("twice", "k"))
    folder.write("main.cpp", "int main() {}\n")
    folder.write("k.mlir", module(axpy("first")).replace("return", "turn"))
    folder.configure("Unix Makefiles", "-DTILEIRAS_GPU=sm_90")
    assert "k.mlir:" in folder.run("cmake", "--build", "build", expect=2)
    assert not list((folder.path / "build/tileiras/kernels").glob("k.[hs]*"))
    folder.write("k.mlir", module(axpy("first")))
    assert "kernels k" in folder.build()


@HAS_CMAKE
@pytest.mark.parametrize(
    "old, new, message",
    [
        ("PUBLIC", "PUBLICLY", "unknown arguments PUBLICLY"),
        ("SOURCES twice.py", "", "SOURCES are needed"),
        ("twice.py", "twice.py other/twice.mlir", "are both"),
        ("(kernels PUBLIC", "(kernel PUBLIC", "there is no target 'kernel'"),
        ("0.1 REQUIRED", "0.2 REQUIRED", "0.2"),
        ("0.1 REQUIRED", "0.0.9 REQUIRED", "0.0.9"),
    ],
)
def test_mistakes_in_a_cmake_project_are_reported(folder, old, new, message):
    folder.write("CMakeLists.txt", LIBRARY.replace(old, new))
    folder.write("main.cpp", "int main() {}\n")
    result = folder.run("cmake", "-B", "build", f"-Dtileiras_DIR={CMAKE}/tileiras", "-DTILEIRAS_GPU=sm_90", expect=1)
    assert message in result


@HAS_CMAKE
def test_a_gpu_has_to_be_named(folder):
    folder.write("CMakeLists.txt", LIBRARY)
    folder.write("main.cpp", "int main() {}\n")
    assert "GPU is needed" in folder.run("cmake", "-B", "build", f"-Dtileiras_DIR={CMAKE}/tileiras", expect=1)


def test_both_packages_have_the_version_of_the_python_package():
    with open(os.path.join(tileiras.pkgconfig_folder(), "tileiras.pc")) as file:
        assert f"Version: {tileiras.__version__}\n" in file.read()
