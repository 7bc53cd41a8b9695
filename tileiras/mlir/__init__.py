"""The names of MLIR's Python bindings over this compiler's IR, for programs that are written for those.

    from tileiras.mlir import ir, passmanager

    with ir.Context():
        module = ir.Module.parse(text)
    pm = passmanager.PassManager(context=module.context)
    pm = pm.parse("cuda_tile.module(synthesize-debug-info-scopes)", context=module.context)
    pm.run(module.operation.regions[0].blocks[0].operations[0])

`ir` reads, walks and prints modules, `passmanager` runs passes on them; operations are built with
`tileiras.dialects`.  The objects are views: two are equal if they show the same operation, block or value.
"""

from __future__ import annotations

import os

from tileiras import bytecode

from . import ir, passmanager

__all__ = ["ir", "passmanager", "register_dialect", "writeBytecode"]


def register_dialect(context: ir.Context, load: bool = True) -> None:
    """Accepted for programs of the dialect's bindings: every dialect is loaded when a text names it."""


def writeBytecode(file: str | os.PathLike, module: ir.Module | ir.Operation) -> None:  # noqa: N802  the bindings' name
    """Write the only `cuda_tile.module` of a module as bytecode.  Raises CompileError."""
    operation = ir.unwrap(module)
    (tile,) = (op for op in operation.walk() if op.name == "cuda_tile.module")
    data = bytecode.write_module(tile)
    with open(file, "wb") as output:
        output.write(data)
