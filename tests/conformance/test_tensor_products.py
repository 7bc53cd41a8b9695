"""Dots of kernels with common tile sizes use the tensor core of sm_100 through tensor memory if they have enough rows,
unless a remark gives a reason."""

from __future__ import annotations

import pytest

import tileiras
from tileiras.codegen import toolkit

pytest.importorskip("cuda.tile")

from tiled_kernels import Tiled, tiled  # noqa: E402

GPU = "sm_100"

WITHOUT = {
    "matmul f16 32x32x32": 'dots.small instruction=tcgen05.mma least="64x8, 128x16" m=32 n=32',
}
"""The kernels whose dots use mma of warps, and the reasons in their remarks."""

KERNELS = [kernel for kernel in tiled() if not kernel.targets or GPU in kernel.targets]


def dots_of(artifact: tileiras.Artifact) -> list[tuple[str, str | None]]:
    """The atom of each dot, and the reason why a better one is not used."""
    names = ("RemarkTensorCoreMMA", "RemarkTensorCoreFMA")
    result = [d for d in artifact.diagnostics if getattr(d, "name", "") in names]
    return [(d.arguments["Atom"], d.cause and d.cause.spelled()) for d in result]


@pytest.mark.sampled(12)
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_dots_go_through_tensor_memory(kernel: Tiled):
    artifact = tileiras.compile(kernel.bytecode(), gpu_name=GPU, emit_remarks=True)
    for atom, reason in dots_of(artifact):
        assert atom.startswith("tcgen05_") or reason == WITHOUT.get(kernel.name)


@pytest.mark.parametrize("name", ["matmul f16 128x256x64", "attention 128x128x128", "moe 128x128x64"])
def test_machine_code_has_no_products_of_warps(name: str):
    if toolkit.find_program("ptxas") is None or toolkit.find_program("nvdisasm") is None:
        pytest.skip("the assembler or the disassembler is not installed")
    kernel = next(kernel for kernel in KERNELS if kernel.name == name)
    text = tileiras.compile(kernel.bytecode(), gpu_name=GPU, emit="sass").text
    assert "UTCHMMA" in text and "HMMA.16" not in text
