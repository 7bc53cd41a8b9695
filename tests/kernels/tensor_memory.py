"""Checks of kernels whose accumulators are in tensor memory."""

from __future__ import annotations

import re

from tests.kernels.views import Kernel
from tests.machine_code import assemble
from tileiras import Artifact
from tileiras.codegen import toolkit
from tileiras.sim import EmulationError

GPU = "sm_100"
SEEDS = (None, 0)
"""All warps in step, and in an arbitrary order: accesses without an order between them are a race in both."""


def instructions(ptx: str) -> set[str]:
    """`f16 128x64` and the like, each once: the kind, and the rows and columns of the instruction descriptor."""
    result = set()
    for word, kind in re.findall(r"mov\.b32 \s*i, (\d+);.*?tcgen05\.mma\S*kind::(\w+)", ptx, re.DOTALL):
        result.add(f"{kind} {(int(word) >> 24 & 31) << 4}x{(int(word) >> 17 & 63) << 3}")
    return result


PLAIN = {"pipeline_strategy": "unspecialize", "tensor_maps": "none"}
"""All warps of a kernel copy, without maps, and multiply; the choice of agents is off."""


def check(kernel: Kernel, *shapes: str, gpu: str = GPU, **options) -> str:
    """Check that the kernel has these instructions, is right, and assembles without messages; its PTX.  The strategy is
    `PLAIN` unless the options contain one."""
    artifact = kernel.compiled(gpu, **{**PLAIN, **options})
    assert instructions(artifact.text) == set(shapes)
    assert "mma.sync" not in artifact.text
    for seed in SEEDS:
        kernel.emulated(artifact, seed)
    if toolkit.find_program("ptxas") is not None:
        assemble(artifact.text, gpu)
    return artifact.text


TENSOR_ORDERS = r"tcgen05\.(?:alloc|dealloc|fence|wait|commit)[^;]*;|mbarrier\.init[^;]*;"
FENCES = rf"{TENSOR_ORDERS}|fence\.proxy[^;]*;"
ORDERS = rf"{TENSOR_ORDERS}|fence\.proxy[^;]*;|bar\.sync[^;]*;|cp\.async\.wait_group[^;]*;"
"""Synchronization whose deletion from PTX has to make the kernel fail."""


def fails(kernel: Kernel, artifact: Artifact, ptx: str) -> bool:
    for seed in range(4):
        try:
            kernel.emulated(artifact, seed, ptx)
        except (EmulationError, AssertionError):
            return True
    return False


def survivors(kernel: Kernel, artifact: Artifact, orders: str) -> list[tuple[int, str]]:
    """The matching instructions, with their lines, whose deletion leaves the kernel right."""
    found_right = []
    for match in re.finditer(orders, artifact.text):
        mutated = artifact.text[: match.start()] + artifact.text[match.end() :]
        if not fails(kernel, artifact, mutated):
            found_right.append((artifact.text.count("\n", 0, match.start()) + 1, match.group()))
    return found_right
