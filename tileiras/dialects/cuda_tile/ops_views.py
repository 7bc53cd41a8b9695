"""Views: tensors in global memory, the ways to cut them into tiles, and loads and stores of those tiles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, ClassVar

from tileiras.ir import (
    DYNAMIC,
    OPERAND_SEGMENTS,
    AttrSizedOperandSegments,
    MemoryRead,
    MemoryWrite,
    NoMemoryEffect,
    Pure,
    VerifyError,
    attribute,
    operand,
    optional_operand,
    variadic_operand,
    variadic_result,
)
from tileiras.ir import result as output

from . import memory_syntax as syntax
from .attributes import MemoryOrderingSemanticsAttr, MemoryScopeAttr, OptimizationHintsAttr
from .constraints import BoolArrayAttr, IntTile, ScalarInt, ScalarPointer
from .memory_syntax import INBOUNDS, no_promise
from .operation import TileOp
from .ops_memory import HINTS, ORDERING, SCOPE, TOKEN
from .types import NAMESPACE, PointerType, TensorViewType, TileType, TokenType, write_type, write_types
from .verifiers import verify_load_ordering, verify_store_ordering, verify_view_access
from .view_types import GatherScatterViewType, PartitionViewType, StridedViewType, TileView

if TYPE_CHECKING:
    from tileiras.ir import Parser, Printer


class MakeTensorViewOp(TileOp, name="cuda_tile.make_tensor_view", since="13.1", opcode=0x43, group="Views"):
    """Describes a tensor in memory: where it starts, its sizes and its strides in elements."""

    traits = (AttrSizedOperandSegments, NoMemoryEffect)
    base = operand(ScalarPointer, "pointer to the first element")
    dynamicShape = variadic_operand(ScalarInt, "the sizes that the type leaves open, in order")
    dynamicStrides = variadic_operand(ScalarInt, "the strides that the type leaves open, in order")
    result = output(TensorViewType, "the view")

    verifies_locally = True

    def verify_op(self) -> None:
        view = self.result.type
        pointee = self.base.type.element_type.pointee_type
        if view.element_type is not pointee:
            raise VerifyError(
                f"expected pointer to '{view.element_type}' to build tensor_view of this type, got '{pointee}'"
            )
        groups = (
            ("shape", self.dynamicShape, view.dynamic_sizes),
            ("stride", self.dynamicStrides, view.dynamic_strides),
        )
        for label, values, count in groups:
            if len(values) != count:
                raise VerifyError(f"expected {count} dynamic {label} operands, got {len(values)}")
        first = None
        for label, values, _ in groups:
            for number, value in enumerate(values):
                first = first if first is not None else value.type
                if value.type is not first:
                    raise VerifyError(
                        f"expected dynamic {label} index {number} to be of the same type as the other dynamic values"
                        f" ('{first}'), got '{value.type}'"
                    )

    def asm_result_names(self) -> list[tuple[Any, str]]:
        return [(self.result, "tview")]

    @classmethod
    def parse_custom(cls, parser: Parser) -> "MakeTensorViewOp":
        base = parser.parse_operand()
        parser.parse_punctuation(",")
        lists = []
        for number, word in enumerate(("shape", "strides")):
            if number:
                parser.parse_punctuation(",")
            parser.parse_keyword(word)
            parser.parse_punctuation("=")
            at = parser.offset
            lists.append((at, parser.parse_comma_separated(lambda: cls._parse_extent(parser), "[", "]")))
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        dynamic = [[use for use, _ in extents if not isinstance(use, int)] for _, extents in lists]
        # In front of the arrow: the pointer's type when it says more than the element type, the dynamic extents' type.
        before: list[Any] = []
        view = parser.parse_dialect_type(NAMESPACE)
        while parser.peek(",") or parser.peek("->"):
            before.append(view)
            arrow = parser.parse_optional_punctuation("->")
            if not arrow:
                parser.parse_punctuation(",")
            view = parser.parse_dialect_type(NAMESPACE)
            if arrow:
                break
        index_type = before[-1] if before else None
        if not isinstance(view, TensorViewType):
            parser.error(parser.offset, f"expected 'tensor_view' type, but got '{view}'")
        for label, (at, extents), extents_of_type in zip(("shape", "stride"), lists, (view.shape, view.strides)):
            cls._compare(parser, label, at, extents, extents_of_type)
        values, attributes[OPERAND_SEGMENTS] = syntax.resolve(
            parser,
            [
                (base, cls._pointer_type(view)),
                *((uses, [index_type] * len(uses)) for uses in dynamic),
            ],
        )
        return cls.create(values, [view], attributes, location=parser.location)

    @staticmethod
    def _pointer_type(view: TensorViewType) -> TileType:
        """The type of pointers to the elements of a view."""
        return TileType((), PointerType(view.element_type, view.pointer_attribute))

    @staticmethod
    def _parse_extent(parser: Parser) -> tuple[Any, int]:
        """A size or stride: an integer, or a value; and its place in the text."""
        at = parser.offset
        number = parser.parse_optional_integer()
        if number is not None:
            return number, at
        use = parser.parse_optional_operand()
        if use is None:
            parser.error(at, "expected either integer or SSA value")
        return use, at

    @staticmethod
    def _compare(parser: Parser, label: str, at: int, extents: list, extents_of_type: tuple[int, ...]) -> None:
        if len(extents) != len(extents_of_type):
            parser.error(
                at,
                f"expected {label} declaration to contain {len(extents_of_type)} elements due to tensor_view type, but"
                f" {len(extents)} were provided",
            )
        for number, ((value, place), required) in enumerate(zip(extents, extents_of_type)):
            result = value if isinstance(value, int) else DYNAMIC
            if result != required:
                words = ["dynamic" if n == DYNAMIC else n for n in (required, result)]
                parser.error(
                    place,
                    f"input {label} dimension {number} does not match tensor_view type (expected {words[0]},"
                    f" got {words[1]})",
                )

    def print_custom(self, printer: Printer) -> None:
        view = self.result.type
        printer.write(" ")
        printer.print_operand(self.base)
        for word, extents, values in (
            ("shape", view.shape, self.dynamicShape),
            ("strides", view.strides, self.dynamicStrides),
        ):
            printer.write(f", {word} = [")
            dynamic = iter(values)
            for number, extent in enumerate(extents):
                printer.write(", " if number else "")
                if extent == DYNAMIC:
                    printer.print_operand(next(dynamic))
                else:
                    printer.write(str(extent))
            printer.write("]")
        printer.print_optional_attr_dict(self.attributes, (OPERAND_SEGMENTS,))
        printer.write(" : ")
        types = [value.type for value in (*self.dynamicShape, *self.dynamicStrides)[:1]]
        if view.pointer_attribute is not None:
            types.insert(0, self.base.type)
        if types:
            write_types(printer, *types)
            printer.write(" -> ")
        write_type(printer, view)


class _MakeView(TileOp):
    """Base of the operations that cut a tensor view into tiles, as the result type says."""

    group = "Views"
    traits = (Pure,)
    view_class: ClassVar[type]
    hint: ClassVar[str]

    tensor_view = operand(TensorViewType, "the tensor")

    verifies_locally = True

    def verify_op(self) -> None:
        result, required = self.tensor_view.type, self.results[0].type.tensor_view
        if result is not required:
            raise VerifyError(
                f"expected the type of the provided tensor_view value ('{result}') to be the same as the view's"
                f" tensor_view type ('{required}')"
            )

    def asm_result_names(self) -> list[tuple[Any, str]]:
        return [(self.results[0], self.hint)]

    @classmethod
    def parse_custom(cls, parser: Parser) -> Any:
        use = parser.parse_operand()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        at = parser.offset
        view = parser.parse_dialect_type(NAMESPACE)
        if not isinstance(view, cls.view_class):
            parser.error(at, f"expected '{cls.view_class.name[len(NAMESPACE) + 1 :]}' type, but got '{view}'")
        value = parser.resolve_operand(use, view.tensor_view)
        return cls.create([value], [view], attributes, location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        printer.write(" ")
        printer.print_operand(self.tensor_view)
        printer.print_optional_attr_dict(self.attributes)
        printer.write(" : ")
        write_type(printer, self.results[0].type)


class MakePartitionViewOp(_MakeView, name="cuda_tile.make_partition_view", since="13.1", opcode=0x42):
    """Cuts a tensor into a grid of tiles."""

    view_class = PartitionViewType
    hint = "pview"
    result = output(PartitionViewType, "the grid of tiles")


class MakeStridedViewOp(_MakeView, name="cuda_tile.make_strided_view", since="13.3", opcode=0x74):
    """Cuts a tensor into tiles at regular distances."""

    view_class = StridedViewType
    hint = "sview"
    result = output(StridedViewType, "the tiles")


class MakeGatherScatterViewOp(_MakeView, name="cuda_tile.make_gather_scatter_view", since="13.3", opcode=0x73):
    """Makes tiles of a tensor whose rows along one dimension are picked by index."""

    view_class = GatherScatterViewType
    hint = "gsview"
    result = output(GatherScatterViewType, "the tiles")


class _ShapeQuery(TileOp):
    """Base of operations that give one number per dimension of a view."""

    group = "Views"
    traits = (NoMemoryEffect,)

    view_kind: ClassVar[str]
    # The number of results for a view of a type; None if the operation does not apply to the type.
    _dimensions: ClassVar[Callable[[Any], int | None]]

    @classmethod
    def parse_custom(cls, parser: Parser) -> Any:
        use = parser.parse_operand()
        parser.parse_punctuation(":")
        at = parser.offset
        source = parser.parse_dialect_type(NAMESPACE)
        parser.parse_punctuation("->")
        type = parser.parse_dialect_type(NAMESPACE)
        count = cls._dimensions(source)
        if count is None:
            parser.error(at, f"expected {cls.view_kind}, got '{source}'")
        value = parser.resolve_operand(use, source)
        return cls.create([value], [type] * count, {}, location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        printer.write(" ")
        printer.print_operand(self.operands[0])
        printer.write(" : ")
        write_type(printer, self.operands[0].type)
        printer.write(" -> ")
        write_type(printer, self.results[0].type)


class GetTensorShapeOp(_ShapeQuery, name="cuda_tile.get_tensor_shape", since="13.1", opcode=0x2F):
    """The sizes of a tensor."""

    view_kind = "tensor_view"
    src = operand(TensorViewType, "the tensor")
    result = variadic_result(ScalarInt, "one size per dimension")

    @staticmethod
    def _dimensions(type: TensorViewType) -> int | None:
        return type.rank if isinstance(type, TensorViewType) else None

    verifies_locally = True

    def verify_op(self) -> None:
        rank = self.src.type.rank
        if len(self.results) != rank:
            raise VerifyError(f"expected {rank} results due to tensor rank, but got {len(self.results)}")


class GetIndexSpaceShapeOp(_ShapeQuery, name="cuda_tile.get_index_space_shape", since="13.1", opcode=0x2D):
    """How many tiles a view has along each dimension."""

    view_kind = "tile view"
    src = operand(TileView, "the view")
    result = variadic_result(ScalarInt, "one number of tiles per dimension")

    @staticmethod
    def _dimensions(type: PartitionViewType) -> int | None:
        return type.index_rank if isinstance(type, TileView) else None

    verifies_locally = True

    def verify_op(self) -> None:
        rank = self.src.type.index_rank
        if len(self.results) != rank:
            raise VerifyError(f"expected {rank} results due to view index space rank, but got {len(self.results)}")


class LoadViewTkoOp(TileOp, name="cuda_tile.load_view_tko", since="13.1", opcode=0x3E, group="Views"):
    """Reads the tile of a view that the indices name; elements outside the tensor are the view's padding."""

    traits = (MemoryRead, AttrSizedOperandSegments)
    memory_ordering_semantics = attribute(MemoryOrderingSemanticsAttr, ORDERING)
    memory_scope = attribute(MemoryScopeAttr, SCOPE, optional=True)
    view = operand(TileView, "the view")
    index = variadic_operand(IntTile, "which tile, counted in tiles")
    token = optional_operand(TokenType, TOKEN)
    optimization_hints = attribute(OptimizationHintsAttr, HINTS, optional=True)
    inbounds = attribute(BoolArrayAttr, INBOUNDS, default=no_promise, since="13.4")
    tile = output(TileType, "the tile")
    result_token = output(TokenType, "the read has happened")

    verifies_locally = True

    def verify_op(self) -> None:
        verify_view_access(self, self.tile.type)
        verify_load_ordering(self)

    @classmethod
    def parse_custom(cls, parser: Parser) -> "LoadViewTkoOp":
        attributes = syntax.parse_ordering(parser)
        view, indices = syntax.parse_indexed(parser)
        token = syntax.parse_token(parser)
        attributes |= syntax.parse_hints(parser)
        attributes |= syntax.parse_inbounds(parser)
        attributes |= syntax.parse_keyword_dict(parser)
        parser.parse_punctuation(":")
        view_type = parser.parse_dialect_type(NAMESPACE)
        types = syntax.parse_index_types(parser, indices)
        parser.parse_punctuation("->")
        tile = parser.parse_dialect_type(NAMESPACE)
        parser.parse_punctuation(",")
        result_token = parser.parse_dialect_type(NAMESPACE)
        values, attributes[OPERAND_SEGMENTS] = syntax.resolve(
            parser, [(view, view_type), (indices, types), syntax.token_group(token)]
        )
        return cls.create(values, [tile, result_token], attributes, location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        syntax.write_ordering(printer, self)
        syntax.write_indexed(printer, self)
        syntax.write_token(printer, self)
        syntax.write_hints(printer, self.optimization_hints)
        syntax.write_inbounds(printer, self)
        printer.print_optional_attr_dict(self.attributes, syntax.SHOWN, keyword=True)
        printer.write(" : ")
        write_type(printer, self.view.type)
        syntax.write_index_types(printer, self.index)
        printer.write(" -> ")
        write_types(printer, self.tile.type, self.result_token.type)


class StoreViewTkoOp(TileOp, name="cuda_tile.store_view_tko", since="13.1", opcode=0x66, group="Views"):
    """Writes the tile of a view that the indices name; elements outside the tensor are dropped."""

    traits = (MemoryWrite, AttrSizedOperandSegments)
    memory_ordering_semantics = attribute(MemoryOrderingSemanticsAttr, ORDERING)
    memory_scope = attribute(MemoryScopeAttr, SCOPE, optional=True)
    tile = operand(TileType, "the tile")
    view = operand(TileView, "the view")
    index = variadic_operand(IntTile, "which tile, counted in tiles")
    token = optional_operand(TokenType, TOKEN)
    optimization_hints = attribute(OptimizationHintsAttr, HINTS, optional=True)
    inbounds = attribute(BoolArrayAttr, INBOUNDS, default=no_promise, since="13.4")
    result_token = output(TokenType, "the write has happened")

    verifies_locally = True

    def verify_op(self) -> None:
        verify_view_access(self, self.tile.type)
        verify_store_ordering(self)

    @classmethod
    def parse_custom(cls, parser: Parser) -> "StoreViewTkoOp":
        attributes = syntax.parse_ordering(parser)
        tile = parser.parse_operand()
        parser.parse_punctuation(",")
        view, indices = syntax.parse_indexed(parser)
        token = syntax.parse_token(parser)
        attributes |= syntax.parse_hints(parser)
        attributes |= syntax.parse_inbounds(parser)
        attributes |= syntax.parse_keyword_dict(parser)
        parser.parse_punctuation(":")
        tile_type = parser.parse_dialect_type(NAMESPACE)
        parser.parse_punctuation(",")
        view_type = parser.parse_dialect_type(NAMESPACE)
        types = syntax.parse_index_types(parser, indices)
        parser.parse_punctuation("->")
        result_token = parser.parse_dialect_type(NAMESPACE)
        values, attributes[OPERAND_SEGMENTS] = syntax.resolve(
            parser, [(tile, tile_type), (view, view_type), (indices, types), syntax.token_group(token)]
        )
        return cls.create(values, [result_token], attributes, location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        syntax.write_ordering(printer, self)
        printer.write(" ")
        printer.print_operand(self.tile)
        printer.write(",")
        syntax.write_indexed(printer, self)
        syntax.write_token(printer, self)
        syntax.write_hints(printer, self.optimization_hints)
        syntax.write_inbounds(printer, self)
        printer.print_optional_attr_dict(self.attributes, syntax.SHOWN, keyword=True)
        printer.write(" : ")
        write_types(printer, self.tile.type, self.view.type)
        syntax.write_index_types(printer, self.index)
        printer.write(" -> ")
        write_types(printer, self.result_token.type)
