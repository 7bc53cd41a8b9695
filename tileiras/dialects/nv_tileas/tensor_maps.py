"""Descriptors by which TMA (`cp.async.bulk.tensor`) copies tiles of a view.

    %d = nv_tileas.make_tma_desc %view : !view -> !nv_tileas.tma_desc<!view, box = [128, 64], order = [1, 0],
      swizzle = 128>
    nv_tileas.async.tma_load %d[%i, %j] into %token : !nv_tileas.tma_desc<...>, (i32, i32)

`tileas-attach-tma-desc-args` turns each `make_tma_desc` into a kernel argument after those of the source, which the
host fills; `nv_tileas.tensor_maps` of the function has a text with instructions for each.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.arith import integer_like
from tileiras.dialects.nv_tileaa.accesses import verify_mode
from tileiras.ir import (
    AttrSizedOperandSegments,
    FloatType,
    IntegerAttr,
    IntegerType,
    MemoryRead,
    MemoryWrite,
    Operation,
    Pure,
    Type,
    VerifyError,
    attribute,
    f32,
    operand,
    optional_operand,
    result,
    tf32,
    variadic_operand,
)
from tileiras.reasons import Reason

from .buffers import BufferType, check_stage

if TYPE_CHECKING:
    from tileiras.ir import Parser, Printer

SWIZZLES = (0, 32, 64, 128)
_OPTIONAL = ("swizzle", "atom", "element")
_LONGEST, _UNIT, _MOST_DIMENSIONS = 256, 16, 5
_WIDTHS = (8, 16, 32, 64)
_WIDE = (128, 32)
"""The swizzle mode whose atoms are larger than 16 bytes: its span and its atom in bytes (CUDA driver API,
CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B)."""


class TmaDescType(Type, name="nv_tileas.tma_desc", parameters=("view", "box", "order", "swizzle", "atom", "element")):
    """How tiles of a view are copied in boxes.

    `box`: extents by dimension of the tile; `order`: these dimensions, innermost dimension of the tensor first;
    `swizzle`: width in bytes of the rows within which shared memory permutes units of `atom` bytes, 0 for none.
    Elements of a tile outside the memref are filled with the view's padding, zeros without one, and not stored.
    Elements in shared memory have the type `element`: the view's own, or tf32 for a view of f32; a load then rounds to
    nearest, ties to even.
    """

    def __new__(
        cls,
        view: aa.TiledViewType,
        box: Iterable[int],
        order: Iterable[int],
        swizzle: int = 0,
        atom: int = _UNIT,
        element: Type | None = None,
    ) -> "TmaDescType":
        element = element or getattr(view, "element_type", None)
        return cls.intern((view, tuple(box), tuple(order), swizzle, atom, element))  # type: ignore[return-value]

    @property
    def rounds(self) -> bool:
        """Whether loads round elements to another type."""
        return self.element is not self.view.element_type

    def verify(self) -> None:
        wrong = str(view_error(self.view) or self._wrong())
        if wrong:
            raise VerifyError(wrong, prefix=False)

    def _wrong(self) -> str:
        """The first rule of boxes that is violated, or an empty string (CUDA driver API, cuTensorMapEncodeTiled)."""
        shape, rank = self.view.shape, len(self.view.shape)
        if sorted(self.order) != list(range(rank)):
            return f"expected an order of {rank} dimensions, got {list(self.order)}"
        if self.view.source.strides[self.view.dim_map[self.order[0]]] != 1:
            return f"expected dimension {self.order[0]}, the innermost, to have stride 1"
        if len(self.box) != rank or any(b < 1 or b > _LONGEST or n % b for b, n in zip(self.box, shape)):
            extents = f"1 to {_LONGEST} elements a dimension, parts of {list(shape)}"
            return f"expected a box of {extents}, got {list(self.box)}"
        row = self.box[self.order[0]] * self.view.element_type.width // 8
        if row % _UNIT:
            return f"expected rows of a multiple of {_UNIT} bytes, got {row}"
        if self.swizzle not in SWIZZLES:
            return f"expected a swizzle of 0, 32, 64 or 128 bytes, got {self.swizzle}"
        if self.swizzle and row > self.swizzle:
            return f"expected rows no wider than the swizzle, {self.swizzle} bytes, got {row}"
        if self.atom != _UNIT and (self.swizzle, self.atom) != _WIDE:
            return f"expected an atom of {_UNIT} bytes, or of {_WIDE[1]} in a swizzle of {_WIDE[0]}, got {self.atom}"
        if self.rounds and (self.view.element_type, self.element) != (f32, tf32):
            return f"expected elements of {self.view.element_type} in shared memory, got {self.element}"
        return ""

    def print_parameters(self, printer: Printer) -> None:
        printer.write("<")
        printer.print_type(self.view)
        printer.write(f", box = {list(self.box)}, order = {list(self.order)}")
        if self.swizzle:
            printer.write(f", swizzle = {self.swizzle}")
        if self.atom != _UNIT:
            printer.write(f", atom = {self.atom}")
        if self.rounds:
            printer.write(", element = ")
            printer.print_type(self.element)
        printer.write(">")

    @classmethod
    def parse_parameters(cls, parser: Parser) -> "TmaDescType":
        def numbers(name: str) -> list[int]:
            parser.parse_punctuation(",")
            parser.parse_keyword(name)
            parser.parse_punctuation("=")
            return parser.parse_comma_separated(parser.parse_integer, "[", "]")

        parser.parse_punctuation("<")
        view = parser.parse_type()
        box, order = numbers("box"), numbers("order")
        parameters: dict[str, Any] = {}
        while parser.parse_optional_punctuation(","):
            name = next((each for each in _OPTIONAL if parser.parse_optional_keyword(each)), "")
            if not name or name in parameters:
                parser.expected(f"one of {', '.join(_OPTIONAL)}, once")
            parser.parse_punctuation("=")
            parameters[name] = parser.parse_type() if name == "element" else parser.parse_integer()
        parser.parse_punctuation(">")
        return cls(view, box, order, **parameters)


def view_error(view: Type) -> Reason | None:
    """The first rule of tensor maps that a view violates, or None; rules that depend on run-time values are
    not checked."""
    if not isinstance(view, aa.TiledViewType):
        return Reason("maps.view-kind", view=str(view))
    if view.sparse_dim is not None:
        return Reason("maps.view-sparse")
    if not 1 <= len(view.shape) <= _MOST_DIMENSIONS:
        return Reason("maps.view-rank", most=_MOST_DIMENSIONS, rank=len(view.shape))
    element = view.element_type
    if not isinstance(element, (IntegerType, FloatType)) or element.width not in _WIDTHS:
        return Reason("maps.view-elements", element=str(element))
    if view.padding is not None and view.padding.value not in ("zero", "nan"):
        return Reason("maps.view-padding", padding=view.padding.value)
    if view.source.address_space != 1:
        return Reason("maps.view-memory")
    return None


class MakeTmaDescOp(Operation, name="nv_tileas.make_tma_desc", traits=(Pure,)):
    """Creates the descriptor of a view."""

    view = operand(aa.TiledViewType)
    result = result(TmaDescType)
    assembly_format = "$view attr-dict `:` type($view) `->` type($result)"

    def verify_op(self) -> None:
        if self.result.type.view is not self.view.type:
            raise VerifyError(f"expects a descriptor of {self.view.type}, got {self.result.type}")


class TmaStoreOp(Operation, name="nv_tileas.async.tma_store"):
    """Copies a tile from one stage of a buffer to global memory, in boxes of a descriptor; complete when the operation
    ends.  With `rmw_mode` elements are combined with those in memory, each atomically at GPU scope.

    The coordinates are tile indices, as in a tiled store; elements outside the memref are not stored.  One thread
    issues the copies and waits for them.  With `unread`, allowed where nothing is ordered after the token, it waits
    only until all such copies but the last `unread` have read their buffers; where `unread` is the number of stages of
    the buffer it does not wait at all, since no stage is used twice before `tma_store_tail`. Threads have fenced their
    stores to the buffer for the asynchronous proxy, before a barrier; with `global` also the accesses to global memory
    for which the token stands.
    """

    traits = (MemoryRead, MemoryWrite, AttrSizedOperandSegments)
    buffer = operand(BufferType)
    stage = operand(integer_like)
    desc = operand(TmaDescType)
    coords = variadic_operand(integer_like)
    token = optional_operand(aa.MemTokenType)
    rmw_mode = attribute(aa.AtomicRMWModeAttr, optional=True)
    unread = attribute(IntegerAttr, optional=True)
    mem_semantic = aa.MemSemanticAttr("weak")
    result_token = result(aa.MemTokenType)
    assembly_format = (
        "$buffer `[` $stage `:` type($stage) `]` `to` $desc `[` $coords `]` (`combined` `by` $rmw_mode^)?"
        " (`token` `=` $token^)? attr-dict"
        " `:` type($buffer) `,` type($desc) `,` `(` type($coords) `)` `->` type($result_token)"
    )

    @property
    def leaves_all(self) -> bool:
        """Whether it waits for no copy."""
        return self.unread is not None and self.unread.value >= self.buffer.type.stages

    def verify_op(self) -> None:
        check_stage(self)
        if len(self.coords) != len(self.desc.type.view.shape):
            raise VerifyError(f"expects {len(self.desc.type.view.shape)} coordinates, but got {len(self.coords)}")
        if self.desc.type.rounds:
            raise VerifyError(f"expects elements of {self.desc.type.view.element_type}, which no store converts to")
        if self.rmw_mode is not None:
            verify_mode(self.desc.type.view.element_type, self.rmw_mode.value)


class TmaStoreTailOp(Operation, name="nv_tileas.async.tma_store_tail", traits=(MemoryRead, MemoryWrite)):
    """Waits until the copies left by `unread` have read all stages of a buffer."""

    buffer = operand(BufferType)
    assembly_format = "$buffer attr-dict `:` type($buffer)"
