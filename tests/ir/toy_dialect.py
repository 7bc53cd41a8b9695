"""A dialect for the tests of the text form: one operation per feature of assembly formats."""

from __future__ import annotations

from typing import Any

from tileiras.ir import (
    AllTypesMatch,
    Attribute,
    AttrSizedOperandSegments,
    DenseArrayAttr,
    EnumAttr,
    IntegerAttr,
    IsolatedFromAbove,
    Location,
    NoTerminator,
    Operation,
    Pure,
    ReturnLike,
    SingleBlock,
    SingleBlockImplicitTerminator,
    StringAttr,
    Symbol,
    SymbolRefAttr,
    SymbolTable,
    Type,
    TypedAttribute,
    UnitAttr,
    attribute,
    i32,
    operand,
    optional_operand,
    region,
    register_type_directive,
    registry,
    result,
    successor,
    variadic_operand,
    variadic_result,
)

register_type_directive("ToyType", "toy")


class TokenType(Type):
    name = "toy.token"


class BoxType(Type):
    name = "toy.box"
    parameters = ("inner",)

    def print_parameters(self, printer: Any) -> None:
        printer.write("<")
        printer.print_dialect_type(self.inner)
        printer.write(">")

    @classmethod
    def parse_parameters(cls, parser: Any) -> "BoxType":
        parser.parse_punctuation("<")
        inner = parser.parse_dialect_type("toy")
        parser.parse_punctuation(">")
        return cls(inner)


class ModeAttr(EnumAttr):
    name = "toy.mode"
    cases = {"fast": 0, "exact": 1}
    angled = True


class ScopeAttr(EnumAttr):
    name = "toy.scope"
    cases = {"block": 0, "device": 1}
    as_integer = True


class FileAttr(Attribute):
    name = "toy.file"
    parameters = ("path", "number")
    asm_alias = "file"


class PlaceLoc(Location):
    """A dialect's own location: named and printed like an attribute."""

    __slots__ = ("where", "file")
    name = "toy.place"

    def __init__(self, where: Location, file: FileAttr) -> None:
        self.where = where
        self.file = file

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlaceLoc) and (self.where, self.file) == (other.where, other.file)

    def __hash__(self) -> int:
        return hash((self.where, self.file))

    def resolve(self) -> Any:
        return self.where.resolve()

    def print_parameters(self, printer: Any) -> None:
        printer.write("<")
        printer.print_location(self.where)
        printer.write(" in ")
        printer.print_attribute(self.file)
        printer.write(">")

    @classmethod
    def parse_parameters(cls, parser: Any) -> "PlaceLoc":
        parser.parse_punctuation("<")
        where = parser.parse_location()
        parser.parse_keyword("in")
        file = parser.parse_attribute()
        parser.parse_punctuation(">")
        return cls(where, file)


registry.ATTRIBUTES[PlaceLoc.name] = PlaceLoc  # type: ignore[assignment]


class ModuleOp(Operation):
    name = "toy.module"
    traits = (IsolatedFromAbove, SymbolTable, SingleBlock, NoTerminator)
    default_dialect = "toy"
    sym_name = attribute(StringAttr)
    body = region()
    assembly_format = "$sym_name attr-dict-with-keyword $body"


class FuncOp(Operation):
    name = "toy.func"
    traits = (IsolatedFromAbove, Symbol)
    default_dialect = "toy"
    sym_name = attribute(StringAttr)
    body = region()

    def print_custom(self, printer: Any) -> None:
        printer.write(" ")
        printer.print_symbol_name(self.sym_name.value)
        printer.write("(")
        for number, argument in enumerate(self.body.blocks[0].arguments):
            printer.write(", " if number else "")
            printer.print_argument(argument, dialect=True)
        printer.write(") ")
        printer.print_region(self.body, entry_arguments=False)
        printer.print_optional_attr_dict(self.attributes, elided=("sym_name",))

    @classmethod
    def parse_custom(cls, parser: Any) -> "FuncOp":
        name = parser.parse_symbol_name()
        arguments = parser.parse_comma_separated(lambda: parser.parse_argument(dialect="toy"), "(", ")")
        body = parser.parse_region(arguments)
        if not body.blocks:
            parser.error(parser.offset, "expected a body")
        attributes = parser.parse_optional_attr_dict()
        return cls.create((), (), {"sym_name": StringAttr(name), **attributes}, [body], (), parser.location)


class ReturnOp(Operation):
    name = "toy.return"
    traits = (Pure, ReturnLike)
    values = variadic_operand()
    assembly_format = "attr-dict ($values^ `:` custom<ToyType>(type($values)))?"


