"""The stand-in for the driver, compiled once; every test gets it freshly loaded and quiet."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

import tileiras.runtime
from tileiras.runtime import driver as driver_module


@pytest.fixture(scope="session")
def stand_in_library(tmp_path_factory):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    library = tmp_path_factory.mktemp("driver") / "libcuda_stand_in.so"
    source = Path(__file__).with_name("driver_stand_in.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-Wall", "-Werror", "-o", library, source], check=True)
    return str(library)


class StandIn:
    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path)
        self._library.stand_in_log.restype = ctypes.c_char_p
        self.reset()

    def reset(self, fail: str = "", code: int = 1, devices: int = 1, has_context: bool = False) -> None:
        self._library.stand_in_reset(fail.encode(), code, devices, has_context)

    @property
    def log(self) -> list[str]:
        return self._library.stand_in_log().decode().splitlines()

    @property
    def live_allocations(self) -> int:
        return self._library.stand_in_live_allocations()


@pytest.fixture
def stand_in(stand_in_library, monkeypatch):
    monkeypatch.setattr(driver_module, "LIBRARIES", (stand_in_library,))
    monkeypatch.setattr(driver_module, "_loaded", None)
    monkeypatch.setattr(tileiras.runtime, "_modules", {})
    driver = StandIn(stand_in_library)
    yield driver
    assert driver.live_allocations == 0
