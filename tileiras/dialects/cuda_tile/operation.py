"""The base of all operations of the dialect, and the pieces of syntax that several of them share.

An assembly format names a piece as `custom<Name>(...)`; `parse_Name` reads it and returns one value per argument (None:
leave the attribute out), `print_Name` writes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tileiras.ir import DenseElementsAttr, Operation, Region

from .attributes import (
    AssumePredicate,
    BoundedAttr,
    ComparisonOrderingAttr,
    ComparisonPredicateAttr,
    DivByAttr,
    RoundingModeAttr,
    SameElementsAttr,
    SignednessAttr,
    SymbolVisibilityAttr,
)
from .types import NAMESPACE, NUMBER_WORDS, TileType, is_number, write_type

if TYPE_CHECKING:
    from tileiras.ir import Argument, DictAttr, Parser, Printer

DENSE_WORDS = (
    "i1 or i8 or i16 or i32 or i64 or f16 or bf16 or f32 or f64 or tf32 or f8E4M3FN or f8E5M2 or f8E8M0FNU or f4E2M1FN"
)
IEEE_MODES = ("nearest_even", "zero", "negative_inf", "positive_inf")


def _case(parser: Parser, cls: Any, message: str) -> Any:
    """A case of an enum by its bare keyword."""
    at = parser.offset
    word = parser.parse_optional_any_keyword()
    if word is None:
        parser.report(at, "expected valid keyword")
    if word not in cls.cases:
        parser.error(at, message)
    return cls(word)


def parse_rounding(parser: Parser, allowed: tuple[str, ...], default: str, strict: bool) -> RoundingModeAttr:
    """`rounding<mode>`, `default` when it is not written; `strict` refuses known modes outside `allowed` at once."""
    if not parser.parse_optional_keyword("rounding"):
        return RoundingModeAttr(default)
    parser.parse_punctuation("<")
    mode = parser.parse_any_keyword()
    parser.parse_punctuation(">")
    if mode not in RoundingModeAttr.cases or strict and mode not in allowed:
        got = f", got: '{mode}'" if strict else ""
        modes = ", ".join(f"'{name}'" for name in allowed)
        parser.error(parser.offset, f"expected rounding mode to be one of: {modes}{got}")
    return RoundingModeAttr(mode)


def _write_rounding(printer: Printer, mode: RoundingModeAttr | None, default: str) -> None:
    if mode is not None and mode.value != default:
        printer.write(f"rounding<{mode.value}>")


class TileOp(Operation):
    """Base of cuda_tile operations; `group` is the chapter of the reference that describes the operation."""

    __slots__ = ()

    group = "Core"
    default_dialect = NAMESPACE

    # ---- enums -------------------------------------------------------------------------------------------------------

    @classmethod
    def parse_Signedness(cls, parser: Parser) -> SignednessAttr:
        return _case(parser, SignednessAttr, "expected signedness to be one of: {'signed', 'unsigned'}")

    def print_Signedness(self, printer: Printer, value: SignednessAttr) -> None:
        printer.write(value.value)

    @classmethod
    def parse_ComparisonPredicate(cls, parser: Parser) -> ComparisonPredicateAttr:
        words = ", ".join(f"'{case}'" for case in ComparisonPredicateAttr.cases)
        return _case(parser, ComparisonPredicateAttr, f"expected 'comparison_predicate' to be one of: {{{words}}}")

    def print_ComparisonPredicate(self, printer: Printer, value: ComparisonPredicateAttr) -> None:
        printer.write(value.value)

    @classmethod
    def parse_ComparisonOrdering(cls, parser: Parser) -> ComparisonOrderingAttr:
        return _case(
            parser, ComparisonOrderingAttr, "expected 'comparison_ordering' to be one of: {'ordered', 'unordered'}"
        )

    def print_ComparisonOrdering(self, printer: Printer, value: ComparisonOrderingAttr) -> None:
        printer.write(value.value)

    @classmethod
    def parse_SymbolVisibility(cls, parser: Parser) -> SymbolVisibilityAttr | None:
        for word in SymbolVisibilityAttr.cases:
            if parser.parse_optional_keyword(word):
                return SymbolVisibilityAttr(word)
        return None

    def print_SymbolVisibility(self, printer: Printer, value: SymbolVisibilityAttr | None) -> None:
        if value is not None and value.value != "public":
            printer.write(value.value + " ")

    # ---- rounding ----------------------------------------------------------------------------------------------------

    @classmethod
    def parse_IEEERoundingMode(cls, parser: Parser) -> RoundingModeAttr:
        return parse_rounding(parser, IEEE_MODES, "nearest_even", strict=True)

    def print_IEEERoundingMode(self, printer: Printer, value: RoundingModeAttr | None) -> None:
        _write_rounding(printer, value, "nearest_even")

    @classmethod
    def parse_IntegerRoundingMode(cls, parser: Parser) -> RoundingModeAttr:
        return parse_rounding(parser, ("nearest_int_to_zero",), "nearest_int_to_zero", strict=True)

    def print_IntegerRoundingMode(self, printer: Printer, value: RoundingModeAttr | None) -> None:
        _write_rounding(printer, value, "nearest_int_to_zero")

    @classmethod
    def parse_DivFOpRoundingMode(cls, parser: Parser) -> RoundingModeAttr:
        return parse_rounding(parser, (*IEEE_MODES, "approx", "full"), "nearest_even", strict=False)

    def print_DivFOpRoundingMode(self, printer: Printer, value: RoundingModeAttr | None) -> None:
        _write_rounding(printer, value, "nearest_even")

    @classmethod
    def parse_SqrtOpRoundingMode(cls, parser: Parser) -> RoundingModeAttr:
        return parse_rounding(parser, (*IEEE_MODES, "approx"), "nearest_even", strict=False)

    def print_SqrtOpRoundingMode(self, printer: Printer, value: RoundingModeAttr | None) -> None:
        _write_rounding(printer, value, "nearest_even")

    @classmethod
    def parse_FullRoundingMode(cls, parser: Parser) -> RoundingModeAttr:
        return parse_rounding(parser, ("approx", "full"), "full", strict=False)

    def print_FullRoundingMode(self, printer: Printer, value: RoundingModeAttr | None) -> None:
        _write_rounding(printer, value, "full")

    # ---- assumptions and constants -----------------------------------------------------------------------------------

    @classmethod
    def parse_AssumePredicate(cls, parser: Parser) -> AssumePredicate:
        at = parser.offset
        word = parser.parse_optional_any_keyword()
        if word is None:
            optional_attribute = parser.parse_optional_attribute()
            if isinstance(optional_attribute, AssumePredicate):
                return optional_attribute
            if optional_attribute is not None:
                parser.error(at, "expected assume predicate attribute")
        if word is None:
            parser.error(at, "expected attribute name")
        for predicate in (DivByAttr, SameElementsAttr, BoundedAttr):
            if predicate.name == f"{NAMESPACE}.{word}":
                return parser.parse_parameters(predicate)
        parser.error(
            at,
            f"unknown assume predicate attribute: {word} (expected 'div_by', 'same_elements', or 'bounded')",
        )

    def print_AssumePredicate(self, printer: Printer, value: AssumePredicate) -> None:
        write_type(printer, value)

    @classmethod
    def parse_DenseTypedElementsAttr(cls, parser: Parser) -> tuple[DenseElementsAttr, TileType]:
        value = parse_constant(parser)
        return value, value.type

    def print_DenseTypedElementsAttr(self, printer: Printer, value: DenseElementsAttr, type: TileType) -> None:
        write_constant(printer, value)

    @classmethod
    def parse_DenseTypedElementsAttrNoResult(cls, parser: Parser) -> DenseElementsAttr:
        return parse_constant(parser)

    def print_DenseTypedElementsAttrNoResult(self, printer: Printer, value: DenseElementsAttr) -> None:
        write_constant(printer, value)

    # ---- regions -----------------------------------------------------------------------------------------------------

    @classmethod
    def parse_IfOpRegion(cls, parser: Parser) -> Region:
        return parse_body(parser, cls)

    def print_IfOpRegion(self, printer: Printer, region: Region) -> None:
        write_body(printer, region, "cuda_tile.yield")

    @classmethod
    def parse_ArgumentRegion(cls, parser: Parser) -> Region:
        return parser.parse_region(parse_arguments(parser)[0])

    def print_ArgumentRegion(self, printer: Printer, region: Region) -> None:
        printer.newline()
        write_arguments(printer, region)
        printer.write(" ")
        printer.print_region(region, entry_arguments=False)


def parse_body(parser: Parser, cls: type[Operation], arguments: Sequence[Argument] = ()) -> Region:
    """A region whose terminator may be omitted, as the class defines."""
    region = parser.parse_region(arguments)
    parser.ensure_terminator(region, cls, parser.location)
    return region


def write_body(printer: Printer, region: Region, implicit: str) -> None:
    """A region without its entry arguments; omits an implicit terminator."""
    last = region.blocks[0].last if region.blocks else None
    explicit = last is None or bool(last.operands) or last.name != implicit
    printer.print_region(region, entry_arguments=False, terminators=explicit)


def parse_arguments(parser: Parser) -> tuple[list[Any], list[Any]]:
    """`(%name: type, ...)`: the arguments, and their types.  Without any names there are types and no arguments."""
    arguments: list[Any] = []
    types: list[Any] = []

    def one() -> None:
        at = parser.offset
        if not parser.peek("%"):
            if arguments:
                parser.error(at, "expected SSA identifier")
            types.append(parser.parse_dialect_type(NAMESPACE))
            parser.parse_optional_attr_dict()
            parser.parse_optional_location()
            return
        argument = parser.parse_argument(dialect=NAMESPACE)
        if len(types) > len(arguments):
            parser.error(at, "expected type instead of SSA identifier")
        arguments.append(argument)
        types.append(argument.type)

    parser.parse_comma_separated(one, "(", ")")
    return arguments, types


def write_arguments(printer: Printer, region: Region, attributes: Sequence[DictAttr] = ()) -> None:
    """`(%name: type {attributes}, ...)` for the arguments of a region's entry block."""
    printer.write("(")
    for number, argument in enumerate(region.blocks[0].arguments if region.blocks else ()):
        printer.write(", " if number else "")
        printer.print_operand(argument)
        printer.write(": ")
        write_type(printer, argument.type)
        if number < len(attributes):
            printer.print_optional_attr_dict(dict(attributes[number].items))
    printer.write(")")


