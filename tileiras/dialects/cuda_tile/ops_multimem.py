"""Multicast memory: one address that stands for a copy on every device of a team.

The operations are those that the front end of 13.5 writes; each goes through a view of a multicast pointer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tileiras.ir import (
    OPERAND_SEGMENTS,
    AttrSizedOperandSegments,
    FloatType,
    IntegerType,
    MemoryRead,
    MemoryWrite,
    Operation,
    Value,
    VerifyError,
    attribute,
    operand,
    optional_operand,
    variadic_operand,
)
from tileiras.ir import result as output

from . import memory_syntax as syntax
from .attributes import MemoryOrderingSemanticsAttr, MemoryScopeAttr, MultimemReductionKindAttr
from .constraints import BoolArrayAttr, IntTile
from .memory_syntax import INBOUNDS, no_promise
from .operation import TileOp
from .ops_memory import ORDERING, SCOPE, TOKEN
from .types import NAMESPACE, TileType, TokenType, write_types
from .verifiers import verify_load_ordering, verify_store_ordering, verify_view_access
from .view_types import PartitionViewType, TileView

if TYPE_CHECKING:
    from tileiras.ir import Parser, Printer

KIND = "how the copies are combined"
_ADD = MultimemReductionKindAttr("add")
_HIDDEN = tuple(name for name in syntax.SHOWN if name != "reduction")


def _parse(parser: Parser, cls: Any, writes: bool) -> Any:
    """`order scope? %view[%i]` or `%view, %tile[%i]`, token, inbounds, attributes, then the types in the same order."""
    attributes = syntax.parse_ordering(parser)
    view = parser.parse_operand()
    tile = None
    if writes:
        parser.parse_punctuation(",")
        tile = parser.parse_operand()
    indices = parser.parse_operand_list("[", "]")
    token = syntax.parse_token(parser)
    attributes |= syntax.parse_inbounds(parser)
    attributes |= syntax.parse_keyword_dict(parser)
    parser.parse_punctuation(":")
    types = parser.parse_comma_separated(lambda: parser.parse_dialect_type(NAMESPACE))
    parser.parse_punctuation("->")
    results = parser.parse_comma_separated(lambda: parser.parse_dialect_type(NAMESPACE))
    count = 1 + writes + bool(indices) + (token is not None)
    if len(types) != count:
        parser.error(parser.location.offset, f"expected {count} operand types, got {len(types)}")
    groups: list[tuple[Any, Any]] = [(view, types[0])]
    if writes:
        groups.append((tile, types[1]))
    groups.append((indices, types[1 + writes : 2 + writes] * len(indices)))
    groups.append((token, types[-1]))
    values, attributes[OPERAND_SEGMENTS] = syntax.resolve(parser, groups)
    return cls.create(values, results, attributes, location=parser.location)


def _print(printer: Printer, op: Operation, tile: Value | None) -> None:
    syntax.write_ordering(printer, op)
    printer.write(" ")
    printer.print_operand(op.view)
    if tile is not None:
        printer.write(", ")
        printer.print_operand(tile)
    printer.write("[")
    printer.print_operands(op.index)
    printer.write("]")
    syntax.write_token(printer, op)
    if any(op.inbounds.elements):
        syntax.write_inbounds(printer, op)
    else:
        printer.write(" ")  # the disassembler prints the space of an absent promise
    attributes = {name: value for name, value in op.attributes.items() if name != "reduction" or value is not _ADD}
    printer.print_optional_attr_dict(attributes, _HIDDEN, keyword=True)
    printer.write(" : ")
    operands = [op.view, *([tile] if tile is not None else ()), *op.index[:1], *([op.token] if op.token else ())]
    write_types(printer, *(value.type for value in operands))
    printer.write(" -> ")
    write_types(printer, *(result.type for result in op.results))


def verify_multicast(op: Operation) -> None:
    """The memory is multicast and cut into a grid of tiles."""
    view = op.view.type
    if not isinstance(view, PartitionViewType):
        raise VerifyError(f"multimem view operations support only partition_view; got '{view}'")
    mark = view.tensor_view.pointer_attribute
    if mark is None or mark.value != "multicast":
        raise VerifyError(f"expected a multicast pointer, but got {mark.value if mark is not None else 'none'}")


_NUMBERS = ("f16", "bf16", "f32", "f64")
_HALVES = ("f16", "bf16")


def verify_multicast_element(element: FloatType | IntegerType) -> None:
    """The hardware moves and combines words, and halves in pairs (PTX ISA, "multimem")."""
    if isinstance(element, FloatType):
        if element.keyword not in _NUMBERS:
            raise VerifyError("multimem supports only f16, bf16, f32, and f64 floating-point element types")
    elif not isinstance(element, IntegerType) or element.width not in (32, 64):
        width = element.width if isinstance(element, IntegerType) else 64
        raise VerifyError(f"multimem requires 32- or 64-bit integer/index element types; got {width} bits")


def verify_multicast_reduction(kind: str, element: FloatType | IntegerType, loads: bool) -> None:
    """Verify that the copies' elements can be combined in this way: when loaded (`loads`), or with a stored value."""
    verify_multicast_element(element)
    if not isinstance(element, FloatType) or kind == "add":
        return
    if kind not in ("min", "max"):
        raise VerifyError("and/or/xor/umin/umax reductions require integer element types")
    if not loads:
        raise VerifyError("supports only add for floating-point element types")
    if element.keyword not in _HALVES:
        raise VerifyError(f"min/max supports f16 and bf16 float types only; got '{element}'")


