"""What is not yet part of the language: opcodes above 0x4000, valid only in the newest version."""

from __future__ import annotations

from tileiras.ir import ArrayAttr, SymbolRefAttr, any_type, attribute, variadic_operand, variadic_result

from .constraints import DictArrayAttr
from .operation import TileOp


class PreviewCallOp(TileOp):
    """Calls a function of the module."""

    name = "cuda_tile.preview$call"
    group = "Preview"
    since = "13.5"
    opcode = 0x4002
    callee = attribute(SymbolRefAttr, "the function")
    const_args = attribute(ArrayAttr, "arguments that are known when compiling")
    arg_attrs = attribute(DictArrayAttr, "a dictionary per argument", optional=True)
    res_attrs = attribute(DictArrayAttr, "a dictionary per result", optional=True)
    operands = variadic_operand(any_type, "the arguments")
    results = variadic_result(any_type, "the results")
