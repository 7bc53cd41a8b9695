"""What tests of machine code have in common: the tools that they need, and ptxas without a message."""

from __future__ import annotations

import pytest

from tileiras.codegen import ptxas, toolkit
from tileiras.diagnostics import DiagnosticEngine

needs_tools = pytest.mark.skipif(
    toolkit.find_program("nvdisasm") is None or toolkit.find_program("ptxas") is None, reason="needs ptxas and nvdisasm"
)


def assemble(code: str, gpu: str) -> None:
    """ptxas takes the PTX and says nothing of it: no C75xx either, with which it serializes products."""
    engine = DiagnosticEngine()
    ptxas.assemble(code, gpu, engine=engine)
    assert [d.message for d in engine.diagnostics] == []
