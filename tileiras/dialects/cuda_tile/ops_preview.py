"""Operations that are not yet part of the language: opcodes above 0x4000, valid only in the newest version."""

from __future__ import annotations

from tileiras.ir import (
    ArrayAttr,
    StringAttr,
    SymbolRefAttr,
    SymbolTable,
    VerifyError,
    any_type,
    attribute,
    variadic_operand,
    variadic_result,
)

from .constraints import DictArrayAttr
from .operation import TileOp


class PreviewCallOp(TileOp, name="cuda_tile.preview$call", since="13.5", opcode=0x4002, group="Preview"):
    """Calls a function of a tile library."""

    callee = attribute(SymbolRefAttr, "the function")
    const_args = attribute(ArrayAttr, "arguments that are known when compiling")
    arg_attrs = attribute(DictArrayAttr, "a dictionary per argument", optional=True)
    res_attrs = attribute(DictArrayAttr, "a dictionary per result", optional=True)
    operands = variadic_operand(any_type, "the arguments")
    results = variadic_result(any_type, "the results")

    def verify_op(self) -> None:
        # Functions come with a tile library; the module itself has only entries and globals.
        parent = self.parent_op
        while parent is not None and not parent.has_trait(SymbolTable):
            parent = parent.parent_op
        for block in parent.regions[0].blocks if parent is not None else ():
            for op in block.operations:
                if op.attributes.get("sym_name") is StringAttr(self.callee.root):
                    raise VerifyError(f"'{self.callee.root}' does not reference a valid preview$func")