def parse_constant(parser: Parser) -> DenseElementsAttr:
    """`<f32: 1.0> : tile<4xf32>`: the elements with their type in front, then the type of the whole."""
    from tileiras.ir.text.dense_format import parse_dense_literal

    parser.parse_punctuation("<")
    message = f"expect element type to be one of {DENSE_WORDS} values, but got"
    prefix = parser.explain(lambda: parser.parse_dialect_type(NAMESPACE), f"{message} '<<NULL TYPE>>'")
    if not is_number(prefix):
        parser.error(parser.offset, f"{message} '{prefix}'")
    parser.parse_punctuation(":")
    literal = parse_dense_literal(parser, element_type=prefix)
    parser.parse_punctuation(">")
    parser.parse_punctuation(":")
    at = parser.offset
    type = parser.parse_dialect_type(NAMESPACE)
    if not isinstance(type, TileType):
        parser.error(at, f"result #0 must be tile of {DENSE_WORDS} values, but got '{type}'")
    if type.element_type is not prefix:
        parser.error(
            at, f"mismatch between the element type: '{prefix}' and the tile element type '{type.element_type}'"
        )
    return literal.build(parser, type, prefix)


def write_constant(printer: Printer, value: DenseElementsAttr) -> None:
    from tileiras.ir.text.dense_format import dense_text

    printer.write("<")
    write_type(printer, value.type.element_type)
    printer.write(f": {dense_text(value)}> : ")
    write_type(printer, value.type)


__all__ = [
    "NUMBER_WORDS",
    "TileOp",
    "parse_arguments",
    "parse_body",
    "parse_constant",
    "write_arguments",
    "write_body",
    "write_constant",
]