class MultimemLoadReduceViewTkoOp(TileOp, name="cuda_tile.multimem_load_reduce_view_tko", since="13.5", opcode=0x7B):
    """Reads the tile at the indices from every copy and combines the values."""

    group = "Views"
    traits = (MemoryRead, AttrSizedOperandSegments)
    memory_ordering_semantics = attribute(MemoryOrderingSemanticsAttr, ORDERING)
    memory_scope = attribute(MemoryScopeAttr, SCOPE, optional=True)
    reduction = attribute(MultimemReductionKindAttr, KIND, default=_ADD)
    view = operand(TileView, "the view")
    index = variadic_operand(IntTile, "which tile, counted in tiles")
    token = optional_operand(TokenType, TOKEN)
    inbounds = attribute(BoolArrayAttr, INBOUNDS, default=no_promise)
    reduced_values = output(TileType, "the combined tile")
    result_token = output(TokenType, "the reads have happened")

    def verify_op(self) -> None:
        verify_view_access(self, self.reduced_values.type)
        verify_load_ordering(self)
        verify_multicast(self)
        verify_multicast_reduction(self.reduction.value, self.reduced_values.type.element_type, loads=True)

    @classmethod
    def parse_custom(cls, parser: Parser) -> Any:
        return _parse(parser, cls, writes=False)

    def print_custom(self, printer: Printer) -> None:
        _print(printer, self, None)


class _MultimemWrite(TileOp):
    """Base of the operations that write a tile to every copy."""

    group = "Views"
    traits = (MemoryWrite, AttrSizedOperandSegments)

    def verify_op(self: Any) -> None:
        verify_view_access(self, self.tile.type)
        verify_multicast(self)

    @classmethod
    def parse_custom(cls, parser: Parser) -> Any:
        return _parse(parser, cls, writes=True)

    def print_custom(self: Any, printer: Printer) -> None:
        _print(printer, self, self.tile)


class MultimemReduceViewTkoOp(_MultimemWrite, name="cuda_tile.multimem_reduce_view_tko", since="13.5", opcode=0x7C):
    """Combines a tile into every copy, atomically."""

    memory_ordering_semantics = attribute(MemoryOrderingSemanticsAttr, ORDERING)
    memory_scope = attribute(MemoryScopeAttr, "among which threads it is ordered")
    reduction = attribute(MultimemReductionKindAttr, KIND, default=_ADD)
    view = operand(TileView, "the view")
    tile = operand(TileType, "the tile")
    index = variadic_operand(IntTile, "which tile, counted in tiles")
    token = optional_operand(TokenType, TOKEN)
    inbounds = attribute(BoolArrayAttr, INBOUNDS, default=no_promise)
    result_token = output(TokenType, "the updates have happened")

    def verify_op(self) -> None:
        super().verify_op()
        if self.memory_ordering_semantics.value not in ("relaxed", "release"):
            raise VerifyError("memory ordering semantics must be one of: relaxed, release")
        verify_multicast_reduction(self.reduction.value, self.tile.type.element_type, loads=False)


class MultimemStoreViewTkoOp(_MultimemWrite, name="cuda_tile.multimem_store_view_tko", since="13.5", opcode=0x7D):
    """Writes a tile to every copy."""

    memory_ordering_semantics = attribute(MemoryOrderingSemanticsAttr, ORDERING)
    memory_scope = attribute(MemoryScopeAttr, SCOPE, optional=True)
    view = operand(TileView, "the view")
    tile = operand(TileType, "the tile")
    index = variadic_operand(IntTile, "which tile, counted in tiles")
    token = optional_operand(TokenType, TOKEN)
    inbounds = attribute(BoolArrayAttr, INBOUNDS, default=no_promise)
    result_token = output(TokenType, "the writes have happened")

    def verify_op(self) -> None:
        super().verify_op()
        verify_store_ordering(self)
        verify_multicast_element(self.tile.type.element_type)
