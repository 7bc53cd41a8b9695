"""Common parts of tests of machine code: the tools that they need, and ptxas without a message."""

from __future__ import annotations

import pytest

from tileiras import Artifact
from tileiras.codegen import ptx, ptxas, toolkit
from tileiras.codegen.ptxas import Resources
from tileiras.diagnostics import DiagnosticEngine
from tileiras.targets import TARGETS, occupancy

needs_tools = pytest.mark.skipif(
    toolkit.find_program("nvdisasm") is None or toolkit.find_program("ptxas") is None, reason="needs ptxas and nvdisasm"
)


def assemble(code: str, gpu: str) -> None:
    """ptxas accepts the PTX without a message: no C75xx either, with which it serializes products."""
    engine = DiagnosticEngine()
    ptxas.assemble(code, gpu, engine=engine)
    assert [d.message for d in engine.diagnostics] == []


def on_an_sm(artifact: Artifact, gpu: str) -> tuple[int, Resources]:
    """The number of CTAs of the only kernel of some PTX that an SM holds, and the resources that ptxas reports."""
    (kernel,) = artifact.kernels
    used = ptxas.assemble(artifact.text, gpu).resources[kernel.name]
    (threads, *_) = ptx.parse(artifact.text).entry(kernel.name).dimensions("reqntid") or (1,)
    shared = used.shared + (kernel.metadata or {}).get("shared_memory", 0)
    return occupancy(TARGETS[gpu], threads, used.registers, shared).ctas, used
