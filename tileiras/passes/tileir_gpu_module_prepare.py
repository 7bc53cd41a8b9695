"""`tileir-gpu-module-prepare`: kernels and the symbols that they use move into a gpu.module, and kernels of clusters
get the clusters' sizes.

    llvm.func @k() attributes {nv_tileas.cluster_ctas = 2}
 -> gpu.module @kernels {
      llvm.func @k() attributes {nv_tileas.cluster_ctas = 2, nvvm.cluster_dim = 2, nvvm.blocksareclusters}
    }

A gpu.module that is there already stays, and so do clusters that a front end has chosen.
"""

from __future__ import annotations

from tileiras.analysis.llvm_functions import llvm_functions
from tileiras.diagnostics import CompileError
from tileiras.dialects import llvm, memref, nv_tileas
from tileiras.dialects.gpu import GPUModuleOp
from tileiras.ir import Block, DenseArrayAttr, Operation, Pass, Region, StringAttr, UnitAttr, i32

MODULE_NAME = "kernels"

CODE = (llvm.LLVMFuncOp, llvm.GlobalOp, memref.GlobalOp)
"""Operations that move."""

CLUSTER = "nvvm.cluster_dim"


class GPUModulePrepare(Pass):
    name = "tileir-gpu-module-prepare"
    anchor = "builtin.module"
    needs = "kernels in `llvm`"
    establishes = "all code in a gpu.module, kernels with the clusters of their launches; the same when run again"
    keeps = "functions"
    introduces = ("gpu.module",)

    def run(self, op: Operation, context: object) -> None:
        lift(op)
        for function in llvm_functions(op):
            if CLUSTER not in function.attributes:
                function.attributes.update(_cluster(function))


def _cluster(function: llvm.LLVMFuncOp) -> dict:
    ctas = nv_tileas.number_of(function, nv_tileas.CLUSTER_CTAS) or 1
    if ctas > 1:
        # The launch counts clusters, which are the tile blocks (PTX ISA, ".blocksareclusters").
        return {CLUSTER: DenseArrayAttr(i32, (ctas,)), "nvvm.blocksareclusters": UnitAttr()}
    if nv_tileas.PAIRS_OF in function.attributes:
        # The launch counts CTAs, which are the tile blocks.
        return {CLUSTER: DenseArrayAttr(i32, (nv_tileas.CTAS_OF_PAIR,))}
    return {}


def lift(op: Operation) -> None:
    """Move kernels and the symbols that they use into a gpu.module; raises CompileError if a gpu.module with the same
    name already has a target."""
    loose = [inner for inner in op.regions[0].operations if isinstance(inner, CODE)]
    if not loose:
        return
    entry = op.attributes.get("sym_name")
    name = entry.value if isinstance(entry, StringAttr) else MODULE_NAME
    for inner in op.regions[0].operations:
        if isinstance(inner, GPUModuleOp) and inner.sym_name.value == name:
            raise CompileError.at(inner.location, "gpu.module already carries a conflicting target")
    block = Block()
    first = loose[0]
    module = GPUModuleOp(sym_name=StringAttr(name), bodyRegion=Region([block]), location=op.location)
    op.regions[0].block.insert_before(module, first)
    for inner in loose:
        block.append(inner.detach())
    # Attributes of the module that the translation reads move with its functions.
    for key in [key for key in op.attributes if key.startswith(("nvvm.", "nv_tileaa.")) or key == "blobLinkedLib"]:
        module.attributes[key] = op.attributes.pop(key)
