"""Functions of the llvm dialect, which stand in a builtin.module or in a gpu.module inside it."""

from __future__ import annotations

from collections.abc import Iterator

from tileiras.dialects import llvm
from tileiras.dialects.gpu import GPUModuleOp
from tileiras.ir import Operation


def code_modules(op: Operation) -> Iterator[Operation]:
    """The module and the gpu.modules inside it."""
    yield op
    for inner in op.regions[0].operations:
        if isinstance(inner, GPUModuleOp):
            yield inner


def llvm_functions(op: Operation) -> Iterator[llvm.LLVMFuncOp]:
    """The functions with a body."""
    for module in code_modules(op):
        for inner in module.regions[0].operations:
            if isinstance(inner, llvm.LLVMFuncOp) and not inner.is_declaration:
                yield inner


def operations_of(function: llvm.LLVMFuncOp) -> Iterator[Operation]:
    """The operations of a function; the current one may be erased."""
    for block in function.regions[0].blocks:
        op = block.first
        while op is not None:
            following = op.next
            yield op
            op = following