class AddOp(Operation):
    name = "toy.add"
    traits = (Pure, AllTypesMatch("lhs", "rhs", "sum"))
    lhs = operand()
    rhs = operand()
    mode = attribute(ModeAttr, default=ModeAttr("exact"))
    saturate = attribute(UnitAttr, optional=True)
    sum = result()
    assembly_format = (
        "$lhs `,` $rhs (`mode` `` $mode^)? (`saturate` $saturate^)? attr-dict `:` custom<ToyType>(type($sum))"
    )


class MakeTokenOp(Operation):
    name = "toy.make_token"
    out = result(TokenType)
    assembly_format = "attr-dict `:` custom<ToyType>(type($out))"


class LoadOp(Operation):
    name = "toy.load"
    traits = (AttrSizedOperandSegments,)
    scope = attribute(ScopeAttr, optional=True)
    source = operand()
    mask = optional_operand()
    other = optional_operand()
    token = optional_operand(TokenType)
    value = result()
    done = result(TokenType)
    assembly_format = (
        "($scope^)? $source (`,` $mask^)? (`,` $other^)? (`token` `` `=` `` $token^)? attr-dict"
        " `:` custom<ToyType>(type($source)) (`,` custom<ToyType>(type($mask))^)? (`,` custom<ToyType>(type($other))^)?"
        " `->` custom<ToyType>(type($value)) `,` custom<ToyType>(type($done))"
    )


class ScopedOp(Operation):
    name = "toy.scoped"
    kind = attribute(ScopeAttr)
    source = operand()
    assembly_format = "$kind $source attr-dict `:` custom<ToyType>(type($source))"


class WaitOp(Operation):
    """Types that the declaration leaves no choice about are not written."""

    name = "toy.wait"
    token = operand(TokenType)
    more = variadic_operand(TokenType)
    assembly_format = "$token (`,` $more^)? attr-dict"


class ShuffleOp(Operation):
    name = "toy.shuffle"
    traits = (Pure,)
    source = operand()
    order = attribute(TypedAttribute(DenseArrayAttr, i32, "i32 dense array attribute"))
    axis = attribute(TypedAttribute(IntegerAttr, i32, "32-bit signless integer attribute"))
    out = result()
    assembly_format = "$source $order `axis` `=` $axis attr-dict `:` functional-type(operands, $out)"


class CallOp(Operation):
    name = "toy.call"
    callee = attribute(SymbolRefAttr)
    arguments = variadic_operand()
    outs = variadic_result()
    assembly_format = "$callee `(` $arguments `)` attr-dict `:` functional-type($arguments, results)"

    def asm_result_names(self) -> list:
        return [(self.results[0], "call")] if self.results else []


class ClampOp(Operation):
    name = "toy.clamp"
    traits = (Pure, AllTypesMatch("source", "out"))
    source = operand()
    flush = attribute(UnitAttr, optional=True)
    quiet = attribute(UnitAttr, optional=True)
    out = result()
    assembly_format = "$source oilist(`flush` $flush | `quiet` $quiet) attr-dict `:` type($out)"


class YieldOp(Operation):
    name = "toy.yield"
    traits = (Pure, ReturnLike)
    values = variadic_operand()
    assembly_format = "attr-dict ($values^ `:` type($values))?"


class BlockOp(Operation):
    name = "toy.block"
    traits = (SingleBlockImplicitTerminator("toy.yield"),)
    default_dialect = "toy"
    outs = variadic_result()
    body = region()
    assembly_format = "(`->` type($outs)^)? $body attr-dict"


class LabelOp(Operation):
    """A directive of its own: `custom<Label>`."""

    name = "toy.label"
    label = attribute(StringAttr, optional=True)
    assembly_format = "custom<Label>($label) attr-dict"

    @classmethod
    def parse_Label(cls, parser: Any) -> StringAttr | None:
        return StringAttr(parser.parse_any_keyword()) if parser.parse_optional_punctuation("?") else None

    def print_Label(self, printer: Any, label: StringAttr | None) -> None:
        if label is not None:
            printer.write(f"?{label.value}")


class BranchOp(Operation):
    name = "toy.br"
    traits = (Pure, ReturnLike)
    values = variadic_operand()
    target = successor()
    assembly_format = "$target (`(` $values^ `:` type($values) `)`)? attr-dict"


class PlainOp(Operation):
    """No custom form."""

    name = "toy.plain"
    values = variadic_operand()
    outs = variadic_result()
