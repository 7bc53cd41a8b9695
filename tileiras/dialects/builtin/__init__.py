"""The builtin dialect's operations: the module, and the cast that stands between two types during a conversion.

Builtin types and attributes belong to the core (`tileiras.ir`).
"""

from __future__ import annotations

from tileiras.ir import (
    IsolatedFromAbove,
    NoTerminator,
    Operation,
    Pure,
    SingleBlock,
    StringAttr,
    SymbolTable,
    attribute,
    region,
    variadic_operand,
    variadic_result,
)


class ModuleOp(Operation, name="builtin.module", traits=(IsolatedFromAbove, SymbolTable, SingleBlock, NoTerminator)):
    """A list of symbols and other top-level operations."""

    sym_name = attribute(StringAttr, "name of the module", optional=True)
    body = region("the operations; one block without terminator")
    assembly_format = "($sym_name^)? attr-dict-with-keyword $body"


class UnrealizedConversionCastOp(Operation, name="builtin.unrealized_conversion_cast", traits=(Pure,)):
    """Values seen as other types while some users are not converted yet; none is left when a conversion is complete."""

    inputs = variadic_operand()
    outputs = variadic_result()
    assembly_format = "($inputs^ `:` type($inputs))? `to` type($outputs) attr-dict"


__all__ = ["ModuleOp", "UnrealizedConversionCastOp"]
