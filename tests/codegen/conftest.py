"""Shared pieces of the code generation tests."""

from __future__ import annotations

import pytest

from tileiras.codegen import bitcode_library, libdevice


@pytest.fixture
def device_library() -> bitcode_library.BitcodeLibrary:
    result = libdevice.find()
    if result is None:
        pytest.skip("no libdevice")
    return result
