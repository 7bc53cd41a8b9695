"""The memref dialect, as far as the pipeline uses it: memory that lives as long as the module, and its address.

An address is a pointer: nothing in a thread's program has sizes and strides, which its instructions have taken.
"""

from __future__ import annotations

from tileiras.dialects.llvm.base import pointer
from tileiras.ir import (
    DenseElementsAttr,
    IntegerAttr,
    Operation,
    Pure,
    StringAttr,
    Symbol,
    SymbolRefAttr,
    UnitAttr,
    attribute,
    result,
)


class GlobalOp(Operation, name="memref.global", traits=(Symbol,)):
    """A variable in global memory, with the fields of `nv_tileaa.global`."""

    sym_name = attribute(StringAttr)
    value = attribute(DenseElementsAttr, "the initial contents")
    alignment = attribute(IntegerAttr, "in bytes", optional=True)
    constant = attribute(UnitAttr, "no kernel writes it", optional=True)
    sym_visibility = attribute(StringAttr, "`private`: only kernels of the module can see it", optional=True)
    assembly_format = "$sym_name attr-dict"

    @property
    def is_private(self) -> bool:
        return self.sym_visibility is not None and self.sym_visibility.value == "private"


class GetGlobalOp(Operation, name="memref.get_global", traits=(Pure,)):
    """The address of a variable."""

    symbol = attribute(SymbolRefAttr)
    result = result(pointer)
    assembly_format = "$symbol attr-dict `:` type($result)"


__all__ = ["GetGlobalOp", "GlobalOp"]
