"""Handlers of XLA's FFI and their Python module, with stand-ins for XLA's header, for jax and for the driver."""

import ctypes
import importlib.util
import os
import shutil
import struct
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import tileiras
from tileiras.cli import verbs

HERE = Path(__file__).resolve().parent

DECLARATION = f"""
namespace = "shop"
source = "{HERE.parents[1]}/examples/saxpy.mlir"
gpus = ["sm_80"]

[operator.saxpy]
parameters = ["x: f32[n]", "y: f32[n]", "a: float"]
mutates = ["y"]
grid = ["ceildiv(n, 1024)"]
arguments = ["x", "y", "a", "n"]

[operator.scaled]
kernel = "saxpy"
parameters = ["x: f32[n, m]", "k: int", "a: float"]
results = ["r: f32[m, n * 2]"]
grid = ["ceildiv(x.numel(), 1024)", "min(k, 2)"]
arguments = ["x", "r", "a", "x.stride(0) + r.size(1) // 2 - m"]
"""

MAIN = r"""
#include <cstdio>
#include "ops.cc"

int main() {
    using ffi::Buffer, ffi::Result, ffi::F32;
    float x[6] = {}, y[6] = {};
    const Buffer<F32> vector{{6}, x}, other{{5}, x}, matrix{{3, 2}, x}, empty{{0}, x};
    const auto told = [](const ffi::Error &error) {
        std::printf("%d %s\n", static_cast<int>(error.code), error.text.c_str());
    };
    void *const stream = reinterpret_cast<void *>(77);
    told(saxpy_handler(stream, vector, vector, Result<Buffer<F32>>{{{6}, y}}, 0.5));
    told(saxpy_handler(stream, vector, other, Result<Buffer<F32>>{{{5}, y}}, 0.5));
    told(saxpy_handler(stream, matrix, vector, Result<Buffer<F32>>{{{6}, y}}, 0.5));
    told(saxpy_handler(stream, empty, empty, Result<Buffer<F32>>{{{0}, y}}, 0.5));
    told(scaled_handler(stream, matrix, Result<Buffer<F32>>{{{2, 6}, y}}, 7, 0.25));
    std::printf("%p %p\n", static_cast<void *>(x), static_cast<void *>(y));
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    std::printf("%s", reinterpret_cast<const char *(*)()>(dlsym(driver, "stand_in_log"))());
    return 0;
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """With ops.toml, ops.cc and ops.py."""
    folder = tmp_path_factory.mktemp("jax")
    (folder / "ops.toml").write_text(DECLARATION)
    words = ["operators", str(folder / "ops.toml"), "--jax", str(folder / "ops.cc"), "-o", str(folder / "ops.py")]
    assert verbs.run(words) == 0
    return folder


def test_handlers_launch_kernels_on_the_stream_of_the_call(folder, stand_in_library):
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    (folder / "main.cpp").write_text(MAIN)
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror", f"-I{tileiras.cpp_folder()}", f"-I{HERE}/stand_in_xla"]
    subprocess.run([compiler, *flags, "main.cpp", "-o", "main", "-ldl"], cwd=folder, check=True)
    shutil.copy(stand_in_library, folder / "libcuda.so.1")
    environment = {**os.environ, "LD_LIBRARY_PATH": str(folder)}
    done = subprocess.run(["./main"], cwd=folder, env=environment, capture_output=True, text=True, check=True)
    first, *refused, places = done.stdout.splitlines()[:6]
    assert first == "0 " and refused == ["1 dimension 0 of y", "1 rank of x", "0 ", "0 "]
    x, y = (int(place, 16) for place in places.split())
    log = done.stdout.splitlines()[6:]
    launches = [line for line in log if line.startswith("launch")]
    assert [line.split(" block")[0] for line in launches] == ["launch grid 1 1 1", "launch grid 1 2 1"]
    assert all(line.endswith("stream 77") for line in launches)
    packed = [bytes(int(word, 16) for word in line.split()[1:]) for line in log if line.startswith("parameters")]
    assert packed == [struct.pack("<QQfi", x, y, 0.5, 6), struct.pack("<QQfi", x, y, 0.25, 3)]


class Array:
    def __init__(self, *shape):
        self.shape, self.ndim, self.dtype = shape, len(shape), np.float32


def test_the_module_calls_handlers_with_shapes_and_attributes(folder, monkeypatch):
    registered, calls = {}, []

    def ffi_call(target, result, input_output_aliases):
        return lambda *arrays, **attributes: calls.append((target, result, input_output_aliases, arrays, attributes))

    jax = types.ModuleType("jax")
    jax.numpy = types.ModuleType("jax.numpy")
    jax.numpy.float32 = np.float32
    jax.ShapeDtypeStruct = lambda shape, dtype: (shape, dtype)
    jax.ffi = types.SimpleNamespace(
        pycapsule=lambda function: function, ffi_call=ffi_call,
        register_ffi_target=lambda name, capsule, platform: registered.update({name: (capsule, platform)}),
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "jax", jax)
    monkeypatch.setitem(sys.modules, "jax.numpy", jax.numpy)
    opened = []

    class Library:
        saxpy_handler, scaled_handler = "saxpy's", "scaled's"

        def __init__(self, path):
            opened.append(path)

    monkeypatch.setattr(ctypes, "CDLL", Library)
    spec = importlib.util.spec_from_file_location("jax_ops", folder / "ops.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert opened == [str(folder / "libops.so")]
    assert registered == {"shop.saxpy": ("saxpy's", "CUDA"), "shop.scaled": ("scaled's", "CUDA")}
    x, y, matrix = Array(6), Array(6), Array(3, 2)
    module.saxpy(x, y, 2)
    module.scaled(matrix, 7, 0.5)
    (target, result, aliases, arrays, attributes), second = calls
    assert (target, result, aliases, arrays) == ("shop.saxpy", ((6,), np.float32), {1: 0}, (x, y))
    assert attributes == {"a": 2.0} and isinstance(attributes["a"], np.float64)
    assert second[1:4] == (((2, 6), np.float32), {}, (matrix,)) and isinstance(second[4]["k"], np.int64)
    with pytest.raises(ValueError, match="saxpy: dimension 0 of y"):
        module.saxpy(x, Array(5), 1.0)


def test_targets_of_a_cpu_are_refused(tmp_path, capsys):
    (tmp_path / "ops.toml").write_text(DECLARATION.replace('"sm_80"', '"cpu"'))
    words = ["operators", str(tmp_path / "ops.toml"), "--jax", str(tmp_path / "o.cc"), "-o", str(tmp_path / "o.py")]
    assert verbs.run(words) == 2
    assert "an operator of JAX runs on GPUs" in capsys.readouterr().err and not (tmp_path / "o.py").exists()
