"""Atomic operations on memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tileiras.ir import (
    OPERAND_SEGMENTS,
    AllShapesMatch,
    AllTypesMatch,
    AttrSizedOperandSegments,
    FloatType,
    IntegerType,
    MemoryRead,
    MemoryWrite,
    VerifyError,
    attribute,
    operand,
    optional_operand,
    variadic_operand,
)
from tileiras.ir import result as output

from . import memory_syntax as syntax
from .attributes import AtomicRMWModeAttr, MemoryOrderingSemanticsAttr, MemoryScopeAttr
from .constraints import BoolArrayAttr, I1Tile, IntTile, PointerTile
from .memory_syntax import INBOUNDS, no_promise
from .operation import TileOp
from .ops_memory import ORDERING, TOKEN
from .types import NAMESPACE, TileType, TokenType, write_types
from .verifiers import bit_width, shape_text, verify_atomic_ordering, verify_inbounds, verify_rmw_mode
from .view_types import GatherScatterViewType, TileView

if TYPE_CHECKING:
    from tileiras.ir import Parser, Printer

SCOPE = "among which threads it is ordered"


def _verify_pointee(op: AtomicCASTkoOp | AtomicRMWTkoOp, name: str) -> Any:
    """The element type of field `name`, which is the pointee type."""
    pointee = op.pointers.type.element_type.pointee_type
    element = getattr(op, name).type.element_type
    if pointee is not element:
        raise VerifyError(f"expected pointee type ('{pointee}') to match element type of '{name}' ('{element}')")
    return element


class AtomicRMWTkoOp(TileOp, name="cuda_tile.atomic_rmw_tko", since="13.1", opcode=0x8, group="Atomics"):
    """Combines a tile into memory through each pointer whose mask is set; returns the old values."""

    traits = (
        MemoryRead,
        MemoryWrite,
        AllShapesMatch("pointers", "arg", "result"),
        AllTypesMatch("arg", "result"),
        AttrSizedOperandSegments,
    )
    memory_ordering_semantics = attribute(MemoryOrderingSemanticsAttr, ORDERING)
    memory_scope = attribute(MemoryScopeAttr, SCOPE)
    pointers = operand(PointerTile, "where")
    mode = attribute(AtomicRMWModeAttr, "how the old and the new value are combined")
    arg = operand(TileType, "the new values")
    mask = optional_operand(I1Tile, "which elements take part")
    token = optional_operand(TokenType, TOKEN)
    result = output(TileType, "the old values")
    result_token = output(TokenType, "the update has happened")
    assembly_format = (
        "$memory_ordering_semantics $memory_scope $pointers `,` $mode `,` $arg (`,` $mask^)?"
        " (`token` `` `=` `` $token^)? attr-dict `:` custom<CudaTileType>(type($pointers)) `,`"
        " custom<CudaTileType>(type($arg)) (`,` custom<CudaTileType>(type($mask))^)? `->`"
        " custom<CudaTileType>(type($result)) `,` custom<CudaTileType>(type($result_token))"
    )

    def verify_op(self) -> None:
        element = _verify_pointee(self, "arg")
        if self.mask is not None and self.mask.type.shape != self.arg.type.shape:
            raise VerifyError("failed to verify that all of {pointers, arg, mask} have same shape")
        verify_rmw_mode(self.mode.value, element)
        verify_atomic_ordering(self)


class AtomicCASTkoOp(TileOp, name="cuda_tile.atomic_cas_tko", since="13.1", opcode=0x7, group="Atomics"):
    """Writes `val` where memory holds `cmp`; returns the old values."""

    traits = (
        MemoryRead,
        MemoryWrite,
        AllShapesMatch("pointers", "cmp", "val", "result"),
        AllTypesMatch("cmp", "val", "result"),
        AttrSizedOperandSegments,
    )
    memory_ordering_semantics = attribute(MemoryOrderingSemanticsAttr, ORDERING)
    memory_scope = attribute(MemoryScopeAttr, SCOPE)
    pointers = operand(PointerTile, "where")
    cmp = operand(TileType, "the expected values")
    val = operand(TileType, "the new values")
    mask = optional_operand(I1Tile, "which elements take part")
    token = optional_operand(TokenType, TOKEN)
    result = output(TileType, "the old values")
    result_token = output(TokenType, "the update has happened")
    assembly_format = (
        "$memory_ordering_semantics $memory_scope $pointers `,` $cmp `,` $val (`,` $mask^)?"
        " (`token` `` `=` `` $token^)? attr-dict `:` custom<CudaTileType>(type($pointers)) `,`"
        " custom<CudaTileType>(type($val)) (`,` custom<CudaTileType>(type($mask))^)? `->`"
        " custom<CudaTileType>(type($result)) `,` custom<CudaTileType>(type($result_token))"
    )

    def verify_op(self) -> None:
        element = _verify_pointee(self, "val")
        if not isinstance(element, (FloatType, IntegerType)) or bit_width(element) not in (32, 64):
            raise VerifyError("expect only float or integer types with 32 or 64 bit")
        if self.mask is not None and self.mask.type.shape != self.val.type.shape:
            raise VerifyError("failed to verify that all of {pointers, val, cmp and mask} have same shape")
        verify_atomic_ordering(self)


class AtomicRedViewTkoOp(TileOp, name="cuda_tile.atomic_red_view_tko", since="13.3", opcode=0x75, group="Atomics"):
    """Combines a tile into the tile of a view that the indices name; gives nothing back."""

    traits = (MemoryRead, MemoryWrite, AttrSizedOperandSegments)
    memory_ordering_semantics = attribute(MemoryOrderingSemanticsAttr, "always relaxed")
    memory_scope = attribute(MemoryScopeAttr, "`tl_blk` or `device`")
    view = operand(TileView, "the view")
    index = variadic_operand(IntTile, "which tile")
    mode = attribute(AtomicRMWModeAttr, "how the old and the new value are combined; not xchg")
    value = operand(TileType, "the new values")
    token = optional_operand(TokenType, TOKEN)
    inbounds = attribute(BoolArrayAttr, INBOUNDS, default=no_promise, since="13.5")
    result_token = output(TokenType, "the update has happened")

    def verify_op(self) -> None:
        view = self.view.type
        if isinstance(view, GatherScatterViewType):
            raise VerifyError("gather_scatter_view is not supported; use partition_view instead")
        if view.padding_value is not None:
            raise VerifyError("views with padding_value are not supported for atomic reductions")
        tile, value = view.tile_type, self.value.type
        if tile.element_type is not value.element_type:
            raise VerifyError(
                f"view element type ('{tile.element_type}') must match value element type ('{value.element_type}')"
            )
        if tile.shape != value.shape:
            raise VerifyError(
                f"view tile shape {shape_text(tile.shape)} must match value shape {shape_text(value.shape)} for"
                " element-wise atomic operations"
            )
        if self.mode.value == "xchg":
            raise VerifyError("atomic_red_view_tko op cannot use xchg operation")
        verify_rmw_mode(self.mode.value, value.element_type)
        if self.memory_ordering_semantics.value != "relaxed":
            raise VerifyError("only 'relaxed' memory ordering is supported for view-based atomic reductions")
        if self.memory_scope.value == "sys":
            raise VerifyError(
                "memory scope 'sys' is not supported for view-based atomic reductions; use 'tl_blk' or 'device' for TMA"
                " compatibility"
            )
        if len(self.index) != tile.rank:
            raise VerifyError(
                f"expected {tile.rank} index operand(s) for view with tile rank {tile.rank}, got {len(self.index)}"
            )
        for number, index in enumerate(self.index):
            if index.type.shape:
                raise VerifyError(
                    f"index operand {number} must be a scalar tile (rank 0), got shape {shape_text(index.type.shape)}"
                )
        verify_inbounds(self)

    @classmethod
    def parse_custom(cls, parser: Parser) -> "AtomicRedViewTkoOp":
        attributes = cls._parse_ordering(parser)
        view, indices = syntax.parse_indexed(parser)
        parser.parse_punctuation(",")
        at = parser.offset
        mode = parser.parse_any_keyword()
        parser.parse_punctuation(",")
        value = parser.parse_operand()
        if mode not in AtomicRMWModeAttr.cases:
            modes = ", ".join(case for case in AtomicRMWModeAttr.cases if case != "xchg")
            parser.error(at, f"unknown atomic RMW mode: '{mode}'; expected one of: {modes}")
        attributes["mode"] = AtomicRMWModeAttr(mode)
        token = syntax.parse_token(parser)
        attributes |= syntax.parse_inbounds(parser)
        attributes |= syntax.parse_keyword_dict(parser)
        parser.parse_punctuation(":")
        value_type = parser.parse_dialect_type(NAMESPACE)
        parser.parse_punctuation(",")
        view_type = parser.parse_dialect_type(NAMESPACE)
        types = syntax.parse_index_types(parser, indices)
        parser.parse_punctuation("->")
        result_type = parser.parse_dialect_type(NAMESPACE)
        values, attributes[OPERAND_SEGMENTS] = syntax.resolve(
            parser, [(view, view_type), (indices, types), (value, value_type), syntax.token_group(token)]
        )
        return cls.create(values, [result_type], attributes, location=parser.location)

    @staticmethod
    def _parse_ordering(parser: Parser) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for name, kind, optional in (
            ("memory_ordering_semantics", MemoryOrderingSemanticsAttr, False),
            ("memory_scope", MemoryScopeAttr, True),
        ):
            at = parser.offset
            word = parser.parse_optional_any_keyword() if optional else parser.parse_any_keyword()
            if word is None:
                continue
            if word not in kind.cases:
                parser.error(at, f"invalid {name}: '{word}'; expected one of: {', '.join(kind.cases)}")
            result[name] = kind(word)
        return result

    def print_custom(self, printer: Printer) -> None:
        syntax.write_ordering(printer, self)
        syntax.write_indexed(printer, self)
        printer.write(f", {self.mode.value}, ")
        printer.print_operand(self.value)
        syntax.write_token(printer, self)
        syntax.write_inbounds(printer, self)
        printer.print_optional_attr_dict(self.attributes, syntax.SHOWN, keyword=True)
        printer.write(" : ")
        write_types(printer, self.value.type, self.view.type)
        syntax.write_index_types(printer, self.index)
        printer.write(" -> ")
        write_types(printer, self.result_token.type)
