"""Requirements of the CUDA driver's tile launch on a kernel.

A tile launch names a grid of tile blocks, each as one block of one thread; the driver starts as many threads as
`.reqntid` states.  It recognizes such a kernel by `.language 7`, which ptxas records in `.nv.info` (EIATTR_LANGUAGE,
TILEIR), and passes nothing but the grid and the declared parameters: shared memory is static, and parameters that the
source does not declare are `.hidden`, filled by code in the cubin (`host_code`).  Observed in cubins of the vendor's
compiler (13.5).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tileiras.codegen.kernel_metadata import KernelInfo
    from tileiras.codegen.ptx import PtxModule

TILE_LANGUAGE = "7"
LANGUAGE_PTX = (9, 2)
"""`.language 7` marks a kernel that is launched with one tile block per block; ptxas takes it from PTX 9.2 on."""

METADATA = ".visible .global .align 8 .b8 ___NV_TILE_LAUNCH_META_DATA___[64];"
"""A variable that stands in every module of the vendor's compiler."""

CLUSTERS_SINCE = 90

# The search for a pattern that begins with a literal is ten times as fast as for one that begins with `^` or `\b`.
# Compiled on first use: launches are of blocks unless tiles are requested.
_DYNAMIC_SHARED = r"@([\w$]+) = external addrspace\(3\) global \[0 x i8\]"
_BLOCK_ID = r"@llvm\.nvvm\.read\.ptx\.sreg\.(n?)ctaid\."
_CLUSTER_ID_DECLARATION = r"declare i32 @llvm\.nvvm\.read\.ptx\.sreg\.(n?clusterid\.[xyz])\(\).*\n?"


def prepare(ir: str, shared_memory: int, code: int) -> str:
    """LLVM IR of a kernel for `sm_<code>`: its shared memory of a fixed size in bytes, and the tile block's id read
    from the cluster where there are clusters, since the launch may make several blocks of one."""
    ir = re.sub(_DYNAMIC_SHARED, rf"@\1 = internal addrspace(3) global [{shared_memory} x i8] undef", ir)
    if code < CLUSTERS_SINCE:
        return ir
    seen: set[str] = set()

    def first(declaration: re.Match[str]) -> str:
        # A kernel of several CTAs that reads the number of its own block may read the cluster's as well.
        again = declaration[1] in seen
        seen.add(declaration[1])
        return "" if again else declaration[0]

    ir = re.sub(_BLOCK_ID, r"@llvm.nvvm.read.ptx.sreg.\1clusterid.", ir)
    return re.sub(_CLUSTER_ID_DECLARATION, first, ir)


def mark(module: PtxModule, kernels: Mapping[str, KernelInfo]) -> None:
    """Mark every entry of a module, and the parameters that `kernels` says are hidden; take away those that are
    launched in the place of others, which the driver does not know."""
    module.pieces = [
        piece
        for piece in module.pieces
        if isinstance(piece, str) or piece.name not in kernels or not kernels[piece.name].pairs_of
    ]
    for entry in module.entries:
        entry.directives["language"] = TILE_LANGUAGE
        parameters = kernels[entry.name].parameters if entry.name in kernels else ()
        entry.parameters = tuple(
            parameter._replace(text=f".hidden {parameter.text}", hidden=True)
            if index < len(parameters) and parameters[index].hidden else parameter
            for index, parameter in enumerate(entry.parameters)
        )  # fmt: skip
    module.pieces.insert(0, f"\n{METADATA}\n")
