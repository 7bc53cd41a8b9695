"""The text of memory operations that go through a view: order, indices, token, hints, types.

load_view_tko weak %view[%i, %j] token = %t : partition_view<...>, tile<i32> -> tile<8x8xf32>, token
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Sequence

from tileiras.ir import OPERAND_SEGMENTS, DenseArrayAttr, i1, i32

from .attributes import MemoryOrderingSemanticsAttr, MemoryScopeAttr, OptimizationHintsAttr
from .types import NAMESPACE, TokenType, write_type

if TYPE_CHECKING:
    from tileiras.ir import Parser, Printer, UnresolvedOperand

    from .operation import TileOp
    from .ops_atomics import AtomicRedViewTkoOp
    from .ops_views import LoadViewTkoOp, StoreViewTkoOp

INBOUNDS = "per dimension, whether the whole tile is known to lie inside the tensor"


def no_promise(op: TileOp) -> DenseArrayAttr:
    """`inbounds` without known dimensions: a flag for each index, as the vendor's verifier requires.

    Text without the attribute, and versions of the bytecode that lack it, have this meaning.
    """
    spans = op.operand_spans()
    if spans is None:  # the generic form prints operations whose operands do not fit, too
        return DenseArrayAttr(i1, ())
    start, end = spans[[field.name for field in op.operand_fields].index("index")]
    return DenseArrayAttr(i1, (0,) * (end - start))


def parse_ordering(parser: Parser) -> dict[str, Any]:
    """Order and, unless weak, scope."""
    at = parser.offset
    word = parser.parse_optional_any_keyword()
    if word is None:
        parser.report(at, "expected valid keyword")
        word = ""
    if word not in MemoryOrderingSemanticsAttr.cases:
        parser.error(
            at,
            f'invalid memory_ordering_semantics attribute specification. Got "{word}" but expect one of:'
            f" {', '.join(MemoryOrderingSemanticsAttr.cases)}",
        )
    result: dict[str, Any] = {"memory_ordering_semantics": MemoryOrderingSemanticsAttr(word)}
    at = parser.offset
    scope = parser.parse_optional_any_keyword()
    if scope is not None:
        if word == "weak":
            parser.error(
                at,
                f'operation specifies weak memory ordering semantics, but then provides "{scope}" scope,'
                " expected no memory scope.",
            )
        if scope not in MemoryScopeAttr.cases:
            parser.error(
                at,
                f'invalid memory_scope attribute specification. Got "{scope}" but expect one of:'
                f" {', '.join(MemoryScopeAttr.cases)}",
            )
        result["memory_scope"] = MemoryScopeAttr(scope)
    return result


def write_ordering(printer: Printer, op: TileOp) -> None:
    printer.write(f" {op.memory_ordering_semantics.value}")
    if op.memory_scope is not None:
        printer.write(f" {op.memory_scope.value}")


def parse_indexed(parser: Parser) -> tuple[Any, list]:
    """`%view[%i, %j]`."""
    view = parser.parse_operand()
    return view, parser.parse_operand_list("[", "]")


def write_indexed(printer: Printer, op: AtomicRedViewTkoOp | LoadViewTkoOp | StoreViewTkoOp) -> None:
    printer.write(" ")
    printer.print_operand(op.view)
    printer.write("[")
    printer.print_operands(op.index)
    printer.write("]")


def parse_inbounds(parser: Parser) -> dict[str, Any]:
    if not parser.parse_optional_keyword("inbounds"):
        return {}
    parser.parse_punctuation("=")
    return {"inbounds": parser.parse_dense_array_elements(i1)}


def write_inbounds(printer: Printer, op: TileOp) -> None:
    if any(op.inbounds.elements):
        printer.write(f" inbounds = [{', '.join('true' if flag else 'false' for flag in op.inbounds.elements)}]")


def parse_token(parser: Parser) -> Any:
    """`token = %t`, None without one."""
    if not parser.parse_optional_keyword("token"):
        return None
    parser.parse_punctuation("=")
    return parser.parse_operand()


def write_token(printer: Printer, op: TileOp) -> None:
    if op.token is not None:
        printer.write(" token = ")
        printer.print_operand(op.token)


def parse_hints(parser: Parser) -> dict[str, Any]:
    if not parser.parse_optional_keyword("optimization_hints"):
        return {}
    parser.parse_punctuation("=")
    return {"optimization_hints": parser.parse_parameters(OptimizationHintsAttr)}


def write_hints(printer: Printer, hints: OptimizationHintsAttr | None) -> None:
    if hints is not None:
        printer.write(" optimization_hints = ")
        hints.print_parameters(printer)


def parse_keyword_dict(parser: Parser) -> dict[str, Any]:
    """`attributes {...}`."""
    return parser.parse_optional_attr_dict() if parser.parse_optional_keyword("attributes") else {}


def parse_index_types(parser: Parser, indices: Sequence[Any]) -> list[Any]:
    """`, type` for all indices, or one each; checks that each index has one."""
    at = parser.offset
    types: list[Any] = []
    while parser.parse_optional_punctuation(","):
        types.append(
            parser.parse_dialect_type(NAMESPACE)
            if types
            else parser.explain(lambda: parser.parse_dialect_type(NAMESPACE), "expected index type after comma")
        )
    if len(types) == 1:
        types *= len(indices)
    if indices and not types:
        parser.error(parser.offset, "index types must be specified when indices are present")
    if len(types) != len(indices) and types:
        parser.error(at, f"expected {len(indices)} index types, got {len(types)}")
    return types


def write_index_types(printer: Printer, indices: Sequence[Any]) -> None:
    types = [value.type for value in indices]
    for type in types[:1] if len(set(types)) == 1 else types:
        printer.write(", ")
        write_type(printer, type)


def resolve(parser: Parser, groups: Sequence[tuple[Any, Any]]) -> tuple[list[Any], DenseArrayAttr]:
    """The values of operand groups, in order, and how many each group has.

    A group is (operand, type), (operands, types) or (None, ...) for an absent one.
    """
    values: list[Any] = []
    sizes = []
    for uses, types in groups:
        if uses is None:
            operands: list[Any] = []
        elif isinstance(uses, list):
            operands = parser.resolve_operands(uses, types)
        else:
            operands = [parser.resolve_operand(uses, types)]
        values += operands
        sizes.append(len(operands))
    return values, DenseArrayAttr(i32, sizes)


def token_group(token: UnresolvedOperand | None) -> tuple[Any, Any]:
    return token, TokenType()


SHOWN = (
    "memory_ordering_semantics",
    "memory_scope",
    "optimization_hints",
    "inbounds",
    "mode",
    "reduction",
    OPERAND_SEGMENTS,
)
"""Attributes that the custom text has a place for."""
