"""The driver of Python functions, as the front end calls it."""

from __future__ import annotations

import numpy as np
import pytest

ct = pytest.importorskip("cuda.tile")


class OnDevice:
    """A host array that claims to be on the GPU."""

    def __init__(self, array: np.ndarray) -> None:
        self.__cuda_array_interface__ = {**array.__array_interface__, "version": 3}


@ct.kernel
def scaled(x, y, factor, T: ct.Constant[int]):
    ct.store(y, (ct.bid(0),), ct.load(x, (ct.bid(0),), (T,)) * factor)


def test_a_launch_arrives_with_its_bytecode_grid_and_parameters(monkeypatch, tmp_path):
    from cuda.tile import _compile
    from driver import Driver, library

    import tileiras

    arrived = []
    driver = Driver((9, 0), lambda *launch: arrived.append((*launch[:3], launch[3]([8, 4, 4, 8, 4, 4, 4]))))
    driver.install()
    compiled = []

    def compile_cubin(path, options, sm_arch, *_, **__):
        compiled.append(sm_arch)
        image = tmp_path / "image"
        with open(path, "rb") as file:
            image.write_bytes(library(file.read()))
        return str(image)

    version = _compile.parse_bytecode_version("13.1")
    monkeypatch.setattr(_compile, "compile_cubin", compile_cubin)
    # Without a version the front end does not use its cache.
    monkeypatch.setattr(_compile, "_get_compiler_version_string", lambda: None)
    monkeypatch.setattr(_compile, "_get_max_supported_bytecode_version", lambda *_, **__: version)
    x, y = np.arange(48, dtype=np.float32), np.zeros(48, np.float32)
    ct.launch(0, (3,), scaled, (OnDevice(x), OnDevice(y), 2.5, 16))
    assert compiled == ["sm_90"]
    [(bytecode, name, grid, parameters)] = arrived
    assert grid == (3, 1, 1)
    assert name.startswith("scaled")
    assert f"entry @{name}" in tileiras.compile(bytecode, gpu_name="sm_90", emit="cuda_tile").text
    assert [int.from_bytes(p, "little") for p in parameters[:6]] == [x.ctypes.data, 48, 1, y.ctypes.data, 48, 1]
    assert np.frombuffer(parameters[6], np.float32) == 2.5


def test_a_failure_of_the_launch_is_kept(monkeypatch):
    import ctypes

    from driver import SUCCESS, Driver, LaunchConfig

    def fail(*_):
        raise ValueError("no")

    driver = Driver((9, 0), fail)
    driver.libraries.append(b"")
    driver.kernels.append((0, "k"))
    config = LaunchConfig(1, 1, 1)
    assert driver.cuLaunchKernelEx(ctypes.addressof(config), 1, 0, None) == SUCCESS
    assert str(driver.failure) == "no"
