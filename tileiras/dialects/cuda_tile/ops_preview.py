"""Operations that are not yet part of the language: opcodes above 0x4000, valid only in the newest version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from tileiras.ir import Parser, Printer


class PreviewCallOp(TileOp, name="cuda_tile.preview$call", since="13.5", opcode=0x4002, group="Preview"):
    """Calls a function of a tile library."""

    callee = attribute(SymbolRefAttr, "the function")
    const_args = attribute(ArrayAttr, "arguments that are known when compiling", default=ArrayAttr([]))
    arg_attrs = attribute(DictArrayAttr, "a dictionary per argument", optional=True)
    res_attrs = attribute(DictArrayAttr, "a dictionary per result", optional=True)
    operands = variadic_operand(any_type, "the arguments")
    results = variadic_result(any_type, "the results")

    @classmethod
    def parse_custom(cls, parser: Parser) -> Any:
        """`@callee(%a, %b) {attributes} : (types) -> types`, as the vendor's disassembler prints it."""
        attributes: dict[str, Any] = {"callee": SymbolRefAttr(parser.parse_symbol_name())}
        operands = parser.parse_operand_list("(", ")")
        attributes |= parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        at = parser.offset
        types = parser.parse_type_list_parens()
        parser.parse_punctuation("->")
        results = parser.parse_function_results()
        if len(types) != len(operands):
            parser.error(at, f"expected {len(operands)} operand types, got {len(types)}")
        values = [parser.resolve_operand(operand, type) for operand, type in zip(operands, types, strict=True)]
        return cls.create(values, results, attributes, location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        printer.write(" ")
        printer.print_symbol_name(self.callee.root)
        printer.write("(")
        printer.print_operands(self.operands)
        printer.write(")")
        constants = self.attributes.get("const_args")
        hidden = ("callee", "const_args") if constants is None or not len(constants) else ("callee",)
        printer.print_optional_attr_dict(self.attributes, hidden)
        printer.write(" : (")
        printer.print_types([value.type for value in self.operands])
        printer.write(f") -> {printer.results_text([result.type for result in self.results])}")

    def verify_op(self) -> None:
        # Functions come with a tile library; the module itself has only entries and globals.
        parent = self.parent_op
        while parent is not None and not parent.has_trait(SymbolTable):
            parent = parent.parent_op
        for block in parent.regions[0].blocks if parent is not None else ():
            for op in block.operations:
                if op.attributes.get("sym_name") is StringAttr(self.callee.root):
                    raise VerifyError(f"'{self.callee.root}' does not reference a valid preview$func")
