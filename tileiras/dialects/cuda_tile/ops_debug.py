"""Assumptions, assertions and printing."""

from __future__ import annotations

from typing import Any

from tileiras.ir import (
    AllTypesMatch,
    AttrSizedOperandSegments,
    MemoryWrite,
    StringAttr,
    VerifyError,
    any_type,
    attribute,
    operand,
    optional_operand,
    result,
    variadic_operand,
)

from .attributes import AssumePredicate
from .constraints import I1Tile
from .operation import TileOp
from .ops_memory import TOKEN
from .types import TileType, TokenType


class AssumeOp(TileOp, name="cuda_tile.assume", since="13.1", opcode=0x6, group="Miscellaneous"):
    """The input, about which the predicate may be taken for granted; undefined behaviour when it does not hold."""

    # Not Pure in the language: the assumption holds where it stands, and must not be dropped if unused.
    traits = (AllTypesMatch("value", "result"),)
    value = operand(any_type, "a tile or tensor view")
    predicate = attribute(AssumePredicate, "the assumed property")
    result = result(any_type, "the same value")
    assembly_format = "custom<AssumePredicate>($predicate) `,` $value attr-dict `:` custom<CudaTileType>(type($value))"

    verifies_locally = True

    def verify_op(self) -> None:
        self.predicate.verify_assume(self)

    def fold(self) -> Any:
        """The same assumption twice is one."""
        producer = self.value.defining_op
        if isinstance(producer, AssumeOp) and producer.predicate is self.predicate:
            return (producer.results[0],)
        return None

    def asm_result_names(self) -> list[tuple[Any, str]]:
        producer = self.value.defining_op
        names = getattr(producer, "asm_result_names", None)
        if names is None:
            return [(self.results[0], "assume")]
        label = "".join(name for value, name in names() if value is self.value)
        return [(self.results[0], f"assume_{label}")]


class AssertOp(TileOp, name="cuda_tile.assert", since="13.1", opcode=0x5, group="Control Flow", traits=(MemoryWrite,)):
    """Stops the kernel with a message when an element of the condition does not hold."""

    condition = operand(I1Tile, "the condition, which has to hold")
    message = attribute(StringAttr, "the text if it does not hold")
    assembly_format = "$condition `,` $message attr-dict `:` custom<CudaTileType>(type($condition))"


FORMAT_ENDS = frozenset("diuoxXeEfFgGaAcsSpn%")
"""Characters that end an expression in a format string, as printf has them (S is the wide string)."""


class PrintTkoOp(TileOp, name="cuda_tile.print_tko", since="13.1", opcode=0x55, group="Miscellaneous"):
    """Prints tiles with a format string in which every `%` expression stands for one of them."""

    traits = (MemoryWrite, AttrSizedOperandSegments)
    str = attribute(StringAttr, "the format")
    args = variadic_operand(TileType, "the printed tiles")
    token = optional_operand(TokenType, TOKEN, since="13.2")
    result_token = result(TokenType, "the text has been printed", since="13.2")
    assembly_format = (
        "$str (`,` $args^)? (`token` `` `=` `` $token^)? attr-dict (`:` custom<CudaTileType>(type($args))^)? `->`"
        " custom<CudaTileType>(type($result_token))"
    )

    def verify_op(self) -> None:
        count = 0
        format = self.attributes["str"].value  # type: ignore[attr-defined]
        at = format.find("%")
        while at >= 0:
            end = next((n for n in range(at + 1, len(format)) if format[n] in FORMAT_ENDS), None)
            if end is None:
                raise VerifyError("found unterminated format expression")
            if format[at : end + 1] == "%%":
                at = format.find("%", end + 1)
                continue
            count += 1
            at = format.find("%", at + 1)
        if count != len(self.args):
            raise VerifyError(f"incorrect number of operands: expected {count}, found {len(self.args)}")
