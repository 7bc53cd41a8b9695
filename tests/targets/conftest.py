from __future__ import annotations

import pytest

from tileiras.codegen import toolkit


@pytest.fixture
def ptxas() -> str:
    path = toolkit.find_program("ptxas")
    if path is None:
        pytest.skip("no ptxas")
    return path
