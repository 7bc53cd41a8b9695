"""The gpu dialect: the module with the code of one target."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tileiras.ir import (
    ArrayAttr,
    Attribute,
    IsolatedFromAbove,
    NoTerminator,
    Operation,
    SingleBlock,
    StringAttr,
    Symbol,
    SymbolTable,
    VerifyError,
    attribute,
    region,
)

if TYPE_CHECKING:
    from tileiras.ir import Parser, Printer


class GPUModuleOp(Operation, name="gpu.module"):
    """Kernels and globals of one compilation, with the targets that they are compiled for.

        gpu.module @kernels [#nvvm.target<O = 3, chip = "sm_90">] { ... }
    """

    traits = (IsolatedFromAbove, SymbolTable, Symbol, SingleBlock, NoTerminator)
    sym_name = attribute(StringAttr)
    targets = attribute(ArrayAttr, "the targets to compile for; absent until attached", optional=True)
    bodyRegion = region("llvm.func and llvm.mlir.global; one block without terminator")

    def verify_op(self) -> None:
        for target in self.targets.elements if self.targets is not None else ():
            if target.name != "nvvm.target":
                raise VerifyError(f"expects targets to be #nvvm.target, got {target}")

    def print_custom(self, printer: Printer) -> None:
        printer.write(" ")
        printer.print_symbol_name(self.sym_name.value)
        if self.targets is not None:
            printer.write(" ")
            printer.print_attribute(self.targets)
        printer.print_optional_attr_dict(self.attributes, ("sym_name", "targets"), keyword=True)
        printer.write(" ")
        printer.print_region(self.bodyRegion, entry_arguments=False)

    @classmethod
    def parse_custom(cls, parser: Parser) -> GPUModuleOp:
        attributes: dict[str, Attribute] = {"sym_name": StringAttr(parser.parse_symbol_name())}
        if parser.peek("["):
            attributes["targets"] = parser.parse_attribute()
        if parser.parse_optional_keyword("attributes"):
            attributes.update(parser.parse_optional_attr_dict())
        return cls.create((), (), attributes, [parser.parse_region()], location=parser.location)


__all__ = ["GPUModuleOp"]
