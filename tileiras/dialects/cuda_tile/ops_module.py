"""The contents of a module: the module itself, kernels and global memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tileiras.ir import (
    ArrayAttr,
    Block,
    DictAttr,
    FunctionType,
    IntegerAttr,
    IsolatedFromAbove,
    NoTerminator,
    Pure,
    SingleBlock,
    StringAttr,
    Symbol,
    SymbolRefAttr,
    SymbolTable,
    UnitAttr,
    VerifyError,
    attribute,
    i64,
    region,
    result,
)

from .attributes import OptimizationHintsAttr, SymbolVisibilityAttr
from .constraints import DictArrayAttr, I64Attr, ScalarPointer, TileConstant, function_type_attr
from .debug_info import verify_function_scope, verify_module_scopes, verify_operation_scopes
from .operation import TileOp, parse_arguments, write_arguments
from .traits import EndsWith, NoRegionArguments, OneBlock
from .types import NAMESPACE, TileType, write_type

if TYPE_CHECKING:
    from tileiras.ir import Parser, Printer


class ModuleOp(TileOp, name="cuda_tile.module", since="13.1", opcode=0x4B):
    """Kernels and the global memory that they share."""

    traits = (IsolatedFromAbove, NoRegionArguments, SingleBlock, SymbolTable, NoTerminator)
    sym_name = attribute(StringAttr, "name of the module")
    producer = attribute(StringAttr, "the producer of the module", optional=True, since="13.3")
    body = region("the kernels and globals")
    assembly_format = "$sym_name attr-dict-with-keyword $body"

    def verify_op(self) -> None:
        verify_module_scopes(self)


class FunctionOp(TileOp):
    """Base of operations with parameters and a body: kernels, and the functions of test modules."""

    def verify_op(self) -> None:
        value, parameters = [argument.type for argument in self.body.block.arguments], list(self.function_type.inputs)
        if len(value) != len(parameters):
            raise VerifyError(f"entry block must have {len(parameters)} arguments to match function signature")
        for number, (argument, parameter) in enumerate(zip(value, parameters)):
            if argument is not parameter:
                raise VerifyError(
                    f"type of entry block argument #{number}('{argument}') must match the type of the corresponding"
                    f" argument in function signature('{parameter}')"
                )
        self.verify_signature()
        verify_function_scope(self)
        verify_operation_scopes(self)

    def verify_signature(self) -> None:
        """Raise VerifyError for parameters or results that this kind of function cannot have."""

    @classmethod
    def parse_custom(cls, parser: Parser) -> Any:
        attributes: dict[str, Any] = {"sym_name": StringAttr(parser.parse_symbol_name())}
        arguments, types = parse_arguments(parser)
        results = cls._parse_results(parser) if parser.parse_optional_punctuation("->") else []
        attributes["function_type"] = FunctionType(types, results)
        if any(argument.attributes for argument in arguments):
            attributes["arg_attrs"] = ArrayAttr([DictAttr(argument.attributes or {}) for argument in arguments])
        attributes |= cls.parse_clauses(parser)
        body = parser.parse_region(arguments)
        if not body.blocks:
            body.append(Block())
        parser.ensure_terminator(body, cls, parser.location)
        attributes |= parser.parse_optional_attr_dict()
        return cls.create((), (), attributes, [body], location=parser.location)

    @classmethod
    def parse_clauses(cls, parser: Parser) -> dict[str, Any]:
        """The clauses between the signature and the body, as attributes."""
        return {}

    def print_clauses(self, printer: Printer) -> None:
        """The inverse of `parse_clauses`."""

    @staticmethod
    def _parse_results(parser: Parser) -> list[Any]:
        def one() -> Any:
            type = parser.parse_dialect_type(NAMESPACE)
            parser.parse_optional_attr_dict()
            return type

        if parser.peek("("):
            return parser.parse_comma_separated(one, "(", ")")
        return [parser.parse_dialect_type(NAMESPACE)]

    def print_custom(self, printer: Printer) -> None:
        printer.write(" ")
        printer.print_symbol_name(self.sym_name.value)
        arguments = self.arg_attrs
        write_arguments(printer, self.body, arguments.elements if arguments is not None else ())
        results = self.function_type.results
        if results:
            printer.write(" -> " + ("(" if len(results) > 1 else ""))
            for number, type in enumerate(results):
                printer.write(", " if number else "")
                write_type(printer, type)
            printer.write(")" if len(results) > 1 else "")
        self.print_clauses(printer)
        printer.write(" ")
        printer.print_region(self.body, entry_arguments=False)
        printer.print_optional_attr_dict(
            self.attributes, ("sym_name", "function_type", "arg_attrs", "res_attrs", "optimization_hints")
        )


class EntryOp(FunctionOp, name="cuda_tile.entry", since="13.1", opcode=0x16):
    """A kernel.  Its parameters are scalars: numbers and pointers."""

    traits = (IsolatedFromAbove, OneBlock("body"), EndsWith("cuda_tile.return"), Symbol)
    sym_name = attribute(StringAttr, "name of the kernel")
    function_type = attribute(function_type_attr, "types of the parameters; kernels return nothing")
    arg_attrs = attribute(DictArrayAttr, "a dictionary per parameter", optional=True)
    res_attrs = attribute(DictArrayAttr, "a dictionary per result", optional=True)
    optimization_hints = attribute(OptimizationHintsAttr, "advice per architecture", optional=True)
    body = region("the code of a tile block")

    def verify_signature(self) -> None:
        if self.function_type.results:
            raise VerifyError("entry op must not return values")
        for type in self.function_type.inputs:
            if isinstance(type, TileType) and type.rank:
                raise VerifyError("entry op must have scalar types (rank 0 !cuda_tile.tile)")

    @classmethod
    def parse_clauses(cls, parser: Parser) -> dict[str, Any]:
        if not parser.parse_optional_keyword("optimization_hints"):
            return {}
        parser.parse_punctuation("=")
        hints = parser.parse_parameters(OptimizationHintsAttr)
        # No hints at all are not written either.
        return {"optimization_hints": hints} if hints.value.items else {}

    def print_clauses(self, printer: Printer) -> None:
        hints = self.optimization_hints
        if hints is not None and hints.value.items:
            printer.write(" optimization_hints=")
            hints.print_parameters(printer)


class GlobalOp(TileOp, name="cuda_tile.global", since="13.1", opcode=0x31, traits=(Symbol,)):
    """Global memory with an initial value that lives as long as the module is loaded."""

    sym_name = attribute(StringAttr, "name of the memory")
    value = attribute(TileConstant(), "the initial contents, of rank 1")
    alignment = attribute(I64Attr, "alignment in bytes; 0 for that of the element type", default=IntegerAttr(0, i64))
    constant = attribute(UnitAttr, "the memory is never written", optional=True, since="13.3")
    symbol_visibility = attribute(
        SymbolVisibilityAttr,
        "whether other modules can see the name",
        default=SymbolVisibilityAttr("public"),
        since="13.3",
    )
    assembly_format = (
        "custom<SymbolVisibility>($symbol_visibility) (`constant` $constant^)? $sym_name"
        " (`alignment` `=` $alignment^)? attr-dict custom<DenseTypedElementsAttrNoResult>($value)"
    )

    def verify_op(self) -> None:
        if self.value.type.rank != 1:
            raise VerifyError("type must have rank 1")


class GetGlobalOp(TileOp, name="cuda_tile.get_global", since="13.1", opcode=0x2C, traits=(Pure,)):
    """Pointer to global memory of the module."""

    symbol = attribute(SymbolRefAttr, "name of the memory", name="name")
    result = result(ScalarPointer, "pointer to its first element")
    assembly_format = "$name attr-dict `:` custom<CudaTileType>(type($result))"

    def verify_op(self) -> None:
        name = self.symbol.root
        memory = self._lookup(name)
        if memory is None or memory.value is None:
            raise VerifyError(f"'{name}' does not reference a valid global")
        pointer, element = self.result.type.element_type, memory.value.type.element_type
        if pointer.pointee_type is not element:
            raise VerifyError(
                f"pointee type of result type '{pointer}' does not match type '{element}' of the global @{name}"
            )

    def _lookup(self, name: str) -> GlobalOp | None:
        """The global of this name in the nearest symbol table."""
        parent = self.parent_op
        while parent is not None and not parent.has_trait(SymbolTable):
            parent = parent.parent_op
        for body in parent.regions if parent is not None else ():
            for block in body.blocks:
                for op in block.operations:
                    if isinstance(op, GlobalOp) and op.sym_name is StringAttr(name):
                        return op
        return None
