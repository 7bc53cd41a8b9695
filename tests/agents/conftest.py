from __future__ import annotations

from collections.abc import Callable

import pytest

from tileiras.codegen import ptxas as assembler


@pytest.fixture
def assemble(ptxas: str) -> Callable[..., assembler.Resources]:
    """A function that assembles PTX for a GPU with ptxas, expects no message, and returns the resources of the
    kernel."""

    def judge(code: str, gpu: str, entry: str = "k") -> assembler.Resources:
        result = assembler.assemble(code, gpu, ptxas=ptxas)
        assert not result.messages
        return result.resources[entry]

    return judge
