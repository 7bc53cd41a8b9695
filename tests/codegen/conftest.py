"""Shared pieces of the code generation tests."""

from __future__ import annotations

import pytest

from tileiras.codegen import libdevice, toolkit


@pytest.fixture
def ptxas() -> str:
    path = toolkit.find_program("ptxas")
    if path is None:
        pytest.skip("no ptxas")
    return path


@pytest.fixture
def device_library() -> libdevice.Libdevice:
    found = libdevice.find()
    if found is None:
        pytest.skip("no libdevice")
    return found
